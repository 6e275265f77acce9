"""Shape rules: from the shapes of the arguments and the parameters to the shape of the result.

Extents are integers or symbolic dimensions (`nnc_func.facets.dims.Dim`); rules use ordinary arithmetic and
the few questions defined in `dims`, so that both go through them alike.
"""

from __future__ import annotations

from typing import Any

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Extent, broadcast_extents, known, product, same_extent

ShapeT = tuple[Extent, ...]


def normalise_axis(axis: int, rank: int) -> int:
    """The axis counted from the front.

    Raises
    ------
    ShapeError
        It is outside ``-rank … rank - 1``, or None.

    Examples
    --------
    >>> normalise_axis(-1, 3)
    2
    """
    if not rank:
        raise ShapeError(f"axis {axis} of a tensor of rank 0, which has no axes; give it one with expand_dims")
    if axis is None:
        raise ShapeError(
            f"one axis of a tensor of rank {rank} is wanted, given None; flatten it first, or use stack.array_api or "
            "NumPy's function, which do so"
        )
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is outside of a tensor of rank {rank}; wanted {-rank} to {rank - 1}")
    return axis % rank


def normalise_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """All axes counted from the front, in increasing order; None means every one.

    Raises
    ------
    ShapeError
        One is out of range, or one is named twice.
    """
    if axis is None:
        return tuple(range(rank))
    found = [normalise_axis(a, rank) for a in (axis if isinstance(axis, tuple) else (axis,))]
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {axis} name one axis twice, in a tensor of rank {rank}")
    return tuple(sorted(found))


def same(x: ShapeT, *_: ShapeT, **__: Any) -> ShapeT:
    """That of the first argument."""
    return x


def broadcast(*shapes: ShapeT, **_: Any) -> ShapeT:
    """NumPy's broadcasting of all arguments.

    An operator of this rule is elementwise: an element of its result is made of those in the same place of operands,
    and of nothing else. Such operators are fused, and computed in blocks.

    Raises
    ------
    ShapeError
        They do not broadcast.

    Examples
    --------
    >>> broadcast((2, 1), (3,))
    (2, 3)
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    try:
        return tuple(broadcast_extents(column) for column in zip(*padded, strict=True))
    except ShapeError as error:
        raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not broadcast: {error}") from None


def reduced(x: ShapeT, *, axis: Any, keepdims: bool = False, **_: Any) -> ShapeT:
    """Without the reduced axes, or with each of them kept as 1."""
    gone = normalise_axes(axis, len(x))
    if keepdims:
        return tuple(1 if i in gone else n for i, n in enumerate(x))
    return tuple(n for i, n in enumerate(x) if i not in gone)


def given(*_: ShapeT, shape: ShapeT, **__: Any) -> ShapeT:
    """That of the parameter ``shape``.

    Raises
    ------
    ShapeError
        It has a negative extent, or there is none.
    """
    if shape is None or any(known(n) and n < 0 for n in shape):
        raise ShapeError(f"a shape is whole numbers that are not negative, given {shape}")
    return shape


def contracted(a: ShapeT, b: ShapeT, **_: Any) -> ShapeT:
    """Of a batched matrix product; vectors are not promoted: both have rank 2 at least.

    Raises
    ------
    ShapeError
        A rank below 2, inner extents that differ, or batches that do not broadcast.
    """
    if len(a) < 2 or len(b) < 2:
        raise ShapeError(f"matmul wants matrices (rank 2 or more), given shapes {a} and {b}; use expand_dims")
    if not same_extent(a[-1], b[-2]):
        raise ShapeError(f"the inner extents differ: {a} has {a[-1]} columns, {b} has {b[-2]} rows")
    return (*broadcast(a[:-2], b[:-2]), a[-2], b[-1]) if a[:-2] != b[:-2] else (*a[:-2], a[-2], b[-1])


def permuted(x: ShapeT, *, axes: tuple[int, ...] | None, **_: Any) -> ShapeT:
    """With its axes in another order; None reverses them.

    Raises
    ------
    ShapeError
        `axes` is not a permutation.
    """
    if axes is None:
        return x[::-1]
    found = [normalise_axis(a, len(x)) for a in axes]
    if sorted(found) != list(range(len(x))):
        raise ShapeError(f"axes {axes} are not a permutation of the {len(x)} axes of shape {x}")
    return tuple(x[a] for a in found)


def joined(*shapes: ShapeT, axis: int, **_: Any) -> ShapeT:
    """Of a concatenation along one axis.

    Raises
    ------
    ShapeError
        Ranks differ, or extents along another axis do.
    """
    first = shapes[0]
    at = normalise_axis(axis, len(first))
    for s in shapes[1:]:
        if len(s) != len(first) or any(
            i != at and not same_extent(m, n) for i, (m, n) in enumerate(zip(first, s, strict=True))
        ):
            raise ShapeError(f"shapes {first} and {s} differ elsewhere than along axis {axis}, so they do not join")
    total: Extent = sum(s[at] for s in shapes)
    return (*first[:at], total, *first[at + 1 :])


def windows(n: Extent, kernel: int, stride: int, before: int, after: int, dilation: int) -> Extent:
    """How many windows fit along one axis.

    Raises
    ------
    ShapeError
        Not even one does.

    Examples
    --------
    >>> windows(28, 5, 1, 2, 2, 1)
    28
    """
    span = dilation * (kernel - 1) + 1
    total = n + before + after - span
    if known(total) and total < 0:
        raise ShapeError(f"a window of {span} elements does not fit in {n} with padding {before} + {after}")
    return total // stride + 1


def reshaped(x: ShapeT, *, shape: ShapeT, **_: Any) -> ShapeT:
    """The wanted shape; one extent may be -1 and is then computed.

    Raises
    ------
    ShapeError
        The numbers of elements differ, or more than one extent is -1.
    """
    unknown = [i for i, n in enumerate(shape) if known(n) and n == -1]
    if len(unknown) > 1:
        raise ShapeError(f"only one extent may be -1, given {shape}")
    size = product(x)
    if unknown:
        rest = product(tuple(n for n in shape if not (known(n) and n == -1)))
        if known(rest) and rest == 0:
            raise ShapeError(f"cannot find the extent -1 in {shape}: the others have no elements")
        if known(size) and known(rest) and size % rest:
            raise ShapeError(f"cannot reshape {x}, {size} elements, into {shape}: {size} is not a multiple of {rest}")
        found = size // rest
        shape = tuple(found if i == unknown[0] else n for i, n in enumerate(shape))
    elif not same_extent(product(shape), size):
        raise ShapeError(f"cannot reshape {x}, {size} elements, into {shape}, {product(shape)} elements")
    if any(known(n) and n < 0 for n in shape):
        raise ShapeError(f"a shape has no negative extents, given {shape}")
    return shape
