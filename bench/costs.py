"""What a graph's kernels cost, as their cost facets count it: kernels, arithmetic, bytes read and written."""

from __future__ import annotations

from typing import Any

from nnc_func.graph.node import Value


def seen(value: Value) -> int:
    """Bytes that a kernel reads of an operand: of a view no more than what it shows has."""
    least = value.aval.nbytes
    while (view := value.node.op.view) is not None:
        value = value.node.args[view.argument]
        least = min(least, value.aval.nbytes)
    return int(least)


def costs(graph: Any) -> dict[str, int]:
    """Of a graph without unknown extents; views cost nothing."""
    kernels = flops = nbytes = 0
    for node in graph.nodes:
        if node.args and node.op.view is None:
            cost = node.op.cost(tuple(a.aval for a in node.args), node.avals, **node.params)
            kernels += 1
            flops += cost.flops
            nbytes += sum(map(seen, dict.fromkeys(node.args))) + sum(a.nbytes for a in node.avals) + cost.extra_bytes
    return {"kernels": kernels, "flops": flops, "bytes": nbytes}
