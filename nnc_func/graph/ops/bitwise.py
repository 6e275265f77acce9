"""Operators on the bits of integers and booleans: logic, shifts; and of floats, signs and neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels import move
from nnc_func.device.kernels.neighbours import neighbours
from nnc_func.errors import DTypeError
from nnc_func.facets import dtypes, layouts, lowering, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE, Constant, partials
from nnc_func.facets.kernels import reference
from nnc_func.facets.laws import (
    absorbs,
    absorption,
    associative,
    cancels,
    commutative,
    complements,
    distributes_over,
    dual,
    idempotent,
    involution,
    undone_by,
    unit,
)
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import EXACT, FLOATS, INTEGERS, REALS, Refused, Samples
from nnc_func.facets.views import free
from nnc_func.graph.ops.families import DType, Tensor, elementwise, pointwise, predicate, real_floating
from nnc_func.op import operator


def _bits(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """Promotion of integers and booleans."""
    found = dtypes.promote(*given)
    if found.kind not in "biu":
        raise DTypeError(f"wanted integers or booleans, given {' and '.join(d.name for d in given)}")
    return found


def _integers(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """Promotion of integers."""
    found = _bits(*given)
    if found.kind == "b":
        raise DTypeError("wanted integers, given booleans; cast them to an integer dtype first")
    return found


WHOLE = Constant("integers have no derivative")
BITS: dict[str, Any] = {"dtype": _bits, "samples": Samples(dtypes=(*INTEGERS, "bool")), "tolerance": EXACT}
SHIFTS: dict[str, Any] = {
    "dtype": _integers,
    "samples": Samples(domain=((-9.0, 9.0), (0.0, 7.0)), dtypes=INTEGERS),
    "tolerance": EXACT,
}


@elementwise(
    WHOLE,
    laws=(
        commutative,
        associative,
        idempotent,
        unit(-1).of("i"),
        unit(1).of("b"),
        absorbs(0),
        absorption("bitwise_or"),
        dual("bitwise_or", "bitwise_invert"),
        complements(0, "bitwise_invert"),
        distributes_over("bitwise_or"),
    ),
    kernel=pointwise("bitwise_and", "bitwise_and", _bits, widens=False),
    onnx=onnx_elementwise.bitwise("BitwiseAnd", "And"),
    **BITS,
    lowering=lowering.primitive("bit_and"),
)
def bitwise_and(a: Tensor, b: Tensor, /) -> Tensor:
    """The bits that both have; of booleans, whether both are true."""


@elementwise(
    WHOLE,
    laws=(
        commutative,
        associative,
        idempotent,
        unit(0),
        absorbs(-1).of("i"),
        absorbs(1).of("b"),
        absorption("bitwise_and"),
        dual("bitwise_and", "bitwise_invert"),
        distributes_over("bitwise_and"),
    ),
    kernel=pointwise("bitwise_or", "bitwise_or", _bits, widens=False),
    onnx=onnx_elementwise.bitwise("BitwiseOr", "Or"),
    **BITS,
    lowering=lowering.primitive("bit_or"),
)
def bitwise_or(a: Tensor, b: Tensor, /) -> Tensor:
    """The bits that either has; of booleans, whether either is true."""


@elementwise(
    WHOLE,
    laws=(commutative, associative, unit(0), cancels(0), undone_by("bitwise_xor")),
    kernel=pointwise("bitwise_xor", "bitwise_xor", _bits, widens=False),
    onnx=onnx_elementwise.bitwise("BitwiseXor", "Xor"),
    **BITS,
    lowering=lowering.primitive("bit_xor"),
)
def bitwise_xor(a: Tensor, b: Tensor, /) -> Tensor:
    """The bits that exactly one has; of booleans, whether they differ."""


@elementwise(
    WHOLE,
    laws=(involution,),
    kernel=pointwise("invert", "bitwise_invert", _bits, widens=False),
    onnx=onnx_elementwise.bitwise("BitwiseNot", "Not"),
    **BITS,
    lowering=lowering.primitive("bit_not"),
)
def bitwise_invert(x: Tensor, /) -> Tensor:
    """Every bit the other way: -1 - x of signed integers; of booleans the opposite."""


@elementwise(
    WHOLE,
    laws=(unit(0, "right"),),
    kernel=pointwise("left_shift", "bitwise_left_shift", _integers, widens=False),
    onnx=onnx_elementwise.left_shift,
    **SHIFTS,
    lowering=lowering.primitive("left_shift"),
)
def bitwise_left_shift(a: Tensor, b: Tensor, /) -> Tensor:
    """Bits of `a` moved `b` places up, zeros from below; as many places as there are bits, or more, leave zero.

    So does a negative number of places.
    """


@elementwise(
    WHOLE,
    laws=(unit(0, "right"),),
    kernel=pointwise("right_shift", "bitwise_right_shift", _integers, widens=False),
    onnx=onnx_elementwise.right_shift,
    **SHIFTS,
    lowering=lowering.primitive("right_shift"),
)
def bitwise_right_shift(a: Tensor, b: Tensor, /) -> Tensor:
    """Bits of `a` moved `b` places down, copies of its sign from above, which alone are left of many places.

    A negative number of places counts as many.
    """


# --- signs and neighbours of floats -----------------------------------------------------------------------


def _signed(x: dtypes.DType, **_: Any) -> dtypes.DType:
    real_floating(x)
    return dtypes.BOOL


@predicate(
    "a question has no derivative",
    common=real_floating,
    dtype=_signed,
    onnx=onnx_elementwise.signbit,
    samples=Samples(dtypes=REALS),
    tolerance=EXACT,
)
def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign is minus, of -0.0 and of NaN too."""


