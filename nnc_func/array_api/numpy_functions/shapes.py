"""NumPy's functions of shape and order: joining, splitting, padding, axes that are added or exchanged."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.shapes import normalise_axis

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def flat(xp: ArrayNamespace, x: Any) -> Any:
    """The elements of a tensor, in C order, as a vector.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> flat(nnc.eager().array_api, [[1, 2], [3, 4]]).numpy()
    array([1, 2, 3, 4])
    """
    x = xp.asarray(x)
    return x if x.ndim == 1 else xp.reshape(x, (-1,))


def part(x: Any, axis: int, start: Any, stop: Any) -> Any:
    """A part of a tensor along one axis.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> part(nnc.eager().asarray([[1, 2, 3]]), 1, 1, None).numpy()
    array([[2, 3]])
    """
    return x[(slice(None),) * axis + (slice(start, stop),)]


# --- another shape --------------------------------------------------------------------------------------------


def _reshape(xp: ArrayNamespace, /, *, a: Any, shape: Any) -> Any:
    return xp.reshape(a, shape)


def _ravel(xp: ArrayNamespace, /, *, a: Any) -> Any:
    return xp.reshape(a, (-1,))


def _transpose(xp: ArrayNamespace, /, *, a: Any, axes: Any = None) -> Any:
    return xp.ops.permute_dims(a, axes=axes)


def _swapaxes(xp: ArrayNamespace, /, *, a: Any, axis1: int, axis2: int) -> Any:
    return xp.ops.swapaxes(a, axis1=axis1, axis2=axis2)


def _rollaxis(xp: ArrayNamespace, /, *, a: Any, axis: int, start: int = 0) -> Any:
    x = xp.asarray(a)
    axis = normalise_axis(axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    if not 0 <= start <= x.ndim:
        raise ShapeError(f"rollaxis: an axis of a tensor of rank {x.ndim} cannot be put before axis {start}")
    return xp.moveaxis(x, axis, start - (axis < start))


def _squeeze(xp: ArrayNamespace, /, *, a: Any, axis: Any = None) -> Any:
    x = xp.asarray(a)
    return xp.squeeze(x, tuple(i for i, n in enumerate(x.shape) if n == 1) if axis is None else axis)


def _at_least(rank: int, place: Callable[[Any], Any]) -> Callable[..., Any]:
    """``atleast_1d`` and its like: the shape of a tensor of a lower rank is told by its own."""

    def raised(xp: ArrayNamespace, /, *arys: Any) -> Any:
        found = [xp.asarray(x) for x in arys]
        found = [x if x.ndim >= rank else xp.reshape(x, place(tuple(x.shape))) for x in found]
        return found[0] if len(found) == 1 else tuple(found)

    return raised


def _as_volume(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    return (1, *shape, 1) if len(shape) == 1 else (*(1,) * (2 - len(shape)), *shape, 1)


def _fliplr(xp: ArrayNamespace, /, *, m: Any) -> Any:
    return xp.flip(m, axis=1)


def _flipud(xp: ArrayNamespace, /, *, m: Any) -> Any:
    return xp.flip(m, axis=0)


def _resize(xp: ArrayNamespace, /, *, a: Any, new_shape: Any) -> Any:
    x, shape = flat(xp, a), (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    wanted = int(np.prod(shape))
    if wanted == 0 or x.size == 0:
        return xp.zeros(shape, dtype=x.dtype)
    return xp.reshape(xp.tile(x, (-(-wanted // x.size),))[:wanted], shape)


# --- joining --------------------------------------------------------------------------------------------------


def _append(xp: ArrayNamespace, /, *, arr: Any, values: Any, axis: int | None = None) -> Any:
    return xp.concat([xp.asarray(arr), xp.asarray(values)], axis=axis)


def _stacked(axis: int, place: Callable[[Any], Any], least: int) -> Callable[..., Any]:
    """``hstack``, ``vstack`` and their like: what has too few axes gets them first."""
    raised = _at_least(least, place)

    def stacked(xp: ArrayNamespace, /, *, tup: Any, dtype: Any = None) -> Any:
        found = [raised(xp, x) for x in tup]
        found = found if dtype is None else [xp.astype(x, dtype) for x in found]
        return xp.concat(found, axis=0 if found and found[0].ndim == 1 else axis)

    return stacked


def _column_stack(xp: ArrayNamespace, /, *, tup: Any) -> Any:
    found = [xp.asarray(x) for x in tup]
    return xp.concat([xp.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in found], axis=1)


def _block(xp: ArrayNamespace, /, *, arrays: Any) -> Any:
    depth = _depth(arrays)
    rank = max(depth, *(xp.asarray(x).ndim for x in _leaves(arrays)))

    def joined(tree: Any, level: int) -> Any:
        if isinstance(tree, list):
            return xp.concat([joined(each, level + 1) for each in tree], axis=rank - depth + level)
        x = xp.asarray(tree)
        return xp.reshape(x, (*(1,) * (rank - x.ndim), *x.shape))

    return joined(arrays, 0)


def _depth(tree: Any) -> int:
    return 1 + _depth(tree[0]) if isinstance(tree, list) and tree else 0


def _leaves(tree: Any) -> list[Any]:
    return [leaf for each in tree for leaf in _leaves(each)] if isinstance(tree, list) else [tree]


# --- splitting ------------------------------------------------------------------------------------------------


def _split_by(split: Any, axis_of: Callable[[int], int | None]) -> Callable[..., Any]:
    """``split`` and its like: where the parts begin and end is what NumPy says of the numbers of the slices."""

    def parts(xp: ArrayNamespace, /, *, ary: Any, indices_or_sections: Any, axis: int | None = None) -> Any:
        x, given = xp.asarray(ary), 0 if axis is None else axis
        fixed = axis_of(x.ndim)
        at = normalise_axis(given if fixed is None else fixed, x.ndim)
        numbers = split(np.arange(x.shape[at]), indices_or_sections)
        return [part(x, at, n[0], n[-1] + 1) if len(n) else part(x, at, 0, 0) for n in numbers]

    return parts


def _given_axis(rank: int) -> int | None:
    return None


def _axis_of_columns(rank: int) -> int:
    if rank < 1:
        raise ShapeError("hsplit wants a tensor of rank 1 or more")
    return 0 if rank == 1 else 1


def _axis_of(name: str, axis: int) -> Callable[[int], int]:
    def found(rank: int) -> int:
        if rank <= axis + (name == "vsplit"):
            raise ShapeError(f"{name} wants a tensor of rank {max(axis + 1, 2)} or more, given rank {rank}")
        return axis

    return found


# --- more and fewer elements ------------------------------------------------------------------------------------


def _delete(xp: ArrayNamespace, /, *, arr: Any, obj: Any, axis: int | None = None) -> Any:
    x = xp.asarray(arr) if axis is not None else flat(xp, arr)
    at = normalise_axis(axis or 0, x.ndim)
    return xp.take(x, np.delete(np.arange(x.shape[at]), _known(obj)), axis=at)


def _insert(xp: ArrayNamespace, /, *, arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    x = xp.asarray(arr) if axis is not None else flat(xp, arr)
    at, where = normalise_axis(axis or 0, x.ndim), _known(obj)
    count, new = x.shape[at], xp.astype(xp.asarray(values), x.dtype)
    one = np.ndim(where) == 0 and not isinstance(where, slice)
    if one:
        new = xp.reshape(new, (*(1,) * (x.ndim - new.ndim), *new.shape))
        new = xp.moveaxis(new, 0, at)
        more = new.shape[at]
    else:
        more = len(np.insert(np.arange(count), where, 0)) - count
    new = xp.broadcast_to(new, (*x.shape[:at], more, *x.shape[at + 1 :]))
    numbers = np.insert(np.arange(count), where, np.arange(count, count + more))
    return xp.take(xp.concat([x, new], axis=at), numbers, axis=at)


def _known(obj: Any) -> Any:
    return obj if isinstance(obj, (int, slice)) else np.asarray(obj)


MEASURED = {"maximum": "max", "minimum": "min", "mean": "mean"}


def _pad(xp: ArrayNamespace, /, *, array: Any, pad_width: Any, mode: Any = "constant", **how: Any) -> Any:
    x = xp.asarray(array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - x.ndim, 0)) for i in range(x.ndim)]
        pad_width = [(w, w) if isinstance(w, int) else w for w in pad_width]
    widths = tuple(map(tuple, np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()))
    values = how.pop("constant_values", 0) if mode == "constant" else 0
    if how:
        raise OperatorError(f"numpy.pad with {', '.join(how)} does not work on tensors; the mode alone does")
    if mode in ("constant", "empty"):
        return _pad_constant(xp, x, widths, values)
    if mode in MEASURED or mode == "median":
        return _pad_measured(xp, x, widths, mode)
    return xp.ops.pad_mode(x, widths=widths, mode=mode)


def _pad_constant(xp: ArrayNamespace, x: Any, widths: Any, values: Any) -> Any:
    if np.ndim(values) == 0:
        return xp.ops.pad(x, widths=widths, value=x.dtype.type(values).item())
    for axis, sides in enumerate(np.broadcast_to(np.asarray(values), (x.ndim, 2))):
        for side, value in enumerate(sides):
            one = (widths[axis][0], 0) if side == 0 else (0, widths[axis][1])
            around = tuple(one if i == axis else (0, 0) for i in range(x.ndim))
            x = xp.ops.pad(x, widths=around, value=x.dtype.type(value).item())
    return x


def _pad_measured(xp: ArrayNamespace, x: Any, widths: Any, mode: str) -> Any:
    for axis, (before, after) in enumerate(widths):
        measure = getattr(xp, MEASURED[mode]) if mode in MEASURED else xp.ops.median
        middle = measure(x, axis=axis, keepdims=True)
        if middle.dtype != x.dtype:
            middle = xp.astype(xp.round(middle), x.dtype)
        sides = [xp.repeat(middle, width, axis=axis) for width in (before, after)]
        x = xp.concat([sides[0], x, sides[1]], axis=axis)
    return x


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "reshape": _reshape, "ravel": _ravel, "transpose": _transpose, "swapaxes": _swapaxes, "rollaxis": _rollaxis,
    "squeeze": _squeeze, "fliplr": _fliplr, "flipud": _flipud, "resize": _resize,
    "atleast_1d": _at_least(1, lambda shape: (1,)),
    "atleast_2d": _at_least(2, lambda shape: (1,) * (2 - len(shape)) + shape),
    "atleast_3d": _at_least(3, _as_volume),
    "append": _append, "block": _block, "column_stack": _column_stack,
    "hstack": _stacked(1, lambda shape: (1,), 1),
    "vstack": _stacked(0, lambda shape: (1,) * (2 - len(shape)) + shape, 2),
    "dstack": _stacked(2, _as_volume, 3),
    "array_split": _split_by(np.array_split, _given_axis), "split": _split_by(np.split, _given_axis),
    "hsplit": _split_by(np.split, _axis_of_columns), "vsplit": _split_by(np.split, _axis_of("vsplit", 0)),
    "dsplit": _split_by(np.split, _axis_of("dsplit", 2)),
    "delete": _delete, "insert": _insert, "pad": _pad,
    "shape": lambda xp, /, *, a: a.shape, "ndim": lambda xp, /, *, a: a.ndim,
    "size": lambda xp, /, *, a, axis=None: a.size if axis is None else a.shape[axis],
}  # fmt: skip
