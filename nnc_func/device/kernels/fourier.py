"""Kernels of discrete Fourier transforms: NumPy's write into memory that they are given, others make their own."""

from __future__ import annotations

from typing import Any

from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.shapes import normalise_axes

HERE = frozenset({"numpy"})


def _complex(xp: Any, x: Any, *, axis: Any, inverse: bool, norm: str) -> Any:
    axes = normalise_axes(axis, x.ndim)
    if not axes:
        return xp.positive(x)
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(x, axes=axes, norm=norm)


def _complex_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, axis: Any, inverse: bool, norm: str) -> None:
    axes = normalise_axes(axis, arrays[0].ndim)
    if axes:
        (xp.fft.ifftn if inverse else xp.fft.fftn)(arrays[0], axes=axes, norm=norm, out=outs[0])
    else:
        xp.copyto(outs[0], arrays[0])


def _real(xp: Any, x: Any, *, axis: int, norm: str) -> Any:
    return xp.fft.rfft(x, axis=axis, norm=norm)


def _real_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, axis: int, norm: str) -> None:
    xp.fft.rfft(arrays[0], axis=axis, norm=norm, out=outs[0])


def _inverse_real(xp: Any, x: Any, *, n: int, axis: int, norm: str) -> Any:
    return xp.fft.irfft(x, n=n, axis=axis, norm=norm)


def _inverse_real_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, n: int, axis: int, norm: str) -> None:
    xp.fft.irfft(arrays[0], n=n, axis=axis, norm=norm, out=outs[0])


# --- what NumPy's library takes for itself -----------------------------------------------------------------


def _line(x: Any, axis: Any, count: int) -> int:
    """Bytes of the longest line of complex numbers, so many times."""
    axes = normalise_axes(axis, len(x.shape))
    return count * 16 * max([x.shape[a] for a in axes], default=0)


def _doubled(x: Any, results: int) -> int:
    """What is computed in double precision, of single ones: operand and results in that."""
    itemsize = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)
    return 0 if itemsize > 4 else x.size * (16 if x.dtype.kind == "c" else 8) + results


def _complex_private(avals: Any, *, axis: Any, inverse: bool, norm: str) -> int:
    (x,) = avals
    return _doubled(x, 16 * x.size) + _line(x, axis, 2)


def _real_private(avals: Any, *, axis: int, norm: str) -> int:
    (x,) = avals
    n = x.shape[axis]
    return _doubled(x, 16 * (x.size // max(1, n)) * (n // 2 + 1)) + _line(x, axis, 1)


def _inverse_real_private(avals: Any, *, n: int, axis: int, norm: str) -> int:
    (x,) = avals
    return _doubled(x, 8 * (x.size // max(1, x.shape[axis])) * n) + 16 * n


def _both(compute: Any, into: Any, private: Any) -> tuple[Kernel, ...]:
    here = Kernel(
        "pocketfft", compute=compute, into=into, private=private, namespaces=HERE, infallible=True, strided=True
    )
    return here, reference(compute, infallible=True)


FOURIER = _both(_complex, _complex_into, _complex_private)
REAL_FOURIER = _both(_real, _real_into, _real_private)
INVERSE_REAL_FOURIER = _both(_inverse_real, _inverse_real_into, _inverse_real_private)
