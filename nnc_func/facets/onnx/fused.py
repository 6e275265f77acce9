"""Groups of operators in ONNX: one by one."""

from __future__ import annotations

from typing import Any


def blockwise(g: Any, *xs: Any, body: Any) -> Any:
    """The operators that it was made of."""
    found, shape = _one_by_one(g, xs, body)[-1], g.result.shape
    return found if found.shape == shape else g.broadcast_to(found, shape=shape)


def blockwise_several(g: Any, *xs: Any, body: Any) -> Any:
    """The operators that it was made of."""
    found = _one_by_one(g, xs, body)
    return tuple(found[position] for position in body.results)


def _one_by_one(g: Any, xs: Any, body: Any) -> Any:
    return body.values(lambda op, operands, items: g.bind(op, *operands, **dict(items)), xs)
