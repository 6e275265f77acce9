"""Searching and sorting by other operators: counts, positions, the largest, order statistics, membership."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import ShapeError
from nnc_func.facets.derivatives import Constant, Refusal
from nnc_func.facets.dims import known, product
from nnc_func.facets.samples import ANY, EXACT, NUMBERS, REALS, Samples
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.extents import count_of
from nnc_func.graph.ops.families import Axes, Extent, Tensor
from nnc_func.graph.ops.move import part

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

POSITIONS = Constant("positions and counts are integers")
SIZED = "give size=, how many there are at most"
BOOL, INT64 = np.dtype("bool"), np.dtype("int64")


def _some_axes(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis": draw([None, (), *range(-rank, rank)]), "keepdims": draw((False, True))}


def _sized(shapes_: Any, draw: Any) -> dict[str, Any]:
    return {"size": draw((0, 2, 5))}


# --- counting and finding -----------------------------------------------------------------------------------


@composite(derivative=POSITIONS, samples=Samples(dtypes=ANY, params=_some_axes), tolerance=EXACT)
def count_nonzero(o: Ops[Any], x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, or true, along axes: int64. NaN is not zero."""
    flags = x if o.dtype(x).kind == "b" else o.cast(x, dtype=BOOL)
    return o.sum(o.cast(flags, dtype=INT64), axis=axis, keepdims=keepdims)


@composite(derivative=POSITIONS, samples=Samples(dtypes=ANY, params=_sized, min_rank=1), tolerance=EXACT)
def nonzero(o: Ops[Any], x: Tensor, /, *, size: Extent | None = None) -> tuple[Tensor, ...]:
    """Where elements are not zero, in C order: a vector of indices for each axis.

    Without `size` they are counted at once: `x` has a value then, or an ExtentError says that it has none. With it
    the first so many are given, and the first element's index where there are not as many. Rank 0 is refused.
    """
    if not x.shape:
        raise ShapeError("nonzero of a tensor of rank 0 has no index to give; use reshape to make it a vector")
    count = count_of(o, x, SIZED) if size is None else size
    return _unraveled(o, o.flatnonzero(x, size=count), tuple(x.shape))


def _unraveled(o: Ops[Any], flat: Any, shape: Any) -> tuple[Any, ...]:
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


def _number(o: Ops[Any], extent: Any) -> Any:
    return o.full(shape=(), value=extent, dtype=INT64)


@composite(derivative=POSITIONS, samples=Samples(dtypes=ANY, params=_sized, min_rank=1), tolerance=EXACT)
def argwhere(o: Ops[Any], x: Tensor, /, *, size: Extent | None = None) -> Tensor:
    """Where elements are not zero, in C order: a row of indices for each; see `nonzero`."""
    return o.stack(*nonzero.over(o, x, size=size), axis=1)


def _mask_cases() -> Any:
    for shape in ((3,), (2, 2), (0,), ()):
        for dtype in NUMBERS:
            yield ((shape, dtype), (shape, "bool")), {"size": 2}


@composite(samples=Samples(relation="cases", cases=_mask_cases()), tolerance=EXACT)
def extract(o: Ops[Any], x: Tensor, mask: Tensor, /, *, size: Extent | None = None) -> Tensor:
    """The elements where a mask of the same shape is true, in C order: a vector.

    Without `size` they are counted at once: see `nonzero`. With it there are so many, zeros behind those that exist.
    """
    if tuple(x.shape) != tuple(mask.shape):
        raise ShapeError(f"a mask has the shape of what it masks, {tuple(x.shape)}; given {tuple(mask.shape)}")
    count = count_of(o, mask, SIZED) if size is None else size
    flat = o.concat(
        o.reshape(x, shape=(product(tuple(x.shape)),)), o.full(shape=(1,), value=0, dtype=o.dtype(x)), axis=0
    )
    last: Any = product(tuple(x.shape))
    return o.take(flat, o.flatnonzero(mask, size=count, fill=last), axis=0)


# --- order --------------------------------------------------------------------------------------------------


