"""Normalisations: elements less their mean, over their deviation, each along other axes. One place for each formula.

The variance is that of elements less their mean, not a difference of squares, and the mean is taken off before
anything is scaled: so a mean that is large beside the deviation costs no digits but its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import Extent, known, product, same_extent
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT, normalise_axes, normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.pooling import spatial_axes
from nnc_func.graph.ops.families import Axes, Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

_CLOSE = Tolerance(256.0)  # of elements that have lost their mean

# --- parts -----------------------------------------------------------------------------------------------


def _aligned(o: Ops[Any], x: Tensor, weight: Tensor | None, axes: tuple[int, ...], what: str) -> Tensor | None:
    """A tensor of the extents of some axes, shown so that it broadcasts against the whole."""
    if weight is None:
        return None
    wanted = tuple(x.shape[a] for a in axes)
    if len(weight.shape) != len(wanted) or not all(map(same_extent, weight.shape, wanted)):
        raise ShapeError(f"{what} has the extents {wanted} of the axes {axes} of {x.shape}, given shape {weight.shape}")
    if axes == tuple(range(len(x.shape) - len(axes), len(x.shape))):
        return weight
    return o.reshape(weight, shape=tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))


def _scaled(o: Ops[Any], x: Tensor, scale: Tensor | None, offset: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    """Times a scale and plus an offset, where there are any."""
    scale, offset = _aligned(o, x, scale, axes, "scale"), _aligned(o, x, offset, axes, "offset")
    x = x if scale is None else o.multiply(x, scale)
    return x if offset is None else o.add(x, offset)


def _inverse_deviation(o: Ops[Any], variance: Tensor, epsilon: float) -> Tensor:
    if not epsilon >= 0:
        raise OperatorError(f"epsilon is added to a variance: a number of at least zero, given {epsilon}")
    return o.reciprocal(o.sqrt(o.add(variance, o.number(epsilon, variance))))


def _standardised(o: Ops[Any], x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """Less the mean along axes, over the deviation."""
    if kind_of(o.dtype(x)) not in "fc":
        raise DTypeError(f"wanted floating numbers to normalise, given {o.dtype(x)}; cast them first")
    away = o.subtract(x, o.mean(x, axis=axes, keepdims=True))
    variance = o.mean(o.square(away), axis=axes, keepdims=True)
    return o.multiply(away, _inverse_deviation(o, variance, epsilon))


# --- by given statistics, and by those of a batch --------------------------------------------------------


@composite(
    tolerance=_CLOSE,
    samples=Samples(min_rank=1, params=lambda shapes, draw: {"axis": draw((0, -1)), "keepdims": draw((False, True))}),
)  # fmt: skip
def moments(o: Ops[Any], x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and biased variance along some axes, or all: the variance is the mean square of what the mean leaves.

    No elements give NaN, as `mean` does.
    """
    axes = normalise_axes(axis, len(x.shape))
    mean = o.mean(x, axis=axes, keepdims=True)
    variance = o.mean(o.square(o.subtract(x, mean)), axis=axes, keepdims=keepdims)
    return mean if keepdims or not axes else o.squeeze(mean, axis=axes), variance


_POSITIVE = (0.5, 3.0)


def _batch_cases() -> Any:
    for x, n, params in (((4, 3), 3, {}), ((2, 3, 4, 2), 3, {"axis": 1, "epsilon": 0.01}), ((2, 3, 1), 1, {})):
        for dtype in FLOATS:
            given = ((x, dtype), ((n,), dtype), ((n,), dtype, _POSITIVE))
            yield given, params
            yield (*given, ((n,), dtype), ((n,), dtype)), params


