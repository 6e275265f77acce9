"""NumPy's functions of single elements, of dtypes, and ranges between tensors."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.tensors.tensor import Tensor

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _clip(
    xp: ArrayNamespace, /, *, a: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None
) -> Any:
    low, high = (first if second is None else second for first, second in ((a_min, min), (a_max, max)))
    found = xp.asarray(a)
    found = found if low is None else xp.maximum(found, low)
    return found if high is None else xp.minimum(found, high)


def _round(xp: ArrayNamespace, /, *, a: Any, decimals: int = 0) -> Any:
    found, scale = xp.asarray(a), 10.0 ** abs(decimals)
    if found.dtype.kind in "iu":
        tens = 10 ** max(-decimals, 0)
        return found if tens == 1 else xp.astype(xp.round(found / tens), found.dtype) * tens
    if decimals == 0:
        return xp.round(found)
    there, back = (xp.multiply, xp.divide) if decimals > 0 else (xp.divide, xp.multiply)
    return back(xp.round(there(found, scale)), scale)


def _angle(xp: ArrayNamespace, /, *, z: Any, deg: bool = False) -> Any:
    z = xp.asarray(z)
    real = z if kind_of(z.dtype) in "cf" else xp.astype(z, np.float64)
    found = xp.ops.angle(real)
    return xp.ops.rad2deg(found) if deg else found


def _real(xp: ArrayNamespace, /, *, val: Any) -> Any:
    x = xp.asarray(val)
    return xp.real(x) if x.dtype.kind == "c" else x


def _imag(xp: ArrayNamespace, /, *, val: Any) -> Any:
    x = xp.asarray(val)
    return xp.imag(x) if x.dtype.kind == "c" else xp.zeros_like(x)


def _iscomplex(xp: ArrayNamespace, /, *, x: Any) -> Any:
    x = xp.asarray(x)
    return xp.not_equal(xp.imag(x), 0) if x.dtype.kind == "c" else xp.zeros_like(x, dtype=xp.bool)


def _isreal(xp: ArrayNamespace, /, *, x: Any) -> Any:
    return xp.logical_not(_iscomplex(xp, x=x))


def _infinite(sign: float) -> Callable[..., Any]:
    def infinite(xp: ArrayNamespace, /, *, x: Any) -> Any:
        x = xp.asarray(x)
        if x.dtype.kind == "c":
            raise DTypeError(f"infinities with a sign are told of real numbers, given {x.dtype}")
        found = xp.isinf(x)
        return (
            xp.logical_and(found, xp.less(x, 0) if sign < 0 else xp.greater(x, 0)) if kind_of(x.dtype) == "f" else found
        )

    return infinite


# --- dtypes ---------------------------------------------------------------------------------------------------


def _result_type(xp: ArrayNamespace, /, *given: Any) -> Any:
    return np.result_type(*(x.dtype if isinstance(x, Tensor) else x for x in given))


def _can_cast(xp: ArrayNamespace, /, *, from_: Any, to: Any, casting: Any = "safe") -> Any:
    return np.can_cast(from_.dtype, to, casting)


def _common_type(xp: ArrayNamespace, /, *arrays: Any) -> Any:
    return np.common_type(*(np.empty(0, x.dtype) for x in map(xp.asarray, arrays)))


# --- ranges ---------------------------------------------------------------------------------------------------


def _linspace(
    xp: ArrayNamespace, /, *, start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    first, last = (_floating(xp, x) for x in (start, stop))
    apart = num - 1 if endpoint else num
    step = xp.divide(xp.subtract(last, first), apart if apart > 0 else math.nan)
    numbers = xp.reshape(xp.arange(num, dtype=np.float64), (-1, *(1,) * step.ndim))
    found = xp.add(xp.multiply(numbers, step), first) if apart > 0 else xp.add(xp.multiply(numbers, 0 * first), first)
    if endpoint and num > 1:
        found = xp.concat([found[:-1], xp.expand_dims(xp.broadcast_to(last, step.shape), 0)], axis=0)
    found = xp.moveaxis(found, 0, axis) if axis else found
    if dtype is not None:
        whole = np.issubdtype(dtype, np.integer)
        found = xp.astype(xp.floor(found) if whole else found, dtype)
    return (found, step) if retstep else found


def _floating(xp: ArrayNamespace, x: Any) -> Any:
    x = xp.asarray(x)
    return xp.astype(x, np.result_type(x.dtype, np.float64))


def _logspace(xp: ArrayNamespace, /, *, start: Any, stop: Any, base: Any = 10.0, dtype: Any = None, **how: Any) -> Any:
    found = xp.pow(base, _linspace(xp, start=start, stop=stop, **how))
    return found if dtype is None else xp.astype(found, dtype)


def _geomspace(xp: ArrayNamespace, /, *, start: Any, stop: Any, dtype: Any = None, **how: Any) -> Any:
    first, last = (_floating(xp, x) for x in (start, stop))
    if "c" in (first.dtype.kind, last.dtype.kind):
        raise DTypeError("geomspace of complex numbers does not work on tensors; numpy.asarray(x) gives their value")
    found = xp.ops.exp2(_linspace(xp, start=xp.log2(xp.abs(first)), stop=xp.log2(xp.abs(last)), **how))
    at = how.get("axis", 0)
    found = xp.moveaxis(found, at, 0) if at else found
    ends = [xp.expand_dims(xp.broadcast_to(x, found.shape[1:]), 0) for x in (first, last)]
    found = xp.multiply(xp.sign(first), found)
    whole = how.get("endpoint", True) and how.get("num", 50) > 1
    found = xp.concat([ends[0], found[1:-1], ends[1]] if whole else [ends[0], found[1:]], axis=0)
    found = xp.moveaxis(found, 0, at) if at else found
    return found if dtype is None else xp.astype(found, dtype)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "clip": _clip, "round": _round, "around": _round, "angle": _angle, "iscomplex": _iscomplex, "isreal": _isreal,
    "isneginf": _infinite(-1.0), "isposinf": _infinite(1.0), "result_type": _result_type, "can_cast": _can_cast,
    "real": _real, "imag": _imag, "common_type": _common_type,
    "linspace": _linspace, "logspace": _logspace, "geomspace": _geomspace,
}  # fmt: skip
