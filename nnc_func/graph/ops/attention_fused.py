"""Attention as one operator, made by rewriting: scores are never all in memory at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.body import Body
from nnc_func.device.kernels.linalg import MATMUL, allocating, blas_ready
from nnc_func.device.kernels.losses import SOFTMAX, softmax_into
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets import dims, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.onnx import matrices as onnx_matrices
from nnc_func.facets.samples import Samples, Tolerance
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.binary import add, multiply
from nnc_func.graph.ops.bodies import check_fusible, check_one_result, dtypes_in, flops_of, one_by_one
from nnc_func.graph.ops.families import Tensor
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.losses import softmax
from nnc_func.graph.ops.lowering import call_lowered
from nnc_func.graph.ops.matmul_fused import lowered_after
from nnc_func.op import operator

BLOCK = 1 << 19  # bytes of scores at a time: they fit in the second cache
LEAST = 64  # queries at a time, at least, so that products stay efficient


def _scores(q: Any, k: Any, transpose_k: bool) -> Any:
    return matmul.shape(q, k, transpose_a=False, transpose_b=transpose_k)


def _shape(q: Any, k: Any, v: Any, *others: Any, body: Body | None, transpose_k: bool) -> Any:
    scores = _scores(q, k, transpose_k)
    if shapes.broadcast(scores, *others) != scores:
        raise ShapeError(f"attention_blockwise wants others that broadcast to the scores, {scores}, given {others}")
    if body is not None and not body.depends(body.results[0], 0):
        raise ShapeError(f"attention_blockwise wants a result that is made of the scores, {scores}, given {body}")
    softmax.shape(scores, axis=-1)
    return matmul.shape(scores, v, transpose_a=False, transpose_b=False)


def _dtype(q: Any, k: Any, v: Any, *others: Any, body: Body | None, **_: Any) -> Any:
    scores = matmul.dtype(q, k)
    if others and body is None:
        raise OperatorError("attention_blockwise has no body, and so nothing that reads its other arguments")
    if body is not None:
        check_fusible(body, "attention_blockwise", 1 + len(others))
        check_one_result(body, "attention_blockwise")
        scores = dtypes_in(body, (scores, *others))[-1]
    return matmul.dtype(softmax.dtype(scores), v)


def _cost(args: tuple[Any, ...], results: tuple[Any, ...], *, body: Body | None, transpose_k: bool) -> Cost:
    q, k, v, *others = args
    scores = q.having(shape=_scores(q.shape, k.shape, transpose_k), dtype=matmul.dtype(q.dtype, k.dtype))
    flops = matmul.cost((q, k), (scores,), transpose_a=False, transpose_b=transpose_k).flops
    flops += softmax.cost((scores,), (scores,), axis=-1).flops
    if body is not None:
        flops += flops_of(body, (scores, *others))
    flops += matmul.cost((scores, v), results, transpose_a=False, transpose_b=False).flops
    return Cost(flops, threaded=True)


def _one_by_one(xp: Any, q: Any, k: Any, v: Any, *others: Any, body: Body | None, transpose_k: bool) -> Any:
    product = MATMUL[-1].compute
    assert product is not None
    assert SOFTMAX[-1].compute is not None
    scores = product(xp, q, k, transpose_a=False, transpose_b=transpose_k)
    if body is not None:
        scores = one_by_one(xp, (scores, *others), body)[-1]
    weights = SOFTMAX[-1].compute(xp, scores, axis=-1)
    return product(xp, weights, v, transpose_a=False, transpose_b=False)


# --- block by block --------------------------------------------------------------------------------------


def accepts(avals: Any, *, body: Body | None, **params: Any) -> bool:
    """Whether all of it is of one floating dtype, but for other operands of the body."""
    dtypes = [a.dtype for a in avals]
    alike = dtypes[0] == dtypes[1] == dtypes[2] and dtypes[0].kind == "f"
    return bool(alike and (body is None or dtypes_in(body, (dtypes[0], *dtypes[3:]))[-1] == dtypes[0]))


def _rows(queries: Any, keys: Any, itemsize: int) -> Any:
    rows = max(LEAST, BLOCK // (keys * itemsize)) if dims.known(keys) and keys else LEAST
    return min(rows, max(queries, 1)) if dims.known(queries) else rows


def _scratch(avals: Any, *, body: Body | None, transpose_k: bool) -> Any:
    """A block of scores, one number a row, registers of the body."""
    q, k, _, *others = avals
    *_, queries, keys = _scores(q.shape, k.shape, transpose_k)
    rows = _rows(queries, keys, q.dtype.itemsize)
    registers = () if body is None else lowered_after(body, q.dtype, others).registers[1:]
    return ((rows, keys), q.dtype), ((rows, 1), q.dtype), *(((rows, keys), d) for d, _ in registers)


def _into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, body: Body | None, transpose_k: bool) -> None:
    q, k, v, *others = arrays
    (out,) = outs
    whole = _scores(q.shape, k.shape, transpose_k)
    found = None if body is None else lowered_after(body, q.dtype, others)
    k = k.swapaxes(-1, -2) if transpose_k else k
    q, k, v = (blas_ready(xp, xp.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:]))) for a in (q, k, v))
    beside = [xp.broadcast_to(a, (*out.shape[:-2], *whole[-2:])) for a in others]
    rows = scratch[0].shape[0]
    for at in np.ndindex(*out.shape[:-2]):
        seen = [a[at] for a in beside]
        for top in range(0, out.shape[-2], rows):
            part = slice(top, top + rows)
            block, row, *registers = (s[: min(rows, out.shape[-2] - top)] for s in scratch)
            xp.matmul(q[at][part], k[at], out=block)
            if found is not None:
                call_lowered(found, [block, *[a[part] for a in seen], block, *registers, block])
            softmax_into(xp, (block,), (block,), (row,), axis=-1)
            xp.matmul(block, v[at], out=out[at][part])


def _result(q: Any, k: Any, v: Any, *others: Any, body: Body | None, transpose_k: bool) -> Any:
    return _shape(q.shape, k.shape, v.shape, *(a.shape for a in others), body=body, transpose_k=transpose_k), q.dtype


SCALED = Body.of(2, (multiply, 0, 1))
MASKED = Body.of(3, (multiply, 0, 1), (add, 3, 2))
CASES = tuple(
    (tuple((shape, dtype) for shape in given), {"body": body, **params})
    for given, body, params in (
        (((3, 4), (4, 5), (5, 2)), None, {}),
        (((2, 3, 4), (2, 5, 4), (2, 5, 2), ()), SCALED, {"transpose_k": True}),
        (((2, 2, 3, 4), (2, 1, 5, 4), (2, 1, 5, 6), (), (3, 5)), MASKED, {"transpose_k": True}),
        (((1, 150, 2), (1, 700, 2), (1, 700, 3), (), (1, 150, 1)), MASKED, {"transpose_k": True}),
        (((0, 3, 4), (0, 4, 5), (0, 5, 2)), None, {}),
        (((2, 0, 4), (2, 4, 5), (2, 5, 2)), None, {}),
        (((3, 4), (4, 5), (2, 5, 2)), None, {}),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=_shape,
    dtype=_dtype,
    kernels=(
        Kernel(
            "rows of scores",
            compute=allocating(_into, _result, _scratch),
            into=_into,
            scratch=_scratch,
            accepts=accepts,
            namespaces=frozenset({"numpy"}),
            infallible=True,
            copies_strided=True,
        ),
        reference(_one_by_one),
    ),
    derivative=NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of"),
    cost=_cost,
    onnx=onnx_matrices.attention_blockwise,
    tolerance=Tolerance(64.0),
    samples=Samples(relation="cases", cases=CASES),
)
def attention_blockwise(
    q: Tensor, k: Tensor, v: Tensor, /, *others: Tensor, body: Body | None = None, transpose_k: bool = False
) -> Tensor:
    """``softmax(q @ k) @ v`` along the last axis of the scores, which are computed some rows at a time.

    Shapes: ``(…, n, d)``, ``(…, d, m)`` (with `transpose_k` ``(…, m, d)``) and ``(…, m, e)`` give ``(…, n, e)``.
    Between the first product and the softmax comes a body, as that of `matmul_blockwise`: a scale, a mask that is added
    or chooses. Source: Rabe and Staats, "Self-attention does not need O(n²) memory", 2021; here a row is done at once.
    """
