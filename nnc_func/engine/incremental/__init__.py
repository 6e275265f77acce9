"""Incremental programs run only what depends on what changed.

- ``compile``: makes one of a graph, planned or interpreted.
- ``program``: what callers hold; ``symbolic`` is the one with unknown extents.
- ``dependencies``: what must run again after some leaves changed.
- ``steps``: the parts that run, and what outlives a run.
- ``assigning``: assigns to inputs by name.
"""
