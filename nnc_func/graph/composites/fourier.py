"""The FFT extension of the array API: transforms along one axis or several, of complex, real and Hermitian signals.

Parameters are the standard's. `n` and `s` say how many elements are transformed: more than there are means zeros after
them, fewer means that the last are left out. `norm` is ``"backward"``, ``"ortho"`` or ``"forward"``: the direction that
is scaled. Real arguments of complex transforms are taken as complex; integers as float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.samples import COMPLEX, EXACT, FLOATS, Samples
from nnc_func.facets.shapes import normalise_axes, normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Axes, DType, Extent, Sizes, Tensor
from nnc_func.graph.ops.fourier import NORMS, ROUNDED, check_norm

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

_ALONG: Any = (
    ((4,), {}), ((5,), {"norm": "ortho"}), ((3, 2), {"axis": 0, "norm": "forward"}), ((2, 3), {"n": 5}),
    ((2, 4), {"n": 3, "norm": "forward"}), ((4,), {"n": 1}), ((1,), {"n": 2}),
)  # fmt: skip
_OVER: Any = (
    ((2, 3), {}), ((3, 2, 4), {"axes": (0, -1), "norm": "ortho"}), ((2, 5), {"s": (3, 4)}),
    ((4, 3), {"s": (2, 5), "axes": (1, 0), "norm": "forward"}), ((2, 3), {"axes": (1,)}),
)  # fmt: skip


def _samples(cases: Any, dtypes: Any) -> Samples:
    return Samples(relation="cases", dtypes=dtypes, cases=tuple(((shape,), params) for shape, params in cases))


# --- steps -------------------------------------------------------------------------------------------------


def _floating(o: Ops[Any], x: Tensor) -> Tensor:
    """In a dtype that is transformed: float32 at least."""
    dtype = o.dtype(x)
    if kind_of(dtype) in "fc":
        return o.cast(x, dtype=np.dtype("float32")) if dtype.itemsize < 4 else x
    return o.cast(x, dtype=np.dtype("float64"))


def _complex(o: Ops[Any], x: Tensor) -> Tensor:
    x = _floating(o, x)
    dtype = o.dtype(x)
    return x if dtype.kind == "c" else o.cast(x, dtype=np.dtype(f"complex{dtype.itemsize * 16}"))


def _real(o: Ops[Any], x: Tensor, name: str) -> Tensor:
    if o.dtype(x).kind == "c":
        raise DTypeError(f"{name} takes real numbers, given {o.dtype(x)}; use {name.replace('r', '', 1)}")
    return _floating(o, x)


def _resized(o: Ops[Any], x: Tensor, axis: int, n: Any) -> Tensor:
    """With `n` elements along that axis."""
    have, rank = x.shape[axis], len(x.shape)
    if have == n:
        return x
    if known(n) and n < 1:
        raise ShapeError(f"a transform has one element at least, given {n} for axis {axis} of shape {x.shape}")
    if not known(have - n):
        raise ShapeError(f"it is not known whether axis {axis} of shape {x.shape} has more elements than {n}")
    if have - n > 0:
        stops = tuple(n if i == axis else m for i, m in enumerate(x.shape))
        return o.slice(x, starts=(0,) * rank, stops=stops, steps=(1,) * rank)
    return o.pad(x, widths=tuple((0, n - have if i == axis else 0) for i in range(rank)))


def _axes(x: Tensor, s: Any, axes: Any) -> tuple[int, ...]:
    """Counted from the front, in the order in which they were given."""
    rank = len(x.shape)
    if axes is None:
        if s is not None and len(s) > rank:
            raise OperatorError(f"s={s} wants {len(s)} axes at least, given shape {x.shape}")
        return tuple(range(0 if s is None else rank - len(s), rank))
    normalise_axes(axes, rank)
    found = tuple(normalise_axis(a, rank) for a in axes)
    if s is not None and len(s) != len(found):
        raise OperatorError(f"wanted as many extents as axes, given s={s} and axes={axes}")
    return found


def _extents(x: Tensor, s: Any, axes: tuple[int, ...]) -> tuple[Any, ...]:
    """How many elements are transformed along each axis; -1 in `s` means all."""
    return tuple(x.shape[a] if s is None or (known(s[i]) and s[i] == -1) else s[i] for i, a in enumerate(axes))


def _over(o: Ops[Any], x: Tensor, s: Any, axes: Any, norm: str, inverse: bool) -> Tensor:
    check_norm(norm)
    x, axes = _complex(o, x), _axes(x, s, axes)
    for axis, n in zip(axes, _extents(x, s, axes), strict=True):
        x = _resized(o, x, axis, n)
    return o.fourier(x, axis=axes, inverse=inverse, norm=norm)


def _last(axes: tuple[int, ...], name: str) -> int:
    if not axes:
        raise OperatorError(f"{name} transforms along one axis at least, given none")
    return axes[-1]


# --- complex -----------------------------------------------------------------------------------------------


@composite(tolerance=ROUNDED, samples=_samples(_ALONG, COMPLEX))
def fft(o: Ops[Any], x: Tensor, /, *, n: Extent | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along an axis: complex numbers come out, as many as are transformed."""
    return _over(o, x, None if n is None else (n,), (axis,), norm, inverse=False)


