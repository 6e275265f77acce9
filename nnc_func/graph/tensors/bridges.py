"""Bridges to other libraries: a tensor's memory as they know to read it, not copied, and never to be written to."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import DeviceError, NncError
from nnc_func.facets.dtypes import as_dtype
from nnc_func.graph.leaves import Variable


def exported(x: Any) -> Any:
    """The array of a device that has a tensor's value, computed if need be.

    It is never written over: a result's memory is recycled only when nobody holds it. A variable's is written by
    programs, so that its value of now is copied.

    Raises
    ------
    UnboundError
        The value depends on an input.
    TracingError
        It is being traced.
    """
    value = x.value
    if type(value) is Variable:
        return value.snapshot()
    found = x.stack.concrete(x)
    if found is None:
        return x.stack.to_numpy(x)  # which says what it depends on
    return exported(found) if isinstance(found, type(x)) else found


def read_only(array: Any) -> Any:
    """A view of a NumPy array that cannot be written to.

    Examples
    --------
    >>> read_only(np.ones(2)).flags.writeable
    False
    """
    found = array.view()
    found.flags.writeable = False
    return found


def as_numpy(x: Any, dtype: Any, copy: bool | None) -> Any:
    """What ``numpy.asarray`` gets: a view of memory that cannot be written to; an array of its own for ``copy=True``.

    Raises
    ------
    ValueError
        ``copy=False``, and it needs a copy.
    """
    if copy:
        return np.array(x.numpy(), dtype)
    array = exported(x)
    host = read_only(array) if isinstance(array, np.ndarray) else x.numpy()
    wanted = host.dtype if dtype is None else as_dtype(dtype)
    if copy is False and (wanted != host.dtype or not isinstance(array, np.ndarray) or type(x.value) is Variable):
        raise ValueError(f"{x.aval!r} as a NumPy array of {wanted} needs a copy, and copy=False was given")
    return host if wanted == host.dtype else host.astype(wanted)


def interface(x: Any, name: str) -> Any:
    """The ``__array_interface__`` of a tensor on the host, or the ``__cuda_array_interface__`` of one on a GPU.

    The tensor holds the memory that it describes for as long as it lives itself.

    Raises
    ------
    AttributeError
        It has none: it is elsewhere, or not computed yet and cannot be.
    """
    try:
        array = exported(x)
    except NncError as error:
        raise AttributeError(f"no {name}: {error}") from None
    shown = read_only(array) if isinstance(array, np.ndarray) else array
    found = getattr(shown, name, None) if type(array).__module__.partition(".")[0] in ("numpy", "cupy") else None
    if found is None:
        raise AttributeError(f"{x.aval!r} of {x.stack!r} has no {name}: its arrays are {type(array).__name__}")
    pinned = getattr(x, "exports", ())
    if not any(array is each for each in pinned):
        x.exports = (*pinned, array)
    return found


def capsule(x: Any, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """The DLPack capsule of a tensor: its memory, which readers that know the flag are told not to write to.

    Raises
    ------
    BufferError
        Its arrays cannot be exported, or not without a copy where ``copy=False`` was given.
    """
    array = exported(x)
    if type(x.value) is Variable and copy is False:
        raise BufferError(f"{x.value!r} is written by programs: it is exported as a copy, and copy=False was given")
    given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    keywords = {k: v for k, v in given.items() if v is not None}
    if isinstance(array, np.ndarray):
        if max_version is not None and tuple(max_version) >= (1, 0):
            array = read_only(array)
        elif not array.flags.writeable and copy is not False:
            array = array.copy()  # the reader does not know of memory that is not to be written to
    return _exporting(x, array).__dlpack__(**keywords)


def placed(x: Any) -> Any:
    """Kind and number of the device that a tensor is on, as DLPack counts them."""
    return _exporting(x, exported(x)).__dlpack_device__()


def _exporting(x: Any, array: Any) -> Any:
    if not hasattr(array, "__dlpack__"):
        raise BufferError(f"{x.aval!r} of {x.stack!r} cannot be exported: its arrays are {type(array).__name__}")
    return array


def moved(x: Any, device: Any, stream: Any) -> Any:
    """The tensor on another device of its stack.

    Raises
    ------
    DeviceError
        A stream is given: the stack orders what runs.
    """
    if stream is not None:
        raise DeviceError(f"to_device takes no stream, given {stream!r}: the stack orders what runs")
    return x.stack.array_api.to_device(x, device)


# --- pickled and copied -----------------------------------------------------------------------------------------


def value(stack: Any, array: Any, place: str | None) -> Any:
    """The tensor that was pickled or copied as its value.

    Examples
    --------
    >>> import pickle
    >>> import nnc_func as nnc
    >>> pickle.loads(pickle.dumps(nnc.lazy().asarray([1.0, 2.0]) + 1)).numpy()
    array([2., 3.])
    """
    return stack.asarray(array, place=place)


def variable(stack: Any, name: str, array: Any, place: str | None) -> Any:
    """The variable that was pickled or copied: one of the same name, with a value of its own.

    Examples
    --------
    >>> import copy
    >>> import nnc_func as nnc
    >>> w = nnc.lazy().variable("w", [1.0, 2.0])
    >>> copy.deepcopy(w).value is w.value
    False
    """
    return stack.variable(name, array, place=place)
