"""Convolutions along one and three axes, and transposed ones, by `conv2d` and its adjoint.

Signals are images one pixel high. A volume is a stack of images whose channels are those of all slices that a window
reaches: one product for the whole window, and nothing to be differentiated but what images have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Extent, known
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.windows import amounts, image_axes, image_shape, numbers
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.conv import convolved, kernel_axes
from nnc_func.graph.ops.families import Nested, Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

_FORMATS = {"NWC": "NHWC", "NCW": "NCHW"}
_LAST, _FIRST = (0, 2, 3, 4, 1), (0, 4, 1, 2, 3)  # axes of volumes with channels last, and first, of the other kind
_CLOSE = Tolerance(64.0)

# --- one axis --------------------------------------------------------------------------------------------


def flat(data_format: str) -> int:
    """The axis that makes an image one pixel high of a signal."""
    return 1 if data_format == "NWC" else 2


def beside(value: Any, other: Any) -> Any:
    """A parameter of the one axis of signals, as one of both axes of images."""
    return value if isinstance(value, str) else (other, *numbers("", value, 1, least=0))


def padded_beside(padding: Any) -> Any:
    """Padding of signals, as one of images."""
    return padding if isinstance(padding, str) else ((0, 0), *padding)


_SIGNALS: Any = (
    ((2, 7, 3), (3, 3, 2), {}),
    ((2, 7, 4), (3, 2, 4), {"stride": 2, "padding": "SAME", "groups": 2}),
    ((1, 6, 2), (2, 1, 2), {"padding": ((1, 2),), "dilation": 3, "groups": 2}),
    ((2, 3, 8), (3, 3, 2), {"stride": 3, "data_format": "NCW", "padding": ((0, 1),)}),
    ((0, 4, 1), (2, 1, 1), {}),
)


@composite(
    tolerance=_CLOSE,
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(((x, w), params) for x, w, params in _SIGNALS)),
)  # fmt: skip
def conv1d(
    o: Ops[Any], x: Tensor, w: Tensor, /, *, stride: Nested = 1, padding: Nested = "VALID", dilation: Nested = 1,
    groups: int = 1, data_format: str = "NWC",
) -> Tensor:  # fmt: skip
    """Sum of products of a kernel with every window of signals.

    Shapes: `x` is ``(signals, width, in)`` in the data format ``"NWC"``, ``(signals, in, width)`` in ``"NCW"``, and the
    result likewise with the kernel's ``out`` channels; the kernel is ``(width, in // groups, out)`` in both. The other
    parameters are those of `conv2d`, for one axis: padding is ``"VALID"``, ``"SAME"`` or ``((left, right),)``.

    Refused: channels that groups do not divide, a window that does not fit.
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation}
    convolved(x.shape, w.shape, groups=groups, data_format=data_format, axes=1, **params)
    at = flat(data_format)
    y = o.conv2d(
        o.expand_dims(x, axis=at), o.expand_dims(w, axis=0), stride=beside(stride, 1), padding=padded_beside(padding),
        dilation=beside(dilation, 1), groups=groups, data_format=_FORMATS[data_format],
    )  # fmt: skip
    return o.squeeze(y, axis=at)


# --- three axes ------------------------------------------------------------------------------------------


