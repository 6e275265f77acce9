"""Signals: windows that taper them, and whole numbers that stand for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dims import same_extent
from nnc_func.facets.dtypes import as_dtype, kind_of, promote
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import DType, Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

FLOAT32, FLOAT64, INT32, INT64 = map(np.dtype, ("float32", "float64", "int32", "int64"))
COSINES = {"hann": (0.5, -0.5), "hamming": (0.54, -0.46), "blackman": (0.42, -0.5, 0.08), "boxcar": (1.0,)}


@composite(
    derivative=Constant("it depends on no tensor"), tolerance=Tolerance(4.0),
    samples=Samples(relation="cases", cases=tuple(
        ((), {"size": size, "kind": kind, "periodic": periodic, "dtype": dtype})
        for size in (0, 1, 5) for kind in COSINES for periodic in (True, False) for dtype in FLOATS
    )),
)  # fmt: skip
def window(o: Ops[Any], /, *, size: int, kind: str = "hann", periodic: bool = True, dtype: DType = "float64") -> Tensor:
    """A window of that many elements: ``"hann"``, ``"hamming"``, ``"blackman"`` or ``"boxcar"``, sums of cosines.

    A `periodic` one is for transforms: it goes on with its first element. Else it ends as it begins, as NumPy's do.
    Source: Harris, "On the use of windows for harmonic analysis", 1978.
    """
    if kind not in COSINES:
        raise OperatorError(f"a window is one of {', '.join(COSINES)}, given {kind!r}")
    if size < 0:
        raise ShapeError(f"a window has 0 elements or more, given size={size}")
    angles = np.arange(size) * (2 * np.pi / max(size if periodic else size - 1, 1))
    found = sum(c * np.cos(i * angles) for i, c in enumerate(COSINES[kind]))
    return o.cast(found if size != 1 else np.ones(1), dtype=dtype)


# --- quantisation -----------------------------------------------------------------------------------------


def _spread(o: Ops[Any], values: Tensor, x: Tensor, axis: int) -> Tensor:
    """One number, one for each place of an axis, or a tensor of rank 2 or more: so that it broadcasts against `x`."""
    pairs = zip(reversed(values.shape), reversed(x.shape), strict=False)
    fits = len(values.shape) <= len(x.shape) and all(same_extent(n, 1) or same_extent(n, m) for n, m in pairs)
    if len(values.shape) != 1 and fits:
        return values
    at = normalise_axis(axis, len(x.shape))
    if len(values.shape) != 1 or not same_extent(values.shape[0], x.shape[at]):
        raise ShapeError(
            f"wanted one number, one for each place of axis {axis} of {x.shape}, or a tensor of rank 2 or more that "
            f"broadcasts against it; given {values.shape}"
        )
    return o.reshape(values, shape=(values.shape[0], *(1,) * (len(x.shape) - at - 1)))


def _scaled(o: Ops[Any], scale: Tensor) -> None:
    if kind_of(o.dtype(scale)) != "f":
        raise DTypeError(f"a scale is a floating number, given {o.dtype(scale)}")


_POSITIVE = (0.1, 2.0)


@composite(
    derivative=Constant("whole numbers have no derivative"), tolerance=Tolerance(0.0),
    samples=Samples(relation="cases", cases=tuple(
        (((shape, "float32"), (scale, "float32", _POSITIVE), (scale, dtype, (0, 9)))[: 2 + given],
         {"dtype": dtype, "axis": -1})
        for shape, scale in (((2, 3), ()), ((2, 3), (3,)), ((0,), ()), ((), ()))
        for dtype in ("uint8", "int8", "int16") for given in (0, 1)
    )),
)  # fmt: skip
def quantize_linear(
    o: Ops[Any], x: Tensor, scale: Tensor, zero: Tensor | None = None, /, *, dtype: DType = "uint8", axis: int = -1
) -> Tensor:
    """``round(x / scale) + zero`` as integers of a dtype, the nearest that it has; halves are rounded to even.

    Scale and zero point (0 unless given) are numbers, vectors of one for each place of an axis, or tensors of rank 2
    or more that broadcast against `x`. A NaN is zero.
    Source: Jacob et al., CVPR 2018; the rule is that of ONNX.
    """
    wanted = as_dtype(dtype)
    _scaled(o, scale)
    if wanted.kind not in "iu" or wanted.itemsize > 4:
        raise DTypeError(f"quantised numbers are integers of at most 32 bits, given {wanted}")
    over = o.round(o.divide(x, _spread(o, scale, x, axis)))
    wide = promote(o.dtype(over), FLOAT64 if wanted.itemsize > 2 else FLOAT32)  # which has all these integers
    over = o.cast(over, dtype=wide)
    over = over if zero is None else o.add(over, o.cast(_spread(o, zero, x, axis), dtype=wide))
    bounds = np.iinfo(wanted)
    over = o.where(o.isnan(over), o.number(0, over), over)
    return o.cast(o.clip(over, min=int(bounds.min), max=int(bounds.max)), dtype=wanted)


@composite(
    tolerance=Tolerance(4.0),
    samples=Samples(relation="cases", cases=tuple(
        (((shape, dtype, (0, 99)), (scale, floating, _POSITIVE), (scale, dtype, (0, 9)))[: 2 + given], {"axis": -1})
        for shape, scale in (((2, 3), ()), ((2, 3), (3,)), ((0,), ()), ((), ()))
        for dtype in ("uint8", "int8") for floating in ("float32", "float64") for given in (0, 1)
    )),
)  # fmt: skip
def dequantize_linear(
    o: Ops[Any], x: Tensor, scale: Tensor, zero: Tensor | None = None, /, *, axis: int = -1
) -> Tensor:
    """``(x - zero) * scale``, in the scale's dtype: what quantised numbers stand for; see `quantize_linear`."""
    _scaled(o, scale)
    if o.dtype(x).kind not in "iu" or o.dtype(x).itemsize > 4:
        raise DTypeError(f"quantised numbers are integers of at most 32 bits, given {o.dtype(x)}")
    away: Any = x
    if zero is not None:
        wide = INT64 if max(o.dtype(x).itemsize, o.dtype(zero).itemsize) > 2 else INT32
        away = o.subtract(o.cast(x, dtype=wide), o.cast(_spread(o, zero, x, axis), dtype=wide))
    return o.multiply(o.cast(away, dtype=o.dtype(scale)), _spread(o, scale, x, axis))
