"""Pictures of graphs: SVG, Graphviz's language, pages; their places and what they tell."""
