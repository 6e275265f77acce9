"""Shape rules in one term each: what the operators' own rules say, without a path for every comparison they make.

Any other rule is run as it is, and gives the same; tests compare these with the operators' own.
"""

from __future__ import annotations

from typing import Any

import z3

from nnc_func.errors import ShapeError
from nnc_func.facets import movement, shapes
from nnc_func.facets.dims import product
from nnc_func.testing.proofs.paths import current, term_of, whole

Shape = tuple[Any, ...]


def shape_of(op: Any, of: tuple[Shape, ...], params: dict[str, Any]) -> Shape:
    """The shape of an operator's result.

    Raises
    ------
    ShapeError
        There is none, on this path.
    """
    rule = IN_ONE_TERM.get(op.shape, op.shape)
    found: Shape = rule(*of, **params)
    return found


def _must(condition: Any, what: str) -> None:
    """Take the path on which it holds: on the other there is no such tensor, and nothing to prove."""
    condition = z3.simplify(condition)
    if z3.is_false(condition) or current().entails(z3.Not(condition)):
        raise ShapeError(what)
    current().assume(condition)


def together(*of: Shape, **_: Any) -> Shape:
    """`nnc_func.facets.shapes.broadcast`."""
    rank = max(map(len, of))
    padded = [(1,) * (rank - len(s)) + s for s in of]
    return tuple(_extent(column) for column in zip(*padded, strict=True))


def _extent(column: tuple[Any, ...]) -> Any:
    found: Any = 1
    for n in column:
        m, k = term_of(found), term_of(n)
        _must(z3.Or(m == k, m == 1, k == 1), f"{found} against {n}")
        found = whole(z3.If(m == 1, k, m))
    return found


def widened(x: Shape, *, shape: Shape, **_: Any) -> Shape:
    """`nnc_func.facets.movement.broadcast_to`."""
    if len(x) > len(shape):
        raise ShapeError("it has fewer axes")
    pairs = [(term_of(m), term_of(n)) for m, n in zip(x[::-1], shape[::-1], strict=False)]
    fits = [z3.Or(m == 1, m == n) for m, n in pairs]
    _must(z3.And(*fits, *(term_of(n) >= 0 for n in shape)), "it does not broadcast")
    return shape


def reshaped(x: Shape, *, shape: Shape, **_: Any) -> Shape:
    """`nnc_func.facets.shapes.reshaped`; that products are equal is assumed, as nobody decides when they can be."""
    left = [i for i, n in enumerate(shape) if type(n) is int and n == -1]
    size, rest = product(x), product(tuple(n for i, n in enumerate(shape) if i not in left))
    if len(left) > 1 or any(type(n) is int and n < -1 for n in shape):
        raise ShapeError("an extent is negative")
    if left:
        _must(term_of(rest) != 0, "no extent can be found")
        found = size // rest
        shape = tuple(found if i in left else n for i, n in enumerate(shape))
        rest = rest * found
    _must_be(term_of(rest) == term_of(size))
    return shape


def _must_be(condition: Any) -> None:
    condition = z3.simplify(condition)
    if z3.is_false(condition):
        raise ShapeError("the numbers of elements differ")
    current().assume(condition)


def sliced(x: Shape, *, starts: Shape, stops: Shape, steps: Shape, **_: Any) -> Shape:
    """`nnc_func.facets.movement.sliced`, by steps that are known."""
    if not all(type(step) is int for step in steps) or not len(x) == len(starts) == len(stops) == len(steps):
        return movement.sliced(x, starts=starts, stops=stops, steps=steps)
    return tuple(map(_count, x, starts, stops, steps))


def _count(extent: Any, start: Any, stop: Any, step: int) -> Any:
    if step == 0:
        raise ShapeError("a step of 0")
    n, a, b = map(term_of, (extent, start, stop))
    least = 0 if step > 0 else -1
    inside = [least <= a, a <= n, least <= b, b <= n]
    _must(z3.And(*inside, z3.Or(a < n, a == b) if step < 0 else z3.BoolVal(True)), "a bound is outside of its axis")
    count = whole(((b - a if step > 0 else a - b) + (abs(step) - 1)) / abs(step))
    return whole(z3.If(term_of(count) < 0, 0, term_of(count)))


IN_ONE_TERM = {
    shapes.reshaped: reshaped,
    shapes.broadcast: together,
    movement.broadcast_to: widened,
    movement.sliced: sliced,
}
