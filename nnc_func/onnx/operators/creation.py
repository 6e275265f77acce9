"""Tensors of shapes, numbers and chance; and casts."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.facets.dtypes import kind_of
from nnc_func.onnx.table import onnx_operator
from nnc_func.onnx.types import element_of


@onnx_operator("ConstantOfShape", since=(9, 20, 21, 23, 24, 25), known=("shape",))
def constant_of_shape(o: Any, shape: Any, *, value: Any = None) -> Any:
    """One number everywhere."""
    number = np.zeros(1, np.float32) if value is None else value
    if number.size != 1:
        raise OnnxError(f"the value is one number, given {number.size}")
    return o.full(shape=o.sized(shape), value=number.ravel()[0].item(), dtype=number.dtype)


@onnx_operator("EyeLike", since=(9, 22))
def eye_like(o: Any, x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    """Ones on a diagonal, in the shape of a matrix."""
    if len(x.shape) != 2:
        raise OnnxError(f"wants a matrix, given shape {tuple(x.shape)}")
    kind = x.dtype if dtype is None else o.dtype(dtype)
    return o.eye(n_rows=x.shape[0], n_cols=x.shape[1], k=k, dtype=kind)


@onnx_operator("Range", since=(11, 27), known=("start", "limit", "delta"))
def range_(o: Any, start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Any:
    """Numbers at equal distances."""
    if any(x.size != 1 for x in (start, limit, delta)):
        raise OnnxError("start, limit and delta are one number each")
    first, last, step = (x.ravel()[0] for x in (start, limit, delta))
    if object in (start.dtype, limit.dtype, delta.dtype):
        return o.arange(start=first, stop=last, step=step)
    if step == 0:
        raise OnnxError("a range whose numbers are at the distance 0")
    wide = np.float64 if kind_of(start.dtype) == "f" else object
    count = max(int(np.ceil((np.asarray(last, wide) - np.asarray(first, wide)) / np.asarray(step, wide))), 0)
    o.sized([count])
    steps = o.arange(start=0, stop=count)
    if kind_of(start.dtype) != "f":
        return o.cast(o.add(o.multiply(steps, int(step)), int(first)), dtype=start.dtype)
    stash = o.dtype(stash_type) if start.dtype.itemsize < 4 else start.dtype
    found = o.add(o.multiply(o.cast(steps, dtype=stash), float(step)), float(first))
    return o.cast(found, dtype=start.dtype)


@onnx_operator("Cast", since=(6, 9, 13, 19, 21, 23, 24, 25, 28))
def cast(o: Any, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """The same numbers in another dtype."""
    return o.cast(x, dtype=o.dtype(to))


@onnx_operator("BitCast", since=(26,))
def bit_cast(o: Any, x: Any, *, to: int) -> Any:
    """The same bits as elements of a dtype of as many bytes."""
    return o.bit_cast(x, dtype=o.dtype(to))


@onnx_operator("CastLike", since=(15, 19, 21, 23, 24, 25))
def cast_like(o: Any, x: Any, target: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """The same numbers in the dtype of another tensor."""
    return cast(o, x, to=element_of(target.dtype), saturate=saturate, round_mode=round_mode)


# --- chance: the same numbers at each call, of the seed; of a node without one, of its results' names ---------


def _key(o: Any, seed: float | None) -> Any:
    if seed is None:
        return o.key(zlib.crc32("/".join(o.node.output).encode()))
    return o.key(int(np.float32(seed).view(np.uint32)))


def _uniform(o: Any, shape: Any, dtype: Any, seed: float | None, low: float, high: float) -> Any:
    made = o.random_uniform(_key(o, seed), shape=shape, dtype="float64" if dtype == np.float64 else "float32",
                            low=low, high=high)  # fmt: skip
    return o.cast(made, dtype=dtype)


def _normal(o: Any, shape: Any, dtype: Any, seed: float | None, mean: float, scale: float) -> Any:
    wide = "float64" if dtype == np.float64 else "float32"
    made = o.add(o.multiply(o.random_normal(_key(o, seed), shape=shape, dtype=wide), scale), mean)
    return o.cast(made, dtype=dtype)


@onnx_operator("RandomUniform", since=(1, 22))
def random_uniform(
    o: Any, *, shape: tuple[int, ...], dtype: int = 1, seed: float | None = None, low: float = 0.0, high: float = 1.0
) -> Any:
    """Uniformly distributed."""
    return _uniform(o, o.sized(shape), o.dtype(dtype), seed, low, high)


@onnx_operator("RandomUniformLike", since=(1, 22))
def random_uniform_like(
    o: Any, x: Any, *, dtype: int | None = None, seed: float | None = None, low: float = 0.0, high: float = 1.0
) -> Any:
    """Uniformly distributed, in the shape of a tensor."""
    return _uniform(o, x.shape, x.dtype if dtype is None else o.dtype(dtype), seed, low, high)


@onnx_operator("RandomNormal", since=(1, 22))
def random_normal(
    o: Any, *, shape: tuple[int, ...], dtype: int = 1, seed: float | None = None, mean: float = 0.0, scale: float = 1.0
) -> Any:
    """Normally distributed."""
    return _normal(o, o.sized(shape), o.dtype(dtype), seed, mean, scale)


@onnx_operator("RandomNormalLike", since=(1, 22))
def random_normal_like(
    o: Any, x: Any, *, dtype: int | None = None, seed: float | None = None, mean: float = 0.0, scale: float = 1.0
) -> Any:
    """Normally distributed, in the shape of a tensor."""
    return _normal(o, x.shape, x.dtype if dtype is None else o.dtype(dtype), seed, mean, scale)


@onnx_operator("Bernoulli", since=(15, 22))
def bernoulli(o: Any, x: Any, *, dtype: int | None = None, seed: float | None = None) -> Any:
    """True with the probabilities that a tensor holds."""
    drawn = o.less(_uniform(o, x.shape, np.dtype("float64"), seed, 0.0, 1.0), o.cast(x, dtype="float64"))
    return o.cast(drawn, dtype=x.dtype if dtype is None else o.dtype(dtype))


@onnx_operator("Multinomial", since=(7, 22))
def multinomial(o: Any, x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    """Classes drawn with the probabilities whose logarithms the rows of a matrix hold, up to a constant."""
    if len(x.shape) != 2:
        raise OnnxError(f"wants a matrix, given shape {tuple(x.shape)}")
    bounds = o.cumulative_sum(o.softmax(o.cast(x, dtype="float64"), axis=1), axis=1)
    drawn = _uniform(o, (x.shape[0], sample_size, 1), np.dtype("float64"), seed, 0.0, 1.0)
    passed = o.sum(o.greater_equal(drawn, o.expand_dims(bounds, axis=1)), axis=2)
    return o.cast(o.minimum(passed, o.full(shape=(), value=x.shape[1] - 1, dtype="int64")), dtype=o.dtype(dtype))
