"""Data type functions of the array API; dtypes are NumPy's."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from nnc_func.errors import DTypeError
from nnc_func.facets.dtypes import as_dtype, kind_of, limits_of

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace

SCALARS = (bool, int, float, complex)


@frozen
class FloatInfo:
    """What a floating dtype can represent; of a complex one, what its parts can.

    Attributes
    ----------
    bits
        How many there are in an element.
    eps
        The distance of 1.0 to the next number.
    max, min
        The largest number, and its negative.
    smallest_normal
        The smallest positive number that is not subnormal.
    dtype
        That of the real parts.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


@frozen
class IntegerInfo:
    """What an integer dtype can represent.

    Attributes
    ----------
    bits
        How many there are in an element.
    max, min
        The largest and the smallest number.
    dtype
        Itself.
    """

    bits: int
    max: int
    min: int
    dtype: Any


def _dtype(given: Any) -> Any:
    return as_dtype(getattr(given, "dtype", given))


def astype(xp: ArrayNamespace, x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Cast to another dtype; a handle of its own unless ``copy=False``.

    Raises
    ------
    DTypeError
        Of complex numbers to real ones: say which part, `real`, `imag` or `abs`. To booleans they are cast.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.astype(xp.asarray([1.5, 0.0]), xp.int32).numpy()
    array([1, 0], dtype=int32)
    """
    given, wanted = xp.asarray(x), as_dtype(dtype)
    if given.dtype.kind == "c" and wanted.kind not in "cb":
        raise DTypeError(f"astype of {given.dtype} to {wanted}: take real(x), imag(x) or abs(x), as is meant")
    found = given if given.dtype == wanted else xp.ops.cast(given, dtype=wanted)
    return xp.asarray(xp.to_device(found, device), copy=copy)


def can_cast(xp: ArrayNamespace, from_: Any, to: Any, /) -> bool:
    """Whether every element of the one dtype, or of a tensor's, is one of the other.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.float32)
    (True, False)
    """
    return bool(np.can_cast(_dtype(from_), as_dtype(to)))


def finfo(xp: ArrayNamespace, type: Any, /) -> FloatInfo:
    """What a floating or complex dtype, or a tensor's, can represent.

    Raises
    ------
    DTypeError
        It is of another kind.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.finfo("float32").bits
    32
    """
    given = _dtype(type)
    if kind_of(given) not in "fc":
        raise DTypeError(f"finfo wants a floating dtype, given {given}; integers have iinfo")
    found = limits_of(given)
    eps, most, least, normal = (float(v) for v in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(int(found.bits), eps, most, least, normal, np.dtype(found.dtype))


def iinfo(xp: ArrayNamespace, type: Any, /) -> IntegerInfo:
    """What an integer dtype, or a tensor's, can represent.

    Raises
    ------
    DTypeError
        It is of another kind.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.iinfo("int8").max
    127
    """
    given = _dtype(type)
    if given.kind not in "iu":
        raise DTypeError(f"iinfo wants an integer dtype, given {given}")
    found = np.iinfo(given)
    return IntegerInfo(int(found.bits), int(found.max), int(found.min), given)


def isdtype(xp: ArrayNamespace, dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind (``"integral"``, ``"real floating"`` …), is another, or is among several of those.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.bool, ("numeric", xp.bool))
    (True, True)
    """
    return bool(np.isdtype(np.dtype(dtype), kind))


def result_type(xp: ArrayNamespace, *arrays_and_dtypes: Any) -> Any:
    """The dtype that promotion gives; Python numbers take that of the others where their kind allows.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.result_type(xp.float32, 1.0), xp.result_type(xp.int8, xp.uint8)
    (dtype('float32'), dtype('int16'))
    """
    if not arrays_and_dtypes:
        raise DTypeError("result_type wants one tensor, dtype or number at least")
    return np.result_type(*[a if type(a) in SCALARS else _dtype(a) for a in arrays_and_dtypes])
