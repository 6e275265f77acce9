"""Manipulation by other operators: axes moved, elements rolled, repeated and padded. No arithmetic but `diff`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import shapes
from nnc_func.facets.dims import known, product, same_extent
from nnc_func.facets.movement import padded
from nnc_func.facets.samples import ANY, EXACT, NUMBERS, Samples
from nnc_func.facets.shapes import normalise_axes, normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.extents import value_of
from nnc_func.graph.ops.families import Axes, Extent, Nested, Tensor
from nnc_func.graph.ops.move import part

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

INT64 = np.dtype("int64")


def _tuple(axis: Any) -> tuple[int, ...]:
    return axis if isinstance(axis, tuple) else (axis,)


def _moves(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    one = [(0, -1), (-1, 0), (rank - 1, rank // 2)]
    source, destination = draw([*one, ((0, -1)[: min(rank, 2)], (-1, 0)[: min(rank, 2)])])
    return {"source": source, "destination": destination}


# --- axes ---------------------------------------------------------------------------------------------------


@composite(samples=Samples(dtypes=ANY, params=_moves, min_rank=1), tolerance=EXACT)
def moveaxis(o: Ops[Any], x: Tensor, /, *, source: Axes, destination: Axes) -> Tensor:
    """Axes moved to other places; the rest stay in their order. A view."""
    rank = len(x.shape)
    from_, to = _tuple(source), _tuple(destination)
    if len(from_) != len(to):
        raise ShapeError(f"moveaxis wants as many destinations as sources, given {source} and {destination}")
    normalise_axes(from_, rank), normalise_axes(to, rank)  # each axis once
    places = {normalise_axis(t, rank): normalise_axis(f, rank) for f, t in zip(from_, to, strict=True)}
    rest = (i for i in range(rank) if i not in places.values())
    return o.permute_dims(x, axes=tuple(places[i] if i in places else next(rest) for i in range(rank)))


def _two_axes(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis1": draw(range(-rank, rank)), "axis2": draw(range(-rank, rank))}


@composite(samples=Samples(dtypes=ANY, params=_two_axes, min_rank=1), tolerance=EXACT)
def swapaxes(o: Ops[Any], x: Tensor, /, *, axis1: int, axis2: int) -> Tensor:
    """Two axes in each other's place. A view."""
    order = [*range(len(x.shape))]
    one, other = normalise_axis(axis1, len(order)), normalise_axis(axis2, len(order))
    order[one], order[other] = order[other], order[one]
    return o.permute_dims(x, axes=tuple(order))


@composite(samples=Samples(dtypes=ANY), tolerance=EXACT)
def flatten(o: Ops[Any], x: Tensor, /) -> Tensor:
    """All elements in C order, as a vector."""
    return o.reshape(x, shape=(product(tuple(x.shape)),))


@composite(samples=Samples(dtypes=ANY), tolerance=EXACT)
def broadcast_arrays(o: Ops[Any], /, *xs: Tensor) -> tuple[Tensor, ...]:
    """Each tensor broadcast to the shape that all of them have in common; dtypes are kept."""
    if not xs:
        return ()
    shape = shapes.broadcast(*(tuple(x.shape) for x in xs))
    return tuple(x if tuple(x.shape) == shape else o.broadcast_to(x, shape=shape) for x in xs)


UNSTACKED = tuple(
    (((shape, dtype),), {"axis": axis})
    for shape, axis in (((3,), 0), ((2, 3), 1), ((2, 3), -2), ((2, 0), 0))
    for dtype in ANY
)


