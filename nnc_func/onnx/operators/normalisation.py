"""Normalisations of ONNX, and what is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import OperatorError
from nnc_func.facets.shapes import normalise_axes, normalise_axis
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.convolution import per_channel
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator

FLOAT32 = np.dtype("float32")

# --- batches ---------------------------------------------------------------------------------------------


def _as(o: Context, x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype == dtype else o.cast(x, dtype=dtype)


def _normalised(
    o: Context, x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> Tensor:
    """By statistics of each channel: ``factor * x + constant``, of tensors as small as channels."""
    wide, rank = mean.dtype, len(x.shape)
    factor = o.multiply(_as(o, scale, wide), o.rsqrt(o.add(variance, o.scalar(epsilon, variance))))
    shift = o.subtract(_as(o, offset, wide), o.multiply(mean, factor))
    y = o.add(o.multiply(_as(o, x, wide), per_channel(o, factor, rank)), per_channel(o, shift, rank))
    return _as(o, y, x.dtype)


@onnx_operator("BatchNormalization", since=(6, 7, 9), multi_result=True)
def batch_normalization(
    o: Context, x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, /, *,
    epsilon: float = 1e-5, momentum: float = 0.9, spatial: int = 1, is_test: int = 0,
) -> tuple[Any, ...]:  # fmt: skip
    """By the running statistics of each channel: the form of inference, whatever the momentum.

    Refused: statistics of each element, ``spatial=0``.
    """
    if not spatial:
        raise OperatorError("BatchNormalization with spatial=0, statistics of each element, is not supported")
    return (_normalised(o, x, scale, offset, mean, variance, epsilon),)


@onnx_operator("BatchNormalization", since=(14, 15), multi_result=True)
def batch_normalization_with_mode(
    o: Context, x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, /, *,
    epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0,
) -> tuple[Any, ...]:  # fmt: skip
    """By running statistics; for training by those of the batch, and the running ones moved towards them."""
    if not training_mode:
        return (_normalised(o, x, scale, offset, mean, variance, epsilon),)
    axes = tuple(i for i in range(len(x.shape)) if i != 1)
    own, spread = o.moments(o.cast(x, dtype=mean.dtype), axis=axes)
    wide = o.cast(x, dtype=mean.dtype)
    scale, offset = o.cast(scale, dtype=mean.dtype), o.cast(offset, dtype=mean.dtype)
    y = o.cast(o.batch_norm(wide, own, spread, scale, offset, axis=1, epsilon=epsilon), dtype=x.dtype)

    def moved(running: Tensor, seen: Tensor) -> Tensor:
        kept = o.multiply(running, o.scalar(momentum, running))
        return o.add(kept, o.multiply(seen, o.scalar(1 - momentum, seen)))

    return y, moved(mean, own), moved(variance, spread)


@onnx_operator("Dropout", since=(6, 7, 10), multi_result=True)
def dropout_of_inference(
    o: Context, x: Tensor, /, *, ratio: float = 0.5, is_test: int = 0
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Nothing is dropped: the mask is true."""
    return x, o.full(shape=x.shape, value=True, dtype=np.dtype("bool"))


@onnx_operator("Dropout", since=(12, 13, 22), known=("ratio", "training_mode"), multi_result=True)
def dropout(
    o: Context, x: Tensor, ratio: Any = None, training_mode: Any = None, /, *, seed: int | None = None
) -> tuple[Tensor, Tensor]:
    """In training mode elements are dropped by our own generator, from the seed.

    Refused: training without a seed, as results would differ from run to run.
    """
    share = 0.5 if ratio is None else float(ratio)
    if training_mode is None or not bool(training_mode) or share == 0:
        return x, o.full(shape=x.shape, value=True, dtype=np.dtype("bool"))
    if seed is None:
        raise OperatorError("Dropout in training mode wants the attribute seed: what it drops is a function of that")
    stay = 1.0 - share
    key = o.reshape(x.stack.key(int(seed)), shape=(2,))
    mask = o.random_bernoulli(key, shape=x.shape, probability=stay)
    return o.where(mask, o.multiply(x, o.scalar(1.0 / stay, x)), o.scalar(0, x)), mask


# --- samples ---------------------------------------------------------------------------------------------


@onnx_operator("InstanceNormalization", since=(6, 22))
def instance_normalization(
    o: Context, x: Tensor, scale: Tensor, offset: Tensor, /, *, epsilon: float = 1e-5
) -> Tensor:  # fmt: skip
    """Each channel of each sample less its mean, over its deviation."""
    return o.instance_norm(x, scale, offset, axis=1, epsilon=epsilon)


