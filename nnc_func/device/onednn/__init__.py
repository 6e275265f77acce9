"""oneDNN's kernels for processors, called by ctypes: no compiler, no import before a device asks for them.

- ``library``: finds the shared library, calls its functions, says what it has.
- ``handles``: owns what the library makes: descriptors, primitives, memory objects.
- ``primitives``: convolutions and matrix products, made once for all that are alike.
- ``integer``: both of bytes, summed in int32, where the processor multiplies these exactly.
- ``bfloat16``: whether the processor multiplies that, and keeps NaN and infinities.
- ``elementwise``, ``pooling``, ``reorders``: sums and products of arrays, windows, and orders of axes.
- ``rows``: reductions of rows of matrices, softmax, and rows that are normalised.
- ``recurrent``: recurrent layers, all times at once.
- ``packing``: puts weights that stay the same into the order in which a primitive wants them, once.
- ``bound``: a primitive as a function of arrays.
"""
