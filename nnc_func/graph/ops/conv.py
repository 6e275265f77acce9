"""Convolution of images and its two adjoints: three operators closed under differentiation to any order.

Each is linear in both arguments, and each derivative is one of the three. "Convolution" is the cross-correlation
that neural networks mean: the kernel is not flipped.
"""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import conv as kernels
from nnc_func.errors import ShapeError
from nnc_func.facets import dtypes, layouts
from nnc_func.facets.derivatives import Bilinear
from nnc_func.facets.dims import Extent, known, same_extent
from nnc_func.facets.laws import odd
from nnc_func.facets.onnx import windows as onnx_windows
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.facets.windows import Extents, image_axes, image_shape, window_extents
from nnc_func.graph.ops.families import Nested, Sizes, Tensor
from nnc_func.op import operator

KERNELS = {1: "(width, in // groups, out)", 2: "(height, width, in // groups, out)",
           3: "(depth, height, width, in // groups, out)"}  # fmt: skip


# --- shape rules -------------------------------------------------------------------------------------


def kernel_axes(w: ShapeT, channels: Extent, groups: int, axes: int = 2) -> tuple[Extents, Extent]:
    """Spatial extents of a kernel, and its output channels, after checking it against the input's channels.

    Raises
    ------
    ShapeError
        Another rank, channels that do not fit, or groups that do not divide them.
    """
    if len(w) != axes + 2:
        raise ShapeError(f"wanted a kernel of shape {KERNELS[axes]}, given {w}")
    if groups < 1:
        raise ShapeError(f"groups is a positive number, given {groups}")
    if not same_extent(w[-2] * groups, channels) or (known(w[-1]) and w[-1] % groups):
        raise ShapeError(
            f"a kernel of shape {w}, {KERNELS[axes]}, does not fit {channels} channels in {groups} groups: wanted "
            f"in // groups * {groups} = {channels}, and out a multiple of {groups}"
        )
    return w[:-2], w[-1]


def _same_shape(given: ShapeT, wanted: ShapeT, what: str) -> None:
    if len(given) != len(wanted) or not all(same_extent(m, n) for m, n in zip(given, wanted, strict=True)):
        raise ShapeError(f"{what} has shape {given}; with these parameters it must be {wanted}")


def convolved(
    x: ShapeT, w: ShapeT, *, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str, axes: int = 2
) -> ShapeT:
    """The shape of images convolved with a kernel."""
    count, extents, channels = image_axes(x, data_format, axes)
    window, out = kernel_axes(w, channels, groups, axes)
    return image_shape(count, window_extents(extents, window, stride, padding, dilation), out, data_format)


def _input_gradient_shape(g: ShapeT, w: ShapeT, *, input_shape: ShapeT, **params: Any) -> ShapeT:
    _same_shape(g, convolved(input_shape, w, **params), f"the cotangent of conv2d of {input_shape} with {w}")
    return input_shape


def _kernel_gradient_shape(x: ShapeT, g: ShapeT, *, kernel_shape: ShapeT, **params: Any) -> ShapeT:
    _same_shape(g, convolved(x, kernel_shape, **params), f"the cotangent of conv2d of {x} with {kernel_shape}")
    return kernel_shape


# --- derivatives and cost ----------------------------------------------------------------------------


def _to_input(o: Any, g: Tensor, x: Tensor, w: Tensor, **params: Any) -> Tensor:
    return o.conv2d_input_gradient(g, w, input_shape=x.shape, **params)


def _to_kernel(o: Any, g: Tensor, x: Tensor, w: Tensor, **params: Any) -> Tensor:
    return o.conv2d_kernel_gradient(x, g, kernel_shape=w.shape, **params)


_CONV = Bilinear(left=_to_input, right=_to_kernel)
_INPUT_GRADIENT = Bilinear(  # of (g, w): the cotangent c has the input's shape
    left=lambda o, c, g, w, *, input_shape, **params: o.conv2d(c, w, **params),
    right=lambda o, c, g, w, *, input_shape, **params: o.conv2d_kernel_gradient(c, g, kernel_shape=w.shape, **params),
)
_KERNEL_GRADIENT = Bilinear(  # of (x, g): the cotangent c has the kernel's shape
    left=lambda o, c, x, g, *, kernel_shape, **params: o.conv2d_input_gradient(g, c, input_shape=x.shape, **params),
    right=lambda o, c, x, g, *, kernel_shape, **params: o.conv2d(x, c, **params),
)


def _conv_cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    height, width, channels, _out = args[1].shape
    return Cost(2 * results[0].size * height * width * channels, threaded=True)


def _input_gradient_cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    height, width, channels, _out = args[1].shape
    return Cost(2 * args[0].size * height * width * channels, threaded=True)


