"""Searching and sorting by other operators: counts, positions, the largest, order statistics, membership."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dims import known, product
from nnc_func.facets.samples import ANY, EXACT, NUMBERS, Refused, Samples
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.extents import count_of
from nnc_func.graph.functions import Functions
from nnc_func.graph.ops.families import Axes, Extent, Tensor

POSITIONS = Constant("positions and counts are integers")
OWN = Refused("ONNX has it as a function of its own operators")
SIZED = "give size=, how many there are at most, or compute it outside of jit and compiled programs"
BOOL, INT64 = np.dtype("bool"), np.dtype("int64")


def _some_axes(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis": draw([None, (), *range(-rank, rank)]), "keepdims": draw((False, True))}


def _sized(shapes_: Any, draw: Any) -> dict[str, Any]:
    return {"size": draw((0, 2, 5))}


# --- counting and finding -----------------------------------------------------------------------------------


@composite(derivative=POSITIONS, onnx=OWN, samples=Samples(dtypes=ANY, params=_some_axes), tolerance=EXACT)
def count_nonzero(o: Functions, x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, or true, along axes: int64. NaN is not zero."""
    flags = x if o.dtype(x).kind == "b" else o.cast(x, dtype=BOOL)
    return o.sum(o.cast(flags, dtype=INT64), axis=axis, keepdims=keepdims)


@composite(derivative=POSITIONS, onnx=OWN, samples=Samples(dtypes=ANY, params=_sized, min_rank=1), tolerance=EXACT)
def nonzero(o: Functions, x: Tensor, /, *, size: Extent | None = None) -> tuple[Tensor, ...]:
    """Where elements are not zero, in C order: a vector of indices for each axis.

    Without `size` they are counted at once: `x` has a value then, or an ExtentError says that it has none. With it
    the first so many are given, and the first element's index where there are not as many. Rank 0 is refused.
    """
    if not x.shape:
        raise ShapeError("nonzero of a tensor of rank 0 has no index to give; use reshape to make it a vector")
    count = count_of(o, x, SIZED) if size is None else size
    return _unraveled(o, o.flatnonzero(x, size=count), tuple(x.shape))


def _unraveled(o: Functions, flat: Any, shape: Any) -> tuple[Any, ...]:
    """Positions in C order as an index for each axis."""
    found = []
    for i, n in enumerate(shape):
        behind = product(shape[i + 1 :])
        if (known(behind) and behind == 0) or (known(n) and n == 0):
            found.append(flat)
            continue
        index = flat if known(behind) and behind == 1 else o.floor_divide(flat, _number(o, behind))
        found.append(index if i == 0 else o.remainder(index, _number(o, n)))
    return tuple(found)


def _number(o: Functions, extent: Any) -> Any:
    return o.full(shape=(), value=extent, dtype=INT64)


@composite(derivative=POSITIONS, onnx=OWN, samples=Samples(dtypes=ANY, params=_sized, min_rank=1), tolerance=EXACT)
def argwhere(o: Functions, x: Tensor, /, *, size: Extent | None = None) -> Tensor:
    """Where elements are not zero, in C order: a row of indices for each; see `nonzero`."""
    return o.stack(*nonzero.over(o, x, size=size), axis=1)


def _mask_cases() -> Any:
    for shape in ((3,), (2, 2), (0,), ()):
        for dtype in NUMBERS:
            yield ((shape, dtype), (shape, "bool")), {"size": 2}


@composite(onnx=OWN, samples=Samples(relation="cases", cases=_mask_cases()), tolerance=EXACT)
def extract(o: Functions, x: Tensor, mask: Tensor, /, *, size: Extent | None = None) -> Tensor:
    """The elements where a mask of the same shape is true, in C order: a vector.

    Without `size` they are counted at once: see `nonzero`. With it there are so many, zeros behind those that exist.
    """
    if tuple(x.shape) != tuple(mask.shape):
        raise ShapeError(f"a mask has the shape of what it masks, {tuple(x.shape)}; given {tuple(mask.shape)}")
    count = count_of(o, mask, SIZED) if size is None else size
    flat = o.concat(
        o.reshape(x, shape=(product(tuple(x.shape)),)), o.full(shape=(1,), value=0, dtype=o.dtype(x)), axis=0
    )
    return o.take(flat, o.flatnonzero(mask, size=count, fill=product(tuple(x.shape))), axis=0)
