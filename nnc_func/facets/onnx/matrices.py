"""Matrices in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.facets.dims import known, product
from nnc_func.facets.onnx.fused import blockwise
from nnc_func.facets.shapes import normalise_axis

INT64 = np.dtype("int64")


def _turned(g: Any, x: Any) -> Any:
    rank = len(x.shape)
    return g.permute_dims(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def matmul(g: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Transposed first, where it is asked for; an empty sum is zero."""
    inner = a.shape[-2 if transpose_a else -1]
    if known(inner) and inner == 0:
        return g.full(shape=g.result.shape, value=0, dtype=g.result.dtype)
    a, b = _turned(g, a) if transpose_a else a, _turned(g, b) if transpose_b else b
    return g.MatMul(*(g.converted(x, g.result.dtype) for x in (a, b)))


def matmul_blockwise(g: Any, a: Any, b: Any, *others: Any, body: Any, **params: Any) -> Any:
    """The product, and the operators that follow it."""
    return blockwise(g, g.matmul(a, b, **params), *others, body=body)


def attention_blockwise(
    g: Any, q: Any, k: Any, v: Any, *others: Any, body: Any, transpose_k: bool
) -> Any:  # fmt: skip
    """Two products, and what lies between them."""
    scores = g.matmul(q, k, transpose_b=transpose_k)
    if body is not None:
        scores = g.blockwise(scores, *others, body=body)
    return g.matmul(g.softmax(scores, axis=-1), v)


def tensordot(g: Any, a: Any, b: Any, *, axes: Any) -> Any:
    """A product of matrices, the axes that are summed over brought together."""
    left, right = _contracted(len(a.shape), len(b.shape), axes)
    rows = [i for i in range(len(a.shape)) if i not in left]
    columns = [j for j in range(len(b.shape)) if j not in right]
    inner = product(tuple(a.shape[i] for i in left))
    height, width = (product(tuple(x.shape[i] for i in kept)) for x, kept in ((a, rows), (b, columns)))
    shape = g.result.shape
    a = g.reshape(g.permute_dims(a, axes=(*rows, *left)), shape=(height, inner))
    b = g.reshape(g.permute_dims(b, axes=(*right, *columns)), shape=(inner, width))
    return g.reshape(g.matmul(a, b), shape=shape)


def _contracted(rank_a: int, rank_b: int, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, int):
        return tuple(range(rank_a - axes, rank_a)), tuple(range(axes))
    left, right = ((each,) if isinstance(each, int) else each for each in axes)
    return tuple(normalise_axis(i, rank_a) for i in left), tuple(normalise_axis(j, rank_b) for j in right)


def diagonal(g: Any, x: Any, *, offset: int) -> Any:
    """Gathered from the rows, one behind the other."""
    rows, columns = x.shape[-2:]
    count = g.result.shape[-1]
    places = g.arange(start=0, stop=count, dtype=INT64)
    at = g.add(g.multiply(g.add(places, max(0, -offset)), columns), g.add(places, max(0, offset)))
    return g.take(g.reshape(x, shape=(*x.shape[:-2], rows * columns)), at, axis=-1)


def diagonal_matrix(g: Any, x: Any, *, shape: Any, offset: int) -> Any:
    """Where the column is the row plus the offset the element of that row, and zero elsewhere."""
    count = x.shape[-1]
    if known(count) and count == 0:
        return g.full(shape=g.result.shape, value=0, dtype=x.dtype)
    rows, columns = (g.arange(start=0, stop=n, dtype=INT64) for n in shape)
    there = g.equal(g.subtract(g.expand_dims(columns, axis=0), g.expand_dims(rows, axis=1)), offset)
    number = g.minimum(g.maximum(g.subtract(rows, max(0, -offset)), 0), count - 1)
    return g.where(there, g.expand_dims(g.take(x, number, axis=-1), axis=-1), 0)
