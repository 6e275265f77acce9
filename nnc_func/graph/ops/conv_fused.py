"""Convolution and the elementwise operators that follow it as one operator: made by rewriting, computed block by block.

A block of the result is finished while it lies in the caches, so what follows a convolution costs no way to memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from nnc_func.body import Body
from nnc_func.device.kernels import conv_rows, onednn_conv
from nnc_func.device.kernels.conv import conv_result
from nnc_func.device.kernels.linalg import allocating, last_channels
from nnc_func.device.kernels.onednn import PACKED
from nnc_func.errors import ShapeError
from nnc_func.facets import layouts, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.layouts import CHANNELS_INNERMOST, NCHW, NHWC
from nnc_func.facets.onnx import windows as onnx_windows
from nnc_func.facets.samples import Samples
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.activations import relu, sigmoid
from nnc_func.graph.ops.binary import add, maximum, multiply, subtract
from nnc_func.graph.ops.bodies import check_fusible, check_one_result, dtypes_in, flops_of, one_by_one
from nnc_func.graph.ops.conv import conv2d, convolved
from nnc_func.graph.ops.families import Nested, Tensor
from nnc_func.graph.ops.library_fused import blockwise
from nnc_func.graph.ops.lowering import call_lowered, lowered
from nnc_func.op import operator

LAYOUTS = {NHWC: None, NCHW: CHANNELS_INNERMOST}  # of images of a data format, channels innermost
_CONV = conv2d.dtype


def _shape(x: Any, w: Any, *others: Any, body: Body, **params: Any) -> Any:
    found = convolved(x, w, **params)
    if others and shapes.broadcast(found, *others) != found:
        raise ShapeError(
            f"conv2d_blockwise: other operands broadcast to the result of the convolution, {found}, given {others}"
        )
    return found


def _dtype(x: Any, w: Any, *others: Any, body: Body, **_: Any) -> Any:
    check_fusible(body, "conv2d_blockwise", 1 + len(others))
    check_one_result(body, "conv2d_blockwise")
    return dtypes_in(body, (_CONV(x, w), *others))[-1]


def _cost(args: tuple[Any, ...], results: tuple[Any, ...], *, body: Body, **params: Any) -> Cost:
    x, w, *others = args
    made = results[0].having(dtype=_CONV(x.dtype, w.dtype))  # the body may end with another dtype
    return Cost(conv2d.cost((x, w), (made,), **params).flops + flops_of(body, (made, *others)), threaded=True)


# --- one by one, in any namespace ----------------------------------------------------------------


def _one_by_one(kernel: Kernel) -> Any:
    def compute(xp: Any, x: Any, w: Any, *others: Any, body: Body, **params: Any) -> Any:
        first = kernel.compute(xp, x, w, **params)  # type: ignore[misc]
        return one_by_one(xp, (first, *others), body)[-1]

    return compute


_CUPY = next(k for k in conv2d.kernels if k.namespaces == frozenset({"cupy"}))


# --- block by block --------------------------------------------------------------------------------------


def accepts(avals: Any, *, body: Body, data_format: str, **params: Any) -> bool:
    """Whether it is computed in blocks: floating images whose channels are innermost in memory."""
    x = avals[0]
    if getattr(x, "layout", None) != LAYOUTS[data_format]:
        return False
    given = tuple(a.dtype for a in (x, *avals[2:]))
    fits = conv_rows.fits(avals, data_format=data_format, **params)
    return fits and dtypes_in(body, given)[-1] == x.dtype


def _registers(dtypes: tuple[Any, ...], body: Body) -> Any:
    return lowered(body, dtypes, ((True,),) * len(dtypes), own=True)


def _lowered_after(body: Body, dtype: Any, others: Any) -> Any:
    return _registers((dtype, *(each.dtype for each in others)), body)


def _finishes(avals: Any, *, body: Body, data_format: str, **params: Any) -> bool:
    """Whether the result of the body is of the images' dtype, and their channels are innermost in memory."""
    x = avals[0]
    if getattr(x, "layout", None) != LAYOUTS[data_format]:
        return False
    return bool(dtypes_in(body, tuple(a.dtype for a in (x, *avals[2:])))[-1] == x.dtype)


def _scratch(limit: int, avals: Any, *, body: Body, **params: Any) -> Any:
    dtypes = tuple(a.dtype for a in (avals[0], *avals[2:]))
    return conv_rows.scratch(limit, avals[:2], tuple(d for d, _ in _registers(dtypes, body).registers[1:]), **params)


