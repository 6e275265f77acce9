"""Python's operators for whatever flows through a stack: tensors, derivatives' carriers, variables of rules."""

from __future__ import annotations

import operator as python
from typing import Any

import numpy as np

from nnc_func.declaration import extent
from nnc_func.errors import ShapeError
from nnc_func.facets.dims import known
from nnc_func.graph.ops import CATALOGUE

OPS = CATALOGUE


class Arithmetic:
    """``+ - * / // % ** @``, ``& | ^ ~`` of booleans, comparisons: all through one abstract `_bind`."""

    __slots__ = ()

    def _bind(self, op: Any, *args: Any, **params: Any) -> Any:
        raise TypeError(f"{type(self).__name__} defines no _bind, so {op.name} cannot be applied to it")

    def __add__(self, other: Any) -> Any:
        return self._bind(ADD, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._bind(ADD, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._bind(SUBTRACT, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._bind(SUBTRACT, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._bind(MULTIPLY, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._bind(MULTIPLY, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._bind(DIVIDE, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._bind(DIVIDE, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._bind(OPS["floor_divide"], self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._bind(OPS["floor_divide"], other, self)

    def __mod__(self, other: Any) -> Any:
        return self._bind(OPS["remainder"], self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._bind(OPS["remainder"], other, self)

    def __pow__(self, other: Any) -> Any:
        return self._bind(OPS["power"], self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._bind(OPS["power"], other, self)

    def __matmul__(self, other: Any) -> Any:
        return self._bind(MATMUL, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._bind(MATMUL, other, self)

    def __neg__(self) -> Any:
        return self._bind(OPS["negative"], self)

    def __abs__(self) -> Any:
        return self._bind(OPS["abs"], self)

    def __and__(self, other: Any) -> Any:
        return self._bind(OPS["logical_and"], self, other)

    def __rand__(self, other: Any) -> Any:
        return self._bind(OPS["logical_and"], other, self)

    def __or__(self, other: Any) -> Any:
        return self._bind(OPS["logical_or"], self, other)

    def __ror__(self, other: Any) -> Any:
        return self._bind(OPS["logical_or"], other, self)

    def __xor__(self, other: Any) -> Any:
        return self._bind(OPS["logical_xor"], self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._bind(OPS["logical_xor"], other, self)

    def __invert__(self) -> Any:
        return self._bind(OPS["logical_not"], self)

    def __lt__(self, other: Any) -> Any:
        return self._bind(OPS["less"], self, other)

    def __le__(self, other: Any) -> Any:
        return self._bind(OPS["less_equal"], self, other)

    def __gt__(self, other: Any) -> Any:
        return self._bind(OPS["greater"], self, other)

    def __ge__(self, other: Any) -> Any:
        return self._bind(OPS["greater_equal"], self, other)


ADD, SUBTRACT, MULTIPLY = OPS["add"], OPS["subtract"], OPS["multiply"]
DIVIDE, MATMUL = OPS["divide"], OPS["matmul"]


def sliced(bind: Any, x: Any, key: Any) -> Any:
    """``x[key]`` by slice, reshape and take: integers, slices, None, ``...`` and one integer tensor.

    Raises
    ------
    ShapeError
        Too many indices, an index out of range, or a slice along an unknown extent that needs its value.
    """
    parts = _filled(key if isinstance(key, tuple) else (key,), x.shape)
    starts, stops, steps, shape, takes = [], [], [], [], []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        n = x.shape[axis]
        axis += 1
        if isinstance(part, slice):
            start, stop, step, size = _bounds(part, n)
            shape.append(size)
        elif isinstance(part, (int, np.integer)) or not known(part):
            at = extent(part)
            if known(n) and known(at) and not -n <= at < n:
                raise ShapeError(f"index {at} is outside of axis {axis - 1} of shape {x.shape}")
            start = _bound(at, n, 0)
            stop, step = start + 1, 1
        else:
            takes.append((len(shape), part))
            start, stop, step = 0, n, 1
            shape.append(n)
        starts.append(start)
        stops.append(stop)
        steps.append(step)
    if any(s != 0 or e != n or d != 1 for s, e, d, n in zip(starts, stops, steps, x.shape, strict=True)):
        x = bind(OPS["slice"], x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))
    if tuple(shape) != tuple(x.shape):
        x = bind(OPS["reshape"], x, shape=tuple(shape))
    if len(takes) > 1:
        raise ShapeError("only one axis may be indexed by a tensor at once; use take one axis after the other")
    for at, indices in takes:
        x = bind(OPS["take"], x, indices, axis=at)
    return x


def _filled(key: tuple[Any, ...], shape: tuple[Any, ...]) -> list[Any]:
    used = sum(part is not None and part is not Ellipsis for part in key)
    if used > len(shape):
        raise ShapeError(f"{used} indices for a tensor of rank {len(shape)}, shape {shape}")
    dots = [i for i, part in enumerate(key) if part is Ellipsis]
    if len(dots) > 1:
        raise ShapeError("an index has one ... at most")
    at = dots[0] if dots else len(key)
    return [*key[:at], *[slice(None)] * (len(shape) - used), *key[at + 1 :]]


def _bounds(part: slice, n: Any) -> tuple[Any, Any, int, Any]:
    if part == slice(None):
        return 0, n, 1, n
    if known(n) and known(part.start) and known(part.stop):
        start, stop, step = part.indices(n)
        return start, stop if step > 0 else max(stop, -1), step, len(range(start, stop, step))
    step = 1 if part.step is None else python.index(part.step)
    if step == 0:
        raise ShapeError("a slice has no step of 0")
    start = _bound(part.start, n, 0 if step > 0 else n - 1)
    stop = _bound(part.stop, n, n if step > 0 else -1)  # -1 stands before the first element
    distance = stop - start if step > 0 else start - stop
    return start, stop, step, (distance + abs(step) - 1) // abs(step)


def _bound(given: Any, n: Any, otherwise: Any) -> Any:
    """A bound of a slice, which is taken to lie within the axis; a negative one counts from the end."""
    if given is None:
        return otherwise
    bound = extent(given)
    return n + bound if known(bound) and bound < 0 else bound
