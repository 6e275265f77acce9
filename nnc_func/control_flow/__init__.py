"""Control flow on tensors: loops and branches as functions of functions, each one operator that holds bodies."""
