"""A planned graph as a problem of rematerialisation, and the graph that an answer to it makes.

That graph is in single assignment too: what is computed again is another application, of operands behind a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from attrs import frozen

from nnc_func.body import is_pure
from nnc_func.engine.plan_rows import ARENA, LENT, NEXT, OUTPUT
from nnc_func.engine.planning.draft import Draft, Row
from nnc_func.engine.planning.reapplication import Reapplication
from nnc_func.engine.rematerialising import RematerialisationProblem
from nnc_func.engine.rematerialising.hastening import hastened, reordered, with_last
from nnc_func.facets.kernels import overwritten
from nnc_func.facets.machine import Machine
from nnc_func.facets.places import given
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node
from nnc_func.graph.rules.cost import NOTHING, Work, work_of

TICK = 1e-12  # seconds
FEW = 500  # tasks, up to which values may be computed again in a commit section, too
FRESH = (ARENA, OUTPUT, NEXT, LENT)  # what a run takes memory for


@frozen(eq=False)
class Recomputable:
    """A planned graph as a problem.

    Attributes
    ----------
    problem
        Its tasks are the instructions that compute something, in the plan's order, or a hastened one where that takes
        no more; costs are estimated picoseconds, whole numbers: their sums are the same in any order, and on any
        version of Python.
    nodes
        The nodes that each task computes, one after another: one, or those of the commit section; none where the
        engine copies or fills something.
    works
        What each task costs.
    """

    problem: RematerialisationProblem
    nodes: list[tuple[Node, ...]]
    works: list[Work]


def recomputables(draft: Draft, machine: Machine) -> list[Recomputable]:
    """What a planning's instructions are, as tasks that cost what they take on a machine: in one way, or in two.

    Views are free, and keep alive what they show. A tensor that is put together in place is a view of its parts. What
    the commit section does is not done again, nor are effects, copies that the engine makes, and what has no operand
    that a barrier could stand before, nor, in the operand's place, anything that it could come after.

    The commit section is one task: were something computed again in it that may fail, or that reads a variable, it
    would come behind a write to one, and next values would take memory of their own. Where there are few tasks, those
    of the section are given one by one as well: what neither fails nor reads a variable may be computed again in it.
    """
    problem = _Problem(draft, machine)
    for position, row in enumerate(draft.instructions):
        problem.add(row, position >= draft.commit)
    wanted = [*draft.outputs, *(slot for _, slot in draft.updates)]
    lasting = {t for slot in wanted for t in problem.shown.get(slot, ())}
    made = RematerialisationProblem(
        problem.needs, problem.sizes, problem.costs, problem.scratch, problem.overwrites, lasting, problem.once
    )
    late = len(made) if problem.late is None else problem.late
    order = hastened(made, late)
    soon = reordered(made, order)
    if soon.base.peak > made.base.peak:
        soon, order = made, [*range(len(made))]
    nodes, works = [problem.nodes[task] for task in order], [problem.works[task] for task in order]
    if late == len(made):
        return [Recomputable(soon, nodes, works)]
    section, work = tuple(chain.from_iterable(nodes[late:])), sum(works[late:], NOTHING)
    found = [Recomputable(with_last(soon, late), [*nodes[:late], section], [*works[:late], work])]
    return [*found, Recomputable(soon, nodes, works)] if len(soon) <= FEW and late + 1 < len(made) else found


class _Problem:
    """The lists of a problem, while instructions are read."""

    def __init__(self, draft: Draft, machine: Machine) -> None:
        self.draft, self.machine = draft, machine
        self.shown: dict[int, tuple[int, ...]] = {}  # slot -> the tasks whose results it shows
        self.needs: list[tuple[int, ...]] = []
        self.sizes: list[int] = []
        self.costs: list[int] = []
        self.scratch: list[int] = []
        self.overwrites: dict[int, tuple[int, ...]] = {}
        self.once: set[int] = set()
        self.nodes: list[tuple[Node, ...]] = []
        self.works: list[Work] = []
        self.known: dict[Node, Work] = {}  # of the first of each form
        self.late: int | None = None  # the first task of the commit section

    def add(self, row: Row, late: bool) -> None:
        """Read one instruction."""
        node, kernel, operands, results, scratch, view = row
        read = tuple(dict.fromkeys(t for slot in operands for t in self.shown.get(slot, ())))
        if view:
            self.shown.update(dict.fromkeys(results, read))
            return
        task, own = len(self.needs), type(node) is Node
        if late and self.late is None:
            self.late = task
        self.needs.append(read)
        self.sizes.append(sum(map(self._bytes, results)))
        self.scratch.append(sum(self._rounded(aval.nbytes) for aval, _ in scratch))
        self.works.append(self._work(node) if own else NOTHING)
        self.costs.append(round(self.works[-1].seconds / TICK))
        self.nodes.append((node,) if own else ())
        moved = own and node.op.place is given and not read  # nothing is computed where a barrier would stand
        if late or not own or not is_pure(node.op, node.items) or not node.args or moved:
            self.once.add(task)
        over = self._overwritten(node, kernel, operands, results)
        if over:
            self.overwrites[task] = over
        self.shown.update(dict.fromkeys(results, (task,)))

    def _work(self, node: Node) -> Work:
        """What an application costs; those that are alike are asked about once."""
        first = self.draft.alike.get(node, node)
        if first not in self.known:
            self.known[first] = work_of(first, self.machine)
        return self.known[first]

    def _overwritten(self, node: Any, kernel: Any, operands: Any, results: Any) -> tuple[int, ...]:
        """The tasks whose results' memory the one result may take over."""
        if not kernel.overwrites or len(results) != 1:
            return ()
        (allowed,), rows = overwritten(kernel, len(operands), node.items, 1), self.draft.slots
        slots = [operands[i] for i in allowed if rows[operands[i]].is_whole]
        return tuple(t for s in slots if rows[s].aval == rows[results[0]].aval for t in self.shown.get(s, ()))

    def _bytes(self, slot: int) -> int:
        draft = self.draft
        row = draft.slots[slot]
        fresh = draft.storages[draft.root(row.storage)].kind in FRESH
        return self._rounded(row.aval.nbytes) if fresh else 0

    def _rounded(self, nbytes: int) -> int:
        return -(-nbytes // self.draft.alignment) * self.draft.alignment


def rebuilt(
    graph: ComputationGraph, computed: Sequence[tuple[Node, ...]], sequence: Sequence[int]
) -> tuple[ComputationGraph, list[Node]]:
    """The graph in which tasks, each of which computes some nodes, are run as a sequence says; its nodes in order."""
    making = Reapplication(graph, set(chain.from_iterable(computed)))
    for task in sequence:
        for node in computed[task]:
            making.run(node)
    outcome = making.outcome
    return outcome, list(making.made)
