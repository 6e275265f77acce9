"""Pictures of plans and stacks.

- ``memory``: the memory map and the load over time.
- ``streams``: streams as lanes.
- ``comparison``: several plans on one page.
- ``tables``: any table, for notebooks.
- ``layers``: a stack as boxes.
"""