def _before(n: Extent, size: int, stride: int, padding: Any, dilation: int, axis: int) -> tuple[Any, Any]:
    """Padding before and after one axis."""
    around = amounts(padding, 3)
    if around is not None:
        return around[axis]
    if not known(n):
        raise ShapeError(f"padding 'SAME' of a depth of {n} is not known: say how much, as ((front, back), …)")
    total = max((-(-n // stride) - 1) * stride + dilation * (size - 1) + 1 - n, 0)
    return total // 2, total - total // 2


def _images(padding: Any) -> Any:
    return padding if isinstance(padding, str) else padding[1:]


def _slices_together(o: Ops[Any], w: Tensor) -> Tensor:
    """A kernel of volumes as one of images: the channels of each group slice by slice."""
    depth, height, width, inputs, out = w.shape
    return o.reshape(o.permute_dims(w, axes=(1, 2, 0, 3, 4)), shape=(height, width, depth * inputs, out))


def _along_depth(x: ShapeT, start: int, stride: int, count: Extent) -> dict[str, Any]:
    """Bounds of every slice that is `stride` from the one before."""
    stop = start + (count - 1) * stride + 1
    return {"starts": (0, start, 0, 0, 0), "stops": (x[0], stop, *x[2:]), "steps": (1, stride, 1, 1, 1)}


_VOLUMES: Any = (
    ((1, 3, 4, 3, 2), (2, 2, 2, 2, 3), {}),
    ((1, 4, 3, 3, 4), (3, 2, 1, 2, 2), {"stride": (2, 1, 2), "padding": "SAME", "groups": 2}),
    ((1, 5, 3, 2, 1), (2, 2, 2, 1, 2), {"dilation": (3, 1, 1), "padding": ((1, 0), (0, 1), (1, 1))}),
    ((1, 2, 3, 2, 3), (2, 1, 2, 2, 2), {"data_format": "NCDHW", "stride": (1, 2, 1)}),
)


@composite(
    tolerance=_CLOSE,
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(((x, w), params) for x, w, params in _VOLUMES)),
)  # fmt: skip
def conv3d(
    o: Ops[Any], x: Tensor, w: Tensor, /, *, stride: Nested = 1, padding: Nested = "VALID", dilation: Nested = 1,
    groups: int = 1, data_format: str = "NDHWC",
) -> Tensor:  # fmt: skip
    """Sum of products of a kernel with every window of volumes.

    Shapes: `x` is ``(volumes, depth, height, width, in)`` in the data format ``"NDHWC"``, ``(volumes, in, depth,
    height, width)`` in ``"NCDHW"``, and the result likewise with the kernel's ``out`` channels; the kernel is ``(depth,
    height, width, in // groups, out)`` in both. The other parameters are those of `conv2d`, a number or a triple each.

    Refused: channels that groups do not divide, a window that does not fit, ``"SAME"`` of an unknown depth.
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation}
    whole = convolved(x.shape, w.shape, groups=groups, data_format=data_format, axes=3, **params)
    _, (count, *_), _ = image_axes(whole, data_format, 3)
    strides, dilations = numbers("stride", stride, 3), numbers("dilation", dilation, 3)
    x = o.permute_dims(x, axes=_LAST) if data_format == "NCDHW" else x
    around = _before(x.shape[1], w.shape[0], strides[0], padding, dilations[0], 0)
    if around != (0, 0):
        x = o.pad(x, widths=((0, 0), around, (0, 0), (0, 0), (0, 0)))
    n, _, height, width, channels = x.shape
    seen = [o.slice(x, **_along_depth(x.shape, i * dilations[0], strides[0], count)) for i in range(w.shape[0])]
    apart = [o.reshape(s, shape=(n * count, height, width, groups, channels // groups)) for s in seen]
    y = o.conv2d(
        o.reshape(o.concat(*apart, axis=4), shape=(n * count, height, width, w.shape[0] * channels)),
        _slices_together(o, w), stride=strides[1:], padding=_images(padding), dilation=dilations[1:], groups=groups,
    )  # fmt: skip
    y = o.reshape(y, shape=(n, count, *y.shape[1:]))
    return o.permute_dims(y, axes=_FIRST) if data_format == "NCDHW" else y


# --- transposed ------------------------------------------------------------------------------------------


def _grown(
    x: ShapeT, w: ShapeT, stride: Any, padding: Any, dilation: Any, groups: int, output_padding: Any, data_format: str
) -> ShapeT:
    """The shape of what a transposed convolution gives."""
    axes = len(w) - 2
    if not 1 <= axes <= 3:
        raise ShapeError(f"a kernel has one to three spatial axes, then two of channels; given {w}")
    count, extents, channels = image_axes(x, data_format, axes)
    if groups < 1 or (known(channels) and channels % groups):
        raise ShapeError(f"groups is a positive number that divides the {channels} channels of {x}, given {groups}")
    if not known(w[-2]):
        raise ShapeError(f"the channels of the result, {w[-2]} of a kernel {w}, have to be known")
    window, _ = kernel_axes((*w[:-1], channels), w[-2] * groups, groups, axes)
    if known(channels) and known(w[-1]) and channels != w[-1]:
        raise ShapeError(f"a kernel of shape {w} wants {w[-1]} channels, its last extent; given {x}, {data_format}")
    strides, dilations = numbers("stride", stride, axes), numbers("dilation", dilation, axes)
    more, around = numbers("output_padding", output_padding, axes, least=0), amounts(padding, axes)
    if any(m >= s for m, s in zip(more, strides, strict=True)) or (around is None and any(more)):
        raise ShapeError(
            f"output_padding {more} is less than the stride {strides}, and zero with 'SAME', whose result has stride "
            "times the extents: it says which of the extents that have as many windows is wanted"
        )
    found = [n * s for n, s in zip(extents, strides, strict=True)]
    if around is not None:
        found = [
            (n - 1) * s + d * (k - 1) + 1 + m - before - after
            for n, s, k, d, m, (before, after) in zip(extents, strides, window, dilations, more, around, strict=True)
        ]
    if any(known(n) and n < 0 for n in found) or (around is not None and any(known(n) and n == 0 for n in extents)):
        raise ShapeError(f"there is no transposed convolution of {x}: the result would have extents {tuple(found)}")
    return image_shape(count, tuple(found), w[-2] * groups, data_format)


def _samples(cases: Any, *more: tuple[ShapeT, ShapeT, dict[str, Any]]) -> Samples:
    """The cotangents of those convolutions as arguments."""
    defaults: dict[str, Any] = {"stride": 1, "padding": "VALID", "dilation": 1, "groups": 1}
    found = []
    for x, w, params in cases:
        axes = len(w) - 2
        last = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[axes]
        y = convolved(x, w, **{**defaults, "data_format": last, **params}, axes=axes)
        found.append(((y, w), params))
    return Samples(relation="cases", dtypes=FLOATS, cases=(*found, *(((x, w), params) for x, w, params in more)))


@composite(
    tolerance=_CLOSE,
    samples=_samples(
        _SIGNALS[:4], ((1, 3, 2), (2, 2, 2), {"stride": 3, "output_padding": 2, "padding": ((1, 0),)})
    ),
)  # fmt: skip
def conv_transpose1d(
    o: Ops[Any], x: Tensor, w: Tensor, /, *, stride: Nested = 1, padding: Nested = "VALID", dilation: Nested = 1,
    groups: int = 1, output_padding: Nested = 0, data_format: str = "NWC",
) -> Tensor:  # fmt: skip
    """The adjoint of `conv1d` with respect to its signals, as a layer of its own: `stride` enlarges.

    Shapes: `x` is ``(signals, width, in)``, or of the data format ``"NCW"``; the kernel is that of the convolution,
    ``(width, out // groups, in)``. The other parameters are those of `conv_transpose2d`, for one axis.
    """
    _grown(x.shape, w.shape, stride, padding, dilation, groups, output_padding, data_format)
    at = flat(data_format)
    y = o.conv_transpose2d(
        o.expand_dims(x, axis=at), o.expand_dims(w, axis=0), stride=beside(stride, 1), padding=padded_beside(padding),
        dilation=beside(dilation, 1), groups=groups, output_padding=beside(output_padding, 0),
        data_format=_FORMATS[data_format],
    )  # fmt: skip
    return o.squeeze(y, axis=at)


_IMAGES: Any = (
    ((2, 5, 4, 1), (3, 2, 1, 2), {}),
    ((1, 6, 4, 2), (2, 3, 2, 3), {"stride": (2, 1), "padding": "SAME"}),
    ((1, 7, 6, 4), (2, 2, 2, 2), {"dilation": (2, 3), "padding": ((0, 1), (1, 1)), "groups": 2}),
    ((2, 2, 5, 4), (3, 2, 2, 3), {"data_format": "NCHW", "stride": 2}),
)


@composite(
    tolerance=_CLOSE,
    samples=_samples(
        _IMAGES,
        ((1, 2, 3, 2), (2, 3, 2, 2), {"stride": (2, 3), "output_padding": (1, 2), "padding": ((1, 0), (0, 1))}),
    ),
)  # fmt: skip
def conv_transpose2d(
    o: Ops[Any], x: Tensor, w: Tensor, /, *, stride: Nested = 1, padding: Nested = "VALID", dilation: Nested = 1,
    groups: int = 1, output_padding: Nested = 0, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """The adjoint of `conv2d` with respect to its images, as a layer of its own: `stride` enlarges.

    Shapes: `x` is ``(images, height, width, in)``, or of the data format ``"NCHW"``; the kernel is that of the
    convolution, ``(height, width, out // groups, in)``.

    `stride`, `padding`, `dilation` and `groups` are those of the convolution. An extent n becomes ``(n - 1) * stride +
    dilation * (window - 1) + 1 - padding + output_padding``; with ``"SAME"`` it becomes ``n * stride``. As many windows
    fit in several extents: `output_padding`, less than the stride, says which one is wanted.

    Refused: channels that groups or the kernel do not fit, results without elements.
    """
    shape = _grown(x.shape, w.shape, stride, padding, dilation, groups, output_padding, data_format)
    return o.conv2d_input_gradient(
        x, w, input_shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups,
        data_format=data_format,
    )  # fmt: skip


@composite(
    tolerance=_CLOSE,
    samples=_samples(
        _VOLUMES, ((1, 2, 1, 2, 2), (2, 1, 2, 2, 2), {"stride": (3, 1, 2), "output_padding": (2, 0, 1)})
    ),
)  # fmt: skip
def conv_transpose3d(
    o: Ops[Any], x: Tensor, w: Tensor, /, *, stride: Nested = 1, padding: Nested = "VALID", dilation: Nested = 1,
    groups: int = 1, output_padding: Nested = 0, data_format: str = "NDHWC",
) -> Tensor:  # fmt: skip
    """The adjoint of `conv3d` with respect to its volumes, as a layer of its own: `stride` enlarges.

    Shapes: `x` is ``(volumes, depth, height, width, in)``, or of the data format ``"NCDHW"``; the kernel is that of the
    convolution, ``(depth, height, width, out // groups, in)``. The other parameters are those of `conv_transpose2d`, a
    number or a triple each.
    """
    whole = _grown(x.shape, w.shape, stride, padding, dilation, groups, output_padding, data_format)
    n, (depth, *extents), channels = image_axes(whole, data_format, 3)
    strides, dilations = numbers("stride", stride, 3), numbers("dilation", dilation, 3)
    x = o.permute_dims(x, axes=_LAST) if data_format == "NCDHW" else x
    count, taps = x.shape[1], w.shape[0]
    y = o.conv2d_input_gradient(
        o.reshape(x, shape=(n * count, *x.shape[2:])), _slices_together(o, w),
        input_shape=(n * count, *extents, taps * channels), stride=strides[1:], padding=_images(padding),
        dilation=dilations[1:], groups=groups,
    )  # fmt: skip
    y = o.reshape(y, shape=(n, count, *extents, groups, taps, channels // groups))
    before, after = _before(depth, taps, strides[0], padding, dilations[0], 0)
    padded = (n, depth + before + after, *extents, channels)
    parts = o.split(y, sections=(1,) * taps, axis=-2)
    slices = [
        o.assemble(
            o.reshape(part, shape=(n, count, *extents, channels)), shape=padded,
            offsets=((0, i * dilations[0], 0, 0, 0),), strides=((1, strides[0], 1, 1, 1),),
        )
        for i, part in enumerate(parts)
    ]  # fmt: skip
    total = slices[0]
    for each in slices[1:]:
        total = o.add(total, each)
    if before or after:
        total = o.slice(total, **_along_depth(padded, before, 1, depth))
    return o.permute_dims(total, axes=_FIRST) if data_format == "NCDHW" else total
