"""What reads a carry of a loop comes before what may be written over it: else it would have to go somewhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnc_func.facets.kernels import Kernel, overwritten
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Value


def readers_first(sequence: Sequence[Node], kernels: Mapping[Node, Kernel], graph: ComputationGraph) -> list[Node]:
    """The sequence with each reader of a variable before the one node that may overwrite it, where that can be."""
    found = _Sequence(sequence)
    reading: dict[Node, dict[Node, None]] = {variable: {} for variable, _ in graph.updates}
    for node in sequence if reading else ():
        for a in node.args:
            shown = _shown(a).node
            if shown in reading:
                reading[shown][node] = None
    for variable, those in reading.items():
        readers = [*those]
        if len(readers) > 1:
            for node in readers:
                if _may_overwrite(node, kernels[node], variable) and found.put_behind(node, readers):
                    break
    return found.ordered()


class _Sequence:
    """Nodes, and what each has to come behind."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes, self.within = nodes, {*nodes}
        self.behind: dict[Node, list[Node]] = {}

    def needs(self, node: Node) -> list[Node]:
        """What comes before a node."""
        return [each for each in (*(a.node for a in node.args), *self.behind.get(node, ())) if each in self.within]

    def put_behind(self, node: Node, others: Sequence[Node]) -> bool:
        """Let a node come behind others; False where one of them needs it."""
        others = [each for each in others if each is not node]
        seen = {*others}
        waiting = [*others]
        while waiting:
            for each in self.needs(waiting.pop()):
                if each is node:
                    return False
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        self.behind[node] = others
        return True

    def ordered(self) -> list[Node]:
        """All of them, as they were given but for that."""
        if not self.behind:
            return [*self.nodes]
        done: dict[Node, None] = {}
        for node in self.nodes:
            waiting = [node]
            while waiting:
                missing = [each for each in self.needs(waiting[-1]) if each not in done]
                if missing:
                    waiting += reversed(missing)
                else:
                    done[waiting.pop()] = None
        return [*done]


def _may_overwrite(node: Node, kernel: Kernel, variable: Node) -> bool:
    if not kernel.overwrites:
        return False
    for allowed, aval in zip(overwritten(kernel, len(node.args), node.items, len(node.avals)), node.avals, strict=True):
        if any(node.args[i].node is variable and node.args[i].aval == aval for i in allowed):
            return True
    return False


def _shown(value: Value) -> Value:
    """What a view is of."""
    while (view := value.node.op.view) is not None:
        value = value.node.args[view.argument]
    return value
