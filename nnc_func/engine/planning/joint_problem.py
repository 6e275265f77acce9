"""A draft as a joint problem: its instructions as tasks, the kernels that may run them, and what may be run again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from attrs import evolve, frozen

from nnc_func.body import is_pure
from nnc_func.engine.allocators.placement.housing import WORTHWHILE
from nnc_func.engine.joint_choice.problem import FREE, Alternative, JointProblem
from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.plan_rows import ARENA
from nnc_func.engine.planning.draft import Draft, Row
from nnc_func.engine.planning.negotiation import offers
from nnc_func.engine.planning.ordering import order_problem
from nnc_func.engine.planning.output_borrowing import lenders
from nnc_func.engine.planning.recomputed import TICK
from nnc_func.engine.planning.variants import Variant, seconds_by
from nnc_func.facets.places import given
from nnc_func.graph.node import Node
from nnc_func.graph.rules.cost import work_of


@frozen(eq=False)
class Asked:
    """A draft's joint problem.

    Attributes
    ----------
    usual
        The order problem with the kernels that the draft has: what orders are asked.
    problem
        The joint one, of the same tasks and storages; nothing is run again.
    again
        Tasks that may be run again, and the storages that they make.
    variants
        Of tasks that several kernels may run, those, as the problem numbers them.
    nodes
        What each task computes; nothing where the engine copies or shows something.
    start
        The task that stands for the start of the commit section; None: there is none.
    """

    usual: OrderProblem
    problem: JointProblem
    again: Mapping[int, tuple[int, ...]]
    variants: Mapping[int, tuple[Variant, ...]]
    nodes: list[tuple[Node, ...]]
    start: int | None

    def recomputing(self) -> JointProblem | None:
        """The problem in which values may be computed again; None: there is no time for any."""
        problem = self.problem
        spare = (problem.limit or 0) - problem.least_cost
        again = {t: made for t, made in self.again.items() if min(a.cost for a in problem.offers[t]) <= spare}
        return evolve(problem, again=again, barrier=self.start) if again else None


def joint_problem(draft: Draft, work: float, limit: int | None = None) -> Asked | None:
    """The joint problem of a draft whose instructions are in no order yet; None: it is no one's.

    What is estimated to be faster than the kernel that is chosen by itself is taken to be as slow: it must save bytes.

    What the problem does not know of: that results may lie in the memory of variables and of inputs that were given up,
    and a loop's rows in that of others. It is none of a loop's body, nor of a program in several places.

    Parameters
    ----------
    draft
        What is aliased, and has the kernels that are chosen by themselves.
    work
        How many times longer a run may take, as estimated, than with these kernels, each run once.
    limit
        The same in picoseconds.
    """
    if draft.request.is_body or draft.request.retain is not None or any(s.place is not None for s in draft.storages):
        return None
    usual = order_problem(draft)
    start = draft.commit if len(usual) > len(draft.instructions) else None
    numbers = [t + (start is not None and t >= start) for t in range(len(draft.instructions))]
    scratch = {s for row in draft.instructions for _, s in row.scratch}
    kernels: list[tuple[Alternative, ...]] = [FREE] * len(usual)
    found: dict[int, tuple[Variant, ...]] = {}
    nodes: list[tuple[Node, ...]] = [()] * len(usual)
    seconds: dict[Node, float] = {}
    for t, row in enumerate(draft.instructions):
        task = numbers[t]
        if row.is_view or row.kernel is None:
            continue
        if type(row.node) is not Node:
            kernels[task] = (Alternative(_rounded(draft, row)),)
            continue
        nodes[task] = (row.node,)
        choices = _choices(draft, t, row)
        if len(choices) > 1:
            found[task] = choices
            usually = _ticks(choices[0].seconds)
            kernels[task] = tuple(
                Alternative(
                    tuple(draft.aligned(a.nbytes) for a in each.wanted),
                    usually + max(_ticks(each.seconds) - usually, i),
                )
                for i, each in enumerate(choices)
            )
        else:
            kernels[task] = (Alternative(_rounded(draft, row), _ticks(_seconds(draft, row, seconds))),)
    tasks = evolve(usual, uses=[[s for s in used if s not in scratch] for used in usual.uses])
    houses = lenders(draft)
    rows = enumerate(draft.storages)
    housed = [i for i, s in rows if s.kind == ARENA and s.nbytes >= WORTHWHILE and i not in scratch] if houses else []
    if limit is None:
        limit = int(sum(offers[0].cost for offers in kernels) * work)
    problem = JointProblem(tasks, kernels, houses=houses, housed=housed, limit=limit)
    late = draft.commit if start is not None or not draft.request.graph.updates else 0
    again = _again(draft, problem, numbers, late)
    return Asked(usual, problem, again, found, nodes, start)


def _choices(draft: Draft, t: int, row: Row) -> tuple[Variant, ...]:
    """The variants of an instruction, the one that it has first."""
    every = offers(draft, t)
    own = [each for each in every if each.kernel is row.kernel]
    others = [each for each in every if each.kernel is not row.kernel and each.seconds < float("inf")]
    return (*own, *others) if own and own[0].seconds < float("inf") else ()


def _rounded(draft: Draft, row: Row) -> tuple[int, ...]:
    return tuple(draft.aligned(aval.nbytes) for aval, _ in row.scratch)


def _seconds(draft: Draft, row: Row, known: dict[Node, float]) -> float:
    """Estimated seconds of what has no choice."""
    first = draft.alike.get(row.node, row.node)
    if first not in known:
        assert row.kernel is not None
        machine = draft.request.machine
        known[first] = seconds_by(row.kernel, first, machine) if row.kernel.cost else work_of(first, machine).seconds
    return known[first] if known[first] < float("inf") else 0.0


def _ticks(seconds: float) -> int:
    return max(1, round(seconds / TICK))


def _again(draft: Draft, problem: JointProblem, numbers: list[int], late: int) -> dict[int, tuple[int, ...]]:
    """What may be run again, as `recomputed` has it, of results that lie alone."""
    tasks, found = problem.tasks, {}
    wanted = {draft.slots[slot].storage for slot in chain(draft.outputs, (slot for _, slot in draft.updates))}
    for t, row in enumerate(draft.instructions):
        node = row.node
        if t >= late and draft.request.graph.updates:
            break
        if row.is_view or type(node) is not Node or not node.args or not is_pure(node.op, node.items):
            continue
        if node.op.place is given:
            continue
        made = [draft.slots[slot] for slot in row.results]
        storages = tuple(each.storage for each in made)
        if (
            all(each.is_whole and not each.is_view and draft.storages[each.storage].kind == ARENA for each in made)
            and wanted.isdisjoint(storages)
            and all(tasks.users[s][:1] == [numbers[t]] and tasks.sizes[s] for s in storages)
            and all(problem.before[u] >> numbers[t] & 1 for s in storages for u in tasks.users[s][1:])
        ):
            found[numbers[t]] = storages
    return found
