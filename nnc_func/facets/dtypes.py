"""Dtype rules: from the dtypes of the arguments and the parameters to the dtype of the result.

bfloat16 is that of the package ml_dtypes, which is imported where somebody names that dtype, and nowhere else. NumPy
says of it that it is of no kind (V); here it is a floating dtype. Narrower ones of that package are not held.
"""

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
BFLOAT16 = "bfloat16"
REGISTERED = 256  # NumPy numbers its own dtypes below that, and those of other packages from there on


def kind_of(dtype: DType) -> str:
    """NumPy's letter for the kind of a dtype, where bfloat16 is one of the floating ones.

    Examples
    --------
    >>> kind_of(np.dtype("int8")), kind_of(as_dtype("bfloat16"))
    ('i', 'f')
    """
    if dtype.num >= REGISTERED:
        return "f" if dtype.name == BFLOAT16 else "V"
    found: str = dtype.kind
    return found


def is_bfloat16(dtype: DType) -> bool:
    """Whether it is bfloat16."""
    return dtype.num >= REGISTERED and dtype.name == BFLOAT16


def as_dtype(dtype: Any) -> DType:
    """Whatever ``numpy.dtype`` takes, and ``"bfloat16"``; in this machine's order of bytes.

    Raises
    ------
    DTypeError
        It is bfloat16, and the package ml_dtypes is not installed.
    TypeError
        There is no such dtype.
    """
    if type(dtype) is not str and isinstance(dtype, np.dtype):
        return dtype if dtype.isnative else dtype.newbyteorder("=")
    if type(dtype) is str and dtype == BFLOAT16:
        try:
            import ml_dtypes
        except ImportError:
            raise DTypeError("bfloat16 needs the package ml_dtypes: pip install 'nnc_func[bfloat16]'") from None
        dtype = ml_dtypes.bfloat16
    found: DType = np.dtype(dtype)
    return found if found.isnative else found.newbyteorder("=")


def check_held(dtype: DType) -> None:
    """Raise DTypeError unless tensors hold such elements.

    Examples
    --------
    >>> check_held(np.dtype("float16"))
    """
    if kind_of(dtype) in "biufc":
        return
    if dtype.num >= REGISTERED:
        raise DTypeError(f"tensors hold bfloat16, but no narrower numbers of ml_dtypes, given {dtype}; cast it first")
    raise DTypeError(f"tensors hold numbers and booleans, given dtype {dtype}")


def limits_of(dtype: DType) -> Any:
    """What ``numpy.finfo`` tells of a floating or complex dtype, and ml_dtypes of bfloat16."""
    if is_bfloat16(dtype):
        import ml_dtypes

        return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return np.finfo(dtype)


def promote(*dtypes: DType, **_: Any) -> DType:
    """NumPy's promotion of all arguments; bfloat16 has a common dtype with what holds it, and with small integers.

    Raises
    ------
    DTypeError
        bfloat16 beside float16 or an integer of more than 8 bits.
    """
    try:
        found: DType = dtypes[0] if len(dtypes) == 1 else np.result_type(*dtypes)
    except np.exceptions.DTypePromotionError:
        given = " and ".join(d.name for d in dtypes)
        raise DTypeError(f"{given} have no common dtype; cast one of them, to float32 for instance") from None
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
    return found if kind_of(found) in "fc" else FLOAT64


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
    found = as_dtype(dtype)
    if kind_of(x) in "biufc":
        check_held(found)
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
    return as_dtype(dtype)


_OF_SCALAR = {bool: BOOL, int: INT64, float: FLOAT64, complex: np.dtype("complex128")}


LARGEST = int(np.finfo(np.float64).max)


def written(value: int) -> str:
    """A whole number as it is written, unless that takes pages.

    Examples
    --------
    >>> written(-3), written(1 << 1000)
    ('-3', 'of 1001 bits')
    """
    return str(value) if abs(value) < 1 << 128 else f"of {value.bit_length()} bits"


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
        found: DType = _OF_SCALAR[type(value)]
    else:
        common = promote(*dtypes)
        if type(value) is float and kind_of(common) == "f":  # beside bfloat16 NumPy would make it float64
            return common
        found = common if type(value) is int and common.kind == "f" else np.result_type(common, value)
    if type(value) is int and found.kind in "iu":
        limits = np.iinfo(found)
        if not limits.min <= value <= limits.max:
            raise DTypeError(f"the scalar {written(value)} does not fit in {found}; cast the tensor to a wider dtype")
    elif type(value) is int and abs(value) > LARGEST:
        raise DTypeError(f"the scalar {written(value)} does not fit in {found}: no float is as large")
    return found


def scalar(value: Any, dtype: DType) -> Any:
    """A Python number as NumPy's of a dtype, whatever its size: bfloat16 by itself takes integers of 64 bits.

    Examples
    --------
    >>> float(scalar(2**70, as_dtype("bfloat16"))) == float(scalar(2**70, FLOAT32)) == 2.0**70
    True
    """
    return dtype.type(float(value) if type(value) is int and dtype.num >= REGISTERED else value)


def holds(dtype: DType, value: Any) -> bool:
    """Whether a Python scalar beside tensors of a dtype takes that dtype, and is one of its numbers.

    Examples
    --------
    >>> holds(FLOAT32, 1), holds(INT64, 0.5), holds(np.dtype("uint8"), -1)
    (True, False, False)
    """
    try:
        return weak(value, [dtype]) == dtype
    except DTypeError:
        return False
