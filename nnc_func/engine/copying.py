"""Operators that the Engine itself inserts: copies, and what fills the gaps of tensors that are put together.

An output is copied that is a view, a leaf, or wanted twice; and so is a part that is not computed where it lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.declaration import Items
from nnc_func.device.kernels.move import full
from nnc_func.facets import dtypes, layouts, shapes
from nnc_func.facets.derivatives import Constant, Linear
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.views import free
from nnc_func.graph.ops.families import DType, Sizes, number
from nnc_func.graph.origin import Origin
from nnc_func.op import Op, operator

COPIED = 1 << 14  # bytes that NumPy may copy first


def _copy(xp: Any, x: Any) -> Any:
    return xp.asarray(x, copy=True)


def _copy_into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    (x,), (out,) = arrays, outs
    if xp is np and out.nbytes > COPIED and np.may_share_memory(x, out):
        _copy_between(x, out)
    else:
        out[...] = x


def _copy_between(x: Any, out: Any) -> None:
    """Rows between rows of the same memory: NumPy, which does not look whether any element is both, copies them first.

    So a few are copied at a time.
    """
    if out.nbytes <= COPIED or not out.ndim:
        out[...] = x
        return
    some = COPIED * len(out) // out.nbytes
    for first in range(0, len(out), max(some, 1)):
        if some:
            out[first : first + some] = x[first : first + some]
        else:
            _copy_between(x[first], out[first])


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    layout=layouts.first,
    derivative=Linear(lambda o, g, x: g),
    kernels=Kernel("copy", compute=_copy, into=_copy_into, infallible=True, strided=True),
    cost=free,
    data_movement=True,
)
def copy(x: Any, /) -> Any:
    """The same elements in memory of their own."""


def _filled(xp: Any, *, shape: Any, starts: Any, steps: Any, value: Any, dtype: Any) -> Any:
    return full(xp, shape=shape, value=value, dtype=dtype)


def _fill_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, value: Any, **_: Any) -> None:
    outs[0].fill(value)


@operator(
    shape=shapes.given,
    dtype=dtypes.given,
    derivative=Constant("it depends on no tensor"),
    kernels=Kernel("fill", compute=_filled, into=_fill_into, infallible=True, strided=True),
    cost=free,
    data_movement=True,
)
def fill(*, shape: Sizes, starts: Sizes, steps: Sizes, value: number, dtype: DType) -> Any:
    """One number in a box of a tensor that is put together, where no part of it is written."""


COPY, FILL = copy, fill
INSERTED = {op.name: op for op in (COPY, FILL)}


@frozen
class Inserted:
    """An application that is in no graph: what an instruction tells of a node."""

    op: Op
    items: Items
    origin: Origin


def copying(origin: Origin) -> tuple[Inserted, Kernel]:
    """A copy, for the line that asked for it."""
    return Inserted(COPY, (), origin), COPY.kernels[0]


def filling(box: Any, value: Any, dtype: Any, origin: Origin) -> tuple[Inserted, Kernel]:
    """A number in a box."""
    items = FILL.canonical(
        {"shape": box.extents, "starts": box.starts, "steps": box.steps, "value": value, "dtype": dtype}
    )
    return Inserted(FILL, items, origin), FILL.kernels[0]
