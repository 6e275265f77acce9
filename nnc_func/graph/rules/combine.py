"""Small fusions: what is left beside each other when general fusion is done, as one operator with one launch."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.fused import masked
from nnc_func.graph.rules.conditions import PROFIT, floating, same_aval, same_dtype, same_shape, that, used_once
from nnc_func.graph.rules.pattern import Param
from nnc_func.graph.rules.rule import ROUNDING, SIGNED_ZERO, rewrite, rule

fma, square = OPS["fma"], OPS["square"]
sigmoid_gradient, tanh_gradient = OPS["sigmoid_gradient"], OPS["tanh_gradient"]
relu_gradient, greater = OPS["relu_gradient"], OPS["greater"]
adaptive_update, sqrt = OPS["adaptive_update"], OPS["sqrt"]
clip, isnan, logical_not, nearest, quantize = (OPS[n] for n in ("clip", "isnan", "logical_not", "round", "quantize"))

# --- a product and a sum -------------------------------------------------------------------------------


@rule
def fuse_multiply_add(a, b, c):
    """A product that only a sum uses is computed with the sum."""
    product = a * b
    return rewrite(product + c).to(fma(a, b, c)).when(used_once(product)).up_to(ROUNDING)


def _is_number(a: Any, product: Any) -> bool:
    sizes = a.aval.size, product.aval.size
    return all(map(known, sizes)) and sizes[0] == 1 < sizes[1]


@rule
def fuse_multiply_subtract(a, b, c):
    """A scaled tensor that is subtracted is added, scaled by the negated number, as it is computed."""
    product = a * b
    scale = that(_is_number, a, product, says=f"{a} is one number, and {product} is more", kind=PROFIT)
    return rewrite(c - product).to(fma(-a, b, c)).when(floating(a), used_once(product), scale).up_to(ROUNDING)


# --- whole numbers -------------------------------------------------------------------------------------


def _of_one_dtype(x: Any, scale: Any, zero: Any, low: Any, high: Any) -> bool:
    given = {x.dtype, scale.dtype, zero.dtype}
    return len(given) == 1 and kind_of(x.dtype) == "f" and x.dtype.itemsize > 2 and None not in (low, high)


@rule
def fuse_quantisation(x, scale, zero, a: Param, b: Param):
    """What is divided, rounded, moved, set to zero where it is no number, and bounded, is one operator."""
    moved = nearest(x / scale) + zero
    within = clip(masked(moved, logical_not(isnan(moved))), min=a, max=b)
    dtypes = that(_of_one_dtype, x, scale, zero, a, b, says=f"{x}, {scale} and {zero} are of one floating dtype")
    return rewrite(within).to(quantize(x, scale, zero, min=a, max=b)).when(dtypes)


@rule
def fuse_centred_quantisation(x, scale, a: Param, b: Param):
    """What is divided, rounded, set to zero where it is no number, and bounded, is one operator."""
    rounded = nearest(x / scale)
    within = clip(masked(rounded, logical_not(isnan(rounded))), min=a, max=b)
    dtypes = that(_of_one_dtype, x, scale, x, a, b, says=f"{x} and {scale} are of one floating dtype")
    return rewrite(within).to(quantize(x, scale, 0, min=a, max=b)).when(dtypes).up_to(SIGNED_ZERO)


# --- derivatives ---------------------------------------------------------------------------------------


@rule
def fuse_sigmoid_gradient(y, g):
    """A cotangent times y (1 - y) is one operator."""
    complement = 1 - y
    slope = y * complement
    gradient = g * slope
    return (
        rewrite(gradient)
        .to(sigmoid_gradient(y, g))
        .when(floating(y), same_aval(y, slope), same_dtype(y, gradient), used_once(complement), used_once(slope))
    )


@rule
def fuse_tanh_gradient(y, g):
    """A cotangent times 1 - y² is one operator."""
    power = square(y)
    slope = 1 - power
    gradient = g * slope
    return (
        rewrite(gradient)
        .to(tanh_gradient(y, g))
        .when(floating(y), same_aval(y, slope), same_dtype(y, gradient), used_once(power), used_once(slope))
    )


@rule
def fuse_relu_gradient(y, g):
    """A cotangent masked by where a tensor is positive is one operator."""
    positive = greater(y, 0)
    gradient = masked(g, positive)
    return (
        rewrite(gradient)
        .to(relu_gradient(y, g))
        .when(floating(y), same_dtype(y, g), same_shape(y, positive), used_once(positive))
    )


@rule
def multiply_in_sigmoid_gradient(y, g, h):
    """A cotangent that is a product, used by the derivative of a sigmoid alone, is computed with it."""
    cotangent = g * h
    gradient = sigmoid_gradient(y, cotangent)
    return rewrite(gradient).to(sigmoid_gradient(y, g, h)).when(same_aval(cotangent, gradient), used_once(cotangent))


@rule
def multiply_in_tanh_gradient(y, g, h):
    """A cotangent that is a product, used by the derivative of a tanh alone, is computed with it."""
    cotangent = g * h
    gradient = tanh_gradient(y, cotangent)
    return rewrite(gradient).to(tanh_gradient(y, g, h)).when(same_aval(cotangent, gradient), used_once(cotangent))


# --- updates of parameters -----------------------------------------------------------------------------


@rule
def fuse_adaptive_update(x, g, h, r, e):
    """A step divided by a root, as Adagrad, RMSprop and Adam take it, is one operator."""
    root = sqrt(h)
    divisor = root + e
    scaled = g * r
    step = scaled / divisor
    update = x - step
    return (
        rewrite(update)
        .to(adaptive_update(x, g, h, r, e))
        .when(
            floating(update),
            same_dtype(h, update),
            same_dtype(scaled, update),
            *map(used_once, (root, divisor, scaled, step)),
        )
    )
