"""Rules for what training and inference consist of: losses, scales, rectifiers and pooling.

Updates of parameters (Adagrad, momentum, RMSprop, Adam) need none: they are groups for `fuse_elementwise`.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.shapes import normalise_axis
from nnc_func.facets.windows import amounts, image_axes, numbers, window_extents
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.fused import masked
from nnc_func.graph.rules.conditions import (
    PROFIT,
    USERS,
    Condition,
    asking,
    broadcasts,
    floating,
    real,
    same_aval,
    same_dtype,
    same_shape,
    that,
    used_once,
)
from nnc_func.graph.rules.pattern import Param, Scalar, computed
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule

relu, where, greater, total = OPS["relu"], OPS["where"], OPS["greater"], OPS["sum"]
max_pool2d, max_pool2d_gradient = OPS["max_pool2d"], OPS["max_pool2d_gradient"]
logical_not = OPS["logical_not"]
log, softmax, log_softmax = OPS["log"], OPS["softmax"], OPS["log_softmax"]
softmax_cross_entropy, softmax_cross_entropy_gradient = (
    OPS["softmax_cross_entropy"],
    OPS["softmax_cross_entropy_gradient"],
)

# --- rectifiers and pooling ----------------------------------------------------------------------------


def _only_pooled(x: Any) -> Condition:
    """Used by its pooling, that one's gradient, and the mask: once the gradient is rewritten, by its pooling alone."""
    return asking(lambda users, x: users(x) == 3, (USERS, x), f"only pooling and this use {x}", PROFIT)


def _shows_elements(x: Any, w: Any, s: Any, p: Any, d: Any, c: Any) -> bool:
    """Whether each window has an element of x in it, and not only of the borders, which count for minus infinity."""
    _, extents, _ = image_axes(x.shape, c)
    if not all(map(known, extents)):
        return False
    steps, gaps, around = numbers("stride", w if s is None else s), numbers("dilation", d), amounts(p)
    counts = window_extents(extents, numbers("window", w), steps, p, gaps)
    if around is None:
        return all(n > 0 for n in extents)
    axes = zip(extents, counts, numbers("window", w), steps, (before for before, _ in around), gaps, strict=True)
    return all(
        any(0 <= i * step - before + j * gap < n for j in range(k))
        for n, count, k, step, before, gap in axes
        for i in range(count)
    )


@rule
def rectify_after_pooling(x, w: Param, s: Param, p: Param, d: Param, c: Param):
    """The largest of rectified elements is the rectified largest element, of which there are fewer."""
    rectified = relu(x)
    return (
        rewrite(max_pool2d(rectified, window=w, stride=s, padding=p, dilation=d, data_format=c))
        .to(relu(max_pool2d(x, window=w, stride=s, padding=p, dilation=d, data_format=c)))
        .when(
            used_once(rectified),
            that(_shows_elements, x, w, s, p, d, c, says=f"each window shows an element of {x}"),
        )
        .up_to(SIGNED_ZERO)
    )


@rule
def rectify_gradient_after_pooling(x, g, w: Param, s: Param, p: Param, d: Param, c: Param):
    """The gradient of pooled rectified elements is masked where it is small."""
    rectified = relu(x)
    routed = max_pool2d_gradient(rectified, g, window=w, stride=s, padding=p, dilation=d, data_format=c)
    pooled = relu(max_pool2d(x, window=w, stride=s, padding=p, dilation=d, data_format=c))
    masked = where(greater(pooled, 0), g, 0)
    chosen = where(greater(rectified, 0), routed, 0)
    return (
        rewrite(chosen)
        .to(max_pool2d_gradient(x, masked, window=w, stride=s, padding=p, dilation=d, data_format=c))
        .when(same_dtype(g, chosen), same_shape(x, chosen), _only_pooled(rectified), used_once(routed))
        .up_to(SIGNED_ZERO)
    )


# --- masks ---------------------------------------------------------------------------------------------


@rule
def mask_by_bits(c, x):
    """A choice between a tensor and zero is made on the bits, without a branch for each element."""
    chosen = where(c, x, 0)
    return rewrite(chosen).to(masked(x, c)).when(same_dtype(x, chosen), broadcasts(x, c, to=chosen))


