"""Bodies whose extents grow from time to time: planned for a capacity, run with the extents that there are."""
