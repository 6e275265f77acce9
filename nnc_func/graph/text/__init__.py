"""Graphs as text and in files, and read back: written by one module, parsed by another; no code is run."""
