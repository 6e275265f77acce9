"""Branches as loops: each body goes once or not at all, over what is carried from one to the next.

So a branch is planned, verified and saved as loops are: in the arena of the program, where bodies share what only one
of them uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.body_builder import BodyBuilder
from nnc_func.graph.node import Value
from nnc_func.graph.ops.binary import logical_or
from nnc_func.graph.ops.compare import equal, greater_equal, less
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.loop import loop
from nnc_func.graph.ops.unary import cast, logical_not
from nnc_func.graph.rewriting.loops import Apply


def as_loops(args: Sequence[Value], avals: Sequence[Aval], params: dict[str, Any], apply: Apply) -> tuple[Value, ...]:
    """The results of a branch whose index is one of its bodies, or a default that it has.

    Parameters
    ----------
    args
        The index, then the operands.
    avals
        Of the results.
    params
        Of the branch.
    apply
        Makes nodes.
    """
    index, operands, bodies = args[0], tuple(args[1:]), params["bodies"]
    if index.aval.dtype.kind != "b":
        index = apply(cast, (index,), cast.canonical({"dtype": "int64"}))
    counts = [_count(index, n, len(bodies), params["default"], apply) for n in range(len(bodies))]
    results = tuple([_filled(a.shape, np.zeros((), a.dtype).item(), a.dtype, apply) for a in avals])
    for body, count in zip(bodies, counts, strict=True):
        builder = BodyBuilder()
        given = builder.parameters(len(operands))
        builder.parameters(len(body.results))  # what is carried, which it does not read
        values = builder.include(body, given)
        inside = builder.built([values[i] for i in body.results])
        items = {
            "body": inside, "constants": len(operands), "carries": len(body.results), "length": 1, "counted": True,
        }  # fmt: skip
        results = tuple(apply(loop, (*operands, *results, count), loop.canonical(items)))
    return results


def _count(index: Value, n: int, bodies: int, default: bool, apply: Apply) -> Value:
    """How many times body `n` goes: once or never."""
    if index.aval.dtype.kind == "b":
        chosen = index if n == 1 else apply(logical_not, (index,), ())
        if n > 1:  # a default that nothing chooses
            chosen = _filled((), False, "bool", apply)
    elif default and n == bodies - 1:
        below = apply(less, (index, _filled((), 0, "int64", apply)), ())
        chosen = apply(logical_or, (below, apply(greater_equal, (index, _filled((), n, "int64", apply)), ())), ())
    else:
        chosen = apply(equal, (index, _filled((), n, "int64", apply)), ())
    return apply(cast, (chosen,), cast.canonical({"dtype": "int64"}))  # type: ignore[no-any-return]


def _filled(shape: Any, value: Any, dtype: Any, apply: Apply) -> Value:
    return apply(full, (), full.canonical({"shape": shape, "value": value, "dtype": dtype}))  # type: ignore[no-any-return]
