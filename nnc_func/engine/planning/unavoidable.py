"""Bytes that no plan of a graph goes without, whatever it computes again: proven, not searched for."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from nnc_func.engine.plan_rows import OUTPUT
from nnc_func.engine.planning.committing import is_certain
from nnc_func.engine.planning.draft import Draft
from nnc_func.graph.node import Node, Value


@frozen
class Unavoidable:
    """A lower bound of what plans take.

    Attributes
    ----------
    nbytes
        Arenas and fresh results of every plan have as many bytes or more.
    node
        The application whose operands and results they are; None: they are the program's results.
    """

    nbytes: int
    node: Node | None

    def __str__(self) -> str:
        if self.node is None:
            return "the results that a run gives back"
        return f"{self.node.op.name}, which reads {_told(self.node.args)} and makes {_told(self.node.results)}"


def unavoidable(draft: Draft) -> Unavoidable:
    """The most of what an application reads and makes, and of what a run gives back.

    Counted are operands that are computed, each once, however they are shown; and results, unless the kernel may write
    them over operands. Scratch memory is not, which another kernel may not need. Nor is what may lie in the memory of
    a variable or of an input that is given up.
    """
    results = [s.nbytes for s in draft.storages if s.kind == OUTPUT]
    found = Unavoidable(sum(results), None)
    asked = draft.request
    if asked.donated or (asked.careless and asked.graph.updates):
        return found
    for row in draft.instructions:
        node, kernel = row.node, row.kernel
        if row.is_view or type(node) is not Node or kernel is None or node in draft.loops or node.op.parts is not None:
            continue
        if asked.commits and is_certain(node, kernel):
            continue  # it may run where variables are written
        read = _read(draft, node)
        whole = any(value.node.op.parts is not None for value in read)  # others may lie in it
        nbytes = max(read.values()) if whole else sum(read.values())
        if not kernel.overwrites:
            nbytes += sum(aval.nbytes for aval in node.avals)
        if nbytes > found.nbytes:
            found = Unavoidable(nbytes, node)
    return found


def _read(draft: Draft, node: Node) -> dict[Value, int]:
    """What its operands show, if that is computed; with the bytes of each that are there: a view may be a copy."""
    found: dict[Value, int] = {}
    for value in node.args:
        nbytes = value.aval.nbytes
        while (view := value.node.op.view) is not None:
            value = value.node.args[view.argument]
            nbytes = min(nbytes, value.aval.nbytes)
        if value.node in draft.kernels:
            found[value] = max(nbytes, found.get(value, 0))
    return found


def _told(values: Iterable[Value]) -> str:
    return ", ".join(str(value.aval) for value in values)