def _into(
    limit: int, xp: Any, arrays: Any, outs: Any, scratch: Any, *, body: Body, data_format: str, **params: Any
) -> None:
    x, w, *others = arrays
    rows = conv_rows.planned(limit, (x, w), data_format=data_format, **params)
    found = _registers(tuple(a.dtype for a in (x, *others)), body)
    (out,) = outs
    beside = [last_channels(np.broadcast_to(a, out.shape), data_format) for a in others]

    def finish(block: Any, where: Any, registers: list[Any]) -> None:
        call_lowered(found, [block, *[a[where] for a in beside], block, *registers, block])

    conv_rows.write(rows, last_channels(x, data_format), w, last_channels(out, data_format), scratch, finish)


def _cost_of(limit: int, args: Any, results: Any, *, body: Body, **params: Any) -> Cost:
    found = conv_rows.cost(limit, args, results, len(body.applications), **params)
    return evolve(found, flops=found.flops + results[0].size * len(body.applications))


def in_rows(name: str, limit: int) -> Kernel:
    """The kernel with so many bytes of columns and results at a time."""
    into, scratch = partial(_into, limit), partial(_scratch, limit)
    return Kernel(
        name, compute=allocating(into, _result, scratch), into=into, scratch=scratch, cost=partial(_cost_of, limit),
        accepts=accepts, by_shape=True, namespaces=frozenset({"numpy"}), strided=True,
    )  # fmt: skip


def _result(x: Any, w: Any, *others: Any, body: Body, **params: Any) -> Any:
    return conv_result(x, w, **params)


_library = partial(
    blockwise, onednn_conv.primitives("forward"), lowered_after=_lowered_after, result=_result, accepts=_finishes
)
BATCH_NORM = Body.of(4, (subtract, 0, 1), (multiply, 4, 2), (add, 5, 3), (relu, 6))
CASES = tuple(
    (tuple((shape, dtype) for shape in given), {"body": body, **params})
    for given, body, params in (
        (((2, 5, 6, 8), (3, 3, 8, 4), (4,), (4,), (4,)), BATCH_NORM, {"padding": "SAME"}),
        (((1, 7, 6, 16), (1, 1, 16, 3), (1, 4, 3, 3)), Body.of(2, (add, 0, 1), (relu, 2)), {"stride": (2, 2)}),
        (((1, 16, 4, 5), (1, 1, 16, 6), (6, 1, 1)), Body.of(2, (add, 0, 1)), {"data_format": "NCHW"}),
        (((2, 4, 4, 32), (2, 2, 16, 6)), Body.of(1, (sigmoid, 0), (multiply, 0, 1)), {"groups": 2}),
        (((0, 4, 4, 8), (3, 3, 8, 2), ()), Body.of(2, (maximum, 0, 1)), {}),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=_shape,
    dtype=_dtype,
    layout=layouts.first,
    kernels=(
        _library("onednn, fast math", fast=True, packed=f"{PACKED}, fast math"),
        _library("onednn", packed=PACKED),
        _library(f"{PACKED}, fast math", fast=True, lasting=(1,)),
        _library(PACKED, lasting=(1,)),
        in_rows("rows of windows", conv_rows.LIMIT),
        in_rows("few rows of windows", conv_rows.FEW),
        Kernel("one by one on cupy", compute=_one_by_one(_CUPY), namespaces=_CUPY.namespaces),
        reference(_one_by_one(conv2d.kernels[-1]), multiplies=True),
    ),
    derivative=NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of"),
    cost=_cost,
    onnx=onnx_windows.conv2d_blockwise,
    tolerance=conv2d.tolerance,
    samples=Samples(relation="cases", cases=CASES),
)
def conv2d_blockwise(
    x: Tensor, w: Tensor, /, *others: Tensor, body: Body, stride: Nested = (1, 1), padding: Nested = "VALID",
    dilation: Nested = (1, 1), groups: int = 1, data_format: str = "NHWC",
) -> Tensor:  # fmt: skip
    """`conv2d` and the elementwise operators that follow it, finished block by block before a block leaves the caches.

    The parameters of the body are the convolution's result and the other arguments, which broadcast to it; its result
    is that of its last operator. The other parameters are those of `conv2d`.
    """
