"""Bytes that no plan of a graph goes without, whatever it computes again, or with nothing computed twice: proven."""

from __future__ import annotations

from collections.abc import Iterable, Set

from attrs import frozen

from nnc_func.engine.plan_rows import OUTPUT, VARIABLE
from nnc_func.engine.planning.committing import is_certain
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.liveness import busiest, passing
from nnc_func.graph.node import Node, Value

LOOKED = (3, 4, 5)  # eighths of the longest chain, back from its end, where instructions are looked at


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


def unavoidable_once(draft: Draft) -> int:
    """Bytes of arenas and fresh results that no plan goes without in which nothing is computed twice.

    They are what is alive in any order at an instruction, but for what another plan may not need there: scratch memory;
    wholes that are put together, of whose parts it may have copies; what a loop may write over rows that it reads; and
    what may lie in a variable. Looked at are the instruction that has most in this order, and some of those along the
    longest chain. Lifetimes are known. 0 where inputs are given up, or values are kept from run to run.
    """
    asked = draft.request
    if asked.donated or asked.retain is not None or asked.passes.others() or not draft.instructions:
        return 0
    elsewhere = {*draft.assembled.values()}
    for row, pairs in zip(draft.instructions, draft.overwritable, strict=True):
        if row.node in draft.loops:
            elsewhere.update(draft.slots[slot].storage for slot in row.results)
        for made, homes, _ in pairs:
            if any(draft.storages[s].kind == VARIABLE or s in elsewhere for s in homes):
                elsewhere.add(made)
    longest = _longest(draft)
    some = {longest[len(longest) * part // 8] for part in LOOKED}
    return max(_alive_at(draft, at, elsewhere) for at in {*some, busiest(draft)[1]})


def _alive_at(draft: Draft, at: int, elsewhere: Set[int]) -> int:
    """Bytes that are alive in any order while an instruction runs, without its scratch memory and these storages."""
    alive, wanted = passing(draft, at)
    alive.difference_update(elsewhere, [s for _, s in draft.instructions[at].scratch])
    alive.difference_update(made for made, homes, _ in draft.overwritable[at] if not wanted.issuperset(homes))
    return sum([draft.storages[s].nbytes for s in alive])


def _longest(draft: Draft) -> list[int]:
    """The longest chain of instructions of which each reads what the one before makes."""
    made: dict[int, int] = {}  # slot -> the instruction that makes it
    length: list[int] = []
    above: list[int] = []
    for t, row in enumerate(draft.instructions):
        needed = [made[slot] for slot in row.operands if slot in made]
        last = max(needed, key=length.__getitem__, default=-1)
        above.append(last)
        length.append(1 + (length[last] if last >= 0 else 0))
        made.update(dict.fromkeys(row.results, t))
    found = [length.index(max(length))]
    while above[found[-1]] >= 0:
        found.append(above[found[-1]])
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
