"""Discrete Fourier transforms along axes as they are: three operators, of which the array API's functions are made.

Each is linear, and its transpose is one of the three: that of a complex transform is the same transform, those of the
real one and of its inverse are each other, with every frequency but the first, and the middle one, counted twice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.device.kernels import fourier as kernels
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import Linear
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.samples import COMPLEX, Refused, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT, normalise_axes, normalise_axis
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.families import Axes, Extent, Tensor
from nnc_func.op import operator

NORMS = {"backward": "forward", "ortho": "ortho", "forward": "backward"}  # and each one's transpose
ROUNDED = Tolerance(32.0)
NOT_IN_ONNX = Refused("ONNX's DFT has its own form of complex numbers, a last axis of two")
SHAPES = ((1,), (4,), (5,), (2, 3), (3, 4, 2), (0, 3))


# --- rules -------------------------------------------------------------------------------------------------


def check_norm(norm: str) -> None:
    """Raise OperatorError unless it is one of the three of the standard."""
    if norm not in NORMS:
        raise OperatorError(f"wanted the norm 'backward', 'ortho' or 'forward', given {norm!r}")


def _transformed(x: ShapeT, *, axis: Any, norm: str, **_: Any) -> ShapeT:
    check_norm(norm)
    for at in normalise_axes(axis, len(x)):
        if known(x[at]) and x[at] == 0:
            raise ShapeError(f"axis {at} of shape {x} has no elements to transform")
    return x


def _halved(x: ShapeT, *, axis: int, norm: str) -> ShapeT:
    at = normalise_axis(axis, len(x))
    _transformed(x, axis=at, norm=norm)
    return (*x[:at], x[at] // 2 + 1, *x[at + 1 :])


def _restored(x: ShapeT, *, n: Any, axis: int, norm: str) -> ShapeT:
    check_norm(norm)
    at = normalise_axis(axis, len(x))
    if known(n) and n < 1:
        raise ShapeError(f"a transform has one element at least, given n={n}")
    if not same_extent(x[at], n // 2 + 1):
        raise ShapeError(f"{n} real numbers have {n // 2 + 1} frequencies, given {x[at]} along axis {axis} of {x}")
    return (*x[:at], n, *x[at + 1 :])


def _complex(x: dtypes.DType, **_: Any) -> dtypes.DType:
    if x.kind != "c":
        raise DTypeError(f"wanted complex numbers, given {x.name}; fft and fftn take real ones, too")
    return x


def _complex_of(x: dtypes.DType, **_: Any) -> dtypes.DType:
    if kind_of(x) != "f" or x.itemsize < 4:
        raise DTypeError(f"wanted float32 or float64, given {x.name}; cast it first")
    return np.dtype(f"complex{x.itemsize * 16}")


def _real_of(x: dtypes.DType, **_: Any) -> dtypes.DType:
    return np.dtype(f"float{_complex(x).itemsize * 4}")


def _cost(args: tuple[Any, ...], results: tuple[Any, ...], *, axis: Any, **_: Any) -> Cost:
    """The usual count of a fast transform of complex numbers, 5 n log n; half of it for real ones."""
    larger = max(args[0], results[0], key=lambda aval: aval.size)
    n = math.prod(larger.shape[at] for at in normalise_axes(axis, len(larger.shape)))
    is_real = args[0].dtype.kind != results[0].dtype.kind
    return Cost(int(5 * larger.size * math.log2(max(n, 2))) // (2 if is_real else 1))


# --- derivatives -------------------------------------------------------------------------------------------


def _weights(o: Any, like: Any, n: Any, axis: int, twice: float) -> Any:
    """One for the first frequency, and the middle one of an even n; `twice` for the others, which have a mirror."""
    at = normalise_axis(axis, len(like.shape))
    k = o.arange(start=0, stop=like.shape[at])
    middle = o.equal(o.multiply(k, 2), o.full(shape=(), value=n, dtype=np.dtype("int64")))
    dtype = np.dtype(f"float{o.dtype(like).itemsize * 4}")
    found = o.where(o.logical_or(o.equal(k, 0), middle), 1.0, o.full(shape=(), value=twice, dtype=dtype))
    place = o.place(like)
    found = found if place is None else o.transfer(found, place=place)
    return o.expand_dims(found, axis=tuple(range(1, len(like.shape) - at)))


def _real_transpose(o: Any, g: Any, x: Any, *, axis: int, norm: str) -> Any:
    n = x.shape[normalise_axis(axis, len(x.shape))]
    weighted = o.multiply(o.conj(g), _weights(o, g, n, axis, 0.5))
    return o.inverse_real_fourier(weighted, n=n, axis=axis, norm=NORMS[norm])


def _inverse_transpose(o: Any, g: Any, x: Any, *, n: Any, axis: int, norm: str) -> Any:
    found = o.conj(o.real_fourier(g, axis=axis, norm=NORMS[norm]))
    return o.multiply(found, _weights(o, found, n, axis, 2.0))


# --- operators ---------------------------------------------------------------------------------------------


def _axes_of(shape: ShapeT) -> Any:
    """Axes with elements to transform."""
    return tuple(i for i, n in enumerate(shape) if n)


@operator(
    shape=_transformed, dtype=_complex, kernels=kernels.FOURIER, cost=_cost, tolerance=ROUNDED, onnx=NOT_IN_ONNX,
    derivative=Linear(lambda o, g, x, *, axis, inverse, norm: o.fourier(g, axis=axis, inverse=inverse, norm=norm)),
    samples=Samples(relation="cases", dtypes=COMPLEX, cases=tuple(
        ((shape,), {"axis": axes, "inverse": inverse, "norm": norm})
        for shape in SHAPES for axes in (_axes_of(shape), -1)
        for inverse, norm in ((False, "backward"), (True, "backward"), (True, "ortho"), (False, "forward"))
    )),
)  # fmt: skip
def fourier(x: Tensor, /, *, axis: Axes, inverse: bool = False, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform of complex numbers along one axis or several, or the inverse one.

    It is scaled by nothing, by one over the number of elements, or by the root of that: `norm` says which direction is
    scaled, as the array API has it. `fft`, `fftn` and their inverses are made of it.
    """


