"""Pictures of graphs.

- ``graphs``: SVG, and Graphviz's language.
- ``history_page``: a page of rewrites.
- ``layered``: where boxes stand; ``records`` what is written in them; ``svg`` how they are drawn.
"""
