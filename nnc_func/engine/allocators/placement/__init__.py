"""Placing buffers: who `overlaps`, the `fits`, `descents` from lowest offsets, in `cells`, on a `skyline`, `costs`.

What lies outside the arena for a while has `housing`.
"""