@operator(
    shape=_halved, dtype=_complex_of, kernels=kernels.REAL_FOURIER, cost=_cost, tolerance=ROUNDED, onnx=NOT_IN_ONNX,
    derivative=Linear(_real_transpose),
    samples=Samples(relation="cases", dtypes=("float32", "float64"), cases=tuple(
        ((shape,), {"axis": axis, "norm": norm})
        for shape in SHAPES for axis in (-1, len(_axes_of(shape)) - len(shape)) for norm in NORMS if shape[axis]
    )),
)  # fmt: skip
def real_fourier(x: Tensor, /, *, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform of real numbers along an axis: of n numbers the first ``n // 2 + 1`` frequencies.

    The others are the conjugates of these. `rfft` and `rfftn` are made of it.
    """


@operator(
    shape=_restored, dtype=_real_of, kernels=kernels.INVERSE_REAL_FOURIER, cost=_cost, tolerance=ROUNDED,
    derivative=Linear(_inverse_transpose), onnx=NOT_IN_ONNX,
    samples=Samples(relation="cases", dtypes=COMPLEX, cases=(*(
        (((*shape[:-1], shape[-1] // 2 + 1),), {"n": shape[-1], "axis": -1, "norm": norm})
        for shape in SHAPES for norm in NORMS
    ), (((3, 2),), {"n": 5, "axis": 0}))),
)  # fmt: skip
def inverse_real_fourier(x: Tensor, /, *, n: Extent, axis: int = -1, norm: str = "backward") -> Tensor:
    """The `n` real numbers along an axis that have these ``n // 2 + 1`` frequencies, the inverse of `real_fourier`.

    Imaginary parts of the first frequency, and of the middle one of an even n, are not read. `irfft` and `irfftn`
    are made of it.
    """
