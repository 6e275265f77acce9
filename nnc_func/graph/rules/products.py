"""Rules of matrix products: transposes become flags, and the transpose of a product is one of the transposed."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels.linalg import contracted_axes
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import that, used_once
from nnc_func.graph.rules.move import order_of, other
from nnc_func.graph.rules.pattern import Param, computed
from nnc_func.graph.rules.rule import ROUNDING, rewrite, rule

matmul, tensordot, permute_dims = OPS["matmul"], OPS["tensordot"], OPS["permute_dims"]


def _swaps_last(p: Any, x: Any) -> bool:
    rank = len(x.shape)
    return rank >= 2 and order_of(p, x) == (*range(rank - 2), rank - 1, rank - 2)


@rule
def transpose_left(x, y, p: Param, a: Param, b: Param):
    """A transpose of a matrix product's left operand becomes its flag, and nothing is copied for it."""
    product = matmul(permute_dims(x, axes=p), y, transpose_a=a, transpose_b=b)
    return (
        rewrite(product)
        .to(matmul(x, y, transpose_a=other(a), transpose_b=b))
        .when(that(_swaps_last, p, x, says=f"{p} exchanges the last two axes"))
        .up_to(ROUNDING)
    )


@rule
def transpose_right(x, y, p: Param, a: Param, b: Param):
    """A transpose of a matrix product's right operand becomes its flag, and nothing is copied for it."""
    product = matmul(x, permute_dims(y, axes=p), transpose_a=a, transpose_b=b)
    return (
        rewrite(product)
        .to(matmul(x, y, transpose_a=a, transpose_b=other(b)))
        .when(that(_swaps_last, p, y, says=f"{p} exchanges the last two axes"))
        .up_to(ROUNDING)
    )


@rule
def transpose_product(x, y, p: Param, a: Param, b: Param):
    """The transpose of a matrix product is the product of the transposed operands, in the other order."""
    product = matmul(x, y, transpose_a=a, transpose_b=b)
    return (
        rewrite(permute_dims(product, axes=p))
        .to(matmul(y, x, transpose_a=other(b), transpose_b=other(a)))
        .when(that(_swaps_last, p, product, says=f"{p} exchanges the last two axes"), used_once(product))
        .up_to(ROUNDING)
    )


# --- contractions --------------------------------------------------------------------------------------


def _contracted(axes: Any, x: Any, y: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    left, right = contracted_axes(len(x.shape), len(y.shape), axes)
    return tuple(left), tuple(right)


def _keeps_order(p: Any, x: Any, gone: tuple[int, ...]) -> bool:
    kept = [a for i, a in enumerate(order_of(p, x)) if i not in gone]
    return kept == sorted(kept)


def _keeps_left(p: Any, axes: Any, x: Any, y: Any) -> bool:
    return _keeps_order(p, x, _contracted(axes, x, y)[0])


def _keeps_right(p: Any, axes: Any, x: Any, y: Any) -> bool:
    return _keeps_order(p, y, _contracted(axes, x, y)[1])


@computed
def _left_axes(p, axes, x, y):
    """The axes of a contraction, those of its left operand counted before a transpose."""
    left, right = _contracted(axes, x, y)
    return tuple(order_of(p, x)[a] for a in left), right


@computed
def _right_axes(p, axes, x, y):
    """The axes of a contraction, those of its right operand counted before a transpose."""
    left, right = _contracted(axes, x, y)
    return left, tuple(order_of(p, y)[a] for a in right)


@rule
def contract_without_transpose_left(x, y, p: Param, n: Param):
    """A contraction names the axes of a transposed left operand where they were before."""
    return (
        rewrite(tensordot(permute_dims(x, axes=p), y, axes=n))
        .to(tensordot(x, y, axes=_left_axes(p, n, x, y)))
        .when(that(_keeps_left, p, n, x, y, says=f"{p} leaves axes that are kept in their order"))
        .up_to(ROUNDING)
    )


@rule
def contract_without_transpose_right(x, y, p: Param, n: Param):
    """A contraction names the axes of a transposed right operand where they were before."""
    return (
        rewrite(tensordot(x, permute_dims(y, axes=p), axes=n))
        .to(tensordot(x, y, axes=_right_axes(p, n, x, y)))
        .when(that(_keeps_right, p, n, x, y, says=f"{p} leaves axes that are kept in their order"))
        .up_to(ROUNDING)
    )
