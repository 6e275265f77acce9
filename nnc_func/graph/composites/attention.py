"""Attention, dropout and embeddings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

INT64 = np.dtype("int64")
_KEY = ((2,), "uint64", (0, 2**20))

# --- dropout ---------------------------------------------------------------------------------------------


@composite(
    samples=Samples(relation="cases", cases=tuple(
        ((((3, 4), dtype), _KEY), {"probability": p}) for dtype in FLOATS for p in (0.0, 0.5, 0.9)
    )),
)  # fmt: skip
def dropout(o: Ops[Any], x: Tensor, key: Tensor, /, *, probability: float) -> Tensor:
    """Zero with that probability, and the rest divided by the probability to stay; Srivastava et al., JMLR 2014.

    `key` is that of random operators, ``uint64[2]``: equal keys drop the same elements on every stack. Refused: a
    probability outside of [0, 1).
    """
    if not 0.0 <= probability < 1.0:
        raise OperatorError(f"dropout drops with a probability in [0, 1), given {probability}")
    if probability == 0.0:
        return x
    stay = 1.0 - probability
    mask = o.random_bernoulli(key, shape=x.shape, probability=stay)
    return o.where(mask, o.multiply(x, o.number(1.0 / stay, x)), o.number(0, x))


# --- embedding -------------------------------------------------------------------------------------------


@composite(
    tolerance=Tolerance(0.0),
    samples=Samples(relation="cases", cases=tuple(
        (((shape, "int64", (0, 3)), ((4, 3), dtype)), {}) for shape in ((), (5,), (2, 3), (0,)) for dtype in FLOATS
    )),
)  # fmt: skip
def embedding(o: Ops[Any], indices: Tensor, weight: Tensor, /) -> Tensor:
    """Rows of a table by integers: ``weight[indices]``, whose gradient adds up what comes for equal indices.

    `weight` is ``(entries, features)``; the result has the shape of `indices` and then the features. An index out of
    range raises IndexError when it is met; a negative one counts from the end, as in `take`.
    """
    if len(weight.shape) != 2:
        raise ShapeError(f"wanted a table of shape (entries, features), given {weight.shape}")
    return o.take(weight, indices, axis=0)


# --- attention -------------------------------------------------------------------------------------------


def _check_heads(q: Tensor, k: Tensor, v: Tensor) -> int:
    """How many query heads share one of the keys."""
    shapes = f"queries {q.shape}, keys {k.shape}, values {v.shape}, each (…, heads, positions, features)"
    if not 3 <= len(q.shape) == len(k.shape) == len(v.shape):
        raise ShapeError(f"wanted three tensors of one rank, 3 at least; given {shapes}")
    if not known(q.shape[-1]) or not known(q.shape[-3]) or not known(k.shape[-3]):
        raise ShapeError(f"heads and features have to be known: {shapes}")
    fits = same_extent(q.shape[-1], k.shape[-1]) and same_extent(k.shape[-2], v.shape[-2])
    if not fits or not all(map(same_extent, k.shape[:-2], v.shape[:-2])):
        raise ShapeError(f"queries and keys have as many features, keys and values as many positions: {shapes}")
    heads, shared = q.shape[-3], k.shape[-3]
    if not all(map(same_extent, q.shape[:-3], k.shape[:-3])) or shared == 0 or heads % shared:
        raise ShapeError(f"batches are equal, and heads of queries a multiple of heads of keys: {shapes}")
    return heads // shared


def _causal(o: Ops[Any], queries: Any, keys: Any) -> Tensor:
    """Whether a key is not behind its query, of shape (queries, keys)."""
    rows = o.reshape(o.arange(start=0, stop=queries, dtype=INT64), shape=(queries, 1))
    return o.less_equal(o.reshape(o.arange(start=0, stop=keys, dtype=INT64), shape=(1, keys)), rows)


def _check_mask(mask: Tensor | None, scores: Any) -> None:
    """Raise ShapeError unless a mask broadcasts to the scores' shape."""
    if mask is None:
        return
    pairs = zip(reversed(mask.shape), reversed(scores), strict=False)
    if len(mask.shape) > len(scores) or not all(m == 1 or same_extent(m, n) for m, n in pairs):
        raise ShapeError(f"a mask broadcasts to (…, heads, queries, keys), {scores}; given {mask.shape}")


