"""The one operator that the Engine itself inserts: a copy, where an output is a view, a leaf, or wanted twice."""

from __future__ import annotations

from typing import Any

from nnc_func.facets import dtypes, layouts, shapes
from nnc_func.facets.derivatives import Linear
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.views import free
from nnc_func.op import operator


def _copy(xp: Any, x: Any) -> Any:
    return xp.asarray(x, copy=True)


def _copy_into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    outs[0][...] = arrays[0]


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    layout=layouts.first,
    derivative=Linear(lambda o, g, x: g),
    kernels=Kernel("copy", compute=_copy, into=_copy_into, infallible=True),
    cost=free,
)
def copy(x: Any, /) -> Any:
    """The same elements in memory of their own."""


COPY = copy