@composite(tolerance=ROUNDED, samples=_samples(_ALONG, (*COMPLEX, *FLOATS)))
def ifft(o: Ops[Any], x: Tensor, /, *, n: Extent | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""
    return _over(o, x, None if n is None else (n,), (axis,), norm, inverse=True)


@composite(tolerance=ROUNDED, samples=_samples(_OVER, COMPLEX))
def fftn(
    o: Ops[Any], x: Tensor, /, *, s: Sizes | None = None, axes: Sizes | None = None, norm: str = "backward"
) -> Tensor:
    """The discrete Fourier transform along several axes: all, or the last ones where only `s` is given."""
    return _over(o, x, s, axes, norm, inverse=False)


@composite(tolerance=ROUNDED, samples=_samples(_OVER, (*COMPLEX, *FLOATS)))
def ifftn(
    o: Ops[Any], x: Tensor, /, *, s: Sizes | None = None, axes: Sizes | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `fftn`."""
    return _over(o, x, s, axes, norm, inverse=True)


# --- real --------------------------------------------------------------------------------------------------


@composite(tolerance=ROUNDED, samples=_samples(_ALONG, FLOATS))
def rfft(o: Ops[Any], x: Tensor, /, *, n: Extent | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform of real numbers along an axis: of n numbers the first ``n // 2 + 1`` frequencies.

    The others are the conjugates of these, in reverse order.
    """
    at = normalise_axis(axis, len(x.shape))
    x = _resized(o, _real(o, x, "rfft"), at, x.shape[at] if n is None else n)
    return o.real_fourier(x, axis=at, norm=norm)


@composite(tolerance=ROUNDED, samples=_samples(_ALONG[:-2], COMPLEX))
def irfft(o: Ops[Any], x: Tensor, /, *, n: Extent | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The `n` real numbers whose first frequencies these are, the inverse of `rfft`.

    None: an even number, ``2 (m - 1)`` of m frequencies. Imaginary parts of the first frequency, and of the middle
    one of an even n, are not read.
    """
    at = normalise_axis(axis, len(x.shape))
    n = 2 * (x.shape[at] - 1) if n is None else n
    return o.inverse_real_fourier(_resized(o, _complex(o, x), at, n // 2 + 1), n=n, axis=at, norm=norm)


@composite(tolerance=ROUNDED, samples=_samples(_OVER, FLOATS))
def rfftn(
    o: Ops[Any], x: Tensor, /, *, s: Sizes | None = None, axes: Sizes | None = None, norm: str = "backward"
) -> Tensor:
    """The discrete Fourier transform of real numbers along several axes; along the last one half of the frequencies."""
    axes = _axes(x, s, axes)
    last = _last(axes, "rfftn")
    x = _real(o, x, "rfftn")
    for axis, n in zip(axes, _extents(x, s, axes), strict=True):
        x = _resized(o, x, axis, n)
    return o.fourier(o.real_fourier(x, axis=last, norm=norm), axis=axes[:-1], norm=norm)


@composite(tolerance=ROUNDED, samples=_samples(_OVER, COMPLEX))
def irfftn(
    o: Ops[Any], x: Tensor, /, *, s: Sizes | None = None, axes: Sizes | None = None, norm: str = "backward"
) -> Tensor:
    """The real numbers with these frequencies along several axes, the inverse of `rfftn`.

    Where `s` is None there is an even number of them along the last axis, ``2 (m - 1)`` of m frequencies.
    """
    axes = _axes(x, s, axes)
    last = _last(axes, "irfftn")
    *extents, n = _extents(x, s, axes)
    if s is None or (known(s[-1]) and s[-1] == -1):
        n = 2 * (x.shape[last] - 1)
    x = _complex(o, x)
    for axis, extent in zip(axes, (*extents, n // 2 + 1), strict=True):
        x = _resized(o, x, axis, extent)
    return o.inverse_real_fourier(o.fourier(x, axis=axes[:-1], inverse=True, norm=norm), n=n, axis=last, norm=norm)


# --- Hermitian ---------------------------------------------------------------------------------------------


@composite(tolerance=ROUNDED, samples=_samples(_ALONG[:-2], COMPLEX))
def hfft(o: Ops[Any], x: Tensor, /, *, n: Extent | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The `n` real frequencies of a signal that is the conjugate of its mirror image, given by its first half."""
    check_norm(norm)
    return o.irfft(o.conj(_complex(o, x)), n=n, axis=axis, norm=NORMS[norm])


@composite(tolerance=ROUNDED, samples=_samples(_ALONG, FLOATS))
def ihfft(o: Ops[Any], x: Tensor, /, *, n: Extent | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first half of the signal with these real frequencies, the inverse of `hfft`."""
    check_norm(norm)
    return o.conj(o.rfft(x, n=n, axis=axis, norm=NORMS[norm]))


# --- frequencies -------------------------------------------------------------------------------------------


def _frequencies(o: Ops[Any], first: Any, count: Any, n: Any, d: float, dtype: Any) -> Tensor:
    if known(n) and n < 1:
        raise ShapeError(f"a transform has one element at least, given n={n}")
    steps = o.arange(start=first, stop=first + count, dtype=np.dtype("int64"))
    found = np.dtype("float64") if dtype is None else dtype
    step = o.multiply(o.full(shape=(), value=n, dtype=np.dtype("int64")), float(d))
    return o.cast(o.divide(steps, step), dtype=found) if found != np.dtype("float64") else o.divide(steps, step)


_NO_TENSOR: Any = {"derivative": Constant("it depends on no tensor"), "tolerance": EXACT}
_COUNTS = Samples(relation="cases", cases=tuple(((), {"n": n, "d": d}) for n in (1, 2, 4, 5) for d in (1.0, 0.25)))


@composite(samples=_COUNTS, **_NO_TENSOR)
def fftfreq(o: Ops[Any], /, *, n: Extent, d: float = 1.0, dtype: DType | None = None) -> Tensor:
    """The frequencies of `fft` of n elements that are `d` apart, in the order in which it gives them; float64."""
    positive = _frequencies(o, 0, (n + 1) // 2, n, d, dtype)
    return o.concat(positive, _frequencies(o, -(n // 2), n // 2, n, d, dtype), axis=0)


@composite(samples=_COUNTS, **_NO_TENSOR)
def rfftfreq(o: Ops[Any], /, *, n: Extent, d: float = 1.0, dtype: DType | None = None) -> Tensor:
    """The frequencies of `rfft` of n elements that are `d` apart; float64."""
    return _frequencies(o, 0, n // 2 + 1, n, d, dtype)


def _turned(o: Ops[Any], x: Tensor, axes: Any, backwards: bool) -> Tensor:
    """Rolled along each axis by half of its extent."""
    rank = len(x.shape)
    for axis in normalise_axes(axes, rank):
        n = x.shape[axis]
        first = n // 2 if backwards else n - n // 2
        x = o.concat(
            *(
                o.slice(
                    x, starts=tuple(start if i == axis else 0 for i in range(rank)),
                    stops=tuple(stop if i == axis else m for i, m in enumerate(x.shape)), steps=(1,) * rank,
                )
                for start, stop in ((first, n), (0, first))
            ), axis=axis,
        )  # fmt: skip
    return x


def _some_axes(shapes: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes[0])
    return {"axes": draw([None, *range(-rank, rank), tuple(range(rank))])}


@composite(tolerance=EXACT, samples=Samples(params=_some_axes))
def fftshift(o: Ops[Any], x: Tensor, /, *, axes: Axes | None = None) -> Tensor:
    """The frequency zero in the middle of each axis, or of those named: rolled by half of the extent."""
    return _turned(o, x, axes, backwards=False)


@composite(tolerance=EXACT, samples=Samples(params=_some_axes))
def ifftshift(o: Ops[Any], x: Tensor, /, *, axes: Axes | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _turned(o, x, axes, backwards=True)
