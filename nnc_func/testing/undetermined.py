"""Where NaN and infinity are is left to kernels at two places, and no fault of a rule that says it rounds.

A sum, or a product, may overflow in one order of its terms and not in another; and some kernels of convolutions
multiply the zeros around images, by which an infinite weight is NaN, while others leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnc_func.device.kernels.linalg import windows_of
from nnc_func.errors import NncError
from nnc_func.facets import dtypes
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.rewriting.evaluating import applied, converted, on_host, parts_of
from nnc_func.graph.rules.rule import REASSOCIATION, ROUNDING, Numerics
from nnc_func.testing.products import is_product, product

ADD_UP = frozenset((
    "sum", "mean", "cumulative_sum", "prod", "cumulative_prod", "matmul", "tensordot", "conv2d",
    "conv2d_input_gradient", "conv2d_kernel_gradient", "average_pool2d", "matmul_blockwise", "conv2d_blockwise",
))  # fmt: skip
"""Operators whose kernels add up, or multiply, in an order of their own: the order changes with shapes and layouts."""
TRANSFORMS = frozenset(("fourier", "real_fourier", "inverse_real_fourier"))
"""Operators each element of which is a sum of all elements along some axes, each times a number of magnitude one."""
REGROUPED = ADD_UP | TRANSFORMS | {"add", "subtract"}


MOVES = frozenset(("concat", "stack", "assemble", "pad", "set_slice", "where"))


def left_to_kernels(
    old: Value, new: Value, feeds: Mapping[Node, Any], device: Any, dims: Any, numerics: Numerics
) -> bool:
    """Whether NaN and infinity are in the same places if kernels add up in a wider format, all terms.

    They multiply in one in which no partial product overflows. Each result that is too large for its own dtype is
    infinite there, so that a product which a rule makes larger than it was is seen; of a rule that regroups sums all
    but results of sums.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (4,), "float32")
    >>> feeds = {x.value: np.float32([3e38, 3e38, -3e38, -3e38])}
    >>> sides = lazy.ops.sum(x).value, lazy.ops.sum(lazy.ops.flip(x)).value
    >>> left_to_kernels(*sides, feeds, lazy.device, None, ROUNDING)
    True
    >>> sides = lazy.ops.sum(x).value, lazy.ops.divide(lazy.ops.sum(x * 2), 2).value
    >>> left_to_kernels(*sides, feeds, lazy.device, None, ROUNDING)
    False
    """
    order = topological([old, new])
    open_ = REGROUPED if numerics == REASSOCIATION else ADD_UP | TRANSFORMS
    if numerics < ROUNDING or kind_of(old.dtype) not in "fc" or not any(n.op.name in open_ for n in order):
        return False
    double = any(a.dtype.name in ("float64", "complex128") for n in order for a in n.avals)
    wide = np.longdouble if double else np.float64
    values: dict[Node, Any] = {}
    try:
        for node in order:
            free = numerics == REASSOCIATION and (node.op.name in REGROUPED or moves(node))
            values[node] = _widened(node, values, feeds, device, wide, dims, free)
            if not free:
                values[node] = _bounded(values[node], node)
    except NncError:
        return False
    return _alike(on_host(old, values, device), on_host(new, values, device))


def moves(node: Node) -> bool:
    """Whether a node's elements are those of its operands, in other places."""
    return node.op.dtype is dtypes.first or node.op.name in MOVES


def _widened(node: Node, values: Any, feeds: Mapping[Node, Any], device: Any, wide: Any, dims: Any, free: bool) -> Any:
    """A node's value where floating numbers are of a wider format; with `free` products are finite there, too."""
    if node in feeds or node.op is CONSTANT:
        return converted(feeds.get(node, node.data), wide)
    if is_product(node):
        return product(node, on_host(node.args[0], values, device), within=free)
    if node.op.name == "conv2d" and node.params["padding"] != "VALID":
        x, w = (values[a.node] for a in node.args)
        return _convolved(node, x, w, device)
    return applied(node, values, device, dims)


def _convolved(node: Node, x: Any, w: Any, device: Any) -> Any:
    """A convolution that multiplies the zeros around images."""
    params, images = node.params, device.to_numpy(x)
    rows = 1 if params["data_format"] == "NHWC" else 2
    over = windows_of(
        images.shape[rows : rows + 2], w.shape[:2], *(params[n] for n in ("stride", "padding", "dilation"))
    )
    widths = [(0, 0)] * 4
    widths[rows : rows + 2] = zip(over.before, over.after, strict=True)
    return device.bind(node.op, np.pad(images, widths), w, **params | {"padding": "VALID"})


def _bounded(found: Any, node: Node) -> Any:
    """Results that are too large for their dtypes are infinite."""
    if node.op.multi_result:
        return tuple(_within(each, aval.dtype) for each, aval in zip(found, node.avals, strict=True))
    return _within(found, node.aval.dtype)


def _within(array: Any, dtype: Any) -> Any:
    if kind_of(dtype) not in "fc" or array.dtype == dtype:
        return array
    most, found = float(limits_of(dtype).max), np.array(array)
    for part in (found.real, found.imag) if found.dtype.kind == "c" else (found,):
        part[...] = np.where(np.abs(part) > most, np.copysign(np.inf, part), part)
    return found


def _alike(was: Any, now: Any) -> bool:
    """Whether NaN and infinity are in the same places."""
    if was.dtype.kind == "c":
        was, now = parts_of(was, now, free=True)
    there = ~(np.isfinite(was) & np.isfinite(now))
    return np.array_equal(was[there], now[there], equal_nan=True)
