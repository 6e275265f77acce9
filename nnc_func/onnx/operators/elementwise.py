"""Arithmetic, comparisons, logic and functions by elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError, ShapeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.onnx.table import onnx_operator

SINCE_6 = (6, 13)
SINCE_7 = (7, 22)
SINCE_9 = (9, 22)

_UNARY = {
    "Abs": (SINCE_6, "abs"), "Ceil": (SINCE_6, "ceil"), "Exp": (SINCE_6, "exp"), "Floor": (SINCE_6, "floor"),
    "Log": (SINCE_6, "log"), "Neg": (SINCE_6, "negative"), "Reciprocal": (SINCE_6, "reciprocal"),
    "Sqrt": (SINCE_6, "sqrt"), "Tanh": (SINCE_6, "tanh"), "Round": ((11, 22), "round"), "Sign": ((9, 13), "sign"),
    "Erf": ((9, 13), "erf"), "IsNaN": ((9, 13, 20), "isnan"), "Not": ((1,), "logical_not"),
    "BitwiseNot": ((18,), "bitwise_invert"),
    **{name: (SINCE_7, name.lower()) for name in ("Acos", "Asin", "Atan", "Cos", "Sin", "Tan")},
    **{name: (SINCE_9, name.lower()) for name in ("Acosh", "Asinh", "Atanh", "Cosh", "Sinh")},
}  # fmt: skip
_BINARY = {
    "Add": ((7, 13, 14), "add"), "Sub": ((7, 13, 14), "subtract"), "Mul": ((7, 13, 14), "multiply"),
    "And": ((7,), "logical_and"), "Or": ((7,), "logical_or"), "Xor": ((7,), "logical_xor"),
    "Equal": ((7, 11, 13, 19), "equal"), "Greater": ((7, 9, 13), "greater"), "Less": ((7, 9, 13), "less"),
    "GreaterOrEqual": ((12, 16), "greater_equal"), "LessOrEqual": ((12, 16), "less_equal"),
    "BitwiseAnd": ((18,), "bitwise_and"), "BitwiseOr": ((18,), "bitwise_or"), "BitwiseXor": ((18,), "bitwise_xor"),
}  # fmt: skip


def _unary(name: str, since: tuple[int, ...], ours: str) -> None:
    @onnx_operator(name, since)
    def applied(o: Any, x: Any) -> Any:
        return getattr(o, ours)(x)


def _binary(name: str, since: tuple[int, ...], ours: str) -> None:
    @onnx_operator(name, since)
    def applied(o: Any, a: Any, b: Any) -> Any:
        return getattr(o, ours)(a, b)


def _variadic(name: str, since: tuple[int, ...], of: Callable[[Any, tuple[Any, ...]], Any]) -> None:
    @onnx_operator(name, since)
    def applied(o: Any, *xs: Any) -> Any:
        return of(o, xs)


def aligned(o: Any, a: Any, b: Any, broadcast: int, axis: int | None) -> Any:
    """The second operand as the oldest operators broadcast it: where they are told to, from an axis on."""
    if not broadcast:
        if tuple(a.shape) != tuple(b.shape):
            raise ShapeError(f"shapes {tuple(a.shape)} and {tuple(b.shape)}, without broadcast=1")
        return b
    if axis is None or not len(b.shape):
        return b
    after = len(a.shape) - o.axis(axis, len(a.shape)) - len(b.shape)
    if after < 0:
        raise OnnxError(f"shape {tuple(b.shape)} from axis {axis} on of {tuple(a.shape)}")
    return o.reshape(b, shape=(*b.shape, *(1,) * after))


def _oldest_binary(name: str, since: tuple[int, ...], of: Callable[[Any, Any, Any], Any]) -> None:
    @onnx_operator(name, since)
    def applied(o: Any, a: Any, b: Any, *, broadcast: int = 0, axis: int | None = None) -> Any:
        return of(o, a, aligned(o, a, b, broadcast, axis))


for _name, (_since, _ours) in _UNARY.items():
    _unary(_name, _since, _ours)
for _name, (_since, _ours) in _BINARY.items():
    _binary(_name, _since, _ours)
_variadic("Sum", (6, 8, 13), lambda o, xs: reduce(o.add, xs))
_variadic("Max", (6, 8, 12, 13), lambda o, xs: reduce(o.maximum, xs))
_variadic("Min", (6, 8, 12, 13), lambda o, xs: reduce(o.minimum, xs))
_variadic("Mean", (6, 8, 13), lambda o, xs: o.divide(reduce(o.add, xs), float(len(xs))))


@onnx_operator("Div", since=(7, 13, 14))
def div(o: Any, a: Any, b: Any) -> Any:
    """Whole numbers are divided towards zero."""
    if kind_of(a.dtype) == "u":
        return o.floor_divide(a, b)
    if kind_of(a.dtype) == "i":
        rest = o.remainder(a, b)  # of the sign of b
        inexact = o.logical_and(o.not_equal(rest, 0), o.less(o.bitwise_xor(a, b), 0))
        return o.add(o.floor_divide(a, b), o.cast(inexact, dtype=a.dtype))
    return o.divide(a, b)


@onnx_operator("Mod", since=(10, 13, 28))
def mod(o: Any, a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The remainder: of the divisor's sign, or with `fmod` of the dividend's."""
    if not fmod and kind_of(a.dtype) == "f" and o.since < 28:
        raise OnnxError("Mod of floating numbers wants fmod=1")
    return o.fmod(a, b) if fmod else o.remainder(a, b)


