"""Graphs are written as ONNX models; what each operator is there is said by its own facet, `onnx`.

- ``graphs``: a graph as ONNX nodes; ``scopes`` has these, ``builder`` makes them.
- ``model``: nodes as a model; ``writing`` writes it to a file.
- ``metadata``: the graph's own text within the model.
- ``schemas``: what ONNX says of its operators.
"""
