"""The instructions of a planning as an ordering problem, and the order that is chosen for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from nnc_func.engine.copying import Inserted
from nnc_func.engine.orders import ORDERS
from nnc_func.engine.orders.base import Answer, Order, OrderProblem, answered, named
from nnc_func.engine.orders.bounds import bound_at
from nnc_func.engine.plan_rows import ARENA, NEXT, VARIABLE
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.output_borrowing import lenders

GIVEN = "recomputing"  # the name of a sequence that comes with a graph in which values are computed again
LAST = 1 << 60
WORTH = 256  # parts of a bound of which more than one must be to gain before an order is searched for


def arrange(draft: Draft, orders: Sequence[Order | str]) -> None:
    """Put the instructions in the order that has the least simulated peak, of those.

    What is before the commit section stays before it, and what is in it behind it unless that is loose. With no orders
    they stay as they are: that was asked for.
    """
    if not orders:
        draft.order = GIVEN
        return
    known = draft.known
    problem = draft.ordering = known.problem = known.problem or order_problem(draft)
    draft.chosen, draft.answers = chosen(problem, orders, known.answers)
    draft.order, best = named(draft.chosen.order), draft.chosen.sequence
    if best == range(len(problem)):
        return
    if len(best) > len(draft.instructions):  # without the task that stands before the section
        start = best.index(draft.commit)
        best = [task - (task > draft.commit) for task in best if task != draft.commit]
        draft.commit = start
    draft.reorder(best)


def chosen(
    problem: OrderProblem, orders: Sequence[Order | str], known: dict[str, Answer]
) -> tuple[Answer, list[Answer]]:
    """The first of the orders with the least simulated peak, and the answers of all that were asked.

    Those that are known by name are not asked once nothing can be better, nor what they have answered before (`known`,
    which is added to); a user's own are, and are never believed. Of these a search that betters an order goes on from
    the best so far, where that is more than 1 / `WORTH` above what the task at its peak needs in any order; what it
    finds is taken where it gains as much.
    """
    answers: list[Answer] = []
    best: Answer | None = None
    bound = -1
    for order in orders:
        worth = 0
        if not isinstance(order, str):
            found = Answer.of(problem, order, answered(order, problem))
        else:
            improved = None if best is None else getattr(ORDERS[order], "improved", None)
            if best is not None and improved is not None:
                worth = best.arena // WORTH
            if best is not None and (
                best.peak == bound or (worth and (best.peak - bound) * WORTH <= bound - best.lent)
            ):
                continue
            if order not in known:
                sequence = improved(problem, best.sequence) if best is not None and improved else ORDERS[order](problem)
                known[order] = Answer.of(problem, order, sequence)
            found = known[order]
        answers.append(found)
        if best is None or found.peak < best.peak - worth:
            best = found
            bound = bound_at(problem, found.busiest) if len(orders) > 1 and len(problem) else 0
    assert best is not None
    return best, answers


def order_problem(draft: Draft) -> OrderProblem:
    """Instructions as tasks, storages as buffers: those of the arena have bytes.

    A task that uses nothing stands between what is before the commit section and what is in it, if there is both.
    A result whose memory is lent counts from its first part on, to the end: so all that is alive, less the bytes of
    all such results, is what the arena needs while they house as much as they can.
    """
    sizes, uses = (draft.sizes, draft.uses) if not draft.request.is_body else _with_variables(draft)
    in_arena, lasting = sizes, lenders(draft)
    if lasting:
        sizes = [*sizes]
        for storage in lasting:
            sizes[storage] = -(-draft.storages[storage].nbytes // draft.alignment) * draft.alignment
        uses = [[*filter(sizes.__getitem__, touched)] for touched in draft.touched]
    overwritable = draft.overwritable
    producer = [-1] * len(draft.slots)
    size, produced = in_arena.__getitem__, producer.__getitem__
    needs: list[Sequence[int]] = []
    overwrites: dict[int, Any] = {}
    section = _Section(draft)
    bounded = 0 < draft.commit < len(draft.instructions)
    start = draft.commit if bounded else -1
    if bounded:
        uses = [*uses[: draft.commit], (), *uses[draft.commit :]]
    for at, (_, _, operands, results, _, _) in enumerate(draft.instructions):
        if at == start:
            needs.append(section.start(needs))
        task = len(needs)
        needed = dict.fromkeys(map(produced, operands))
        needed.pop(-1, None)
        for slot in results:
            producer[slot] = task
        needs.append([*needed] if task < section.at else section.needs(task, needed, operands, results))
        if overwritable[at]:
            pairs = [(made, [*filter(size, homes)]) for made, homes, _ in overwritable[at] if in_arena[made]]
            if pairs:
                overwrites[task] = pairs
    return OrderProblem(needs, uses, sizes, lasting, overwrites, _ranks(draft, bounded))


def _with_variables(draft: Draft) -> tuple[list[int], list[Sequence[int]]]:
    """Sizes and uses where variables, and what comes after them, have bytes like what is in the arena.

    So a variable is read before it is written over, and takes no other memory. Else it must not be, where a kernel may
    fail.
    """
    counted, alignment = (ARENA, NEXT, VARIABLE), draft.alignment
    sizes = [-(-s.nbytes // alignment) * alignment if s.kind in counted else 0 for s in draft.storages]
    return sizes, [[s for s in touched if sizes[s]] for touched in draft.touched]


class _Section:
    """What a commit section adds to needs: it comes behind all else, and a variable is read before it is written.

    Where it is loose only what writes a variable comes behind all that can fail.
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.at = LAST if draft.commit else -1  # the number of the task that stands before it, once there is one
        self.readers: dict[int, dict[int, None]] = {}  # storage of a variable -> tasks of the section that read it

    def start(self, needs: Sequence[Sequence[int]]) -> list[int]:
        """What the task needs that stands before the section: the tasks that no other needs."""
        self.at = len(needs)
        needed = set(chain.from_iterable(needs))
        return [task for task in range(len(needs)) if task not in needed]

    def needs(self, task: int, needed: dict[int, None], operands: Sequence[int], results: Sequence[int]) -> list[int]:
        """What a task of the section needs: all but what is in the section goes without saying."""
        draft, writes = self.draft, False
        for slot in results:
            storage = draft.storages[draft.slots[slot].storage]
            if storage.kind == NEXT:
                variable = draft.slots[draft.leaf_slots[VARIABLE][storage.source]].storage
                needed, writes = needed | self.readers.get(variable, {}), True
        for slot in operands:
            self.readers.setdefault(draft.slots[slot].storage, {})[task] = None
        if draft.arrangement.loose:
            return [*needed, self.at] if writes and self.at >= 0 else [*needed]
        return [one for one in needed if one > self.at] or ([self.at] if self.at >= 0 else [])


def _ranks(draft: Draft, has_section: bool) -> list[int]:
    """When the nodes of instructions were made: what the engine inserted goes with what it is inserted for."""
    ranks = []
    rank = LAST
    for node, *_ in reversed(draft.instructions):
        rank = rank if isinstance(node, Inserted) else node.serial
        ranks.append(rank)
    ranks.reverse()
    if has_section:
        ranks.insert(draft.commit, LAST)
    return ranks
