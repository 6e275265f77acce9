"""Random operators: pure functions of a key, so they merge, replay and run anywhere with the same result.

Philox 4x64 with ten rounds; Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels import random as kernels
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import dtypes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.onnx import random as onnx_random
from nnc_func.facets.samples import EXACT, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import DType, Sizes, Tensor
from nnc_func.op import operator

_DISCRETE = Constant("a key is made of integers; draws do not vary smoothly with it")


# --- rules -------------------------------------------------------------------------------------------


def _check_key(key: ShapeT) -> None:
    if len(key) != 1 or not same_extent(key[0], 2):
        raise ShapeError(
            f"a key has shape (2,), given {key}; make one with stack.key(seed), take one of several by key[i]"
        )


def _drawn(key: ShapeT, *, shape: ShapeT, **_: Any) -> ShapeT:
    _check_key(key)
    if any(known(n) and n < 0 for n in shape):
        raise ShapeError(f"a shape has no negative extents, given {shape}")
    return shape


def _keys(key: ShapeT, *, count: int) -> ShapeT:
    _check_key(key)
    if count < 0:
        raise ShapeError(f"a key is split into a number of keys, given {count}")
    return (count, 2)


def _folded(key: ShapeT, data: ShapeT) -> ShapeT:
    _check_key(key)
    if data != ():
        raise ShapeError(f"random_fold_in folds in one number, a tensor of shape (), given shape {data}")
    return key


def _words(key: dtypes.DType, *_: dtypes.DType, **__: Any) -> dtypes.DType:
    if key != dtypes.UINT64:
        raise DTypeError(f"a key is made of uint64, given {key}; make one with stack.key(seed)")
    return dtypes.UINT64


def _folded_words(key: dtypes.DType, data: dtypes.DType) -> dtypes.DType:
    if data.kind not in "iu":
        raise DTypeError(f"random_fold_in folds in an integer, given {data}; cast it to int64 first")
    return _words(key)


def _floats(key: dtypes.DType, *, dtype: Any, **_: Any) -> dtypes.DType:
    _words(key)
    found: dtypes.DType = np.dtype(dtype)
    if found not in (dtypes.FLOAT32, dtypes.FLOAT64):
        raise DTypeError(f"random numbers are drawn as float32 or float64, given {dtype}; cast the result")
    return found


def _booleans(key: dtypes.DType, *, probability: float, **_: Any) -> dtypes.DType:
    _words(key)
    if not 0.0 <= probability <= 1.0:
        raise OperatorError(f"random_bernoulli: a probability is between 0 and 1, given {probability}")
    return dtypes.BOOL


# --- samples -----------------------------------------------------------------------------------------

_KEY = ((2,), "uint64", (0, 2**32))


def _samples(*params: dict[str, Any]) -> Samples:
    return Samples(relation="cases", dtypes=("uint64",), cases=tuple(((_KEY,), each) for each in params))


# --- keys --------------------------------------------------------------------------------------------


@operator(
    shape=_keys, dtype=_words, derivative=_DISCRETE, kernels=kernels.RANDOM_SPLIT, cost=per_element(100),
    onnx=onnx_random.random_split, tolerance=EXACT, samples=_samples({}, {"count": 1}, {"count": 5}, {"count": 0}),
)  # fmt: skip
def random_split(key: Tensor, /, *, count: int = 2) -> Tensor:
    """New keys from one, of shape ``(count, 2)``: take key i as ``keys[i]``.

    Key i is the first two words of the Philox block with counter ``(i + 1, 0, 0, 1)``. Draws use counters that end
    in 0, so that no draw from `key` shows a word of these blocks. Do not draw from a key that was split.
    """


@operator(
    shape=_folded, dtype=_folded_words, derivative=_DISCRETE, kernels=kernels.RANDOM_FOLD_IN, cost=per_element(100),
    onnx=onnx_random.random_fold_in, tolerance=EXACT,
    samples=Samples(relation="cases", dtypes=("uint64",), cases=(
        ((_KEY, ((), "int64", (-5, 100))), {}), ((_KEY, ((), "int32", (0, 100))), {}),
        ((_KEY, ((), "uint64", (0, 100))), {}), ((_KEY, ((), "uint8", (0, 100))), {}),
    )),
)  # fmt: skip
def random_fold_in(key: Tensor, data: Tensor, /) -> Tensor:
    """A new key from a key and an integer, such as the number of a step.

    `data` is an integer tensor of shape ``()``; equal numbers of different dtypes give the same key. The new key is
    the first two words of the Philox block with counter ``(data, 0, 0, 2)``, where data is taken modulo 2**64: no
    draw from `key` and no key split from it has that counter.
    """


# --- draws -------------------------------------------------------------------------------------------


@operator(
    shape=_drawn, dtype=_words, derivative=_DISCRETE, kernels=kernels.RANDOM_BITS, cost=per_element(25),
    onnx=onnx_random.random_bits, tolerance=EXACT,
    samples=_samples({"shape": (3, 5)}, {"shape": ()}, {"shape": (0, 2)}),
)  # fmt: skip
def random_bits(key: Tensor, /, *, shape: Sizes) -> Tensor:
    """Uniformly distributed 64-bit words.

    Element j in row-major order is word ``j % 4`` of the Philox block with counter ``(j // 4 + 1, 0, 0, 0)``: the
    stream of ``numpy.random.Philox(key=key).random_raw()``. All other draws are made of these words.
    """


@operator(
    shape=_drawn, dtype=_floats, derivative=_DISCRETE, kernels=kernels.RANDOM_UNIFORM, cost=per_element(27),
    onnx=onnx_random.random_uniform, tolerance=EXACT,
    samples=_samples(
        {"shape": (3, 5)}, {"shape": (7,), "dtype": "float64"}, {"shape": (), "low": -2.0, "high": 3.0},
        {"shape": (0, 2)}, {"shape": (2, 3), "dtype": "float64", "low": 0.25, "high": 0.5},
    ),
)  # fmt: skip
def random_uniform(
    key: Tensor, /, *, shape: Sizes, dtype: DType = "float32", low: float = 0.0, high: float = 1.0
) -> Tensor:
    """Uniformly distributed numbers: ``low + (high - low) * u`` with u in ``[0, 1)``.

    Element j has u from the top 24 bits (float32) or the top 53 bits (float64) of word j of `random_bits`. The
    product and the sum are rounded one after the other, so that every device gives the same bits; rounding may
    reach `high`.
    """


@operator(
    shape=_drawn, dtype=_floats, derivative=_DISCRETE, kernels=kernels.RANDOM_NORMAL, cost=per_element(60),
    onnx=onnx_random.random_normal, tolerance=Tolerance(4.0),
    samples=_samples({"shape": (3, 5)}, {"shape": (8,), "dtype": "float64"}, {"shape": ()}, {"shape": (0, 2)}),
)  # fmt: skip
def random_normal(key: Tensor, /, *, shape: Sizes, dtype: DType = "float32") -> Tensor:
    """Normally distributed numbers of mean 0 and variance 1.

    Box and Muller's transform of pairs of words of `random_bits`, computed in float64 and rounded to `dtype` at the
    end: elements 2j and 2j + 1 are ``r cos(2πv)`` and ``r sin(2πv)`` with ``r = sqrt(-2 log(1 - u))``, where u and v
    are float64 uniforms of words 2j and 2j + 1. As u < 1 the logarithm is finite.
    """


@operator(
    shape=_drawn, dtype=_booleans, derivative=_DISCRETE, kernels=kernels.RANDOM_BERNOULLI, cost=per_element(26),
    onnx=onnx_random.random_bernoulli, tolerance=EXACT,
    samples=_samples(
        {"shape": (3, 5), "probability": 0.3}, {"shape": (), "probability": 1.0},
        {"shape": (4,), "probability": 0.0}, {"shape": (0, 2), "probability": 0.5},
    ),
)  # fmt: skip
def random_bernoulli(key: Tensor, /, *, shape: Sizes, probability: float) -> Tensor:
    """Booleans that are true with the given probability.

    Element j is ``u < probability`` for the float64 uniform u of word j of `random_bits`: 1 is always true, 0 never.
    """
