"""Pooling of images, and what its derivatives need: operators that are differentiable to any order.

The maximum is taken as a choice of one element of each window, the first in row-major order among equals; gradient
and tangent route by that choice, and are each other's adjoints.
"""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import pool as kernels
from nnc_func.device.kernels.linalg import pair
from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets import dtypes, layouts
from nnc_func.facets.derivatives import Custom, Linear
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.laws import keeps_nonnegative, odd
from nnc_func.facets.onnx import windows as onnx_windows
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.facets.windows import image_axes, image_shape, numbers, window_extents
from nnc_func.graph.ops.families import Nested, Sizes, Tensor
from nnc_func.op import operator

# --- rules -------------------------------------------------------------------------------------------


def pooled(
    x: ShapeT, *, window: Any, stride: Any, padding: Any, dilation: Any, data_format: str, axes: int = 2, **_: Any
) -> ShapeT:
    """The shape of pooled images."""
    count, extents, channels = image_axes(x, data_format, axes)
    over = numbers("window", window, axes)
    found = window_extents(extents, over, over if stride is None else stride, padding, dilation)
    _check_elements(extents, over, padding, numbers("dilation", dilation, axes))
    return image_shape(count, found, channels, data_format)


def _check_elements(extents: Any, window: Any, padding: Any, dilation: Any) -> None:
    """Raise ShapeError where some window would hold padding only."""
    spans = tuple(d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True))
    if isinstance(padding, tuple) and any(p >= n for ps, n in zip(padding, spans, strict=True) for p in ps):
        raise ShapeError(f"padding {padding} is not narrower than the windows {spans}: some would hold padding only")
    for n, k, d in zip(extents, window, dilation, strict=True):
        if padding != "VALID" and k > 1 and known(n) and 0 < n < d:
            raise ShapeError(f"windows with dilation {d} and padding step over an extent of {n}: use dilation <= {n}")


def _check(given: ShapeT, wanted: ShapeT, what: str) -> None:
    if len(given) != len(wanted) or not all(same_extent(m, n) for m, n in zip(given, wanted, strict=True)):
        raise ShapeError(f"{what} has shape {given}; with these parameters it must be {wanted}")


def _average_gradient_shape(g: ShapeT, *, input_shape: ShapeT, **params: Any) -> ShapeT:
    _check(g, pooled(input_shape, **params), f"the cotangent of pooling {input_shape}")
    return input_shape


def _max_gradient_shape(x: ShapeT, g: ShapeT, **params: Any) -> ShapeT:
    _check(g, pooled(x, **params), f"the cotangent of pooling {x}")
    return x


def _max_tangent_shape(x: ShapeT, t: ShapeT, **params: Any) -> ShapeT:
    _check(t, x, "the tangent")
    return pooled(x, **params)


def _ordered(x: dtypes.DType, **_: Any) -> dtypes.DType:
    if kind_of(x) not in "fiu":
        raise DTypeError(f"a maximum wants real numbers, given {x}; cast them to an integer or floating dtype first")
    return x


def _second(x: dtypes.DType, routed: dtypes.DType, **_: Any) -> dtypes.DType:
    _ordered(x)
    return dtypes.numeric(routed)


def _work(argument: int | None) -> Any:
    """Cost: one operation for each element of each window; windows are counted by an argument or the result."""

    def cost(args: tuple[Any, ...], results: tuple[Any, ...], *, window: Any, **_: Any) -> Cost:
        height, width = pair(window)
        return Cost((results[0] if argument is None else args[argument]).size * height * width)

    return cost


# --- samples -----------------------------------------------------------------------------------------

_CASES: tuple[tuple[ShapeT, dict[str, Any]], ...] = (
    ((2, 4, 4, 3), {"window": (2, 2)}),
    ((1, 6, 4, 2), {"window": (3, 2)}),
    ((1, 5, 5, 2), {"window": 2}),
    ((1, 5, 6, 2), {"window": (3, 3), "stride": (1, 1)}),
    ((1, 5, 6, 2), {"window": (3, 3), "stride": (2, 2), "padding": "SAME"}),
    ((1, 5, 7, 1), {"window": (2, 3), "stride": (2, 3), "padding": "SAME"}),
    ((1, 4, 5, 2), {"window": (2, 3), "stride": (1, 2), "padding": ((1, 1), (0, 2))}),
    ((1, 7, 5, 2), {"window": (2, 2), "stride": (3, 3)}),
    ((2, 3, 4, 6), {"window": (2, 2), "data_format": "NCHW"}),
    ((1, 2, 5, 5), {"window": (3, 2), "stride": (2, 1), "padding": "SAME", "data_format": "NCHW"}),
    ((0, 4, 4, 2), {"window": (2, 2)}),
    ((1, 6, 5, 2), {"window": (2, 3), "stride": (2, 1), "dilation": (3, 2)}),
    ((1, 2, 5, 4), {"window": 2, "stride": 1, "dilation": (2, 1), "padding": ((1, 2), (0, 1)), "data_format": "NCHW"}),
)
_AVERAGES = (
    *_CASES,
    ((1, 4, 5, 2), {"window": (2, 3), "stride": (1, 2), "padding": ((1, 1), (0, 2)), "count_padding": True}),
    ((1, 2, 5, 5), {"window": 3, "padding": "SAME", "count_padding": True, "data_format": "NCHW"}),
)
_DEFAULTS: dict[str, Any] = {"stride": None, "padding": "VALID", "dilation": (1, 1), "data_format": "NHWC"}


def _result(x: ShapeT, params: dict[str, Any]) -> ShapeT:
    return pooled(x, **(_DEFAULTS | params))


