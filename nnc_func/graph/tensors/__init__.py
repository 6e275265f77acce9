"""What users hold: tensors, and the operators as functions, as methods and as Python's own."""
