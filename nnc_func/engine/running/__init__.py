"""Plans bound to memory, and run."""
