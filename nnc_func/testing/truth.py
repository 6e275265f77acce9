"""What a value would be without rounding, and how far from it the rounding of a graph may leave its elements.

Truth is the same graph in a wider format: float64 for narrower numbers, long double for float64. Where a platform's
long double is no wider, or a kernel has none, there is no truth, and the value itself stands for it.

`spread` is a running error analysis of the first order (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
section 3.3): sums and products carry the magnitudes of their terms, others are looked at beside their operands.
A kernel adds in an order of its own: so much is left to it even where a rule only rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nnc_func.errors import NncError
from nnc_func.facets import dtypes
from nnc_func.facets.dims import substitute
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.shapes import normalise_axes
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.ops.families import real_floating
from nnc_func.graph.rewriting.evaluating import applied, converted, on_host
from nnc_func.graph.rules.rule import REASSOCIATION, Numerics
from nnc_func.testing.products import PRODUCTS, STEP, is_product, product, spread_of_product
from nnc_func.testing.undetermined import ADD_UP, TRANSFORMS, moves

LONG_DOUBLE_IS_WIDER = bool(np.finfo(np.longdouble).eps < np.finfo(np.float64).eps)
FACTOR = 4  # of what the first form is from the truth, and of one unit in the last place of the result
NEARBY = 8  # matrices beside one that is decomposed
PROMOTING = (dtypes.floating, real_floating)  # of integers they make floating numbers
NO_SUMS = frozenset(("matmul_blockwise", "conv2d_blockwise")) | PRODUCTS
MEANT = frozenset(("cast", "round", "floor", "ceil", "trunc"))  # what they lose is what they are for
IN_BITS = frozenset(("bit_cast", "nextafter", "signbit"))  # they mean the format, not the number
SUMS = ADD_UP & CATALOGUE.keys() - NO_SUMS | {"add", "subtract", "negative", "multiply", "square", "fma"}
"""Operators that add terms, each of which is a product of operands."""
ADDS = frozenset(("add", "subtract", "negative", "sum", "mean", "cumulative_sum", "average_pool2d"))
"""Those whose terms are their operands, so that a sum of sums is one of all terms."""
POSITIVE = {"subtract": "add", "negative": "abs"}


WITHIN: Mapping[str, Any] = {  # operators that add exponentials: what one unit of their sum is in the result
    **dict.fromkeys(("logsumexp", "logcumsumexp", "log_softmax"), lambda made, args, axes: 1.0),
    "softmax": lambda made, args, axes: made,
    "softmax_cross_entropy": lambda made, args, axes: args[1].sum(axis=axes),
    "softmax_cross_entropy_gradient": lambda made, args, axes: made + args[1],
}


class WithoutTruthError(Exception):
    """A kernel computes in no wider format."""


# --- a wider format ------------------------------------------------------------------------------------


def true_value(root: Value, feeds: Mapping[Node, Any], device: Any, dims: Any = None) -> Any:
    """The value of a floating or complex graph in a wider format; None where there is none.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", (1,), "float32")
    >>> y = ((x + 1) - 1).value
    >>> float(true_value(y, {x.value: np.float32([1e-8])}, nnc.NumPy())[0] / np.float32(1e-8))
    1.0
    """
    order = topological([root])
    double = any(a.dtype.name in ("float64", "complex128") for n in order for a in n.avals)
    formats: list[Any] = [np.longdouble] if double and LONG_DOUBLE_IS_WIDER else []
    if root.dtype.name not in ("float64", "complex128"):
        formats.append(np.float64)
    for wide in formats:
        try:
            return _value(root, _in_format(order, feeds, device, wide, dims), device)
        except (NncError, WithoutTruthError, TypeError, ValueError):
            continue
    return None


def _value(value: Value, values: Mapping[Node, Any], device: Any) -> Any:
    found = values[value.node]
    return device.to_numpy(found[value.index] if value.node.op.multi_result else found)


def _in_format(order: Any, feeds: Mapping[Node, Any], device: Any, wide: Any, dims: Any) -> dict[Node, Any]:
    values: dict[Node, Any] = {}
    for node in order:
        if node in feeds or node.op is CONSTANT:
            values[node] = converted(feeds.get(node, node.data), wide)
        else:
            values[node] = _widened(node, values, device, wide, dims)
    return values


def _widened(node: Node, values: dict[Node, Any], device: Any, wide: Any, dims: Any) -> Any:
    own = {a.node: values[a.node] for a in node.args}
    if node.op.name == "cast" and _widens(node):
        return own[node.args[0].node]
    if node.op.name in IN_BITS:
        own = {n: converted(v, n.aval.dtype) if not n.op.multi_result else v for n, v in own.items()}
    if node.op.dtype in PROMOTING and not any(kind_of(a.dtype) in "fc" for a in node.args):
        own = {n: v.astype(wide) for n, v in own.items()}
    if is_product(node):
        return product(node, on_host(node.args[0], own, device))
    found = applied(node, own, device, dims)
    floats = any(kind_of(a.dtype) in "fc" for a in node.args)
    for each in found if node.op.multi_result else (found,):
        kept = kind_of(each.dtype) in "fc" and each.dtype != np.result_type(each.dtype, wide)
        if kept and floats and node.op.name != "cast" and node.op.name not in IN_BITS:
            raise WithoutTruthError
    return converted(found, wide)


def _widens(node: Node) -> bool:
    """Whether a cast keeps every floating number."""
    given, made = node.args[0].dtype, node.aval.dtype
    return kind_of(given) in "fc" and kind_of(made) in "fc" and bool(np.can_cast(given, made))


# --- how far rounding may lead -------------------------------------------------------------------------


def allowed(old: Any, true: Any, spread_: Any = 0.0) -> Any:
    """How far an element may be from the truth: four times as far as it was, and four units in its last place.

    Where it was nearer by luck than its operators' rounding is sure to bring it, that counts (`spread`).

    Examples
    --------
    >>> allowed(np.float32([1.0]), np.float64([1.0])) == 4 * np.finfo("float32").eps
    array([ True])
    """
    with np.errstate(all="ignore"):
        was = np.abs(old.astype(true.dtype) - true)
        return FACTOR * (np.maximum(was, spread_) + ulps(np.abs(true).astype(np.float64), old.dtype))


def ulps(magnitude: Any, dtype: Any) -> Any:
    """One unit in the last place of numbers of that size.

    Examples
    --------
    >>> ulps(np.array([1.5, 3.0]), np.dtype("float32")) / np.finfo("float32").eps
    array([1., 2.])
    >>> bool(ulps(0.0, np.dtype("float32")) == np.finfo("float32").smallest_subnormal)
    True
    """
    limits = limits_of(dtype)
    _, exponents = np.frexp(magnitude)
    units = np.ldexp(float(limits.eps), np.where(np.equal(magnitude, 0), -(1 << 20), exponents - 1))
    return np.maximum(units, float(limits.smallest_subnormal))


def spread(root: Value, way: Mapping[Node, Any], device: Any, numerics: Numerics, dims: Any = None) -> Any:
    """How far rounding may bring each element: half a unit of each result on the way, carried through the others.

    Of a sum it is the number of terms, times the sum of their magnitudes, times the precision of the format, and half a
    unit of the result.

    Parameters
    ----------
    way
        Values of the graph's nodes.
    numerics
        Of a rule that only rounds the terms are those that a kernel adds, of one that reassociates all.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.rewriting.evaluating import computed
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (4,), "float32")
    >>> way = computed([lazy.ops.sum(x).value], {x.value: np.float32([1, -1, 3, -3])}, lazy.device)
    >>> float(spread(lazy.ops.sum(x).value, way, lazy.device, REASSOCIATION) / np.finfo("float32").eps)
    32.0
    """
    errors: dict[Node, Any] = {}
    sizes: dict[Node, Any] = {}
    free = SUMS if numerics == REASSOCIATION else ADD_UP
    for node in topological([root]):
        if not node.args:
            sizes[node] = _each(_magnitude, way[node])
            errors[node] = _nothing(way[node])
        elif node.op.name in SUMS and kind_of(node.aval.dtype) in "fc":
            eps = float(limits_of(node.aval.dtype).eps) if node.op.name in free else 0.0
            magnitudes = [
                _one(a, sizes) if node.op.name in ADDS else _magnitude(on_host(a, way, device)) for a in node.args
            ]
            error, sizes[node] = _of_sum(node, errors, magnitudes, eps, device, dims)
            errors[node] = error + _rounded(way[node])
        elif node.op.name in TRANSFORMS:
            errors[node], sizes[node] = _of_transform(node, errors, sizes, way)
        elif is_product(node):
            factors, sizes[node] = _magnitude(on_host(node.args[0], way, device)), _magnitude(way[node])
            error = spread_of_product(node, factors, _one(node.args[0], errors), sizes[node])
            errors[node] = error + _rounded(way[node])
        else:
            errors[node], sizes[node] = _of_other(node, errors, sizes, way, device, dims)
    found = errors[root.node]
    found = found[root.index] if root.node.op.multi_result else found
    return np.where(np.isnan(found), np.inf, found)


def _nothing(found: Any) -> Any:
    return tuple(map(_nothing, found)) if isinstance(found, tuple) else np.zeros(found.shape)


def _magnitude(host: Any) -> Any:
    return np.abs(host.astype(np.complex128 if host.dtype.kind == "c" else np.float64))


def _bound(node: Node, args: Any, device: Any, dims: Any) -> Any:
    op = node.op
    if op.name in POSITIVE:
        return np.abs(args[0]) if op.name == "negative" else args[0] + args[1]
    items = substitute(node.items, dims) if dims else node.items
    return device.to_numpy(device.bind(op, *args, **dict(items)))


def _of_sum(node: Node, errors: Any, args: Any, eps: float, device: Any, dims: Any) -> tuple[Any, Any]:
    """Errors of an operator that adds products of operands so large, theirs among them; and how large its terms are."""
    size = _bound(node, args, device, dims)
    if node.op.name in ("mean", "average_pool2d"):
        terms: Any = max(1.0, args[0].size / max(1, size.size))
    else:
        terms = _bound(node, [np.ones(a.shape) for a in args], device, dims)
    error = eps * terms * size
    for i, each in enumerate(node.args):
        own = _one(each, errors)
        if not own.any():
            continue
        if node.op.name == "fma" and i < 2:  # its last operand is no part of the product
            error = error + own * args[1 - i]
        elif node.op.name == "square":
            error = error + 2 * own * args[0]
        else:
            others = args if _multiplies(node) else [np.zeros(a.shape) for a in args]
            changed = [*others[:i], own, *others[i + 1 :]]
            error = error + _bound(node, changed, device, dims)
    return error, size


def _of_transform(node: Node, errors: Any, sizes: Any, way: Any) -> tuple[Any, Any]:
    """Each element is a sum of all along the axes, times at most one, or that over their number, or its root."""
    x, params, shape = node.args[0], node.params, way[node].shape
    axes = normalise_axes(params["axis"], len(shape))
    count = math.prod(max(shape[axis], _one(x, sizes).shape[axis]) for axis in axes)
    inverse = params.get("inverse", node.op.name == "inverse_real_fourier")
    power = {"backward": float(inverse), "ortho": 0.5, "forward": float(not inverse)}[params["norm"]]
    twice = 2 if node.op.name == "inverse_real_fourier" else 1  # every frequency stands for its conjugate, too

    def added(found: Any) -> Any:
        whole = np.sum(found, axis=axes, keepdims=True) * twice / count**power
        return np.broadcast_to(whole, shape)

    size = added(_one(x, sizes))
    return added(_one(x, errors)) + float(limits_of(node.aval.dtype).eps) * count * size, size


def _multiplies(node: Node) -> bool:
    return len(node.args) == 2 and node.op.name not in ("add", "subtract")


def _one(value: Value, found: Any) -> Any:
    one = found[value.node]
    return one[value.index] if value.node.op.multi_result else one


def _of_other(node: Node, errors: Any, sizes: Any, way: Any, device: Any, dims: Any) -> tuple[Any, Any]:
    """What becomes of operands that are a little larger, or smaller, all of them."""
    if moves(node):
        return tuple(_carried(node, found, way, device, dims) for found in (errors, sizes))
    was = way[node]
    own = _nothing(was) if node.op.name in MEANT else _each(_rounded, was)
    if node.op.name in WITHIN:
        own = own + _of_sum_within(node, way, device)
    ways: tuple[Any, ...] = (lambda shape: 1, lambda shape: -1)
    if node.op.samples.prepare is not None:  # a decomposition is that of a matrix nearby, in any direction
        errors = {a.node: _one(a, errors) + _backward(a, way, device) for a in node.args}
        ways = (lambda shape, random=np.random.default_rng(0): random.choice((1, -1), shape),) * NEARBY
    elif not any(_one(a, errors).any() for a in node.args):
        return own, _each(_magnitude, was)
    try:
        moved = [_beside(node, errors, way, device, dims, signs) for signs in ways]
    except NncError:  # one nearby has none
        return _each(lambda found: np.full(found.shape, np.inf), was), _each(_magnitude, was)
    if node.op.multi_result:
        error: Any = tuple(_farthest(w, [m[i] for m in moved]) for i, w in enumerate(was))
    else:
        error = _farthest(was, moved)
    return _each(np.add, own, error), _each(_magnitude, was)


def _of_sum_within(node: Node, way: Any, device: Any) -> Any:
    """What the order may do in which a kernel adds exponentials: so many units of their sum as there are terms."""
    made, args = _magnitude(way[node]), [_magnitude(on_host(a, way, device)) for a in node.args]
    axes = normalise_axes(node.params["axis"], args[0].ndim)
    terms = math.prod(args[0].shape[axis] for axis in axes)
    return float(limits_of(node.aval.dtype).eps) * terms * WITHIN[node.op.name](made, args, axes)


def _backward(value: Value, way: Any, device: Any) -> Any:
    """How far the matrices are from it of which the kernel's decomposition is: so many units of its largest element."""
    host = on_host(value, way, device)
    if kind_of(host.dtype) not in "fc" or not host.size:
        return np.zeros(host.shape)
    axes = tuple(range(max(0, host.ndim - 2), host.ndim))
    largest = np.max(_magnitude(host), axis=axes, keepdims=True)
    return np.broadcast_to(float(limits_of(host.dtype).eps) * host.shape[-1] * largest, host.shape)


