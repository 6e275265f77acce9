"""Elements of small tensors of integers, as symbolic extents: what nodes that compute shapes come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nnc_func.facets.dims import Dim, known
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value, topological
from nnc_func.onnx.extents import settled

LARGEST = 64
"""Tensors of more elements are data, and no shape."""


def elements(value: Any, to_numpy: Callable[[Any], Any]) -> Any:
    """The elements of a value as an array of integers, or with symbolic extents in it (``dtype=object``), or None.

    None stands for what depends on inputs, is not made of integers, or of operators that are not followed.

    Examples
    --------
    >>> import numpy as np, nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> n = stack.input("x", ("n", 3)).shape[0]
    >>> size = stack.ops.full(shape=(1,), value=2 * n, dtype="int64")
    >>> elements(stack.ops.concat(size, np.array([3])).value, np.asarray)
    array([2*n, 3], dtype=object)
    """
    if not isinstance(value, Value):
        return None
    found: dict[Node, Any] = {}
    for node in topological([value]):
        if node.op is CONSTANT:
            found[node] = _constant(node, to_numpy)
            continue
        rule = _RULES.get(node.op.name)
        args = [found[a.node] for a in node.args]
        if rule is None or not _is_small(node) or any(a is None for a in args):
            found[node] = None
            continue
        made = rule(*args, **node.params)
        found[node] = made if made is None or isinstance(made, np.ndarray) else _scalar(made)
    made = found[value.node]
    return None if made is None else settled(made)


def _is_small(node: Node) -> bool:
    shape = node.aval.shape if node.aval is not None else (LARGEST + 1,)
    return all(map(known, shape)) and math.prod(shape) <= LARGEST and node.aval.dtype.kind in "iu"


def _constant(node: Node, to_numpy: Callable[[Any], Any]) -> Any:
    return to_numpy(node.data).astype(object) if _is_small(node) else None


def _scalar(element: Any) -> Any:
    made = np.empty((), object)
    made[()] = element
    return made


def _slice(x: Any, *, starts: Any, stops: Any, steps: Any) -> Any:
    if not all(map(known, (*starts, *stops))):
        return None
    return x[tuple(slice(*each) for each in zip(starts, stops, steps, strict=True))]


def _take(x: Any, indices: Any, *, axis: int) -> Any:
    if any(isinstance(i, Dim) for i in indices.ravel().tolist()):
        return None
    return np.take(x, indices.astype(np.int64), axis=axis)


def _divided(a: Any, b: Any) -> Any:
    if any(isinstance(n, Dim) or n <= 0 for n in b.ravel().tolist()):
        return None
    return np.floor_divide(a, b)


_RULES: Mapping[str, Callable[..., Any]] = {
    "full": lambda *, shape, value, dtype: np.full(shape, value, object),
    "cast": lambda x, *, dtype: x,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "broadcast_to": lambda x, *, shape: np.broadcast_to(x, shape),
    "expand_dims": lambda x, *, axis: np.expand_dims(x, axis),
    "squeeze": lambda x, *, axis: np.squeeze(x, axis),
    "concat": lambda *xs, axis: np.concatenate(xs, axis),
    "stack": lambda *xs, axis: np.stack(xs, axis),
    "slice": _slice,
    "take": _take,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "floor_divide": _divided,
    "prod": lambda x, *, axis, keepdims: np.prod(x, axis=axis, keepdims=keepdims),
}
"""By the operator's name, of arrays of objects; casts are between integers, as all results are."""
