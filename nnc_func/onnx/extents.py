"""Operators on small arrays of integers that are known while a model is traced, symbolic extents among them.

Shapes are computed in ONNX by nodes like any others: ``Shape``, ``Gather``, ``Concat``, ``Mul``… What these make of
known integers and symbolic extents decides the shapes of tensors, so that it is computed while the model is traced. A
function here returns NotImplemented where it has no answer; the operator's entry is called then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nnc_func.facets.dims import Dim

LARGEST = 1024
"""More elements than this are data, and no shape."""


def is_extents(value: Any) -> bool:
    """Whether a value is a small array of integers or booleans that are known, or symbolic extents."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iubO" and value.size <= LARGEST


def settled(array: Any) -> Any:
    """An array of extents, of int64 where none of them is symbolic.

    Examples
    --------
    >>> settled(np.array([2, 3], object)).dtype
    dtype('int64')
    """
    found = np.asarray(array)
    if found.dtype == object and not any(isinstance(n, Dim) for n in found.ravel().tolist()):
        return found.astype(np.int64)
    return found


def shape_array(shape: tuple[Any, ...]) -> Any:
    """A shape as an array: of integers, or with symbolic extents in it."""
    symbolic = any(isinstance(n, Dim) for n in shape)
    found = np.empty(len(shape), object) if symbolic else np.zeros(len(shape), np.int64)
    found[:] = shape
    return found


def _identity(o: Any, x: Any) -> Any:
    return x


def _cast(o: Any, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    dtype = o.dtype(to)
    if x.dtype == object:
        return x if dtype == np.int64 else NotImplemented
    return x.astype(dtype) if dtype.kind in "iub" else NotImplemented


def _gather(o: Any, x: Any, indices: Any, *, axis: int = 0) -> Any:
    if indices.dtype == object or not -x.ndim <= axis < x.ndim:
        return NotImplemented
    extent = x.shape[axis]
    if not np.all((indices >= -extent) & (indices < extent)):
        return NotImplemented
    return _array(np.take(x, indices, axis=axis))


def _concat(o: Any, *xs: Any, axis: int) -> Any:
    if any(x.ndim != 1 for x in xs):
        return NotImplemented
    return np.concatenate(xs)


def _squeeze(o: Any, x: Any, axes: Any = None) -> Any:
    if axes is None:
        return _array(np.squeeze(x))
    return _array(np.squeeze(x, o.axes(axes, x.ndim)))


def _unsqueeze(o: Any, x: Any, axes: Any) -> Any:
    listed = o.integers(axes)
    return np.expand_dims(x, o.axes(listed, x.ndim + len(listed)))


def _slice(o: Any, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    given = [starts, ends, *(a for a in (axes, steps) if a is not None)]
    if x.ndim != 1 or any(a.dtype == object or a.shape != (1,) for a in given):
        return NotImplemented
    step = 1 if steps is None else int(steps[0])
    if not step or (axes is not None and int(axes[0]) not in (0, -1)):
        return NotImplemented
    start, end = int(starts[0]), int(ends[0])
    n = len(x)
    start, end = (each + n if each < 0 else each for each in (start, end))
    low, high = (0, n) if step > 0 else (-1, n - 1)
    start, end = min(max(start, 0), high), min(max(end, low), n)
    return x[list(range(start, end, step))]


def _reshape(o: Any, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    listed = o.integers(shape)
    if shape.dtype == object or 0 in listed or listed.count(-1) > 1:
        return NotImplemented
    return x.reshape(listed)


def _array(found: Any) -> Any:
    """What NumPy makes of objects, as an array: a rank of 0 is not unpacked."""
    if isinstance(found, np.ndarray):
        return found
    made = np.empty((), object if isinstance(found, Dim) else np.asarray(found).dtype)
    made[()] = found
    return made


def _by_elements(function: Callable[[Any, Any], Any], least: int | None = None) -> Callable[..., Any]:
    def computed(o: Any, a: Any, b: Any) -> Any:
        objects = a.dtype == object or b.dtype == object
        if not objects and least is not None and (np.any(a < least) or np.any(b < 1)):
            return NotImplemented
        if objects and (a.dtype.kind not in "iO" or b.dtype.kind not in "iO"):
            return NotImplemented
        if objects and least is not None and any(type(n) is int and n < least for n in a.ravel().tolist()):
            return NotImplemented
        if objects and least is not None and any(type(n) is int and n < 1 for n in b.ravel().tolist()):
            return NotImplemented
        return _array(function(a, b))

    return computed


def _equal(o: Any, a: Any, b: Any) -> Any:
    if a.dtype != object and b.dtype != object:
        return _array(np.equal(a, b))
    a, b = np.broadcast_arrays(a, b)
    found = np.zeros(a.shape, bool)
    for place in np.ndindex(a.shape):
        left, right = a[place], b[place]
        if isinstance(left, Dim) != isinstance(right, Dim):
            number = right if isinstance(left, Dim) else left
            if number >= 0:
                return NotImplemented  # an extent may be any number from 0 on
        elif isinstance(left, Dim) and left != right:
            return NotImplemented
        else:
            found[place] = left == right
    return found


def _where(o: Any, condition: Any, a: Any, b: Any) -> Any:
    if condition.dtype != np.bool_:
        return NotImplemented
    return _array(np.where(condition, a, b))


def _constant_of_shape(o: Any, shape: Any, *, value: Any = None) -> Any:
    listed = o.integers(shape)
    if shape.dtype == object or value is None or value.dtype.kind not in "iub" or any(n < 0 for n in listed):
        return NotImplemented
    return np.full(listed, value.ravel()[0]) if int(np.prod(listed, dtype=object)) <= LARGEST else NotImplemented


def _product(o: Any, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    if x.ndim != 1 or noop_with_empty_axes or x.dtype not in (object, np.int64):
        return NotImplemented
    total: Any = 1
    for n in x.tolist():
        total = total * n
    found = _array(total) if isinstance(total, Dim) else np.array(total, np.int64)
    return found.reshape(1) if keepdims else found


def _product_by_attribute(o: Any, x: Any, axes: Any = None, *, keepdims: int = 1, **rest: Any) -> Any:
    return _product(o, x, axes, keepdims=keepdims, noop_with_empty_axes=rest.get("noop_with_empty_axes", 0))


def _range(o: Any, start: Any, limit: Any, delta: Any, **rest: Any) -> Any:
    if any(x.dtype == object or x.size != 1 for x in (start, limit, delta)) or not delta.item():
        return NotImplemented
    steps = range(start.item(), limit.item(), delta.item())
    return np.array(steps, start.dtype) if len(steps) <= LARGEST else NotImplemented


EXTENTS: Mapping[str, Callable[..., Any]] = {
    "Identity": _identity,
    "Cast": _cast,
    "Gather": _gather,
    "Concat": _concat,
    "Reshape": _reshape,
    "Add": _by_elements(np.add),
    "Sub": _by_elements(np.subtract),
    "Mul": _by_elements(np.multiply),
    "Div": _by_elements(np.floor_divide, least=0),
    "Equal": _equal,
    "Where": _where,
    "ConstantOfShape": _constant_of_shape,
    "ReduceProd": _product_by_attribute,
    "Range": _range,
    "Squeeze": lambda o, x, axes=None: _squeeze(o, x, axes),
    "Unsqueeze": lambda o, x, axes: _unsqueeze(o, x, axes),
    "Slice": lambda o, x, starts, ends, axes=None, steps=None: _slice(o, x, starts, ends, axes, steps),
}
"""By name, of ONNX's own domain; attributes or inputs, whichever a version has."""
