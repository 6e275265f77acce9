"""NumPy's own functions on tensors: ``numpy.mean(t)``, ``numpy.add(a, t)`` build what the stack's functions build.

NumPy asks the first of its arguments that has ``__array_function__`` or ``__array_ufunc__``. What is only called
otherwise here stands in `names`, what takes other parameters in the families, what does not work in `refusals`.
"""