@elementwise(
    partials(
        lambda o, y, a, b: o.where(
            o.equal(o.signbit(a), o.signbit(b)), 1, o.full(shape=(), value=-1, dtype=o.dtype(y))
        ),
        None,
    ),
    dtype=real_floating,
    onnx=onnx_elementwise.copysign,
    samples=Samples(avoid=(0.0,), dtypes=FLOATS),
    tolerance=EXACT,
)
def copysign(a: Tensor, b: Tensor, /) -> Tensor:
    """The magnitude of `a` with the sign of `b`, of -0.0 and of NaN too."""


@elementwise(
    NOT_DIFFERENTIABLE("neighbours are a matter of bits"),
    dtype=real_floating,
    kernel=neighbours(pointwise("nextafter", "nextafter", real_floating, widens=True)),
    onnx=Refused("ONNX sees no bits of floating numbers, and has no next one"),
    samples=Samples(dtypes=FLOATS),
    tolerance=EXACT,
)
def nextafter(a: Tensor, b: Tensor, /) -> Tensor:
    """The floating number next to `a` on the way to `b`."""


def _as_wide(x: DType, *, dtype: Any) -> DType:
    """That of the parameter ``dtype``, of as many bytes."""
    found = dtypes.as_dtype(dtype)
    dtypes.check_held(found)
    if found.itemsize != x.itemsize:
        raise DTypeError(f"wanted a dtype of {x.itemsize} bytes, as {x.name} has, given {found.name}")
    if found.kind == "b" and x.kind != "b":
        raise DTypeError(f"bits of {x.name} are no booleans, which are 0 or 1; compare with 0 instead")
    return found


WORDS = ("float32", "int32", "uint32")


@operator(
    shape=shapes.same,
    dtype=_as_wide,
    layout=layouts.common,
    kernels=reference(move.bit_cast, move.bit_cast_into, infallible=True, strided=True),
    derivative=NOT_DIFFERENTIABLE("bits of a number do not change smoothly with it"),
    onnx=Refused("ONNX has BitCast from operator set 26 on, and models are written for sets up to 22"),
    cost=free,
    tolerance=EXACT,
    samples=Samples(dtypes=WORDS, params=lambda shapes_, draw: {"dtype": np.dtype(draw(WORDS))}),
    data_movement=True,
)
def bit_cast(x: Tensor, /, *, dtype: DType) -> Tensor:
    """The same bits as elements of another dtype of as many bytes; numbers change, unlike those of `cast`."""
