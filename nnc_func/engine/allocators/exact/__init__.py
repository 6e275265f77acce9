"""Exact answers about a problem: who conflicts with whom, ranks, a search and dives of it, and what is decided."""
