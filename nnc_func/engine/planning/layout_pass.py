"""Relayouts traded for faster kernels: as a table of kernels says, as nodes that one can see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.engine.planning.kernel_table import KernelTable
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC, ROW_MAJOR, permutation
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import LEAVES
from nnc_func.graph.node import Node
from nnc_func.graph.ops.memory import relayout

Axes = tuple[int, ...]


def conversion(axes: Axes) -> Items:
    """The parameters of the operator `relayout` that bring a tensor into an order of its axes."""
    return relayout.canonical({"layout": axes})


def order(aval: Aval) -> Axes:
    """The axes in the order in which they lie in memory."""
    return aval.layout or tuple(range(aval.ndim))


def elsewhere(device: Any, node: Node) -> Iterator[tuple[Kernel, tuple[Axes, ...]]]:
    """Kernels that would take the operands in other layouts than they have, and these layouts."""
    avals = tuple(a.aval for a in node.args)
    letters = node.params.get("data_format", NHWC)
    for kernel in node.op.kernels:
        for entry in kernel.layouts or ():
            names = (entry,) * len(avals) if isinstance(entry, str) else entry[: len(avals)]
            orders = [
                None if name == ROW_MAJOR or a.ndim != len(letters) else permutation(name, a.ndim, letters)
                for a, name in zip(avals, names, strict=True)
            ]
            moved = tuple(a.having(layout=axes) for a, axes in zip(avals, orders, strict=True))
            if moved != avals and kernel in device.candidates(node.op, moved, node.items):
                yield kernel, tuple(map(order, moved))


def relaid(graph: ComputationGraph, table: KernelTable) -> ComputationGraph:
    """The graph with operands in the layouts that a table names, and results in those that they had.

    Where the table names none it is the graph itself.
    """
    if not any(e.layouts for e in table.entries):
        return graph
    symbol: Any = graph.layer.symbol
    done: dict[Node, Any] = {}

    def at(value: Any) -> Any:
        found = done[value.node]
        return found[value.index] if isinstance(found, tuple) else found

    def converted(value: Any, axes: Axes, origin: Any) -> Any:
        if value.node.op is relayout and order(value.node.args[0].aval) == axes:
            return value.node.args[0]  # what was converted back is there already
        return value if order(value.aval) == axes else symbol.apply(relayout, (value,), conversion(axes), origin)

    for node in graph.nodes:
        if node.op in LEAVES and not node.args:
            done[node] = node.results if node.op.multi_result else node
            continue
        args = tuple(at(a) for a in node.args)
        layouts = table.layouts(node.op, node.items, [a.aval for a in node.args])
        if layouts:
            args = tuple(converted(a, axes, node.origin) for a, axes in zip(args, layouts, strict=True))
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            done[node] = node.results if node.op.multi_result else node
            continue
        found = symbol.apply(node.op, args, node.items, node.origin)
        if layouts:
            several = found if node.op.multi_result else (found,)
            back = tuple(converted(v, order(a), node.origin) for v, a in zip(several, node.avals, strict=True))
            found = back if node.op.multi_result else back[0]
        done[node] = tuple(found) if node.op.multi_result else found
    updates = tuple((v, at(u)) for v, u in graph.updates)
    outputs, effects = (tuple(map(at, values)) for values in (graph.outputs, graph.effects))
    return evolve(graph, outputs=outputs, updates=updates, effects=effects)
