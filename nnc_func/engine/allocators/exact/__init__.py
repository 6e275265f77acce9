"""Exact answers about a problem: who conflicts with whom, ranks, a search by branch and bound, and what it decides."""