@composite(
    tolerance=_CLOSE, samples=Samples(relation="cases", cases=tuple(_batch_cases()))
)  # fmt: skip
def batch_norm(
    o: Ops[Any], x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor | None = None, offset: Tensor | None = None,
    /, *, axis: int = -1, epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset``, channel by channel; Ioffe and Szegedy, ICML 2015.

    `axis` is that of the channels; the other tensors have an element for each. For inference they are running
    averages; for training they are the `moments` of the batch along all other axes, through which gradients flow.
    """
    at = (normalise_axis(axis, len(x.shape)),)
    middle, spread = _aligned(o, x, mean, at, "mean"), _aligned(o, x, variance, at, "variance")
    factor = _inverse_deviation(o, spread, epsilon)
    if scale is not None:
        factor = o.multiply(factor, _aligned(o, x, scale, at, "scale"))
    return _scaled(o, o.multiply(o.subtract(x, middle), factor), None, offset, at)


# --- by the statistics of each sample --------------------------------------------------------------------


def _weighted(*cases: tuple[ShapeT, ShapeT, dict[str, Any]], offsets: bool = True) -> Samples:
    """Cases of tensors without weights and with all; an epsilon that leaves equal elements a derivative of size one."""
    found: list[Any] = []
    for x, weight, more in cases:
        params = {"epsilon": 0.5, **more}
        found += [((x,), params), ((x, weight, weight) if offsets else (x, weight), params)]
    return Samples(relation="cases", dtypes=FLOATS, cases=found)


@composite(
    tolerance=_CLOSE,
    samples=_weighted(((2, 4), (4,), {}), ((2, 3, 2), (3, 2), {"axis": (1, 2)}), ((3, 2, 2), (3,), {"axis": 0})),
)  # fmt: skip
def layer_norm(
    o: Ops[Any], x: Tensor, scale: Tensor | None = None, offset: Tensor | None = None, /, *, axis: Axes = -1,
    epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each sample less its mean, over its deviation, along some axes; Ba, Kiros and Hinton, 2016.

    `scale` and `offset` have the extents of these axes, in increasing order.
    """
    axes = normalise_axes(axis, len(x.shape))
    return _scaled(o, _standardised(o, x, axes, epsilon), scale, offset, axes)


@composite(
    tolerance=_CLOSE,
    samples=_weighted(((2, 4, 2), (2,), {}), ((1, 3, 2, 2), (3,), {"axis": 1})),
)  # fmt: skip
def instance_norm(
    o: Ops[Any], x: Tensor, scale: Tensor | None = None, offset: Tensor | None = None, /, *, axis: int = -1,
    epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each signal, image or volume less its mean, over its deviation; Ulyanov et al., 2016.

    `axis` is that of the channels, of which `scale` and `offset` have an element each; the first axis is of samples.
    """
    axes, channels = spatial_axes(x.shape, axis), (normalise_axis(axis, len(x.shape)),)
    return _scaled(o, _standardised(o, x, axes, epsilon), scale, offset, channels)


@composite(
    tolerance=_CLOSE,
    samples=_weighted(
        ((2, 3, 4), (4,), {"groups": 2}), ((2, 6), (6,), {"groups": 3}), ((1, 4, 2, 2), (4,), {"groups": 1, "axis": 1})
    ),
)  # fmt: skip
def group_norm(
    o: Ops[Any], x: Tensor, scale: Tensor | None = None, offset: Tensor | None = None, /, *, groups: int,
    axis: int = -1, epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each group of channels of each sample less its mean, over its deviation; Wu and He, ECCV 2018.

    `axis` is that of the channels, which are cut into `groups` runs of equal length, and of which `scale` and `offset`
    have an element each; the first axis is of samples.
    """
    at = normalise_axis(axis, len(x.shape))
    channels = x.shape[at]
    if at == 0:
        raise ShapeError(f"wanted channels along axis {axis} and samples along the first, given shape {x.shape}")
    if groups < 1 or (known(channels) and channels % groups):
        raise ShapeError(f"groups is a positive number that divides the {channels} channels, given {groups}")
    cut = o.reshape(x, shape=(*x.shape[:at], groups, channels // groups, *x.shape[at + 1 :]))
    axes = tuple(i for i in range(1, len(cut.shape)) if i != at)
    return _scaled(o, o.reshape(_standardised(o, cut, axes, epsilon), shape=x.shape), scale, offset, (at,))


@composite(
    tolerance=_CLOSE,
    samples=_weighted(((2, 4), (4,), {}), ((2, 3, 2), (3, 2), {"axis": (1, 2), "epsilon": 0.7}), offsets=False),
)  # fmt: skip
def rms_norm(
    o: Ops[Any], x: Tensor, scale: Tensor | None = None, /, *, axis: Axes = -1, epsilon: float = 1e-6
) -> Tensor:
    """Each sample over its root mean square along some axes; Zhang and Sennrich, NeurIPS 2019.

    `scale` has the extents of these axes, in increasing order. No mean is taken off.
    """
    if kind_of(o.dtype(x)) not in "fc":
        raise DTypeError(f"wanted floating numbers to normalise, given {o.dtype(x)}; cast them first")
    axes = normalise_axes(axis, len(x.shape))
    size = o.mean(o.square(x), axis=axes, keepdims=True)
    return _scaled(o, o.multiply(x, _inverse_deviation(o, size, epsilon)), scale, None, axes)


# --- by neighbours ---------------------------------------------------------------------------------------

_NEIGHBOURS: Any = (
    ((2, 3, 4), {}),
    ((2, 5, 2), {"size": 2, "axis": 1, "alpha": 0.5}),
    ((1, 5, 2, 3), {"size": 4, "axis": 1, "beta": 0.25}),
    ((4, 2), {"size": 3, "beta": 0.6}),
    ((2, 3, 2, 1), {"axis": 1, "alpha": -0.5, "bias": 2.0}),
    ((3, 2), {"size": 3, "axis": 0, "bias": 2.0, "beta": 0.5}),
)


@composite(
    tolerance=_CLOSE,
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(((x,), params) for x, params in _NEIGHBOURS)),
)  # fmt: skip
def local_response_norm(
    o: Ops[Any], x: Tensor, /, *, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0,
    axis: int = -1,
) -> Tensor:  # fmt: skip
    """Each element over ``(bias + alpha * m) ** beta``, m the mean square of neighbours; Krizhevsky et al., 2012.

    Neighbours are the `size` elements around it along an axis, that of the channels: ``(size - 1) // 2`` before it and
    the rest behind, zeros beyond the ends, as ONNX has it.
    """
    if size < 1:
        raise ShapeError(f"size is the number of neighbours, itself among them: at least 1, given {size}")
    at, before = normalise_axis(axis, len(x.shape)), (size - 1) // 2
    windows: Any = {"stride": 1, "count_padding": True}
    around, squares = (before, size - 1 - before), o.square(x)
    if at == 1 and len(x.shape) == 4:  # as the rows of images they may lie in memory in any order
        mean = o.average_pool2d(squares, window=(size, 1), padding=(around, (0, 0)), **windows)
    else:
        behind: Extent = product(x.shape[at + 1 :])
        signals = o.reshape(squares, shape=(product(x.shape[:at]), x.shape[at], behind))
        mean = o.reshape(o.average_pool1d(signals, window=size, padding=(around,), **windows), shape=x.shape)
    size_of = o.add(o.multiply(mean, o.number(alpha, x)), o.number(bias, x))
    roots = _ROOTS.get(beta) if alpha >= 0 and bias >= 0 else None
    if roots is None:
        return o.multiply(x, o.power(size_of, o.number(-beta, x)))
    return o.divide(x, roots(o, size_of))


def _three_quarters(o: Ops[Any], x: Tensor) -> Tensor:
    root = o.sqrt(x)
    return o.multiply(root, o.sqrt(root))


_ROOTS: Any = {0.25: lambda o, x: o.sqrt(o.sqrt(x)), 0.5: lambda o, x: o.sqrt(x), 0.75: _three_quarters}
"""Powers that square roots give, of numbers that are not negative: a tenth of the time of a power."""
