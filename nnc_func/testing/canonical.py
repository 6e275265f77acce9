"""Kernels that give the same bits for an element wherever it lies: what an exact rule is held to.

NumPy computes an elementwise function of contiguous arrays by other instructions than of views, and a complex product
with or without fused multiplication, by its place in the array and the order of its factors. A rule that moves an
elementwise operator, or exchanges factors, does not answer for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.facets import shapes
from nnc_func.layer import PassThrough, layer
from nnc_func.op import Op


@layer(on="device")
class Canonical(PassThrough):
    """A device that gives elementwise kernels contiguous arrays of one shape, and multiplies complex numbers by parts.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> eager = nnc.eager()
    >>> x = np.complex64([1 + 2j])
    >>> Canonical(eager.device).bind(eager.type.ops["multiply"], x, x)
    array([-3.+4.j], dtype=complex64)
    """

    device: Any

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """The results."""
        if op.shape is not shapes.broadcast or op.multi_result:
            return self.device.bind(op, *args, **params)
        hosts = [np.asarray(self.device.to_numpy(a)) for a in args]
        given = [np.ascontiguousarray(a).reshape(a.shape) for a in np.broadcast_arrays(*hosts)]
        if op.name in ("multiply", "square") and any(a.dtype.kind == "c" for a in given):
            common = np.result_type(*given)
            first, last = given[0].astype(common), given[-1].astype(common)
            found = np.empty(first.shape, common)
            found.real = first.real * last.real - first.imag * last.imag
            found.imag = first.real * last.imag + first.imag * last.real
            return found
        return self.device.bind(op, *map(self.device.asarray, given), **params)
