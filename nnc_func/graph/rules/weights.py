"""Factors and offsets that follow a product with constant weights are folded into these: batch norm at inference.

A product may overflow where the one with scaled weights does not, so these rules are fast math.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnc_func.facets.layouts import NCHW
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import Condition, same_aval, same_dtype, that, used_once
from nnc_func.graph.rules.digits import keeps_digits
from nnc_func.graph.rules.pattern import Constant, computed, dtype_of, folded
from nnc_func.graph.rules.rule import ROUNDING, Each, for_each, rewrite
from nnc_func.op import Op

conv2d, transposed, matmul = OPS["conv2d"], OPS["conv2d_input_gradient"], OPS["matmul"]
reshape, cast = OPS["reshape"], OPS["cast"]
multiply, divide, add, subtract = OPS["multiply"], OPS["divide"], OPS["add"], OPS["subtract"]

# --- where the channels of a result are in the weights -------------------------------------------------


def _channels(product: Any) -> int:
    """The axis of the channels, counted from the end."""
    return -3 if product.node.items and product.node.params.get("data_format") == NCHW else -1


def _along_weights(product: Any) -> int:
    """The axis of the weights along which the channels of the result are, counted from the end."""
    op, params = product.node.op, product.node.params
    return -2 if op is transposed or (op is matmul and params["transpose_b"]) else -1


def _by_channel(s: Any, product: Any) -> bool:
    """Whether a factor is one number, or one for each channel, of which the weights have the same."""
    at, rank = _channels(product), len(product.shape)
    grouped = product.node.op is transposed and product.node.params["groups"] != 1
    return not grouped and len(s.shape) <= rank and all(
        n == 1 or (i - len(s.shape) == at and n == product.shape[at]) for i, n in enumerate(s.shape)
    )  # fmt: skip


@computed
def _beside_weights(s, product):
    """The shape in which a factor of the channels broadcasts with the weights."""
    at = _channels(product)
    count = s.shape[at] if len(s.shape) >= -at else 1
    return (count,) if _along_weights(product) == -1 else (count, 1)


def on_weights(op: Op, w: Any, s: Any, product: Any) -> Any:
    """The right side's constant: weights times, or over, a factor of each channel of their product."""
    whole = cast(w, dtype=dtype_of(product))
    return folded(Each(op)(whole, reshape(s, shape=_beside_weights(s, product))))


def each_channel(s: Any, product: Any) -> Condition:
    """It has one number for each channel of the product, or one in all."""
    return that(_by_channel, s, product, says=f"{s} is a number for each channel of {product}")


# --- rules ---------------------------------------------------------------------------------------------


def _products(op: Op) -> Iterator[tuple[Each, Op]]:
    if op in (conv2d, transposed, matmul):
        yield Each(op), multiply
        yield Each(op), divide


def shifted_products(op: Op) -> Iterator[tuple[Each, Op]]:
    """Operators that multiply by weights, and how a constant is added to, or taken from, what they give."""
    if op in (conv2d, transposed, matmul):
        yield Each(op), add
        yield Each(op), subtract


@for_each(_products, "multiplies by weights")
def fold_scale_into_weights(f, by, x, w: Constant, s: Constant):
    """A constant factor or divisor of each channel of a product with constant weights is folded into the weights."""
    product = f(x, w)
    scaled = Each(by)(product, s)
    return (
        rewrite(scaled)
        .to(f(x, on_weights(by, w, s, product)))
        .when(
            same_aval(product, scaled), each_channel(s, product), keeps_digits(by, (w,), s, product), used_once(product)
        )
        .up_to(ROUNDING)
        .with_fast_math()
    )  # fmt: skip


@for_each(shifted_products, "multiplies by weights")
def fold_batch_norm_into_weights(f, shift, x, w: Constant, m: Constant, s: Constant, b: Constant):
    """A batch norm of constants after a product with constant weights is folded into these and one constant."""
    product = f(x, w)
    shifted = Each(shift)(product, m)
    scaled = shifted * s
    whole = scaled + b
    offset = folded(b + m * s if shift is add else b - m * s)
    return (
        rewrite(whole)
        .to(f(x, on_weights(multiply, w, s, product)) + offset)
        .when(
            same_aval(product, whole), same_dtype(m, product), each_channel(s, product),
            keeps_digits(multiply, (w, m), s, product), *map(used_once, (product, shifted, scaled)),
        )
        .up_to(ROUNDING)
        .with_fast_math()
    )  # fmt: skip
