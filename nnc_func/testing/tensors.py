"""Hypothesis strategies for what tensors are: shapes, shapes that broadcast, dtypes, arrays and avals.

All of them shrink: towards few axes, small extents, float64, elements next to zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.errors import ShapeError
from nnc_func.facets.dtypes import as_dtype, kind_of, limits_of

Shape = tuple[int, ...]

MARGIN = 0.05  # elements keep this far from where there is a kink, and from one another where they are distinct
GRID = 1 / 64  # floating elements are multiples of it, so that they print short and are exact in float32
MOST_SIDE = 3
MOST_RANK = 3
MOST_LISTED = 12  # elements of an array that are drawn, and shrink, one by one; of a larger one a seed is drawn
DTYPES = (
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "bool", "uint8", "uint16", "uint32", "uint64",
    "complex128", "complex64",
)  # fmt: skip
NAMES = ("n", "m", "k")  # of unknown extents


# --- shapes ----------------------------------------------------------------------------------------------


def shapes(
    *, min_rank: int = 0, max_rank: int = MOST_RANK, min_side: int = 0, max_side: int = MOST_SIDE
) -> st.SearchStrategy[Shape]:
    """Shapes of one array; extents of 0 and 1 are among them.

    Parameters
    ----------
    min_rank, max_rank, min_side, max_side
        Bounds of the number of axes and of their extents, all included.

    Raises
    ------
    ShapeError
        No shape is within the bounds.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(shapes(min_rank=1), lambda shape: 3 in shape)
    (3,)
    """
    _bounded(min_rank, max_rank, "rank")
    _bounded(min_side, max_side, "side")
    return _shapes(min_rank, max_rank, min_side, max_side)


@cache
def _shapes(min_rank: int, max_rank: int, min_side: int, max_side: int) -> st.SearchStrategy[Shape]:
    return st.lists(st.integers(min_side, max_side), min_size=min_rank, max_size=max_rank).map(tuple)


def broadcastable_shapes(
    count: int, *, min_rank: int = 0, max_rank: int = MOST_RANK, min_side: int = 0, max_side: int = MOST_SIDE
) -> st.SearchStrategy[tuple[Shape, ...]]:
    """Shapes of several arrays that broadcast to one; each may lack leading axes, or have extents of 1.

    Parameters
    ----------
    count
        How many, at least one.
    min_rank, max_rank, min_side, max_side
        Bounds, all included; an extent may be 1 wherever it broadcasts.

    Raises
    ------
    ShapeError
        No shape is within the bounds, or none is asked for.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(broadcastable_shapes(2, min_rank=1), lambda pair: pair[0] != pair[1])
    ((1,), (0,))
    """
    if count < 1:
        raise ShapeError(f"broadcastable_shapes gives at least one shape, asked for {count}")
    _bounded(min_rank, max_rank, "rank")
    _bounded(min_side, max_side, "side")
    return _broadcastable(count, min_rank, max_rank, min_side, max_side)


@cache
def _broadcastable(
    count: int, min_rank: int, max_rank: int, min_side: int, max_side: int
) -> st.SearchStrategy[tuple[Shape, ...]]:
    @cache
    def parts(result: Shape) -> st.SearchStrategy[tuple[Shape, ...]]:
        return st.just((result,)) if count == 1 else st.tuples(*[_broadcasting(result, min_rank)] * count)

    return _shapes(min_rank, max_rank, min_side, max_side).flatmap(parts)


@st.composite
def _broadcasting(draw: Any, result: Shape, min_rank: int) -> Shape:
    rank = draw(st.integers(min_rank, len(result)))
    return tuple(draw(st.sampled_from((1, n))) for n in result[len(result) - rank :])


def _bounded(low: int, high: int, what: str) -> None:
    if not 0 <= low <= high:
        raise ShapeError(f"min_{what} is at least 0 and at most max_{what}, given {low} and {high}")


# --- dtypes ----------------------------------------------------------------------------------------------


def dtypes(kinds: str = "fibuc") -> st.SearchStrategy[np.dtype[Any]]:
    """Dtypes of these kinds: ``f`` floating, ``i`` and ``u`` integers, ``b`` truth values, ``c`` complex.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(dtypes("iu"), lambda dtype: dtype.itemsize == 2)
    dtype('int16')
    """
    return st.sampled_from([np.dtype(name) for name in DTYPES if np.dtype(name).kind in kinds])


# --- arrays ----------------------------------------------------------------------------------------------


def arrays(
    shape: Shape | st.SearchStrategy[Shape],
    dtype: Any,
    domain: tuple[float, float] = (-3.0, 3.0),
    *,
    avoid: Sequence[float] = (),
    distinct: bool = False,
    special: bool = False,
) -> st.SearchStrategy[np.ndarray]:
    """C-contiguous arrays.

    Parameters
    ----------
    shape, dtype
        Of the array, or strategies for them.
    domain
        Least and largest element, both included; integers are drawn from it, too, unsigned ones from zero.
        Booleans have no domain. Both parts of a complex number lie in it.
    avoid
        Floating elements keep 0.05 away from these.
    distinct
        Floating elements differ pairwise by 0.05 at least, for which the domain is widened if it has no room.
    special
        Where arithmetic ends is among the elements, whatever the domain: NaN, infinities, negative zero, the largest
        number, the least normal one, the least of all (a denormal one); of integers the largest and the least.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(arrays((2,), "int64", (1, 5)), lambda x: x.sum() > 9)
    array([5, 5])
    >>> find(arrays(shapes(max_rank=1), dtypes("f"), special=True), lambda x: np.isinf(x).any())
    array(inf)
    """
    if isinstance(shape, st.SearchStrategy) or isinstance(dtype, st.SearchStrategy):
        pair = st.tuples(*(each if isinstance(each, st.SearchStrategy) else st.just(each) for each in (shape, dtype)))
        return pair.flatmap(lambda two: arrays(two[0], two[1], domain, avoid=avoid, distinct=distinct, special=special))
    return _arrays(tuple(shape), as_dtype(dtype), tuple(domain), tuple(avoid), distinct, special)


@cache
def _arrays(
    shape: Shape,
    wanted: np.dtype[Any],
    domain: tuple[float, float],
    avoid: tuple[float, ...],
    distinct: bool,
    special: bool,
) -> st.SearchStrategy[np.ndarray]:
    size, kind = math.prod(shape), kind_of(wanted)
    if kind == "c":
        part = arrays(shape, wanted.type(0).real.dtype, domain, avoid=avoid, distinct=distinct, special=special)
        return st.tuples(part, part).map(lambda parts: _joined(parts[0], parts[1], wanted))
    unique = distinct and kind == "f"
    extra = special_elements(wanted) if special else []
    if kind in "iu":
        low, high = math.ceil(domain[0]), math.floor(domain[1])
        low = max(low, 0) if kind == "u" else low
        options: list[Any] = sorted({low, (low + high) // 2, high})
        elements: st.SearchStrategy[Any] = st.integers(low, high)
        elements = elements | st.sampled_from(extra) if extra else elements
    else:
        options = [False, True] if kind == "b" else [*_floats(domain, avoid, size if unique else 0)]
        elements = st.sampled_from([*options, *extra])
    if size <= MOST_LISTED:
        many = st.lists(elements, min_size=size, max_size=size, unique=unique)
        return many.map(lambda listed: np.array(listed, wanted).reshape(shape))
    seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
    chosen = np.array([*options, *extra], wanted)
    return seeds.map(lambda random: random.choice(chosen, size, replace=not unique).reshape(shape))


def special_elements(dtype: np.dtype[Any]) -> list[Any]:
    """Numbers of a dtype where arithmetic ends, the ordinary ones first; none of a truth value.

    Examples
    --------
    >>> special_elements(np.dtype("int8"))
    [127, -128]
    """
    if kind_of(dtype) in "iu":
        limits = np.iinfo(dtype)
        return [int(limits.max), int(limits.min)]
    if kind_of(dtype) not in "fc":
        return []
    of = limits_of(dtype)
    return [-0.0, float(of.tiny), float(of.max), float(of.smallest_subnormal), np.inf, -np.inf, np.nan]


def _joined(real: Any, imaginary: Any, dtype: np.dtype[Any]) -> Any:
    """A complex array of its parts, whatever they are: NaN and infinity in one leave the other."""
    found = np.empty(real.shape, dtype)
    found.real, found.imag = real, imaginary
    return found


@cache
def _floats(domain: tuple[float, float], avoid: tuple[float, ...], apart: int) -> list[float]:
    """What floating elements are drawn from, those next to zero first: failures shrink towards it.

    With `apart` there are that many at least, each 0.05 from the others.
    """
    (low, high), step = domain, GRID * math.ceil(MARGIN / GRID) if apart else GRID
    while True:
        grid = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
        ends = [] if apart else [float(low), float(high)]
        found = [x for x in dict.fromkeys([*grid, *ends]) if all(abs(x - a) >= MARGIN for a in avoid)]
        if found and len(found) >= apart:
            return sorted(found, key=lambda x: (abs(x), x))
        low, high = low - 1, high + 1


# --- avals -----------------------------------------------------------------------------------------------


def avals(
    shape: st.SearchStrategy[Shape] | None = None,
    dtype: st.SearchStrategy[Any] | None = None,
    *,
    symbolic: bool = False,
) -> st.SearchStrategy[Aval]:
    """What is known of a tensor without its elements.

    Parameters
    ----------
    shape, dtype
        Strategies; any shape and any dtype unless given.
    symbolic
        Some extents are unknown, and named ``n``, ``m`` or ``k``.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(avals(symbolic=True), lambda aval: str(aval.shape) == "(n, n)")
    float64[n, n]
    """
    sides: st.SearchStrategy[Any] = shapes() if shape is None else shape
    kinds = dtypes() if dtype is None else dtype
    return st.tuples(sides.flatmap(_named) if symbolic else sides, kinds).map(lambda drawn: Aval(*drawn))


def _named(shape: Shape) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(st.sampled_from((n, *NAMES)) for n in shape))
