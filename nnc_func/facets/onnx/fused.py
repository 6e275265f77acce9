"""Groups of operators in ONNX: one by one."""

from __future__ import annotations

from typing import Any


def blockwise(g: Any, *xs: Any, steps: Any) -> Any:
    """The operators that it was made of."""
    found, shape = _one_by_one(g, xs, steps)[-1], g.result.shape
    return found if found.shape == shape else g.broadcast_to(found, shape=shape)


def blockwise_several(g: Any, *xs: Any, steps: Any, outputs: Any) -> Any:
    """The operators that it was made of."""
    found = _one_by_one(g, xs, steps)
    return tuple(found[position] for position in outputs)


def _one_by_one(g: Any, xs: Any, steps: Any) -> list[Any]:
    values = list(xs)
    for name, *rest in steps:
        operands = (values[i] for i in rest if not isinstance(i, tuple))
        values.append(getattr(g, name)(*operands, **dict(i for i in rest if isinstance(i, tuple))))
    return values
