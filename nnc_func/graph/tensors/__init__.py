"""What users hold: tensors, and the operators as functions, as methods and as Python's own.

- ``tensor``: the handle.
- ``promise``: what a tensor has until its value is asked for.
- ``namespace``: operators as functions, ``ops.add``.
- ``arithmetic``: Python's operators.
- ``operator_methods``: operators as methods; ``method_source`` writes their stub.
- ``numpy_methods``: NumPy's methods.
- ``lists``: lists with tensors among their elements, as tensors.
- ``bridges``: other libraries read a tensor's memory.
"""
