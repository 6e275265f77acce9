"""Linkers: each makes a plan executable. A printer of C or a recorder of CUDA graphs is another file here.

- ``base``: what a linker is given and what it returns, `Executable`; the contract for one of your own.
- ``kernel_calls``: this library's linker: it calls kernels one after the other, over views of the arenas.
"""