def _kernel_gradient_cost(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    height, width, channels, _out = results[0].shape
    return Cost(2 * args[1].size * height * width * channels, threaded=True)


# --- samples -----------------------------------------------------------------------------------------

_CASES: tuple[tuple[ShapeT, ShapeT, dict[str, Any]], ...] = (  # input, kernel, parameters
    ((2, 5, 6, 1), (3, 3, 1, 2), {}),
    ((2, 5, 6, 1), (3, 3, 1, 2), {"padding": "SAME"}),
    ((1, 6, 5, 2), (2, 3, 2, 3), {"stride": (2, 1), "padding": "SAME"}),
    ((1, 7, 7, 2), (3, 2, 2, 2), {"stride": (2, 3), "padding": ((1, 0), (0, 2))}),
    ((1, 7, 6, 2), (2, 2, 2, 2), {"dilation": (2, 3), "padding": ((0, 1), (1, 1))}),
    ((2, 4, 4, 4), (2, 2, 2, 6), {"groups": 2}),
    ((1, 5, 5, 3), (3, 3, 1, 3), {"groups": 3, "padding": "SAME"}),
    ((1, 3, 4, 3), (1, 1, 3, 2), {"stride": (2, 2)}),
    ((0, 4, 4, 2), (3, 3, 2, 2), {}),
    ((2, 2, 5, 6), (3, 3, 2, 3), {"data_format": "NCHW", "padding": "SAME"}),
    ((2, 4, 6, 5), (2, 3, 2, 4), {"data_format": "NCHW", "groups": 2, "stride": (2, 1), "dilation": (2, 1)}),
    ((1, 2, 5, 4), (2, 2, 2, 3), {"data_format": "NCHW", "padding": ((1, 2), (0, 1)), "stride": (1, 2)}),
)
_DEFAULTS: dict[str, Any] = {
    "stride": (1, 1), "padding": "VALID", "dilation": (1, 1), "groups": 1, "data_format": "NHWC",
}  # fmt: skip


def _result(x: ShapeT, w: ShapeT, params: dict[str, Any]) -> ShapeT:
    return convolved(x, w, **(_DEFAULTS | params))


_TOLERANCE = Tolerance(64.0)


@operator(
    shape=convolved, dtype=dtypes.numeric, layout=layouts.first, derivative=_CONV,
    kernels=kernels.CONV2D, cost=_conv_cost, onnx=onnx_windows.conv2d,
    tolerance=_TOLERANCE,
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(((x, w), params) for x, w, params in _CASES)),
    laws=(odd.rounded,),
)  # fmt: skip
def conv2d(
    x: Tensor, w: Tensor, /, *, stride: Nested = (1, 1), padding: Nested = "VALID", dilation: Nested = (1, 1),
    groups: int = 1, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Sum of products of a kernel with every window of images.

    Shapes: `x` is ``(images, height, width, in)`` in the data format ``"NHWC"``, ``(images, in, height, width)`` in
    ``"NCHW"``; the result likewise, with the kernel's ``out`` channels. The kernel is ``(height, width, in // groups,
    out)``, HWIO, in both data formats.

    `stride` is the step between windows and `dilation` the step between elements of one, each a number or a pair.
    `padding` surrounds the images with zeros: ``"VALID"`` by none, ``"SAME"`` so that there are ceil(extent / stride)
    windows (an odd zero goes to the end, as in TensorFlow and ONNX's SAME_UPPER), or ``((top, bottom), (left,
    right))``. With `groups`, input and output channels are cut into that many runs, and run i of the output sees run
    i of the input only.
    """


@operator(
    shape=_input_gradient_shape, dtype=dtypes.numeric, layout=layouts.first,
    derivative=_INPUT_GRADIENT,
    kernels=kernels.CONV2D_INPUT_GRADIENT, cost=_input_gradient_cost,
    onnx=onnx_windows.conv2d_input_gradient, tolerance=_TOLERANCE,
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(
        ((_result(x, w, params), w), {"input_shape": x, **params}) for x, w, params in _CASES
    )),
    laws=(odd.rounded,),
)  # fmt: skip
def conv2d_input_gradient(
    g: Tensor, w: Tensor, /, *, input_shape: Sizes, stride: Nested = (1, 1), padding: Nested = "VALID",
    dilation: Nested = (1, 1), groups: int = 1, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Adjoint of `conv2d` with respect to its images: the transposed convolution.

    `g` has the shape of ``conv2d(x, w)`` for an `x` of shape `input_shape`, which is the result's shape. The other
    parameters are those of that convolution.
    """


@operator(
    shape=_kernel_gradient_shape, dtype=dtypes.numeric, derivative=_KERNEL_GRADIENT,
    kernels=kernels.CONV2D_KERNEL_GRADIENT, cost=_kernel_gradient_cost, tolerance=_TOLERANCE,
    onnx=onnx_windows.conv2d_kernel_gradient,
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(
        ((x, _result(x, w, params)), {"kernel_shape": w, **params}) for x, w, params in _CASES
    )),
    laws=(odd.rounded,),
)  # fmt: skip
def conv2d_kernel_gradient(
    x: Tensor, g: Tensor, /, *, kernel_shape: Sizes, stride: Nested = (1, 1), padding: Nested = "VALID",
    dilation: Nested = (1, 1), groups: int = 1, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Adjoint of `conv2d` with respect to its kernel.

    `g` has the shape of ``conv2d(x, w)`` for a `w` of shape `kernel_shape`, which is the result's shape. The other
    parameters are those of that convolution.
    """