def _rounded(was: Any) -> Any:
    """Half a unit in the last place."""
    if kind_of(was.dtype) not in "fc":
        return np.zeros(was.shape)
    return ulps(_magnitude(was), was.dtype) / 2


def _each(function: Any, *found: Any) -> Any:
    return tuple(map(function, *found)) if isinstance(found[0], tuple) else function(*found)


def _carried(node: Node, found: Any, way: Any, device: Any, dims: Any) -> Any:
    """Elements that are moved, as they are: indices and conditions stay."""
    kind = np.complex128 if node.avals[0].dtype.kind == "c" else np.float64  # with which a number beside them goes
    given = {
        a.node: np.asarray(found[a.node], kind) if _is_moved(node, i) else way[a.node] for i, a in enumerate(node.args)
    }
    return _each(lambda f: np.abs(device.to_numpy(f)).astype(np.float64), applied(node, given, device, dims))


def _is_moved(node: Node, i: int) -> bool:
    return kind_of(node.args[i].dtype) in "fc" or (i == 0 and node.op.dtype is dtypes.first)


def _beside(node: Node, errors: Any, way: Any, device: Any, dims: Any, signs: Any) -> Any:
    given = {}
    for a in node.args:
        own = way[a.node]
        if kind_of(a.dtype) in "fc" and not a.node.op.multi_result:
            own = converted(device.to_numpy(own), np.float64) + signs(a.shape) * STEP * errors[a.node]
        given[a.node] = own
    return applied(node, given, device, dims)


def _farthest(was: Any, moved: Any) -> Any:
    if kind_of(was.dtype) not in "fc":
        return np.zeros(was.shape)
    here = converted(np.asarray(was), np.float64)
    return np.max([np.abs(np.asarray(m) - here) for m in moved], axis=0) / STEP
