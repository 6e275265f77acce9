"""Pooling along one and three axes, by that of images, and pooling of everything.

Signals are images one pixel high. A window of a volume is a window of images in each slice, and then one of slices:
the first largest element in row-major order is found either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.errors import ShapeError
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT, normalise_axis
from nnc_func.facets.windows import image_axes, numbers
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.convolution import beside, flat, padded_beside
from nnc_func.graph.ops.families import Nested, Tensor
from nnc_func.graph.ops.pool import pooled

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

_FORMATS = {"NWC": "NHWC", "NCW": "NCHW"}
_CLOSE = Tolerance(16.0)

_SIGNALS: Any = (
    ((2, 6, 2), {"window": 2}),
    ((1, 7, 2), {"window": 3, "stride": 2, "padding": "SAME"}),
    ((2, 3, 6), {"window": 2, "stride": 1, "dilation": 3, "padding": ((1, 0),), "data_format": "NCW"}),
)
_VOLUMES: Any = (
    ((1, 4, 2, 3, 2), {"window": 2}),
    ((1, 3, 4, 3, 1), {"window": (2, 3, 2), "stride": (1, 2, 2), "padding": "SAME"}),
    ((1, 2, 4, 3, 3), {"window": 2, "stride": 1, "dilation": (2, 1, 1), "padding": ((1, 0), (0, 1), (0, 0)),
                       "data_format": "NCDHW"}),
)  # fmt: skip


def _samples(cases: Any, distinct: bool) -> Samples:
    found = tuple(((x,), params) for x, params in cases)
    if not distinct:
        found += tuple(((x,), {**params, "count_padding": True}) for x, params in cases)
    return Samples(relation="cases", dtypes=FLOATS, distinct=distinct, cases=found)


# --- one axis --------------------------------------------------------------------------------------------


def _signals(name: str, o: Ops[Any], x: Tensor, data_format: str, params: dict[str, Any], **more: Any) -> Tensor:
    """The pooling of images of that name, of signals."""
    pooled(x.shape, data_format=data_format, axes=1, **params)
    at, stride = flat(data_format), params["stride"]
    y = getattr(o, name)(
        o.expand_dims(x, axis=at), window=beside(params["window"], 1), stride=stride and beside(stride, 1),
        padding=padded_beside(params["padding"]), dilation=beside(params["dilation"], 1),
        data_format=_FORMATS[data_format], **more,
    )  # fmt: skip
    return o.squeeze(y, axis=at)


@composite(tolerance=Tolerance(0.0), samples=_samples(_SIGNALS, True))
def max_pool1d(
    o: Ops[Any], x: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = 1, data_format: str = "NWC",
) -> Tensor:  # fmt: skip
    """Largest element of every window of signals, channel by channel.

    Shapes: `x` is ``(signals, width, channels)`` in the data format ``"NWC"``, ``(signals, channels, width)`` in
    ``"NCW"``. Parameters, NaN and ties are those of `max_pool2d`; padding is that of `conv1d`.
    """
    params = {"window": window, "stride": stride, "padding": padding, "dilation": dilation}
    return _signals("max_pool2d", o, x, data_format, params)


@composite(tolerance=_CLOSE, samples=_samples(_SIGNALS, False))
def average_pool1d(
    o: Ops[Any], x: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = 1, count_padding: bool = False, data_format: str = "NWC",
) -> Tensor:  # fmt: skip
    """Mean of every window of signals, channel by channel.

    Shapes are those of `max_pool1d`, parameters those of `average_pool2d`; padding is that of `conv1d`.
    """
    params = {"window": window, "stride": stride, "padding": padding, "dilation": dilation}
    return _signals("average_pool2d", o, x, data_format, params, count_padding=count_padding)


# --- three axes ------------------------------------------------------------------------------------------


def _volumes(name: str, o: Ops[Any], x: Tensor, data_format: str, params: dict[str, Any], **more: Any) -> Tensor:
    """The pooling of images of that name, of each slice of volumes and then of slices."""
    pooled(x.shape, data_format=data_format, axes=3, **params)
    window, dilation = numbers("window", params["window"], 3), numbers("dilation", params["dilation"], 3)
    stride = window if params["stride"] is None else numbers("stride", params["stride"], 3)
    padding = params["padding"]
    n, extents, channels = image_axes(x.shape, data_format, 3)
    first = data_format == "NCDHW"
    slices = (n * channels if first else n) * extents[0]
    y = getattr(o, name)(
        o.reshape(x, shape=(slices, *extents[1:], 1 if first else channels)), window=window[1:], stride=stride[1:],
        padding=padding if isinstance(padding, str) else padding[1:], dilation=dilation[1:], **more,
    )  # fmt: skip
    rows = (n * channels if first else n, extents[0])
    _, height, width, last = y.shape
    y = getattr(o, name)(
        o.reshape(y, shape=(*rows, height * width, last)), window=(window[0], 1), stride=(stride[0], 1),
        padding=padding if isinstance(padding, str) else (padding[0], (0, 0)), dilation=(dilation[0], 1), **more,
    )  # fmt: skip
    depth = y.shape[1]
    shape = (n, channels, depth, height, width) if first else (n, depth, height, width, channels)
    return o.reshape(y, shape=shape)


@composite(tolerance=Tolerance(0.0), samples=_samples(_VOLUMES, True))
def max_pool3d(
    o: Ops[Any], x: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = 1, data_format: str = "NDHWC",
) -> Tensor:  # fmt: skip
    """Largest element of every window of volumes, channel by channel.

    Shapes: `x` is ``(volumes, depth, height, width, channels)`` in the data format ``"NDHWC"``, ``(volumes, channels,
    depth, height, width)`` in ``"NCDHW"``. Parameters, NaN and ties are those of `max_pool2d`, a number or a triple
    each; padding is that of `conv3d`.
    """
    params = {"window": window, "stride": stride, "padding": padding, "dilation": dilation}
    return _volumes("max_pool2d", o, x, data_format, params)


@composite(tolerance=_CLOSE, samples=_samples(_VOLUMES, False))
def average_pool3d(
    o: Ops[Any], x: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = 1, count_padding: bool = False, data_format: str = "NDHWC",
) -> Tensor:  # fmt: skip
    """Mean of every window of volumes, channel by channel.

    Shapes are those of `max_pool3d`, parameters those of `average_pool2d`; padding is that of `conv3d`.
    """
    params = {"window": window, "stride": stride, "padding": padding, "dilation": dilation}
    return _volumes("average_pool2d", o, x, data_format, params, count_padding=count_padding)


# --- everything ------------------------------------------------------------------------------------------


def spatial_axes(shape: ShapeT, axis: int) -> tuple[int, ...]:
    """All axes of signals, images or volumes but the first and that of their channels.

    Raises
    ------
    ShapeError
        There is none, or the first axis is said to be that of channels.
    """
    rank = len(shape)
    channels = normalise_axis(axis, rank)
    found = tuple(i for i in range(1, rank) if i != channels)
    if channels == 0 or not found:
        raise ShapeError(f"wanted channels along axis {axis}, the first axis for samples and others, given {shape}")
    return found


_GLOBAL: Any = (
    ((2, 3, 2), {}),
    ((2, 3, 2, 2), {"axis": 1, "keepdims": True}),
    ((1, 2, 2, 2, 3), {}),
)


@composite(
    tolerance=Tolerance(0.0),
    samples=Samples(relation="cases", dtypes=FLOATS, distinct=True, cases=tuple(((x,), p) for x, p in _GLOBAL)),
)  # fmt: skip
def global_max_pool(o: Ops[Any], x: Tensor, /, *, axis: int = -1, keepdims: bool = False) -> Tensor:
    """Largest element of each channel of each signal, image or volume.

    `axis` is that of the channels; all others but the first are pooled. NaN gives NaN; several largest elements share
    the derivative, as in `max`. Refused: nothing to pool.
    """
    return o.max(x, axis=spatial_axes(x.shape, axis), keepdims=keepdims)


@composite(
    tolerance=_CLOSE,
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(((x,), p) for x, p in _GLOBAL)),
)  # fmt: skip
def global_average_pool(o: Ops[Any], x: Tensor, /, *, axis: int = -1, keepdims: bool = False) -> Tensor:
    """Mean of each channel of each signal, image or volume.

    `axis` is that of the channels; all others but the first are pooled. Refused: nothing to pool.
    """
    return o.mean(x, axis=spatial_axes(x.shape, axis), keepdims=keepdims)
