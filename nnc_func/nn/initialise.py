"""Initialisers: functions (key, shape, dtype) → array, drawn by the library's Philox: the same bits for every stack.

Where the key is None nothing is drawn: the array is an outline, zeros that share one element's memory.

Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS 2010; He et al.,
"Delving deep into rectifiers", ICCV 2015; LeCun et al., "Efficient backprop", 1998.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.device import NumPy
from nnc_func.errors import ShapeError
from nnc_func.facets.dtypes import FLOAT32, as_dtype, kind_of
from nnc_func.graph.ops import CATALOGUE

Initialiser = Callable[[Any, tuple[int, ...], Any], Any]


def fold_in(key: Any, number: int) -> Any:
    """A new key from a key and a number; of no key, none."""
    return None if key is None else NumPy().bind(CATALOGUE["random_fold_in"], key, np.uint64(number))


def outline(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros of that shape in the memory of one element, read-only: a model of any size without its parameters.

    Examples
    --------
    >>> outline((10**6, 10**6), "float32").strides
    (0, 0)
    """
    return np.broadcast_to(np.zeros((), as_dtype(dtype)), shape)


def _drawn(dtype: Any) -> Any:
    """The dtype in which numbers are drawn: float32 for narrower ones."""
    found = as_dtype(dtype)
    return FLOAT32 if kind_of(found) == "f" and found.itemsize < 4 else found


def uniform(key: Any, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
    """An array of uniformly distributed numbers."""
    if key is None:
        return outline(shape, dtype)
    drawn = NumPy().bind(CATALOGUE["random_uniform"], key, shape=shape, dtype=_drawn(dtype), low=low, high=high)
    return drawn.astype(as_dtype(dtype), copy=False)


def normal(key: Any, shape: tuple[int, ...], dtype: Any, deviation: float) -> Any:
    """An array of normally distributed numbers of mean 0."""
    if key is None:
        return outline(shape, dtype)
    drawn = NumPy().bind(CATALOGUE["random_normal"], key, shape=shape, dtype=_drawn(dtype))
    return NumPy().bind(CATALOGUE["multiply"], drawn, deviation).astype(as_dtype(dtype), copy=False)


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Inputs and outputs of one element, of a matrix (inputs, outputs) or a kernel (height, width, inputs, outputs).

    Raises
    ------
    ShapeError
        The shape has fewer than two axes.

    Examples
    --------
    >>> fans((5, 5, 1, 32))
    (25, 800)
    """
    if len(shape) < 2:
        raise ShapeError(f"this initialiser wants at least two axes, given shape {shape}; use zeros for a vector")
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def glorot_uniform(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniform in ±sqrt(6 / (inputs + outputs)): keeps the variance forward and backward; for tanh and sigmoid.

    Examples
    --------
    >>> import numpy as np
    >>> bool(abs(glorot_uniform(np.uint64([0, 0]), (4, 2), "float32")).max() <= 1)
    True
    """
    bound = math.sqrt(6.0 / sum(fans(shape)))
    return uniform(key, shape, dtype, -bound, bound)


def glorot_normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Normal of variance 2 / (inputs + outputs)."""
    return normal(key, shape, dtype, math.sqrt(2.0 / sum(fans(shape))))


def he_normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Normal of variance 2 / inputs: keeps the variance through relu."""
    return normal(key, shape, dtype, math.sqrt(2.0 / fans(shape)[0]))


def lecun_normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Normal of variance 1 / inputs."""
    return normal(key, shape, dtype, math.sqrt(1.0 / fans(shape)[0]))


@frozen
class Normal:
    """Normally distributed around 0 with that deviation.

    Examples
    --------
    >>> Normal(0.02)(None, (2, 3), "float32").shape
    (2, 3)
    """

    deviation: float

    def __call__(self, key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return normal(key, shape, dtype, self.deviation)


@frozen
class Constant:
    """Every element that number.

    Examples
    --------
    >>> Constant(0.5)(None, (2,), "float32")
    array([0.5, 0.5], dtype=float32)
    """

    value: float

    def __call__(self, key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.full(shape, self.value, as_dtype(dtype))


zeros = Constant(0.0)
ones = Constant(1.0)