@composite(tolerance=EXACT, samples=Samples(relation="cases", cases=UNSTACKED))
def unstack(o: Ops[Any], x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of an axis without it, in a tuple: the opposite of `stack`. The axis has a known extent."""
    at = normalise_axis(axis, len(x.shape))
    n = x.shape[at]
    if not known(n):
        raise ShapeError(f"unstack gives a tensor for each element of an axis, so its extent is known; given {n}")
    if n == 0:
        return ()
    return tuple(o.squeeze(each, axis=at) for each in o.split(x, sections=n, axis=at))


def _quarter_turns(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"k": draw(range(-2, 5)), "axes": draw([(0, 1), (1, 0), (0, -1), (-1, rank - 2)])}


@composite(samples=Samples(dtypes=ANY, params=_quarter_turns, min_rank=2), tolerance=EXACT)
def rot90(o: Ops[Any], x: Tensor, /, *, k: int = 1, axes: Axes = (0, 1)) -> Tensor:
    """Turned by `k` quarters in the plane of two axes, from the first towards the second."""
    if len(_tuple(axes)) != 2:
        raise ShapeError(f"a plane has two axes, given {axes}")
    normalise_axes(axes, len(x.shape))
    one, other = axes
    if k % 4 in (2, 3):
        x = o.flip(x, axis=(one, other))
    if k % 2 == 0:
        return x
    return swapaxes.over(o, o.flip(x, axis=other), axis1=one, axis2=other)


# --- elements rolled and repeated ---------------------------------------------------------------------------


def _rolls(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    some: list[Any] = [(0, None), (2, None), (-7, None)]
    if rank:
        some += [(1, 0), (-2, -1), (5, rank - 1), ((1, 2), (0, -1)), ((1, -3), (0, 0)), (2, (0,))]
    shift, axis = draw(some)
    return {"shift": shift, "axis": axis}


@composite(samples=Samples(dtypes=ANY, params=_rolls), tolerance=EXACT)
def roll(o: Ops[Any], x: Tensor, /, *, shift: Axes, axis: Axes | None = None) -> Tensor:
    """Elements moved along axes by `shift` places; those that leave at one end come in at the other.

    Without an axis they move in the flattened tensor. One shift may be for several axes, one after the other.
    """
    if axis is None:
        return o.reshape(roll.over(o, flatten.over(o, x), shift=shift, axis=0), shape=tuple(x.shape))
    along, by = _tuple(axis), _tuple(shift)
    if len(by) == 1:
        by = by * len(along)
    if len(by) != len(along):
        raise ShapeError(f"roll wants a shift for each axis, or one for all; given {shift} for {axis}")
    for at, places in zip(along, by, strict=True):
        x = _rolled(o, x, normalise_axis(at, len(x.shape)), places)
    return x


def _rolled(o: Ops[Any], x: Any, at: int, places: int) -> Any:
    n = x.shape[at]
    if not known(n):
        order = o.remainder(o.arange(start=-places, stop=n - places, dtype=INT64), n)
        return o.take(x, order, axis=at)
    if n == 0 or places % n == 0:
        return x
    return o.concat(part(o, x, at, n - places % n, n), part(o, x, at, 0, n - places % n), axis=at)


def _repetitions() -> Any:
    for shape, repeats, axis in (
        ((), 2, None), ((2, 3), 2, None), ((2, 3), 0, 1), ((2, 3), 3, -1), ((0, 2), 2, 0),
        ((2, 3), (2, 0, 1), 1), ((2, 2), (1, 0, 2, 1), None), ((3,), (2,), 0),
    ):  # fmt: skip
        for dtype in ANY:
            yield ((shape, dtype),), {"repeats": repeats, "axis": axis}
    yield ((2, 3), ((3,), "int64", (0, 2))), {"axis": 1, "size": 4}


@composite(samples=Samples(relation="cases", cases=_repetitions()), tolerance=EXACT)
def repeat(
    o: Ops[Any],
    x: Tensor,
    counts: Tensor | None = None,
    /,
    *,
    repeats: Nested | None = None,
    axis: int | None = None,
    size: Extent | None = None,
) -> Tensor:
    """Each element `repeats` times in a row, along an axis or of the flattened tensor.

    How often is a number, a tuple of one for each element of the axis, or the integer tensor `counts` of that extent.
    With `counts` the new extent is `size`: left out it is computed at once, and an ExtentError says if that cannot be.
    Where the counts add up to less than `size` the last element fills it, where to more the rest is left out.
    """
    if axis is None:
        x, axis = flatten.over(o, x), 0
    at = normalise_axis(axis, len(x.shape))
    n = x.shape[at]
    if (repeats is None) == (counts is None):
        raise OperatorError("repeat wants either repeats=, a number or a tuple, or a tensor of counts")
    if counts is not None:
        return o.take(x, _repeated(o, counts, n, size), axis=at)
    if isinstance(repeats, tuple) and len(repeats) != 1:
        if not known(n) or len(repeats) != n or min(repeats, default=0) < 0:
            raise ShapeError(f"an axis of extent {n} is repeated by a number for each element, given {repeats}")
        return o.take(x, np.repeat(np.arange(n), repeats), axis=at)
    times = repeats[0] if isinstance(repeats, tuple) else repeats
    if times is None or times < 0:
        raise ShapeError(f"elements are repeated 0 times or more, given {times}")
    wide = (*x.shape[: at + 1], times, *x.shape[at + 1 :])
    beside = o.broadcast_to(o.expand_dims(x, axis=at + 1), shape=wide)
    return o.reshape(beside, shape=(*x.shape[:at], n * times, *x.shape[at + 1 :]))


def _repeated(o: Ops[Any], counts: Any, n: Any, size: Any) -> Any:
    """For each element of the result, which element it repeats."""
    if len(counts.shape) != 1 or not (same_extent(counts.shape[0], n) or counts.shape[0] == 1):
        raise ShapeError(
            f"counts have shape ({n},), one for each element of the axis, or (1,), one for all; "
            f"given {tuple(counts.shape)}"
        )
    if o.dtype(counts).kind not in "biu":
        raise DTypeError(f"elements are repeated a whole number of times, given counts of {o.dtype(counts).name}")
    if not same_extent(counts.shape[0], n):
        counts = o.broadcast_to(counts, shape=(n,))
    ends = o.cumulative_sum(o.cast(counts, dtype=INT64), axis=0)
    if size is None:
        times = value_of(counts, "give size=, the extent of the result")
        if times.min(initial=0) < 0:
            raise ShapeError(f"elements are repeated 0 times or more, given {times.min()}")
        size = int(times.sum(dtype=INT64))
    found = o.searchsorted(ends, o.arange(start=0, stop=size, dtype=INT64), side="right")
    return o.minimum(found, o.full(shape=(), value=n - 1, dtype=INT64))


# --- differences --------------------------------------------------------------------------------------------


def _differences(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"n": draw((0, 1, 2, 4)), "axis": draw(range(-rank, rank))}


@composite(samples=Samples(dtypes=NUMBERS, params=_differences, min_rank=1))
def diff(
    o: Ops[Any],
    x: Tensor,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    /,
    *,
    n: int = 1,
    axis: int = -1,
) -> Tensor:
    """The `n`-th difference along an axis: each element less the one before it, `n` times.

    Booleans give whether they differ. `prepend` and `append` are joined to it first; of rank 0 they are one element.
    """
    at = normalise_axis(axis, len(x.shape))
    if n < 0:
        raise ShapeError(f"differences are taken 0 times or more, given {n}")
    if n == 0:
        return x
    ends = [_beside(o, e, x, at) for e in (prepend, append)]
    joined = [e for e in (ends[0], x, ends[1]) if e is not None]
    x = o.concat(*joined, axis=at) if len(joined) > 1 else x
    for _ in range(n):
        m = x.shape[at]
        if known(m) and m == 0:
            return x
        later, earlier = part(o, x, at, 1, m), part(o, x, at, 0, m - 1)
        x = o.not_equal(later, earlier) if o.dtype(x).kind == "b" else o.subtract(later, earlier)
    return x


def _beside(o: Ops[Any], end: Any, x: Any, at: int) -> Any:
    if end is None or end.shape:
        return end
    return o.broadcast_to(end, shape=(*x.shape[:at], 1, *x.shape[at + 1 :]))


# --- padding ------------------------------------------------------------------------------------------------

MODES = ("edge", "reflect", "symmetric", "wrap")


def _widths(shapes_: Any, draw: Any) -> dict[str, Any]:
    return {"widths": tuple(draw(((0, 0), (1, 0), (2, 7))) for _ in shapes_[0]), "mode": draw(MODES)}


@composite(samples=Samples(dtypes=ANY, params=_widths), tolerance=EXACT)
def pad_mode(o: Ops[Any], x: Tensor, /, *, widths: Nested, mode: str) -> Tensor:
    """With its own elements put around: a pair of widths (before, after) for each axis, none negative; see `pad`.

    `mode` is NumPy's: ``"edge"`` repeats the last element, ``"reflect"`` mirrors without it, ``"symmetric"`` with it,
    ``"wrap"`` begins again at the other end. The padded axes have known extents.
    """
    if mode not in MODES:
        raise OperatorError(f"mode={mode!r} is none of {', '.join(map(repr, MODES))}; pad puts a constant around")
    shapes_ = tuple(x.shape)
    padded(shapes_, widths=widths)
    for axis, (before, after) in enumerate(widths):
        if before == after == 0:
            continue
        n = shapes_[axis]
        if not known(n) or n == 0:
            raise ShapeError(f"axis {axis} of shape {shapes_} has no elements that are known to pad it with ({mode})")
        x = o.take(x, np.pad(np.arange(n), (before, after), mode), axis=axis)  # type: ignore[call-overload]
    return x
