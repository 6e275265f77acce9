"""Kernels of effects: they bring values to the host, and leave their token as it is: it has no elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import CheckError, DTypeError, ShapeError
from nnc_func.facets.dtypes import as_dtype


def host(array: Any) -> Any:
    """A NumPy array of its own with the elements of any device's array."""
    if hasattr(array, "get"):  # on a GPU
        return array.get()
    if hasattr(array, "to_device") and not isinstance(array, (np.ndarray, np.generic)):
        namespace = array.__array_namespace__()
        array = array.to_device(namespace.Device("CPU_DEVICE"))
    return np.array(array)


def seen(array: Any) -> Any:
    """A NumPy array with the elements of any device's array, which is not to be written to."""
    found = array.view() if type(array) is np.ndarray else host(array)
    found.flags.writeable = False
    return found


def _line(text: str, values: Any) -> str:
    from string import Formatter  # few print

    shown = [host(v)[()] for v in values]  # a tensor of shape () is shown as a number
    if any(field is not None for _, field, _, _ in Formatter().parse(text)):
        return text.format(*shown)
    return " ".join([*([text.format()] if text else []), *map(str, shown)])


def token(xp: Any) -> Any:
    """An array of no elements."""
    return xp.empty((0,), dtype=xp.uint8)


def no_token(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    """There is nothing to write."""


def printed(xp: Any, before: Any, *values: Any, text: str) -> Any:
    """Print a line."""
    print(_line(text, values))
    return token(xp)


def printed_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, text: str) -> None:
    """Print a line."""
    print(_line(text, arrays[1:]))


def checked(xp: Any, before: Any, condition: Any, *values: Any, text: str) -> Any:
    """Raise CheckError unless all elements are true."""
    _check(condition, values, text)
    return token(xp)


def checked_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, text: str) -> None:
    """Raise CheckError unless all elements are true."""
    _check(arrays[1], arrays[2:], text)


def _check(condition: Any, values: Any, text: str) -> None:
    found = host(condition)
    if not found.all():
        at = [int(i) for i in np.argwhere(~found)[0]]
        where = f"; it is false at {at}, {int((~found).sum())} of {found.size} elements" if found.ndim else ""
        raise CheckError(f"check: {_line(text, values) or 'a condition is false'}{where}")


def called(xp: Any, before: Any, *values: Any, function: Any, shapes: Any, dtypes: Any, pure: bool) -> Any:
    """The token, and the function's results as arrays of the device."""
    return token(xp), *map(xp.asarray, _call(values, function, shapes, dtypes, pure))


def called_into(
    xp: Any, arrays: Any, outs: Any, scratch: Any, *, function: Any, shapes: Any, dtypes: Any, pure: bool
) -> None:
    """Write the function's results."""
    for out, result in zip(outs[1:], _call(arrays[1:], function, shapes, dtypes, pure), strict=True):
        out[...] = xp.asarray(result)


def _call(values: Any, function: Any, shapes: Any, dtypes: Any, pure: bool) -> list[Any]:
    found = function(*map(seen if pure else host, values))
    results = list(found) if isinstance(found, (tuple, list)) else [] if found is None else [found]
    if len(results) != len(shapes):
        given = "None" if found is None else f"{len(results)} results"
        raise ShapeError(f"{_name(function)} returned {given}, callback expects {_expected(shapes)}")
    arrays = []
    for i, (result, shape, dtype) in enumerate(zip(results, shapes, dtypes, strict=True)):
        if result is None:
            raise ShapeError(
                f"{_name(function)} returned None as result {i}, callback expects {np.dtype(dtype)} of shape {shape}"
            )
        array = np.asarray(result)
        if array.shape != shape:
            raise ShapeError(
                f"{_name(function)} returned an array of shape {array.shape} as result {i}, callback expects {shape}"
            )
        if not np.can_cast(array.dtype, dtype, "same_kind") and array.dtype != dtype:
            raise DTypeError(
                f"{_name(function)} returned {array.dtype} as result {i}, callback expects {np.dtype(dtype)}; cast it"
            )
        arrays.append(array.astype(as_dtype(dtype)))
    return arrays


def _expected(shapes: Any) -> str:
    """How many results there are to be, and of which shapes."""
    several = "s" * (len(shapes) != 1)
    return f"{len(shapes)} result{several}" + (f" of shape{several} {', '.join(map(str, shapes))}" if shapes else "")


def _name(function: Any) -> str:
    return getattr(function, "__name__", None) or repr(function)