def _masked(o: Ops[Any], scores: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, Tensor | None]:
    """The scores with what is not attended to at minus infinity, and which queries attend to something, if not all."""
    if mask is None and not causal:
        return scores, None
    if mask is not None and kind_of(o.dtype(mask)) not in "bf":
        raise DTypeError(f"a mask is of booleans or floating numbers, given {o.dtype(mask)}")
    allowed = _causal(o, *scores.shape[-2:]) if causal else None
    lowest = o.number(-math.inf, scores)
    if mask is not None and o.dtype(mask).kind == "b":
        allowed = mask if allowed is None else o.logical_and(mask, allowed)
    elif mask is not None:
        scores = o.add(scores, mask)
        open_ = o.not_equal(mask, o.number(-math.inf, mask))
        some = o.any(open_ if allowed is None else o.logical_and(open_, allowed), axis=-1, keepdims=True)
        return scores if allowed is None else o.where(allowed, scores, lowest), some
    some = None if mask is None else o.any(allowed, axis=-1, keepdims=True)
    return o.where(allowed, scores, lowest), some


def _weights(o: Ops[Any], scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The softmax of scores that are attended to; zeros for a query that attends to nothing."""
    if known(scores.shape[-1]) and scores.shape[-1] == 0:
        return scores
    scores, some = _masked(o, scores, mask, causal)
    if some is None:
        return o.softmax(scores, axis=-1)
    zero = o.number(0, scores)
    return o.where(some, o.softmax(o.where(some, scores, zero), axis=-1), zero)


def _attention_cases() -> Any:
    q, k, v = (2, 4, 3, 2), (2, 4, 5, 2), (2, 4, 5, 3)
    grouped = ((1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2))
    for d in FLOATS:
        plain = tuple((s, d) for s in (q, k, v))
        yield plain, {}
        yield plain, {"causal": True, "scale": 0.5}
        yield (*plain, ((3, 5), "bool")), {}
        yield (*plain, ((4, 1, 5), d)), {"causal": True}
        yield (*((s, d) for s in grouped), ((1, 1, 3, 3), "bool")), {"causal": True}
        yield (*((s, d) for s in grouped), ((1, 1, 3, 3), d), _KEY), {"dropout": 0.5}


@composite(
    tolerance=Tolerance(256.0), samples=Samples(relation="cases", cases=tuple(_attention_cases())),
)  # fmt: skip
def scaled_dot_product_attention(
    o: Ops[Any], queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None,
    dropout_key: Tensor | None = None, /, *, causal: bool = False, scale: float | None = None, dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    """Means of values, weighed by the softmax of products of queries and keys; Vaswani et al., NeurIPS 2017.

    Shapes: queries ``(…, heads, queries, features)``, keys ``(…, key heads, keys, features)``, values ``(…, key heads,
    keys, value features)``; the result is ``(…, heads, queries, value features)``. There may be fewer key heads, of
    which the heads are a multiple: consecutive heads share one (Ainslie et al., 2023), and nothing is repeated for it.

    Products are multiplied by `scale`, one over the root of the features unless given. `mask` broadcasts to
    ``(…, heads, queries, keys)``: booleans say what is attended to, numbers are added to the scaled products. With
    `causal`, query i attends to keys 0 … i only. A query that attends to nothing (all false, or minus infinity, or no
    keys) has the result zero, and no gradient. With `dropout`, weights are dropped by the key after the softmax.
    """
    group = _check_heads(queries, keys, values)
    (*batch, heads, count, features), keys_count = queries.shape, keys.shape[-2]
    factor = scale if scale is not None else 1.0 / math.sqrt(features) if features else 1.0
    _check_mask(mask, (*batch, heads, count, keys_count))
    together = (*batch, heads // group, group * count)
    scaled = o.multiply(queries, o.number(factor, queries))
    if group > 1:
        scaled = o.reshape(scaled, shape=(*together, features))
    scores = o.matmul(scaled, keys, transpose_b=True)
    weights = _weights(o, o.reshape(scores, shape=(*batch, heads, count, keys_count)), mask, causal)
    if dropout:
        if dropout_key is None:
            raise OperatorError("attention with dropout wants a key, as its fifth tensor")
        weights = o.dropout(weights, dropout_key, probability=dropout)
    if group > 1:
        weights = o.reshape(weights, shape=(*together, keys_count))
    found = o.matmul(weights, values)
    return o.reshape(found, shape=(*batch, heads, count, values.shape[-1])) if group > 1 else found
