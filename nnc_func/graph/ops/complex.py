"""Parts of complex numbers, and what is made of them; derivatives are of the parts, by the convention of docs/adr/0040.

Cotangents pair with tangents by ``Re(g t)``, without conjugation; a real number is its own real part and conjugate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve

from nnc_func.device.kernels.move import NUMPY, converted, dtype_of, of_parts, of_parts_into
from nnc_func.facets import dtypes, lowering
from nnc_func.facets.derivatives import Custom, Linear
from nnc_func.facets.kernels import Kernel, reference, ufunc
from nnc_func.facets.laws import always, idempotent, identity, ignores, involution, odd
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import EXACT, NUMBERS, Refused, Samples
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import Tensor, elementwise, real_floating

EVERY = Samples(dtypes=NUMBERS)


def _is_complex(avals: Any, **_: Any) -> bool:
    return bool(avals[0].dtype.kind == "c")


def _of(x: Any, name: str) -> Any:
    """A part of a number; of a real one NumPy makes as many zeros as there are elements."""
    return 0 if name == "imag" and x.dtype.kind != "c" else getattr(x, name)


def _part(name: str) -> tuple[Kernel, ...]:
    """A part of a complex number as an array of its own: NumPy's is a view, and of a real number the number."""

    def compute(xp: Any, x: Any) -> Any:
        return getattr(x, name).copy()

    def into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
        xp.copyto(outs[0], _of(arrays[0], name))

    def standard(xp: Any, x: Any) -> Any:
        if dtype_of(x).kind == "c":
            return xp.asarray(getattr(xp, name)(x), copy=True)
        return xp.asarray(x, copy=True) if name == "real" else xp.zeros_like(x)

    fast = Kernel(name, compute=compute, into=into, namespaces=NUMPY, infallible=True, strided=True)
    return fast, reference(standard, infallible=True)


def _imaginary(o: Any, g: Any, x: Any) -> Any:
    """-i g, of which the real part of the product with t is that of g times the imaginary part of t."""
    if o.dtype(x).kind != "c":
        return None
    return o.multiply(g, -1j)


@elementwise(
    Linear(lambda o, g, x: o.cast(g, dtype=o.dtype(x))),
    dtype=dtypes.real_part,
    kernel=_part("real"),
    laws=(idempotent, identity.of("iuf"), ignores("conj"), odd),
    onnx=onnx_elementwise.unchanged,
    samples=EVERY,
    tolerance=EXACT,
    lowering=lowering.of_reals(lambda s, x: x),
)
def real(x: Tensor, /) -> Tensor:
    """The real part, in the real dtype of the same precision; a real number is its own."""


@elementwise(
    Linear(_imaginary),
    dtype=dtypes.real_part,
    kernel=_part("imag"),
    onnx=onnx_elementwise.imag,
    samples=EVERY,
    tolerance=EXACT,
    laws=(always(0).of("iuf"), odd),
    lowering=lowering.of_reals(lambda s, x: s.number(0, x.dtype)),
)
def imag(x: Tensor, /) -> Tensor:
    """The imaginary part, in the real dtype of the same precision; of a real number it is zero."""


# --- from parts -------------------------------------------------------------------------------------------


def _of_parts(real: dtypes.DType, imag: dtypes.DType, **_: Any) -> dtypes.DType:
    return np.result_type(real_floating(real, imag), np.complex64)


@elementwise(
    Linear(
        lambda o, g, a, b: (
            lambda: o.sum_to(o.projected(g, o.dtype(a)), a.shape),
            lambda: o.sum_to(o.projected(o.negative(o.imag(g)), o.dtype(b)), b.shape),
        )
    ),
    dtype=_of_parts,
    kernel=reference(of_parts, of_parts_into, infallible=True, strided=True),
    onnx=Refused("ONNX's operators take no complex numbers"),
    samples=Samples(dtypes=("float32", "float64", "int64")),
    tolerance=EXACT,
)
def complex_(real: Tensor, imag: Tensor, /) -> Tensor:
    """The number with these two real parts, bit by bit, of zeros and infinities too."""


# --- conjugates and angles --------------------------------------------------------------------------------


def _conjugated(xp: Any, x: Any) -> Any:
    return xp.conj(x) if dtype_of(x).kind == "c" else xp.asarray(x, copy=True)


@elementwise(
    Linear(lambda o, g, x: o.conj(g)),
    dtype=dtypes.numeric,
    kernel=(evolve(ufunc("conjugate"), namespaces=NUMPY), reference(_conjugated, infallible=True)),
    laws=(involution, identity.of("iuf"), odd),
    onnx=onnx_elementwise.unchanged,
    samples=EVERY,
    tolerance=EXACT,
    lowering=lowering.of_reals(lambda s, x: x),
)
def conj(x: Tensor, /) -> Tensor:
    """The number with its imaginary part negated; a real number is its own conjugate."""


def _angle(xp: Any, x: Any) -> Any:
    x = converted(xp, x, dtypes.floating(dtype_of(x)))
    if dtype_of(x).kind == "c":
        return xp.atan2(xp.imag(x), xp.real(x))
    return xp.atan2(xp.zeros_like(x), x)


def _angle_into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    (x,), (out,) = arrays, outs
    xp.arctan2(_of(x, "imag"), x.real, out, dtype=out.dtype)


def _angle_numpy(xp: Any, x: Any) -> Any:
    out = xp.empty(x.shape, _angle_dtype(x.dtype))
    _angle_into(xp, (x,), (out,), ())
    return out


def _angle_dtype(x: dtypes.DType) -> dtypes.DType:
    return dtypes.real_part(dtypes.floating(x))


def _turned(o: Any, x: Any) -> Any:
    """The derivative of the angle as what a tangent is multiplied by: -i / z, zero at zero."""
    nowhere = o.equal(x, 0)
    return o.where(nowhere, 0, o.divide(-1j, o.where(nowhere, 1, x)))


@elementwise(
    Custom(
        lambda o, ts, y, x: o.real(o.multiply(ts[0], _turned(o, x))) if o.dtype(x).kind == "c" else None,
        (lambda o, g, y, x: o.multiply(g, _turned(o, x)) if o.dtype(x).kind == "c" else None,),
    ),
    dtype=_angle_dtype,
    kernel=(
        Kernel("two parts", compute=_angle_numpy, into=_angle_into, namespaces=NUMPY, infallible=True, strided=True),
        reference(_angle, infallible=True),
    ),
    onnx=onnx_elementwise.angle,
    samples=Samples(avoid=(0.0,), dtypes=NUMBERS),
    cost=per_element(24),
)
def angle(x: Tensor, /) -> Tensor:
    """The angle of a number in the complex plane, between -pi and pi; its derivative at zero is taken to be zero."""
