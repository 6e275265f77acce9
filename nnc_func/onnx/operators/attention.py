"""Attention of ONNX, with caches, windows and masks of both kinds, and rotary embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.table import onnx_operator
from nnc_func.onnx.types import dtype_of

INT64 = np.dtype("int64")

# --- heads -----------------------------------------------------------------------------------------------


def _heads(o: Context, x: Tensor, count: int | None, what: str) -> Tensor:
    """As (batch, heads, positions, features)."""
    if len(x.shape) == 4:
        return x
    if len(x.shape) != 3 or not count or (known(x.shape[2]) and x.shape[2] % count):
        raise ShapeError(f"{what} are of rank 4, or of rank 3 with a number of heads that divides the last; {x.shape}")
    n, positions, features = x.shape
    apart = o.reshape(x, shape=(n, positions, count, features // count))
    return o.permute_dims(apart, axes=(0, 2, 1, 3))


# --- masks -----------------------------------------------------------------------------------------------


def _column(o: Context, extent: Any, axis: int) -> Tensor:
    shape = (extent, 1) if axis == 0 else (1, extent)
    return o.reshape(o.arange(start=0, stop=extent, dtype=INT64), shape=shape)


def _allowed(
    o: Context, queries: Any, keys: Any, offset: Tensor, causal: bool, left: int, right: int
) -> Tensor | None:  # fmt: skip
    """Which keys stand where a query may look, as far as positions say."""
    ahead = o.subtract(_column(o, keys, 1), o.add(_column(o, queries, 0), offset))
    bounds = [] if not causal else [o.less_equal(ahead, o.scalar(0, ahead))]
    bounds += [] if left < 0 else [o.greater_equal(ahead, o.scalar(-left, ahead))]
    bounds += [] if right < 0 else [o.less_equal(ahead, o.scalar(right, ahead))]
    found = None
    for each in bounds:
        found = each if found is None else o.logical_and(found, each)
    return found


def _wide(o: Context, mask: Tensor, keys: Any) -> Tensor:
    """A mask with what is behind its last key closed."""
    behind = keys - mask.shape[-1]
    if known(behind) and behind <= 0:
        return mask
    value = False if mask.dtype.kind == "b" else -math.inf
    return o.pad(mask, widths=(*((0, 0),) * (len(mask.shape) - 1), (0, behind)), value=value)


class Bias:
    """What is added to scores: numbers of a mask, and minus infinity where nothing is attended to."""

    def __init__(self, o: Context) -> None:
        self.o = o
        self.open: Any = None
        self.numbers: Any = None

    def only(self, where: Tensor | None) -> None:
        """Attend only there."""
        if where is not None:
            self.open = where if self.open is None else self.o.logical_and(self.open, where)

    def mask(self, mask: Tensor) -> None:
        """Attend as a mask says."""
        if mask.dtype.kind == "b":
            self.only(mask)
        else:
            self.numbers = mask

    def added(self, scores: Tensor) -> Tensor:
        """The scores with it."""
        o = self.o
        if self.numbers is not None:
            scores = o.add(scores, self.numbers)
        return scores if self.open is None else o.where(self.open, scores, o.scalar(-math.inf, scores))

    def empty(self) -> Any:
        """Which queries attend to nothing."""
        o, open_ = self.o, self.open
        if self.numbers is not None:
            some = o.greater(self.numbers, o.scalar(-math.inf, self.numbers))
            open_ = some if open_ is None else o.logical_and(open_, some)
        return None if open_ is None else o.logical_not(o.any(open_, axis=-1, keepdims=True))


# --- attention -------------------------------------------------------------------------------------------


def _scores(o: Context, q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """Products of queries and keys, of which consecutive heads of queries may share one head."""
    n, heads, count, features = q.shape
    shared = k.shape[1]
    if not known(heads) or not known(shared) or shared == 0 or heads % shared or not known(features):
        raise ShapeError(f"heads of queries are a multiple of those of keys: given {q.shape} and {k.shape}")
    root = math.sqrt(scale if scale is not None else 1.0 / math.sqrt(features))
    q, k = o.multiply(q, o.scalar(root, q)), o.multiply(k, o.scalar(root, k))
    if heads == shared:
        return o.matmul(q, k, transpose_b=True)
    q = o.reshape(q, shape=(n, shared, heads // shared * count, features))
    return o.reshape(o.matmul(q, k, transpose_b=True), shape=(n, heads, count, k.shape[2]))


def _weighed(o: Context, weights: Tensor, v: Tensor) -> Tensor:
    """Means of values."""
    n, heads, count, keys = weights.shape
    shared = v.shape[1]
    if heads == shared:
        return o.matmul(weights, v)
    together = o.reshape(weights, shape=(n, shared, heads // shared * count, keys))
    return o.reshape(o.matmul(together, v), shape=(n, heads, count, v.shape[3]))


@onnx_operator("Attention", since=(23, 24, 25), multi_result=True)
def attention(
    o: Context, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, lengths: Tensor | None = None, /, *, is_causal: int = 0,
    kv_num_heads: int | None = None, left_window_size: int = -1, q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Scaled products of queries and keys, and means of values by their softmax; the keys, the values, the scores.

    A query that may attend to nothing has the result zero.
    """
    if (past_key is None) != (past_value is None) or (past_key is not None and lengths is not None):
        raise OperatorError("Attention has past keys and past values or neither, and then no nonpad_kv_seqlen")
    if min(left_window_size, right_window_size) < -1 or qk_matmul_output_mode not in range(4):
        raise OperatorError("windows have at least the size -1, and qk_matmul_output_mode is 0, 1, 2 or 3")
    flat = len(q.shape) == 3
    q, k = _heads(o, q, q_num_heads, "queries"), _heads(o, k, kv_num_heads, "keys")
    v = _heads(o, v, kv_num_heads, "values")
    if past_key is not None:
        k, v = o.concat(past_key, k, axis=2), o.concat(past_value, v, axis=2)
    bias = _bias(o, q, k, mask, past_key, lengths, (bool(is_causal), left_window_size, right_window_size))
    shown = [_scores(o, q, k, scale)]
    if softcap:
        cap = o.scalar(softcap, q)
        shown.append(o.multiply(o.tanh(o.divide(shown[0], cap)), cap))
    else:
        shown.append(shown[0])
    shown.append(bias.added(shown[1]))
    weights = _softmax(o, shown[2], bias.empty(), softmax_precision)
    y = _weighed(o, weights, v)
    if flat:
        n, heads, count, features = y.shape
        y = o.reshape(o.permute_dims(y, axes=(0, 2, 1, 3)), shape=(n, count, heads * features))
    return y, k, v, [shown[1] if softcap else shown[0], shown[1], shown[2], weights][qk_matmul_output_mode]


