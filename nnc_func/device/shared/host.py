"""What devices are given: data of the host, of which they make arrays; arrays, which they copy; and what is neither."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from nnc_func.errors import DeviceError, NncError
from nnc_func.facets.dtypes import as_dtype, check_conversion, is_bfloat16, kind_of, scalar

HOST = (np.ndarray, np.generic)  # data that is nobody's yet, as Python numbers and lists are
ELSEWHERE = ("__array_namespace__", "__cuda_array_interface__")  # what arrays of other devices have, one or the other
SHOWN = 60  # letters of a value in a message
WANTED = "give a number, a list of numbers whose rows have one length, an array or a tensor"
RAGGED = "its rows have different lengths; give rows of one length, or a tensor for each"


def foreign(device: Any, array: Any, what: str) -> DeviceError:
    """The refusal of an array that lives elsewhere."""
    kind = f"{type(array).__module__}.{type(array).__name__}"
    if not hasattr(array, "shape"):
        given = f"{shortened(array)}, a {kind.removeprefix('builtins.')}"
        return DeviceError(f"{what} on {device!r} wants tensors, arrays and numbers, given {given}; {WANTED}")
    place = getattr(array, "device", None)
    return DeviceError(
        f"{what} on {device!r} was given a {kind}{f' on {place}' if place else ''}, which is no array of this device; "
        "bring its value over by way of the host: stack.asarray(other.to_numpy(x))"
    )


def numbers(device: Any, value: Any, dtype: Any = None) -> Any:
    """Data of the host as a NumPy array: what devices make their arrays of.

    Raises
    ------
    DeviceError
        The value is not numbers, or an array of another device: those move where the user says so, and only there.
    DTypeError
        It is complex, and the dtype is not.
    """
    check_conversion(value, dtype)
    if any(hasattr(value, each) for each in ELSEWHERE) and not isinstance(value, HOST):
        raise foreign(device, value, "asarray")
    try:
        wanted = dtype if dtype is None else as_dtype(dtype)
        found = np.asarray(_rounded(value, wanted) if wanted is not None else value, wanted)
    except NncError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        why = RAGGED if isinstance(value, (list, tuple)) and "inhomogeneous" in str(error) else str(error)
        raise DeviceError(
            f"{device!r} cannot make an array{'' if dtype is None else f' of dtype {as_dtype(dtype)}'} of a "
            f"{type(value).__name__}, {shortened(value)}: {why}"
        ) from None
    if kind_of(found.dtype) not in "biufc":
        raise DeviceError(f"{device!r} holds numbers and booleans, given {_told(value, found)}")
    return native(found)


def _rounded(value: Any, dtype: Any) -> Any:
    """Whole numbers of any size, or a list of them, as numbers that bfloat16 can be made of; else as they are."""
    if type(value) is int:
        return scalar(value, dtype)
    if not is_bfloat16(dtype) or not isinstance(value, (list, tuple)):
        return value
    found = np.asarray(value)
    return found.astype(np.float64) if found.dtype.kind in "iuO" else found


def native(array: Any) -> Any:
    """An array of NumPy's in this machine's order of bytes, which kernels ask for; itself where it is.

    Examples
    --------
    >>> native(np.ones(2, ">f4")).dtype
    dtype('float32')
    """
    dtype = array.dtype
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def copy_of(device: Any, array: Any) -> Any:
    """The elements of an array of a device, in memory that nobody else has.

    Examples
    --------
    >>> from nnc_func.device import NumPy
    >>> x = np.ones(2)
    >>> np.shares_memory(copy_of(NumPy(), x), x)
    False
    """
    copy = getattr(array, "copy", None)
    if copy is not None:
        return copy()
    namespace = getattr(device, "xp", None)  # none where arrays have no memory
    return array if namespace is None else namespace.asarray(array, copy=True)


def shortened(value: Any) -> str:
    """A value as messages show it: its text, if that is short.

    Examples
    --------
    >>> shortened(None), shortened("a" * 100)
    ('None', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…")
    """
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # lists of lists of lists; integers of thousands of digits
        text = f"a {type(value).__name__} that is too deep or too long to be shown"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _told(value: Any, found: Any) -> str:
    """What is no number, and what could have been meant."""
    from dataclasses import is_dataclass  # for what goes wrong

    thing = found.item() if found.dtype.kind == "O" and not found.shape else value
    kind = type(thing)
    if thing is None or kind is str or isinstance(thing, (list, tuple, dict, set, np.ndarray)):
        listed = thing.tolist() if isinstance(thing, np.ndarray) else thing
        return f"{shortened(listed)} of dtype {found.dtype}; {WANTED}"
    if kind is int:
        return f"{thing}, which no integer dtype has; say which: dtype='float64'"
    if attrs.has(kind):
        return f"a {kind.__name__}, an attrs class; where its fields are tensors, say so in its body: is_tree = True"
    if is_dataclass(kind):
        return f"a {kind.__name__}, a dataclass; where its fields are tensors, say so in its body: is_tree = True"
    return f"a {kind.__name__} of dtype {found.dtype}"