@rule
def mask_by_bits_elsewhere(c, x):
    """A choice between zero and a tensor is made on the bits, without a branch for each element."""
    chosen = where(c, 0, x)
    return rewrite(chosen).to(masked(x, logical_not(c))).when(same_dtype(x, chosen), broadcasts(x, c, to=chosen))


# --- scales --------------------------------------------------------------------------------------------


def _shrinks(a: Any, b: Any, scaled: Any) -> bool:
    """Neither factor enlarges, and their product is a normal number: nothing overflows that would not have."""
    if abs(a) > 1 or abs(b) > 1 or kind_of(scaled.dtype) != "f":
        return False
    return bool(abs(a * b) >= limits_of(scaled.dtype).tiny)


@computed
def _product(a, b):
    """The product of two numbers."""
    return a * b


@rule
def merge_scales(x, a: Scalar, b: Scalar):
    """Two constant factors, neither of which enlarges, are one."""
    inner = x * a
    scaled = inner * b
    return (
        rewrite(scaled)
        .to(x * _product(a, b))
        .when(
            that(_shrinks, a, b, scaled, says=f"neither {a} nor {b} enlarges, and their product is normal"),
            same_aval(x, scaled),
            used_once(inner),
        )
        .up_to(ROUNDING)
    )


@computed
def _opposite(s):
    """A number with its sign changed; zero of integers has none."""
    return -float(s)


@rule
def negate_scale(x, s: Scalar):
    """A scaled tensor that is negated is scaled by the negated factor."""
    scaled = x * s
    return rewrite(-scaled).to(x * _opposite(s)).when(floating(x), same_aval(x, scaled), used_once(scaled))


# --- losses --------------------------------------------------------------------------------------------


def _one_axis(a: Any, k: Any, x: Any) -> bool:
    rank = len(x.shape)
    given = a if isinstance(a, tuple) else (a,)
    return None not in given and [normalise_axis(n, rank) for n in given] == [normalise_axis(k, rank)]


def _has_classes(k: Any, x: Any) -> bool:
    extent = x.shape[normalise_axis(k, len(x.shape))]
    return bool(known(extent) and extent > 0)


@rule
def cross_entropy_of_parts(x, y, a: Param, k: Param):
    """Cross-entropy written out is one operator; labels of zero then count for nothing where the logit is -inf."""
    return (
        rewrite(-total(y * log_softmax(x, axis=k), axis=a))
        .to(softmax_cross_entropy(x, y, axis=k))
        .when(
            floating(x),
            real(y),
            same_shape(x, y),
            that(_one_axis, a, k, x, says=f"{a} is the axis {k}"),
            that(_has_classes, k, x, says=f"{x} has elements along {k}"),
        )
        .up_to(ROUNDING)
        .with_fast_math()
    )


@rule
def log_likelihood_of_parts(x, y, a: Param, k: Param):
    """Labels times log-probabilities, summed, are cross-entropy with the other sign: rules may have moved that away."""
    likely = log_softmax(x, axis=k)
    weighed = y * likely
    return (
        rewrite(total(weighed, axis=a))
        .to(-softmax_cross_entropy(x, y, axis=k))
        .when(
            floating(x),
            real(y),
            used_once(likely),
            used_once(weighed),
            same_shape(x, y),
            that(_one_axis, a, k, x, says=f"{a} is the axis {k}"),
            that(_has_classes, k, x, says=f"{x} has elements along {k}"),
        )
        .up_to(ROUNDING)
        .with_fast_math()
    )


@rule
def cross_entropy_gradient_of_parts(x, y, k: Param):
    """The derivative of cross-entropy to its logits, written out, is one operator."""
    likely = softmax(x, axis=k)
    scaled = likely * total(y, axis=k, keepdims=True)
    gradient = scaled - y
    return (
        rewrite(gradient)
        .to(softmax_cross_entropy_gradient(x, y, axis=k))
        .when(
            floating(x),
            same_aval(x, y),
            that(_has_classes, k, x, says=f"{x} has elements along {k}"),
            used_once(likely),
        )
        .up_to(ROUNDING)
    )


@rule
def log_of_softmax(x, k: Param):
    """The logarithm of a softmax is computed at once, and finite where the softmax vanishes."""
    shares = softmax(x, axis=k)
    made = rewrite(log(shares)).to(log_softmax(x, axis=k)).when(used_once(shares))
    return made.up_to(REASSOCIATION).with_fast_math()