def _bias(
    o: Context, q: Tensor, k: Tensor, mask: Tensor | None, past: Tensor | None, lengths: Tensor | None, bounds: Any
) -> Bias:
    queries, keys = q.shape[2], k.shape[2]
    offset = o.full(shape=(), value=0 if past is None else past.shape[2], dtype=INT64)
    bias = Bias(o)
    if lengths is not None:
        lengths = o.reshape(o.cast(lengths, dtype=INT64), shape=(lengths.shape[0], 1, 1, 1))
        offset = o.subtract(lengths, o.full(shape=(), value=queries, dtype=INT64))
        bias.only(o.less(_column(o, keys, 1), lengths))
    bias.only(_allowed(o, queries, keys, offset, *bounds))
    if mask is not None:
        bias.mask(_wide(o, mask, keys))
    return bias


def _softmax(o: Context, scores: Tensor, empty: Any, precision: int | None) -> Tensor:
    own = scores.dtype
    if precision is not None:
        scores = o.cast(scores, dtype=dtype_of(precision))
    if empty is None:
        return o.cast(o.softmax(scores, axis=-1), dtype=own)
    zero = o.scalar(0, scores)
    return o.cast(o.where(empty, zero, o.softmax(o.where(empty, zero, scores), axis=-1)), dtype=own)


# --- positions -------------------------------------------------------------------------------------------


@onnx_operator("RotaryEmbedding", since=23)
def rotary_embedding(
    o: Context, x: Tensor, cosines: Tensor, sines: Tensor, positions: Tensor | None = None, /, *,
    interleaved: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Tensor:  # fmt: skip
    """Pairs of features turned by angles of their positions; Su et al., 2021."""
    flat = len(x.shape) == 3
    y = x if not flat else _heads(o, x, num_heads, "rotated features")
    n, heads, count, features = y.shape
    turned = rotary_embedding_dim or features
    half = turned // 2
    if positions is not None:
        cosines, sines = o.take(cosines, positions, axis=0), o.take(sines, positions, axis=0)
    if cosines.shape[-1] != half or sines.shape[-1] != half:
        raise ShapeError(f"cosines and sines of {half} pairs are wanted, given {cosines.shape} and {sines.shape}")
    cosines, sines = (o.expand_dims(each, axis=1) for each in (cosines, sines))
    moving, rest = (y, None) if turned == features else o.split(y, sections=(turned, features - turned), axis=-1)
    if interleaved:
        pairs = o.reshape(moving, shape=(n, heads, count, half, 2))
        first, second = (o.squeeze(part, axis=-1) for part in o.split(pairs, sections=2, axis=-1))
    else:
        first, second = o.split(moving, sections=2, axis=-1)
    real = o.subtract(o.multiply(cosines, first), o.multiply(sines, second))
    imaginary = o.add(o.multiply(sines, first), o.multiply(cosines, second))
    if interleaved:
        moving = o.reshape(o.stack(real, imaginary, axis=-1), shape=(n, heads, count, turned))
    else:
        moving = o.concat(real, imaginary, axis=-1)
    y = moving if rest is None else o.concat(moving, rest, axis=-1)
    return o.reshape(o.permute_dims(y, axes=(0, 2, 1, 3)), shape=x.shape) if flat else y
