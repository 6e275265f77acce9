"""Graphs as ONNX models: what each operator is there is said by its own facet, `onnx`."""