def _stash(o: Context, x: Tensor, stash_type: int) -> Any:
    """The dtype of the statistics: float32, unless elements are wider or it is said otherwise."""
    own = x.dtype
    return FLOAT32 if stash_type == 1 and own.itemsize < 4 else own


@onnx_operator("LayerNormalization", since=17, multi_result=True)
def layer_normalization(
    o: Context, x: Tensor, scale: Tensor, offset: Tensor | None = None, /, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Each sample less its mean, over its deviation, from an axis on; the mean, and one over the deviation."""
    axes = tuple(range(normalise_axis(axis, len(x.shape)), len(x.shape)))
    wide = o.cast(x, dtype=_stash(o, x, stash_type))
    mean = o.mean(wide, axis=axes, keepdims=True)
    away = o.subtract(wide, mean)
    variance = o.mean(o.square(away), axis=axes, keepdims=True)
    inverse = o.rsqrt(o.add(variance, o.scalar(epsilon, variance)))
    y = o.multiply(o.cast(o.multiply(away, inverse), dtype=x.dtype), scale)
    return y if offset is None else o.add(y, offset), mean, inverse


@onnx_operator("RMSNormalization", since=23)
def rms_normalization(
    o: Context, x: Tensor, scale: Tensor, /, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Each sample over its root mean square, from an axis on."""
    axes = tuple(range(normalise_axis(axis, len(x.shape)), len(x.shape)))
    wide = o.cast(x, dtype=_stash(o, x, stash_type))
    mean = o.mean(o.square(wide), axis=axes, keepdims=True)
    y = o.multiply(wide, o.rsqrt(o.add(mean, o.scalar(epsilon, mean))))
    return o.multiply(o.cast(y, dtype=x.dtype), scale)


def _groups(o: Context, x: Tensor, groups: int, epsilon: float, wide: Any) -> Tensor:
    """Each group of channels less its mean, over its deviation."""
    return o.cast(o.group_norm(o.cast(x, dtype=wide), groups=groups, axis=1, epsilon=epsilon), dtype=x.dtype)


@onnx_operator("GroupNormalization", since=18)
def group_normalization_by_groups(
    o: Context, x: Tensor, scale: Tensor, offset: Tensor, /, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Scale and offset have an element for each group."""
    y = _groups(o, x, num_groups, epsilon, x.dtype)
    members = x.shape[1] // num_groups
    rank = len(x.shape)

    def each(values: Tensor) -> Tensor:
        return per_channel(o, o.repeat(values, repeats=members, axis=0), rank)

    return o.add(o.multiply(y, each(scale)), each(offset))


@onnx_operator("GroupNormalization", since=21)
def group_normalization(
    o: Context, x: Tensor, scale: Tensor, offset: Tensor, /, *, num_groups: int, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:  # fmt: skip
    """Scale and offset have an element for each channel."""
    y = _groups(o, x, num_groups, epsilon, _stash(o, x, stash_type))
    rank = len(x.shape)
    return o.add(o.multiply(y, per_channel(o, scale, rank)), per_channel(o, offset, rank))


@onnx_operator("MeanVarianceNormalization", since=(9, 13))
def mean_variance_normalization(o: Context, x: Tensor, /, *, axes: Ints = (0, 2, 3)) -> Tensor:
    """Less the mean along some axes, over the deviation, to which one billionth is added."""
    over = normalise_axes(tuple(axes), len(x.shape))
    away = o.subtract(x, o.mean(x, axis=over, keepdims=True))
    deviation = o.sqrt(o.mean(o.square(away), axis=over, keepdims=True))
    return o.divide(away, o.add(deviation, o.scalar(1e-9, deviation)))


@onnx_operator("LpNormalization", since=(1, 22))
def lp_normalization(o: Context, x: Tensor, /, *, axis: int = -1, p: int = 2) -> Tensor:
    """Elements over the p-norm along an axis; zeros where that is zero."""
    if p not in (1, 2):
        raise OperatorError(f"LpNormalization has p 1 or 2, given {p}")
    powers = o.abs(x) if p == 1 else o.square(x)
    norm = o.sum(powers, axis=axis, keepdims=True)
    norm = norm if p == 1 else o.sqrt(norm)
    zero = o.equal(norm, o.scalar(0, norm))
    return o.where(zero, o.scalar(0, x), o.divide(x, o.where(zero, o.scalar(1, norm), norm)))


@onnx_operator("LRN", since=(1, 13))
def local_response_normalization(
    o: Context, x: Tensor, /, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Each element over a power of the mean square of its neighbours in other channels."""
    return o.local_response_norm(x, size=size, alpha=alpha, beta=beta, bias=bias, axis=1)
