"""Layer 9: derivatives, forward and reverse, nested.

- ``autodiff``: the layer.
- ``traced``: the carriers that flow through it: dual numbers and a tape.
- ``transforms``, ``matrices``: grad, vjp, jvp and the like; jacobians and second derivatives.
- ``linearised``: a derivative at a point as a linear map.
- ``arguments``: trees of tensors to lists of carriers and back.
- ``custom``: functions with derivatives of their own.
- ``bodies``: derivatives of loops' and branches' bodies.
- ``formulas``: what the derivatives of operators mean, as text.
- ``values``: gradients of values, through what a dynamic engine has recorded.
- ``methods``: the transformations as methods of a stack.
"""

from __future__ import annotations

from nnc_func.autodiff.autodiff import Autodiff

__all__ = ["Autodiff"]
