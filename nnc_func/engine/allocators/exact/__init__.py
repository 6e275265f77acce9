"""Exact answers about a problem: conflicts, ranks, a search, its dives and completions, and decisions."""
