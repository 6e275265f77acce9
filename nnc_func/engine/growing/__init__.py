"""Graphs with unknown extents that differ from run to run: planned for a capacity, run with the extents that there are.

- ``graphs``: a graph, and its plans for capacities.
- ``capacity``: one such plan, and what is unknown in it.
- ``live``: runs a plan for a capacity with the extents that there are.
- ``room``: memory in which a tensor grows along an axis.
- ``step``: a body that is computed time after time, by an engine that plans or by one that does not.
- ``regions``: graphs with extents that depend on elements, cut where these are told.
"""
