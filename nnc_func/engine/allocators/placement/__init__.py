"""Placing buffers one after the other: what lies where already, the fits, descents from lowest offsets."""