def _best(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    axis = draw(range(-rank, rank))
    return {"k": draw(range(shapes_[0][axis] + 1)), "axis": axis, "largest": draw((True, False))}


@composite(tolerance=EXACT,
           samples=Samples(dtypes=REALS, params=_best, min_rank=1, distinct=True))  # fmt: skip
def top_k(o: Ops[Any], x: Tensor, /, *, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, ...]:
    """The `k` largest elements along an axis, in descending order, and where they stand; or the smallest, ascending.

    Of equal elements the one that stands first comes first. NaN counts as the largest.
    """
    at = normalise_axis(axis, len(x.shape))
    order = o.argtop_k(x, k=k, axis=at, largest=largest)
    return o.take_along_axis(x, order, axis=at), order


# --- sets ---------------------------------------------------------------------------------------------------


def _members() -> Any:
    for shape, values in (((3,), (2,)), ((2, 2), (0,)), ((), (3,)), ((4,), (2, 2)), ((0,), (1,))):
        for dtype in REALS:
            for invert in (False, True):
                yield ((shape, dtype, (0, 3)), (values, dtype, (0, 3))), {"invert": invert}


@composite(derivative=Constant("membership is a boolean"), tolerance=EXACT,
           samples=Samples(relation="cases", cases=_members()))  # fmt: skip
def isin(o: Ops[Any], x: Tensor, values: Tensor, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x` is one of the `values`, or none of them; NaN is none.

    By sorting and searching; complex numbers are compared each with each.
    """
    size = product(tuple(values.shape))
    if known(size) and size == 0:
        return o.full(shape=tuple(x.shape), value=invert, dtype=BOOL)
    if "c" in (o.dtype(x).kind, o.dtype(values).kind):
        found = o.any(o.equal(o.expand_dims(x, axis=-1), o.reshape(values, shape=(size,))), axis=-1)
        return o.logical_not(found) if invert else found
    ordered = o.sort(o.reshape(values, shape=(size,)), axis=0)
    place = o.minimum(o.searchsorted(ordered, x), _number(o, size - 1))
    found = o.equal(o.take(ordered, place, axis=0), x)
    return o.logical_not(found) if invert else found


def _uniques(o: Ops[Any], x: Any, size: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The flattened tensor, its order, where a value begins in that order, whether one does, and how many there are."""
    n = product(tuple(x.shape))
    flat = o.reshape(x, shape=(n,))
    order = o.argsort(flat, axis=0)
    ordered = o.take(flat, order, axis=0)
    begins = o.full(shape=(1,), value=True, dtype=BOOL)
    if not known(n):  # it may be 0: what is behind the last one is compared, and left out below
        behind = o.concat(ordered, o.full(shape=(1,), value=0, dtype=o.dtype(ordered)), axis=0)
        begins = o.concat(begins, o.not_equal(part(o, behind, 0, 1, n + 1), part(o, behind, 0, 0, n)), axis=0)
    elif n:
        begins = o.concat(begins, o.not_equal(part(o, ordered, 0, 1, n), part(o, ordered, 0, 0, n - 1)), axis=0)
    begins = part(o, begins, 0, 0, n)
    count = count_of(o, begins, SIZED) if size is None else size
    if known(n) and n == 0 and count:
        raise ShapeError(f"a tensor without elements has no {count} unique ones")
    starts = o.flatnonzero(begins, size=count + 1, fill=-1)
    starts = o.where(o.less(starts, 0), _number(o, n), starts)
    return flat, order, starts, begins, count


def _values(o: Ops[Any], flat: Any, order: Any, starts: Any, count: Any) -> tuple[Any, Any]:
    """The unique values, and where each first stands."""
    last = o.maximum(o.subtract(_number(o, flat.shape[0]), 1), 0)
    places = o.minimum(part(o, starts, 0, 0, count), last)
    where = o.take(order, places, axis=0)
    return o.take(flat, where, axis=0), where


def _inverse(o: Ops[Any], x: Any, order: Any, begins: Any) -> Any:
    """For each element which of the unique values it is."""
    which = o.subtract(o.cumulative_sum(o.cast(begins, dtype=INT64), axis=0), 1)
    zeros = o.full(shape=order.shape, value=0, dtype=INT64)
    return o.reshape(o.scatter_set(zeros, order, which, axis=0), shape=tuple(x.shape))


def _counted(o: Ops[Any], starts: Any, count: Any) -> Any:
    return o.subtract(part(o, starts, 0, 1, count + 1), part(o, starts, 0, 0, count))


UNIQUE = Samples(
    relation="cases",
    cases=[
        (((shape, dtype, (0, 3)),), {"size": size})
        for shape, size in (((), 1), ((4,), 2), ((2, 3), 7), ((0,), 0))
        for dtype in ANY
    ],
)
SETS: dict[str, Any] = {"samples": UNIQUE, "tolerance": EXACT}
OF_SETS = Refusal("which elements are equal does not change smoothly; sort has a derivative")


@composite(derivative=OF_SETS, **SETS)
def unique_values(o: Ops[Any], x: Tensor, /, *, size: Extent | None = None) -> Tensor:
    """The different elements, in ascending order: a vector. NaN differ from each other.

    Complex numbers are ordered by their real, then by their imaginary parts.

    Without `size` they are counted at once: `x` has a value then, or an ExtentError says that it has none. With it
    there are so many: what is missing repeats the largest, what is too much is left out.
    """
    flat, order, starts, _, count = _uniques(o, x, size)
    return _values(o, flat, order, starts, count)[0]


@composite(derivative=OF_SETS, **SETS)
def unique_counts(o: Ops[Any], x: Tensor, /, *, size: Extent | None = None) -> tuple[Tensor, ...]:
    """The different elements as `unique_values` gives them, and how often each of them occurs."""
    flat, order, starts, _, count = _uniques(o, x, size)
    return _values(o, flat, order, starts, count)[0], _counted(o, starts, count)


@composite(derivative=OF_SETS, **SETS)
def unique_inverse(o: Ops[Any], x: Tensor, /, *, size: Extent | None = None) -> tuple[Tensor, ...]:
    """The different elements as `unique_values` gives them, and for each element of `x` which of them it is."""
    flat, order, starts, begins, count = _uniques(o, x, size)
    return _values(o, flat, order, starts, count)[0], _inverse(o, x, order, begins)


@composite(derivative=OF_SETS, **SETS)
def unique_all(o: Ops[Any], x: Tensor, /, *, size: Extent | None = None) -> tuple[Tensor, ...]:
    """The different elements, where each first stands, for each element which of them it is, and how often each occurs.

    As `unique_values` gives them; where is a position in C order.
    """
    flat, order, starts, begins, count = _uniques(o, x, size)
    values, where = _values(o, flat, order, starts, count)
    return values, where, _inverse(o, x, order, begins), _counted(o, starts, count)