@onnx_operator("Pow", since=(7, 12, 13, 15))
def power(o: Any, x: Any, exponent: Any) -> Any:
    """Of the dtype of the base."""
    if x.dtype == exponent.dtype:
        return o.power(x, exponent)
    if kind_of(x.dtype) == "f" and kind_of(exponent.dtype) in "iu":
        return o.power(x, o.cast(exponent, dtype=x.dtype))
    wide = np.result_type(x.dtype, exponent.dtype)
    return o.cast(o.power(o.cast(x, dtype=wide), o.cast(exponent, dtype=wide)), dtype=x.dtype)


@onnx_operator("BitShift", since=(11, 28))
def bit_shift(o: Any, x: Any, y: Any, *, direction: str) -> Any:
    """To the left or to the right."""
    if direction not in ("LEFT", "RIGHT"):
        raise OnnxError(f"direction is LEFT or RIGHT, given {direction!r}")
    return o.bitwise_left_shift(x, y) if direction == "LEFT" else o.bitwise_right_shift(x, y)


@onnx_operator("IsInf", since=(10, 20))
def is_inf(o: Any, x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """Infinities of one sign, or of both."""
    found = o.isinf(x)
    if not detect_negative:
        found = o.logical_and(found, o.greater(x, 0))
    return found if detect_positive else o.logical_and(found, o.less(x, 0))


@onnx_operator("Clip", since=(6,))
def clip_between_attributes(o: Any, x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    """Between two numbers."""
    return o.clip(x, min=min, max=max)


@onnx_operator("Clip", since=(11, 12, 13))
def clip(o: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    """Between two tensors of one element; where they cross, the upper one."""
    found = x if min is None else o.maximum(x, min)
    return found if max is None else o.minimum(found, max)


@onnx_operator("Where", since=(9, 16))
def where(o: Any, condition: Any, x: Any, y: Any) -> Any:
    """By elements."""
    return o.where(condition, x, y)


_oldest_binary("Add", (6,), lambda o, a, b: o.add(a, b))
_oldest_binary("Sub", (6,), lambda o, a, b: o.subtract(a, b))
_oldest_binary("Mul", (6,), lambda o, a, b: o.multiply(a, b))
_oldest_binary("Div", (6,), div)
_oldest_binary("Pow", (1,), power)
