"""Placing buffers: who `overlaps`, the `fits`, `descents` from lowest offsets, those in `cells`, what it `costs`.

What lies outside the arena for a while has `housing`.
"""
