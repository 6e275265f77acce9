"""Scales after centred products with constant weights: what is left of batch norms that add nothing at their end."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from nnc_func.graph.rules.conditions import same_aval, same_dtype, used_once
from nnc_func.graph.rules.digits import keeps_digits
from nnc_func.graph.rules.pattern import Constant, folded
from nnc_func.graph.rules.rule import ROUNDING, Each, for_each, rewrite
from nnc_func.graph.rules.weights import each_channel, multiply, on_weights, shifted_products


@for_each(shifted_products, "multiplies by weights")
def fold_centred_scale_into_weights(f, shift, x, w: Constant, m: Constant, s: Constant):
    """The scale of a product with constant weights, less a constant, is folded into both."""
    product = f(x, w)
    shifted = Each(shift)(product, m)
    scaled = shifted * s
    return (
        rewrite(scaled)
        .to(Each(shift)(f(x, on_weights(multiply, w, s, product)), folded(m * s)))
        .when(
            same_aval(product, scaled), same_dtype(m, product), each_channel(s, product),
            keeps_digits(multiply, (w, m), s, product),
            used_once(product), used_once(shifted),
        )
        .up_to(ROUNDING)
        .with_fast_math()
    )  # fmt: skip
