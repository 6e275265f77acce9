"""Our operators as functions of jax.numpy and jax.lax: those whose reference kernels JAX does not take as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from nnc_func.device.kernels import move, random
from nnc_func.device.kernels.detection import overlaps
from nnc_func.device.shared.kernel_choice import fresh


def convolution(x: Any, w: Any, *, stride: Any, padding: Any, dilation: Any, groups: int, data_format: str) -> Any:
    """XLA's own."""
    return lax.conv_general_dilated(
        x, w, stride, padding, rhs_dilation=dilation, dimension_numbers=(data_format, "HWIO", data_format),
        feature_group_count=groups,
    )  # fmt: skip


def convolution_input_gradient(g: Any, w: Any, *, input_shape: Any, **params: Any) -> Any:
    """What XLA's convolution has as its transpose."""
    x = jax.ShapeDtypeStruct(input_shape, g.dtype)
    return jax.linear_transpose(lambda x: convolution(x, w, **params), x)(g)[0]


def convolution_kernel_gradient(x: Any, g: Any, *, kernel_shape: Any, **params: Any) -> Any:
    """The same, of the other argument."""
    w = jax.ShapeDtypeStruct(kernel_shape, g.dtype)
    return jax.linear_transpose(lambda w: convolution(x, w, **params), w)(g)[0]


def windowed(
    x: Any, start: Any, function: Any, *, window: Any, stride: Any, padding: Any, dilation: Any, data_format: str
) -> Any:
    """XLA's reduction of windows."""

    def wide(pair: Any, other: Any) -> Any:
        return (other, *pair, other) if data_format == "NHWC" else (other, other, *pair)

    around = padding if isinstance(padding, str) else wide(padding, (0, 0))
    return lax.reduce_window(
        x, start, function, wide(window, 1), wide(stride or window, 1), around, window_dilation=wide(dilation, 1)
    )


def max_pool(x: Any, **params: Any) -> Any:
    """Largest elements."""
    return windowed(x, -np.inf, lax.max, **params)


def max_pool_gradient(x: Any, g: Any, **params: Any) -> Any:
    """To the largest elements."""
    return jax.vjp(lambda x: max_pool(x, **params), x)[1](g)[0]


def average_pool(x: Any, *, count_padding: bool, **params: Any) -> Any:
    """Sums, divided by how many elements a window has: counted for one channel, since XLA does it while it compiles."""
    channels = {0, 3} if params["data_format"] == "NHWC" else {0, 1}
    ones = np.ones([1 if axis in channels else n for axis, n in enumerate(x.shape)], x.dtype)
    size = float(np.prod(params["window"]))
    return windowed(x, 0.0, lax.add, **params) / (size if count_padding else windowed(ones, 0.0, lax.add, **params))


def average_pool_gradient(g: Any, *, input_shape: Any, **params: Any) -> Any:
    """Its transpose."""
    x = jax.ShapeDtypeStruct(input_shape, g.dtype)
    return jax.linear_transpose(lambda x: average_pool(x, **params), x)(g)[0]


def take(x: Any, indices: Any, *, axis: int) -> Any:
    """Without the check of indices."""
    return jnp.take(x, indices, axis=axis, mode="clip")


def take_along_axis(x: Any, indices: Any, *, axis: int) -> Any:
    """Without the check of indices."""
    return jnp.take_along_axis(x, indices, axis=axis, mode="clip")


def scatter_add(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    """As a functional update."""
    return x.at[(slice(None),) * (axis % x.ndim) + (indices,)].add(updates)


def one_hot(indices: Any, *, depth: int, dtype: Any, **_: Any) -> Any:
    """JAX's own."""
    return jax.nn.one_hot(indices, depth, dtype=dtype)


def assemble(*parts: Any, shape: Any, offsets: Any, strides: Any, fill: Any) -> Any:
    """Functional updates of what is filled."""
    out = jnp.full(shape, fill, dtype=np.result_type(*(p.dtype for p in parts)))
    for part, place in zip(parts, move._places(parts, shape, offsets, strides), strict=True):
        out = out.at[place].set(part)
    return out


def top(x: Any, *, k: int, axis: int, largest: bool) -> Any:
    """Positions of the largest elements."""
    found = lax.top_k(jnp.moveaxis(x if largest else -x, axis, -1), k)[1]
    return jnp.moveaxis(found, -1, axis).astype("int64")


def suppressed(boxes: Any, scores: Any, *, count: int, overlap: float, lowest: float) -> Any:
    """A loop that takes the best box that is left: XLA's cost analysis counts its body once."""

    def step(i: Any, state: Any) -> Any:
        alive, chosen, number = state
        left = jnp.any(alive)
        at = jnp.argmax(jnp.where(alive, scores, -jnp.inf))
        apart = ~(overlaps(jnp, boxes[at, :], boxes) > overlap)
        alive = alive & apart & (jnp.arange(len(scores)) != at)
        return alive, chosen.at[i].set(jnp.where(left, at, -1)), number + left

    start = scores >= lowest, jnp.full((count,), -1, "int64"), jnp.zeros((), "int64")
    return lax.fori_loop(0, count, step, start)[1:]


OWN: dict[str, Callable[..., Any]] = {
    "argtop_k": top,
    "assemble": assemble,
    "average_pool2d": average_pool,
    "average_pool2d_gradient": average_pool_gradient,
    "conv2d": convolution,
    "conv2d_input_gradient": convolution_input_gradient,
    "conv2d_kernel_gradient": convolution_kernel_gradient,
    "max_pool2d": max_pool,
    "max_pool2d_gradient": max_pool_gradient,
    "non_maximum_suppression": suppressed,
    "one_hot": one_hot,
    "scatter_add": scatter_add,
    "take": take,
    "take_along_axis": take_along_axis,
}


def translated(op: Any, items: Any) -> Callable[..., Any]:
    """An operator as a function of JAX's arrays."""
    own = OWN.get(op.name)
    return (lambda *args: own(*args, **dict(items))) if own else fresh(jnp, op.kernels[-1], items)


@contextmanager
def words() -> Iterator[None]:
    """Philox's constants as words of 64 bits: JAX takes no larger Python integers than signed ones."""
    with (
        patch.object(random, "WEYL", tuple(map(np.uint64, random.WEYL))),
        patch.object(random, "MULTIPLIERS", tuple(map(np.uint64, random.MULTIPLIERS))),
    ):
        yield
