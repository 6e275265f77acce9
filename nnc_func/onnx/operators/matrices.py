"""Products of matrices and tensors, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError, ShapeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.onnx.table import onnx_operator


def as_matrices(o: Any, a: Any, b: Any, product: Callable[[Any, Any], Any]) -> Any:
    """A product as NumPy's: a vector is a row on the left and a column on the right."""
    row, column = len(a.shape) == 1, len(b.shape) == 1
    found = product(o.expand_dims(a, axis=0) if row else a, o.expand_dims(b, axis=1) if column else b)
    if column:
        found = o.squeeze(found, axis=-1)
    return o.squeeze(found, axis=-1 if column else -2) if row else found


@onnx_operator("MatMul", since=(1, 9, 13))
def matmul(o: Any, a: Any, b: Any) -> Any:
    """As NumPy's: a vector is a row on the left and a column on the right."""
    return as_matrices(o, a, b, o.matmul)


@onnx_operator("Gemm", since=(7, 9, 11, 13))
def gemm(
    o: Any, a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Any:
    """A product of matrices, and a tensor that broadcasts to it."""
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise OnnxError(f"wants matrices, given {tuple(a.shape)} and {tuple(b.shape)}")
    product = o.matmul(a, b, transpose_a=bool(transA), transpose_b=bool(transB))
    found = product if alpha == 1.0 else o.multiply(product, _number(alpha, a))
    if c is None or beta == 0.0:
        return found
    return o.add(found, c if beta == 1.0 else o.multiply(c, _number(beta, a)))


@onnx_operator("Gemm", since=6)
def gemm_with_broadcast(
    o: Any, a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0, broadcast: int = 0, transA: int = 0,
    transB: int = 0,
) -> Any:  # fmt: skip
    """A product of matrices, and a tensor of its shape, or one that broadcasts where that is asked for."""
    found = gemm(o, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    if not broadcast and tuple(c.shape) != tuple(found.shape):
        raise ShapeError(f"shapes {tuple(c.shape)} and {tuple(found.shape)}, without broadcast=1")
    return found


def _number(value: float, x: Any) -> Any:
    return value if kind_of(x.dtype) == "f" else int(value)


@onnx_operator("Einsum", since=(12, 28))
def einsum(o: Any, *operands: Any, equation: str) -> Any:
    """Einstein's summation."""
    return o.einsum(*operands, subscripts=equation.replace(" ", ""))


@onnx_operator("Det", since=(11, 22))
def det(o: Any, x: Any) -> Any:
    """The determinants of matrices."""
    return o.cast(o.det(x if x.dtype != np.float16 else o.cast(x, dtype="float32")), dtype=x.dtype)


def _cumulative(name: str, since: tuple[int, ...], ours: str, unit: int) -> None:
    @onnx_operator(name, since=since, known=("axis",))
    def accumulated(o: Any, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
        if axis.size != 1:
            raise OnnxError(f"axis is one number, given {axis.size}")
        at = o.axis(axis.ravel()[0].item(), len(x.shape))
        found = o.flip(x, axis=at) if reverse else x
        if exclusive:
            widths = [(0, 0)] * len(x.shape)
            widths[at] = (1, 0)
            key: list[Any] = [slice(None)] * len(x.shape)
            key[at] = slice(0, -1)
            found = o.index(o.pad(found, widths=tuple(widths), value=unit), key=tuple(key))
        found = o.cast(getattr(o, ours)(found, axis=at), dtype=x.dtype)
        return o.flip(found, axis=at) if reverse else found


_cumulative("CumSum", (11, 14), "cumulative_sum", 0)
_cumulative("CumProd", (26,), "cumulative_prod", 1)
