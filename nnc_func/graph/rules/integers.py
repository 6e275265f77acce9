"""Small integers computed as floats: exactly, where every sum of them is a whole number that a float32 has.

Quantised networks multiply bytes. Integers have no fast kernels of products; of float32 there are, and whole numbers up
to 2^24 are added in it without rounding, in whatever order.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnc_func.declaration import Items
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.layouts import CHANNELS_INNERMOST, NCHW
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import Condition, of_dtypes, same_aval, that
from nnc_func.graph.rules.pattern import Constant, Param, dtype_of, folded
from nnc_func.graph.rules.rule import SIGNED_ZERO, Each, for_each, rewrite, rule, whole_graph
from nnc_func.op import Op

conv2d, matmul, cast, clip, where, isnan, subtract = (
    OPS[n] for n in ("conv2d", "matmul", "cast", "clip", "where", "isnan", "subtract")
)  # fmt: skip
full = OPS["full"]
conv2d_integer, matmul_integer = OPS["conv2d_integer"], OPS["matmul_integer"]
nearest = OPS["round"]
FLOAT32, INT32, INT8 = np.dtype("float32"), np.dtype("int32"), np.dtype("int8")
WHOLE = 1 << 24  # float32 has all whole numbers up to this one

# --- how large they are --------------------------------------------------------------------------------


def _is_byte(dtype: Any) -> bool:
    return np.dtype(dtype) in (np.uint8, np.int8)


def _elements(value: Any) -> Any:
    """Those of a constant that is on the host, if they are integers; else None."""
    node = value.node
    if node.op is not CONSTANT and node.op is not full:
        return None
    found = node.params["value"] if node.op is full else node.table.literals.get(node, node.data)
    if not isinstance(found, (np.ndarray, int, np.integer)) or np.asarray(found).dtype.kind not in "iu":
        return None
    return np.broadcast_to(np.asarray(found), value.shape)


def _bounds(x: Any) -> tuple[int, int] | None:
    """The least and the largest that a byte may be, or that an element of a constant is."""
    if _is_byte(x.dtype):
        return int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max)
    found = _elements(x)
    return None if found is None or not found.size else (int(found.min()), int(found.max()))


def _largest(q: Any, z: Any = None) -> int | None:
    """The largest magnitude of a byte, or of a byte less something else."""
    (low, high), away = _bounds(q) or (0, 0), (0, 0) if z is None else _bounds(z)
    return None if away is None else max(high - away[0], away[1] - low)


def _sums_fit(product: Any, w: Any, largest: int | None) -> bool:
    """Whether sums of products of numbers so large with weights are small enough, in whatever order they are taken."""
    weights = _elements(w)
    if weights is None or largest is None or weights.ndim < 2:
        return False
    is_image, transposed = product.node.op in (conv2d, conv2d_integer), product.node.params.get("transpose_b", False)
    axes = (0, 1, 2) if is_image else -1 if transposed else -2
    sums = np.abs(weights.astype(float)).sum(axis=axes)
    return bool(largest * sums.max(initial=0) <= WHOLE and largest <= WHOLE)


def _bytes(q: Any, wide: Any) -> Condition:
    holds = lambda q, wide: _is_byte(q.dtype) and wide.dtype in (np.int32, np.int64)  # noqa: E731
    return of_dtypes(holds, (q, wide), f"{q} are bytes, and {wide} are wide integers")


# --- products of bytes, as such --------------------------------------------------------------------------


@whole_graph(of=(conv2d_integer, matmul_integer))
def widen_integer_products(roots: tuple[Value, ...], order: list[Node], builder: Any) -> Any:
    """Products of bytes are of int32, and so of floats, where these hold the sums and no library multiplies bytes."""
    seen, replaced = builder.seen(order), {}
    for node in (n for op in (conv2d_integer, matmul_integer) for n in seen.of(op)):
        builder.where = node.origin
        found = _by_bytes(node, builder) if builder.has_libraries else _widened(node, builder)
        if found is not node:
            replaced[node] = found
    return replaced, len(replaced)


def _by_bytes(node: Node, builder: Any) -> Value:
    """The node itself, or one with weights that are bytes, where a library has a kernel; else one of wider numbers."""
    if _by_library(node.op, node.args, node.items, builder):
        return node
    for known in ({}, {"small_sums": True}) if _sums_fit(node, node.args[1], 255) else ({},):
        found = _of_bytes(node, {**node.params, **known}, builder)
        if found is not None:
            return found
    return _widened(node, builder)


def _widened(node: Node, builder: Any) -> Value:
    """Of int32, which another rule makes a product of floats; the node itself where these do not hold the sums."""
    x, w, zero = node.args
    wide, found = {"dtype": INT32}, _elements(w)
    if found is None or not _sums_fit(node, w, 255):
        return node
    weights = builder.symbol.constant(found.astype(INT32))
    less = builder.apply(subtract, tuple(builder.apply(cast, (each,), wide) for each in (x, zero)), {})
    params = {name: value for name, value in node.params.items() if name != "small_sums"}
    made: Value = builder.apply(conv2d if node.op is conv2d_integer else matmul, (less, weights), params)
    return made


def _by_library(op: Op, args: tuple[Value, ...], items: Items, builder: Any) -> bool:
    """Whether a library has a kernel for it, as its images lie or with channels innermost."""
    x, *others = (a.aval for a in args)
    laid = op is conv2d_integer and dict(items)["data_format"] == NCHW and x.layout is None
    for first in (x, x.having(layout=CHANNELS_INNERMOST)) if laid else (x,):
        kernel = builder.kernel(op, (first, *others), items)
        if kernel is not None and kernel.library is not None:
            return True
    return False


def _of_bytes(node: Node, params: dict[str, Any], builder: Any) -> Value | None:
    """The same with weights that are bytes: of those that are not, the rest is for the same channel once more.

    Weights of uint8 less a zero point reach a little beyond int8 at one end, in few channels as a rule. None where they
    are no sums of two bytes, or no library has a kernel for it.
    """
    (x, w, zero), op = node.args, node.op
    found = _elements(w)
    if found is None:
        return None
    at = 2 if op is conv2d_integer else 0
    near = found.clip(-128, 127)
    rest = found - near
    again = np.flatnonzero(rest.any(axis=tuple(i for i in range(found.ndim) if i != at)))
    if (len(again) and params.get("groups", 1) != 1) or not -128 <= rest.min(initial=0) <= rest.max(initial=0) <= 127:
        return None
    axis = 1 if node.params.get("data_format") == NCHW else len(x.shape) - 1
    given, whole = [x], tuple((0, n, 1) for n in x.shape)
    for channel in map(int, again):
        cut = [(channel, channel + 1, 1) if i == axis else bounds for i, bounds in enumerate(whole)]
        names = ("starts", "stops", "steps")
        given.append(builder.apply(OPS["slice"], (x,), dict(zip(names, zip(*cut, strict=True), strict=True))))
    more = builder.apply(OPS["concat"], tuple(given), {"axis": axis}) if len(given) > 1 else x
    weights = builder.symbol.constant(np.concatenate([near, rest.take(again, at)], at).astype(INT8))
    args = (more, weights, zero)
    return builder.apply(op, args, params) if _by_library(op, args, op.canonical(params), builder) else None


# --- products as floats --------------------------------------------------------------------------------


def _products(op: Op) -> Iterator[tuple[Each, None]]:
    if op in (conv2d, matmul):
        yield Each(op), None


def _whole(x: Any) -> Any:
    return cast(x, dtype=FLOAT32)


def _by_floats(f: Any, product: Any, left: Any, w: Any) -> rewrite:
    return rewrite(product).to(cast(f(left, folded(_whole(w))), dtype=dtype_of(product)))


@for_each(_products, "multiplies by weights")
def multiply_bytes_as_floats(f, _, q, w: Constant, d: Param):
    """Bytes times constant integers are multiplied as floats, which sum them exactly."""
    wide = cast(q, dtype=d)
    product = f(wide, w)
    fit = that(lambda p, q, w: _sums_fit(p, w, _largest(q)), product, q, w, says=f"sums of {product} are small")
    return _by_floats(f, product, _whole(q), w).when(_bytes(q, wide), fit)


@for_each(_products, "multiplies by weights")
def multiply_shifted_bytes_as_floats(f, _, q, z, w: Constant, d: Param, e: Param):
    """Bytes less a zero point, times constant integers, are multiplied as floats, which sum them exactly."""
    wide, zero = cast(q, dtype=d), cast(z, dtype=e)
    product = f(wide - zero, w)
    fit = that(
        lambda p, q, z, w: _sums_fit(p, w, _largest(q, z)), product, q, z, w, says=f"sums of {product} are small"
    )
    return _by_floats(f, product, _whole(q) - _whole(z), w).when(_bytes(q, wide), _bytes(z, zero), fit)


@for_each(_products, "multiplies by weights")
def multiply_centred_bytes_as_floats(f, _, q, c: Constant, w: Constant, d: Param):
    """Bytes less a constant zero point, times constant integers, are multiplied as floats, which sum them exactly."""
    wide = cast(q, dtype=d)
    product = f(wide - c, w)
    fit = that(
        lambda p, q, c, w: _sums_fit(p, w, _largest(q, c)), product, q, c, w, says=f"sums of {product} are small"
    )
    return _by_floats(f, product, _whole(q) - folded(_whole(c)), w).when(_bytes(q, wide), fit)


# --- there and back ---------------------------------------------------------------------------------------


def _fits(a: Any, b: Any, d: Any, within: Any) -> Condition:
    def holds(a: Any, b: Any, d: Any, x: Any) -> bool:
        if kind_of(x.dtype) != "f" or np.dtype(d).kind not in "iu" or a is None or b is None:
            return False
        bounds = np.iinfo(d)
        return bool(bounds.min <= a == int(a) and int(b) == b <= bounds.max and a <= b)

    return that(holds, a, b, d, within, says=f"whole numbers from {a} to {b} are of {d}")


@rule
def drop_cast_to_bytes(x, a: Param, b: Param, d: Param, e: Param):
    """What was rounded, and lies between the bounds of an integer, is what that integer is as a float."""
    rounded = nearest(x)
    within = clip(where(isnan(rounded), 0, rounded), min=a, max=b)
    back = cast(cast(within, dtype=d), dtype=e)
    return rewrite(back).to(within).when(same_aval(within, back), _fits(a, b, d, within)).up_to(SIGNED_ZERO)


@rule
def drop_cast_to_shifted_bytes(x, z, a: Param, b: Param, d: Param, e: Param, k: Param):
    """What was rounded and moved by a byte, and lies between the bounds of an integer, is what that is as a float."""
    moved = nearest(x) + cast(z, dtype=k)
    within = clip(where(isnan(moved), 0, moved), min=a, max=b)
    back = cast(cast(within, dtype=d), dtype=e)
    byte = of_dtypes(lambda z: _is_byte(z.dtype), (z,), f"{z} are bytes")
    return rewrite(back).to(within).when(same_aval(within, back), _fits(a, b, d, within), byte)
