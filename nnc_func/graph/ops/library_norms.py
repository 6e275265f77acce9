"""Groups of operators that normalise rows, layer normalisation, which a library computes in one go, under `fast_math`.

It keeps NaN and infinities, and is as exact; sums are rounded otherwise than a group's, whose bits are those of its
operators one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from nnc_func.body import Application, Body
from nnc_func.device.kernels.onednn import FAST, Run, Scratch, accepted, kernel_of, pad, takes
from nnc_func.device.kernels.onednn_rows import LEAST, bound_rows
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.shapes import normalise_axes
from nnc_func.memo import cached_by_body

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import Primitive

MOST = 1 << 14  # elements of a row: the library sums them one after the other
USUAL = 1e-5  # an epsilon, where it is not known yet: what scratch memory is wanted does not depend on it


@frozen
class Normalisation:
    """A body that normalises rows: ``(x - mean) / sqrt(variance + epsilon) * scale + offset``.

    Attributes
    ----------
    x, epsilon, scale, offset
        Numbers of its parameters; None: there is none.
    axes
        That are reduced, as the body says: of the mean, and of the mean of squares.
    """

    x: int
    epsilon: int | None
    scale: int | None
    offset: int | None
    axes: tuple[Any, Any]


class _Walk:
    """A body from its result backwards."""

    def __init__(self, body: Body) -> None:
        self.body, self.count, self.seen = body, body.parameters, 0

    def application(self, value: int, *names: str) -> Application | None:
        """What makes a value, if that is an operator of such a name."""
        if value < self.count:
            return None
        found = self.body.applications[value - self.count]
        return found if found.op.name in names else None

    def operands(self, value: int, *names: str) -> tuple[int, ...]:
        """The operands of an operator of such a name that makes a value, which is seen now; or none."""
        found = self.application(value, *names)
        self.seen += found is not None
        return found.operands if found is not None else ()

    def beside_parameter(self, value: int, name: str) -> tuple[int, int] | None:
        """Of an operator of two operands the one that is made, and the one that is a parameter."""
        found = self.application(value, name)
        if found is None or sum(each < self.count for each in found.operands) != 1:
            return None
        self.seen += 1
        first, second = found.operands
        return (second, first) if first < self.count else (first, second)

    def mean(self, value: int) -> tuple[int, Any] | None:
        """The operand of a mean that keeps the axes that it reduces, and these."""
        found = self.application(value, "mean")
        if found is None or not found.params["keepdims"]:
            return None
        self.seen += 1
        return found.operands[0], found.params["axis"]


@cached_by_body(1024)
def normalisation(body: Body) -> Normalisation | None:
    """The body as one that normalises rows; None where it does something else.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> rows = {"axis": -1, "keepdims": True}
    >>> body = Body.of(
    ...     2, (OPS["mean"], 0, rows), (OPS["subtract"], 0, 2), (OPS["square"], 3), (OPS["mean"], 4, rows),
    ...     (OPS["add"], 5, 1), (OPS["sqrt"], 6), (OPS["divide"], 3, 7),
    ... )
    >>> normalisation(body)
    Normalisation(x=0, epsilon=1, scale=None, offset=None, axes=(-1, -1))
    """
    if len(body.results) != 1:
        return None
    walk, value = _Walk(body), body.results[0]
    scale = offset = None
    if (found := walk.beside_parameter(value, "add")) is not None:
        value, offset = found
    if (found := walk.beside_parameter(value, "multiply")) is not None:
        value, scale = found
    centred, root = _quotient(walk, value)
    if centred is None or root is None:
        return None
    inside = walk.operands(root, "sqrt")
    if not inside:
        return None
    total, epsilon = walk.beside_parameter(inside[0], "add") or (inside[0], None)
    variance = walk.mean(total)
    if variance is None or set(walk.operands(variance[0], "square", "multiply")) != {centred}:
        return None
    less = walk.operands(centred, "subtract")
    if not less or less[0] >= walk.count:
        return None
    mean = walk.mean(less[1])
    if mean is None or mean[0] != less[0] or walk.seen != len(body.applications):
        return None
    return Normalisation(less[0], epsilon, scale, offset, (mean[1], variance[1]))


def _quotient(walk: _Walk, value: int) -> tuple[int | None, int | None]:
    """What is divided, and by what: by a quotient, or as a product with a reciprocal."""
    found = walk.operands(value, "divide")
    if found:
        return found[0], found[1]
    found = walk.operands(value, "multiply")
    for one, other in (found, found[::-1]) if found else ():
        if (by := walk.operands(other, "reciprocal")) and one >= walk.count:
            return one, by[0]
    return None, None


def _shape_of(avals: Any, body: Body) -> tuple[int, int] | None:
    """Rows and columns, where all fits: float32, row by row, normalised along the last axis."""
    found = normalisation(body)
    if found is None or not takes(avals) or math.prod(avals[found.x].shape) < LEAST:
        return None
    x = avals[found.x]
    rank, columns = len(x.shape), x.shape[-1] if x.shape else 0
    if any(tuple(normalise_axes(axis, rank)) != (rank - 1,) for axis in found.axes) or not 1 < columns <= MOST:
        return None
    if getattr(x, "layout", None) is not None:
        return None
    for beside in (found.scale, found.offset):
        if beside is not None and (math.prod(avals[beside].shape) != columns or avals[beside].shape[-1] != columns):
            return None
    if found.epsilon is not None:
        number = avals[found.epsilon].shape
        if math.prod(number) != 1 or len(number) > rank:
            return None
    return math.prod(x.shape) // columns, columns


def _primitive(avals: Any, body: Body, epsilon: float = USUAL) -> Primitive:
    from nnc_func.device.onednn.rows import normalisation as made

    found, shape = normalisation(body), _shape_of(avals, body)
    assert found is not None
    assert shape is not None
    return made(*shape, found.scale is not None, found.offset is not None, epsilon)


def _takes(avals: Any, *, body: Body) -> bool:
    return _shape_of(avals, body) is not None and accepted(_primitive, avals, body)


def _scratch(avals: Any, *, body: Body) -> Scratch:
    return pad(_primitive(avals, body))


def _bound(avals: Any, *, body: Body) -> Callable[..., Run]:
    given, found = avals[:-1], normalisation(body)
    assert found is not None
    places = [place for place in (found.x, found.scale, found.offset) if place is not None]

    def of(*scratch: Any) -> Run:
        known: dict[float, Run] = {}

        def run(*arrays: Any) -> None:
            epsilon = 0.0 if found.epsilon is None else arrays[found.epsilon].item()
            call = known.get(epsilon)
            if call is None:
                known.clear()
                call = known[epsilon] = bound_rows(_primitive(given, body, epsilon), len(places))(*scratch)
            call(*[arrays[place] for place in places], arrays[-1])

        return run

    return of


def _empty(*arrays: Any, body: Body) -> Any:
    found = normalisation(body)
    assert found is not None
    return (np.empty(arrays[found.x].shape, np.float32),)


def _overwrites(count: int, *, body: Body) -> tuple[tuple[int, ...]]:
    found = normalisation(body)
    is_alone = found is not None and found.x not in (found.scale, found.offset)
    return ((found.x,),) if found is not None and is_alone else ((),)


LIBRARY_NORMALISATION: Kernel = kernel_of(
    "onednn, fast math", _bound, _scratch, _takes, _empty, overwrites=_overwrites, library=FAST
)
