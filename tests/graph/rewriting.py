"""What tests of rewriting share: one stack, short ways to write graphs, and the comparison of values."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.graph.node import Value, topological
from nnc_func.graph.ops.fused import blockwise, masked
from nnc_func.graph.rewriting.evaluating import differs, evaluated, one_line
from nnc_func.graph.rules import ROUNDING


def stack_with_fused(*ops: Any) -> Any:
    """The lazy stack, its catalogue extended by these operators, and by the fused ones where it lacks them."""
    lazy = nnc.lazy()
    missing = [op for op in (blockwise, masked, *ops) if op.name not in lazy.type.ops]
    return lazy.swap(type=lazy.type.with_ops(*missing)) if missing else lazy


def optimiser_with(*ops: Any) -> Any:
    """The Optimiser of that stack."""
    return stack_with_fused(*ops).optimiser


OPTIMISER = optimiser_with()


def bind(op: str, *args: Any, on: Any = OPTIMISER, **params: Any) -> Any:
    return on.bind(on.operator.type.ops[op], *args, **params)


def variable(name: str, shape: Any = (2, 3), dtype: str = "float32", on: Any = OPTIMISER) -> Any:
    return on.operator.symbol.input(name, Aval(shape, dtype))


def fills(roots: Any, seed: int = 0) -> dict[Any, Any]:
    random = np.random.default_rng(seed)
    found = {}
    for node in topological(roots):
        if node.op.name == "input":
            found[node] = random.standard_normal(node.aval.shape).astype(node.aval.dtype)
    return found


def values(roots: Any, feeds: Any, on: Any = OPTIMISER) -> list[Any]:
    with np.errstate(all="ignore"):
        return evaluated(roots, feeds, on.operator.device)[0]


def check_equal(before: Any, after: Any, numerics: Any = ROUNDING, feeds: Any = None, on: Any = OPTIMISER) -> None:
    feeds = fills(before) if feeds is None else feeds
    with np.errstate(all="ignore"):
        old, scale = evaluated(before, feeds, on.operator.device)
        new, _ = evaluated(after, feeds, on.operator.device)
    for b, a, root in zip(old, new, before, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        assert not differs(b, a, numerics, scale=scale), (one_line(root), b, a)


def names(root: Value) -> list[str]:
    return [n.op.name for n in topological([root])]
