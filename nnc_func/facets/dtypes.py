"""Dtype rules: from the dtypes of the arguments and the parameters to the dtype of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.errors import DTypeError

DType = np.dtype[Any]
DTypeRule = Callable[..., Any]  # (*dtypes, **params) -> DType, or a tuple of them for several results

BOOL = np.dtype("bool")
INT64 = np.dtype("int64")
UINT64 = np.dtype("uint64")
FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")


def promote(*dtypes: DType, **_: Any) -> DType:
    """NumPy's promotion of all arguments."""
    found: DType = dtypes[0] if len(dtypes) == 1 else np.result_type(*dtypes)
    return found


def numeric(*dtypes: DType, **_: Any) -> DType:
    """Promotion, booleans refused: arithmetic is for numbers."""
    found = promote(*dtypes)
    if found.kind == "b":
        raise DTypeError("wanted numbers, given booleans; cast them to an integer or floating dtype first")
    return found


def floating(*dtypes: DType, **_: Any) -> DType:
    """Promotion; integers and booleans become float64."""
    found = promote(*dtypes)
    return found if found.kind in "fc" else FLOAT64


def real_part(*dtypes: DType, **_: Any) -> DType:
    """Promotion of numbers; a complex dtype becomes the real one of the same precision.

    Examples
    --------
    >>> real_part(np.dtype("complex64")), real_part(INT64)
    (dtype('float32'), dtype('int64'))
    """
    found = numeric(*dtypes)
    return np.dtype(f"f{found.itemsize // 2}") if found.kind == "c" else found


def converted(x: DType, *, dtype: Any, **_: Any) -> DType:
    """That of the parameter ``dtype``, to which it can be cast: a complex number is no real one.

    Raises
    ------
    DTypeError
        Complex numbers would lose their imaginary parts; or it is no dtype of numbers or booleans.
    """
    found: DType = np.dtype(dtype)
    if found.kind not in "biufc" and x.kind in "biufc":
        raise DTypeError(f"tensors hold numbers and booleans, given dtype {found}")
    if x.kind == "c" and found.kind not in "cb":
        raise DTypeError(f"{x.name} is not cast to {found.name}, which has no imaginary part; take real, imag or abs")
    return found


def check_conversion(value: Any, dtype: Any) -> None:
    """Raise DTypeError where a host array is complex and the dtype that it is to have is not.

    Examples
    --------
    >>> check_conversion(np.ones(2), "complex64")
    """
    if dtype is not None and isinstance(value, (np.ndarray, np.generic)):
        converted(value.dtype, dtype=dtype)


def boolean(*dtypes: DType, **_: Any) -> DType:
    """Always bool, of arguments that have a common dtype."""
    promote(*dtypes)
    return BOOL


def index(*_: DType, **__: Any) -> DType:
    """Always int64: positions."""
    return INT64


def first(*dtypes: DType, **_: Any) -> DType:
    """That of the first argument."""
    return dtypes[0]


def accumulated(x: DType, **_: Any) -> DType:
    """That of a sum: small integers and booleans widen to 64 bits, as in NumPy and the array API."""
    if x.kind == "b" or (x.kind == "i" and x.itemsize < 8):
        return INT64
    if x.kind == "u" and x.itemsize < 8:
        return UINT64
    return x


def given(*_: DType, dtype: Any, **__: Any) -> DType:
    """That of the parameter ``dtype``."""
    found: DType = np.dtype(dtype)
    return found


_OF_SCALAR = {bool: BOOL, int: INT64, float: FLOAT64, complex: np.dtype("complex128")}


def weak(value: Any, dtypes: Any) -> DType:
    """The dtype that a Python scalar takes beside tensors of these dtypes: scalars are weak (NEP 50).

    Raises
    ------
    DTypeError
        An integer that the common dtype cannot hold.

    Examples
    --------
    >>> weak(1.5, [FLOAT32]), weak(1.5, [INT64]), weak(2, [])
    (dtype('float32'), dtype('float64'), dtype('int64'))
    """
    if not dtypes:
        default: DType = _OF_SCALAR[type(value)]
        return default
    found: DType = np.result_type(*dtypes, value)
    if type(value) is int and found.kind in "iu":
        limits = np.iinfo(found)
        if not limits.min <= value <= limits.max:
            raise DTypeError(f"the scalar {value} does not fit in {found}; cast the tensor to a wider dtype")
    return found
