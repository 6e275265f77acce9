"""Parameters of operators, drawn for operands of given shapes: axes of either sign, several ones, steps, widths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.declaration import REQUIRED
from nnc_func.op import Op
from nnc_func.testing.assignments import DTYPES, usual_parameters

Shape = tuple[int, ...]
Choose = Callable[[int], int]

COPIES = (1, 2, 3, 0)
NUMBERS = (0, 1, -1, 2, -2, 0.5)


def drawn_parameters(op: Op, given: Sequence[Shape], choose: Choose) -> dict[str, Any]:
    """All parameters of the operator, such as it takes with operands of these shapes, mostly.

    Raises
    ------
    IndexError, ValueError, TypeError, ZeroDivisionError
        There are none for such shapes.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> drawn_parameters(CATALOGUE["sum"], [(2, 3)], lambda count: count - 1)
    {'axis': (-1, -2), 'keepdims': True}
    """
    every = {n: d for n, d in op.params.items() if d is not REQUIRED}
    own = DRAWN.get(op.name)
    if own is not None:
        return every | own(given[0] if given else (), choose)
    if op.samples.params is not None:
        return every | op.samples.params(tuple(given), lambda options: one_of(tuple(options), choose))
    if op.samples.cases:
        return every | _of_cases(op, given, choose)
    return every


def one_of(options: Sequence[Any], choose: Choose) -> Any:
    """One of a sequence; failures shrink towards the first."""
    return options[choose(len(options))] if len(options) > 1 else options[0]


def permutation(rank: int, choose: Choose) -> tuple[int, ...]:
    """The axes in some order; that which they have is the simplest."""
    left = list(range(rank))
    return tuple(left.pop(choose(len(left))) for _ in range(rank))


def _of_cases(op: Op, given: Sequence[Shape], choose: Choose) -> dict[str, Any]:
    """Those of one case, in the place of some of which others are drawn by their names."""
    found = usual_parameters(op) | dict(one_of(op.samples.cases, choose)[1])
    if "starts" in found and given and choose(2):
        found |= _sliced(given[0], choose)
    for name, value in found.items():
        if isinstance(value, bool):
            found[name] = bool(choose(2))
        elif name in NAMED and given and choose(2):
            found[name] = NAMED[name](value, given, choose)
    return found


# --- each kind -----------------------------------------------------------------------------------------


def _signed(axes: Sequence[int], rank: int, choose: Choose) -> tuple[int, ...]:
    """The same axes: counted from the front, from the back, or each either way."""
    way = choose(3)
    return tuple(a - rank if way == 1 or (way == 2 and choose(2)) else a for a in axes)


def _axes(shape: Shape, choose: Choose) -> Any:
    """None, one axis, or several, in any order, of either sign; now and then those of extent 1."""
    rank = len(shape)
    kind = choose(4)
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    if kind == 0 or not rank:
        return None if choose(4) < 3 else ()
    if kind == 1:
        return _signed([choose(rank)], rank, choose)[0]
    if kind == 2 and ones:
        return ones
    return _signed(permutation(rank, choose)[: 1 + choose(rank)], rank, choose)


def _reduced(shape: Shape, choose: Choose) -> dict[str, Any]:
    return {"axis": _axes(shape, choose), "keepdims": bool(choose(2))}


def _order(shape: Shape, choose: Choose) -> dict[str, Any]:
    rank = len(shape)
    if not rank or not choose(5):
        return {"axes": None}
    return {"axes": _signed(permutation(rank, choose), rank, choose)}


def _regrouped(shape: Shape, choose: Choose) -> dict[str, Any]:
    """The same, with axes joined, exchanged, halved, put in; now and then an extent is left open."""
    found = list(shape)
    for _ in range(choose(3)):
        at, kind = choose(len(found) + 1), choose(4)
        if kind == 0:
            found.insert(at, 1)
        elif kind == 1 and at + 1 < len(found):
            found[at : at + 2] = [found[at] * found[at + 1]]
        elif kind == 2 and at < len(found):
            whole = found[at]
            part = one_of([d for d in range(1, whole + 1) if whole % d == 0] or [whole], choose)
            found[at : at + 1] = [part, whole // part] if part else [whole]
        else:
            found = [n for n in found if n != 1] if choose(2) else [found[i] for i in permutation(len(found), choose)]
    if math.prod(found) and not choose(4):
        open_ = choose(len(found) + 1)
        found = [*found, -1] if open_ == len(found) else [*found[:open_], -1, *found[open_ + 1 :]]
    return {"shape": tuple(found)}


def _widened(shape: Shape, choose: Choose) -> dict[str, Any]:
    kept = tuple(one_of(COPIES, choose) if n == 1 and choose(2) else n for n in shape)
    return {"shape": (*(one_of((2, 1, 3, 0), choose) for _ in range(choose(3))), *kept)}


def _new_axes(shape: Shape, choose: Choose) -> dict[str, Any]:
    rank, count = len(shape), one_of((1, 2, 1, 2, 0), choose)
    chosen = permutation(rank + count, choose)[:count]
    axes = _signed(chosen, rank + count, choose)
    return {"axis": axes[0] if count == 1 and choose(2) else axes}


def _tiled(shape: Shape, choose: Choose) -> dict[str, Any]:
    return {"repetitions": tuple(one_of(COPIES, choose) for _ in range(choose(len(shape) + 2)))}


def _flipped(shape: Shape, choose: Choose) -> dict[str, Any]:
    return {"axis": _axes(shape, choose)}


def _ones(shape: Shape, choose: Choose) -> dict[str, Any]:
    rank = len(shape)
    ones = _signed([i for i, n in enumerate(shape) if n == 1], rank, choose)
    return {"axis": one_of([tuple(ones), *ones, ()], choose)}


def _sliced(shape: Shape, choose: Choose) -> dict[str, Any]:
    rows = [_bounds(n, choose) for n in shape]
    starts, stops, steps = zip(*rows, strict=True) if rows else ((), (), ())
    return {"starts": starts, "stops": stops, "steps": steps}


def _bounds(n: int, choose: Choose) -> tuple[int, int, int]:
    """All of an axis, every second or third of all, a part, backwards."""
    kind = choose(4)
    if kind in (0, 3) or not n:
        return (0, n, 2 + choose(2) if kind == 3 else 1)
    first, step = choose(n), 1 + choose(3)
    if kind == 1:
        return (first, first + choose(n - first + 1), step)
    return (first, first - choose(first + 2) if first else -1, -step)


def _padded(shape: Shape, choose: Choose) -> dict[str, Any]:
    widths = tuple((choose(3), choose(4)) if choose(2) else (0, 0) for _ in shape)
    return {"widths": widths, "value": one_of(NUMBERS, choose)}


def _filled(shape: Shape, choose: Choose) -> dict[str, Any]:
    return {"shape": shape, "value": one_of(NUMBERS, choose), "dtype": np.dtype(one_of(DTYPES, choose))}


def _clipped(shape: Shape, choose: Choose) -> dict[str, Any]:
    return {"min": one_of((0, -1, -2, 1, 3, None), choose), "max": one_of((2, 6, 1, 0, -1, None), choose)}


DRAWN: dict[str, Callable[[Shape, Choose], dict[str, Any]]] = {
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp"), _reduced),
    "permute_dims": _order, "reshape": _regrouped, "broadcast_to": _widened, "expand_dims": _new_axes,
    "tile": _tiled, "flip": _flipped, "squeeze": _ones, "slice": _sliced, "pad": _padded, "full": _filled,
    "clip": _clipped,
}  # fmt: skip


# --- by their names ------------------------------------------------------------------------------------

Named = Callable[[Any, Sequence[Shape], Choose], Any]


def _along(value: Any, given: Sequence[Shape], choose: Choose) -> Any:
    """An axis, or several where the sample has several, of either sign."""
    rank = max(1, len(given[0]))
    if isinstance(value, int):
        return one_of((0, -1, *range(1, rank), *range(-rank, -1)), choose)
    return _signed(permutation(rank, choose)[: 1 + choose(rank)], rank, choose)


def _paired(value: Any, given: Sequence[Shape], choose: Choose) -> Any:
    """As many axes of two operands, in any order, or a number of them."""
    if not choose(2) or len(given) < 2:
        return choose(3)
    count = choose(1 + min(map(len, given[:2])))
    return tuple(_signed(permutation(len(s), choose)[:count], len(s), choose) for s in given[:2])


def _pair(*options: int) -> Named:
    """Two numbers, one for each axis of images."""
    return lambda value, given, choose: (one_of(options, choose), one_of(options, choose))


def _borders(value: Any, given: Sequence[Shape], choose: Choose) -> Any:
    kind = choose(3)
    return ("VALID", "SAME")[kind] if kind < 2 else tuple((choose(3), choose(3)) for _ in range(2))


def _one_of(*options: Any) -> Named:
    return lambda value, given, choose: one_of(options, choose)


NAMED: dict[str, Named] = {
    "axis": _along, "axes": _paired, "stride": _pair(1, 2, 3), "window": _pair(1, 2, 3), "dilation": _pair(1, 1, 2),
    "padding": _borders, "offset": _one_of(0, 1, -1, 2, -2), "norm": _one_of("backward", "ortho", "forward"),
    "n": _one_of(1, 2, 3, 4, 5, 6), "side": _one_of("left", "right"),
}  # fmt: skip