_POOLS = Samples(relation="cases", dtypes=FLOATS, distinct=True, cases=tuple(((x,), params) for x, params in _CASES))
_APART = ((-3.0, 3.0), (20.0, 26.0))  # of images and what is routed by them: no two elements are equal
_TANGENTS = Samples(
    relation="cases", dtypes=FLOATS, distinct=True, domain=_APART,
    cases=tuple(((x, x), params) for x, params in _CASES),
)  # fmt: skip
_GRADIENTS = Samples(
    relation="cases", dtypes=FLOATS, distinct=True, domain=_APART,
    cases=tuple(((x, _result(x, params)), params) for x, params in _CASES),
)  # fmt: skip


# --- maximum -----------------------------------------------------------------------------------------


@operator(
    shape=pooled, dtype=_ordered, layout=layouts.first,
    kernels=kernels.MAX_POOL2D, cost=_work(None), onnx=onnx_windows.max_pool2d,
    tolerance=Tolerance(0.0),
    derivative=Custom(
        jvp=lambda o, ts, y, x, **params: o.max_pool2d_tangent(x, ts[0], **params),
        vjp=(lambda o, g, y, x, **params: o.max_pool2d_gradient(x, g, **params),),
    ),
    samples=_POOLS,
)  # fmt: skip
def max_pool2d(
    x: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = (1, 1), data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Largest element of every window of images, channel by channel.

    Shapes: `x` is ``(images, height, width, channels)`` in the data format ``"NHWC"``, ``(images, channels, height,
    width)`` in ``"NCHW"``, and the result likewise. `window`, `stride` and `dilation` are numbers or pairs; the stride
    is the window unless given. `padding` is that of `conv2d`, counts as minus infinity, and must be narrower than the
    windows; for one more window at the end, as "ceil mode" elsewhere, pad there. A window with a NaN gives NaN.

    Its derivative follows one element of each window: the largest, and among equals the first in row-major order; in
    a window with a NaN the first of these.
    """


@operator(
    shape=_max_gradient_shape, dtype=_second, layout=layouts.first,
    kernels=kernels.MAX_POOL2D_GRADIENT, cost=_work(1),
    derivative=Linear(lambda o, c, x, g, **params: o.max_pool2d_tangent(x, c, **params), arguments=(1,)),
    onnx=onnx_windows.max_pool2d_gradient, samples=_GRADIENTS,
)  # fmt: skip
def max_pool2d_gradient(
    x: Tensor, g: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = (1, 1), data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Adjoint of `max_pool2d` at `x`: each cotangent goes to the first largest element of its window.

    `g` has the shape of ``max_pool2d(x)``, the result that of `x` and the dtype of `g`; what several windows send to
    one element is added. A window with a NaN sends to its first NaN. It is linear in `g` and, wherever it has a
    derivative, constant in `x`.
    """


@operator(
    shape=_max_tangent_shape, dtype=_second, layout=layouts.first,
    kernels=kernels.MAX_POOL2D_TANGENT, cost=_work(None),
    derivative=Linear(lambda o, c, x, t, **params: o.max_pool2d_gradient(x, c, **params), arguments=(1,)),
    onnx=onnx_windows.max_pool2d_tangent, samples=_TANGENTS, tolerance=Tolerance(0.0),
)  # fmt: skip
def max_pool2d_tangent(
    x: Tensor, t: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = (1, 1), data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Elements of `t` where `x` has the first largest element of each window: how `max_pool2d` moves with `x`.

    `t` has the shape of `x`, the result that of ``max_pool2d(x)`` and the dtype of `t`. A window with a NaN gives
    what stands at its first NaN. It is linear in `t` and, wherever it has a derivative, constant in `x`.
    """


# --- average -----------------------------------------------------------------------------------------


@operator(
    shape=pooled, dtype=dtypes.floating, layout=layouts.first,
    kernels=kernels.AVERAGE_POOL2D, cost=_work(None), onnx=onnx_windows.average_pool2d,
    derivative=Linear(lambda o, g, x, **params: o.average_pool2d_gradient(g, input_shape=x.shape, **params)),
    tolerance=Tolerance(16.0),
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(((x,), params) for x, params in _AVERAGES)),
    laws=(odd.rounded, keeps_nonnegative),
)  # fmt: skip
def average_pool2d(
    x: Tensor, /, *, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = (1, 1), count_padding: bool = False, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Mean of every window of images, channel by channel.

    Shapes and parameters are those of `max_pool2d`. A window cut by the border is the mean of its elements inside;
    with `count_padding` its sum is divided by the number of all elements of a window, as if padding were zeros.
    """


@operator(
    shape=_average_gradient_shape, dtype=dtypes.floating, layout=layouts.first,
    kernels=kernels.AVERAGE_POOL2D_GRADIENT, cost=_work(0),
    derivative=Linear(lambda o, c, g, *, input_shape, **params: o.average_pool2d(c, **params)),
    onnx=onnx_windows.average_pool2d_gradient, tolerance=Tolerance(16.0),
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(
        ((_result(x, params),), {"input_shape": x, **params}) for x, params in _AVERAGES
    )),
    laws=(odd.rounded,),
)  # fmt: skip
def average_pool2d_gradient(
    g: Tensor, /, *, input_shape: Sizes, window: Nested, stride: Nested | None = None, padding: Nested = "VALID",
    dilation: Nested = (1, 1), count_padding: bool = False, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """Adjoint of `average_pool2d`: each cotangent is spread evenly over its window.

    `g` has the shape of ``average_pool2d(x)`` for an `x` of shape `input_shape`, which is the result's shape.
    """
