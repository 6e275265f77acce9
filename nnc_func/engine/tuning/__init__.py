"""The fastest kernels are found by measuring them.

- ``autotune``: times the kernels of a program and records the faster ones.
- ``trials``: times and compares the kernels of one application.
- ``environment``: what machine a measurement was taken on.
- ``tunable``: the method of programs that does it.
"""
