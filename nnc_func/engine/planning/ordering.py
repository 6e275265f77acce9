"""The instructions of a planning as an ordering problem, and the order that is chosen for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from nnc_func.engine.copying import Inserted
from nnc_func.engine.orders import ORDERS
from nnc_func.engine.orders.base import Order, OrderProblem, answered, loads, named
from nnc_func.engine.orders.bounds import bound_at
from nnc_func.engine.plan_rows import NEXT, VARIABLE
from nnc_func.engine.planning.storages import Storages

GIVEN = "recomputing"  # the name of a sequence that comes with a graph in which values are computed again
LAST = 1 << 60


def arrange(work: Storages, orders: Sequence[Order | str]) -> None:
    """Put the instructions in the order that has the least simulated peak, of those.

    What is before the commit section stays before it. With no orders they stay as they are: that was asked for.
    """
    if not orders:
        work.order = GIVEN
        return
    work.ordering = problem = order_problem(work)
    work.order, best, work.usual_peak = chosen(problem, orders)
    if best == range(len(problem)):
        return
    if len(best) > len(work.instructions):  # without the task that stands before the section
        best = [task - (task > work.commit) for task in best if task != work.commit]
    work.reorder(best)


def chosen(problem: OrderProblem, orders: Sequence[Order | str]) -> tuple[str, Sequence[int], int]:
    """The first of the orders with the least simulated peak: its name and sequence, and the peak of the first of all.

    Those that are known by name are not asked once nothing can be better; a user's own are, and are never believed.
    """
    usual, least, name = 0, 0, ""
    best: Sequence[int] = ()
    is_best = False
    for order in orders:
        if not isinstance(order, str):
            found: Sequence[int] = answered(order, problem)
        elif is_best:
            continue
        else:
            found = ORDERS[order](problem)
        if len(orders) == 1:
            return named(order), found, 0
        high = [*loads(problem, found)]
        peak = max(high, default=0)
        usual = usual if name else peak
        if not name or peak < least:
            least, name, best = peak, named(order), found
            is_best = not high or bound_at(problem, found[high.index(peak)]) == peak
    return name, best, usual


def order_problem(work: Storages) -> OrderProblem:
    """Instructions as tasks, storages as buffers: those of the arena have bytes.

    A task that uses nothing stands between what is before the commit section and what is in it, if there is both.
    """
    sizes = work.sizes
    producer = [-1] * len(work.storage)
    needs: list[Sequence[int]] = []
    uses = work.uses
    overwrites: dict[int, Any] = {}
    section = _Section(work) if work.commit < len(work.instructions) else None
    bounded = section is not None and work.commit > 0
    if bounded:
        uses = [*uses[: work.commit], (), *uses[work.commit :]]
    for at, (_, _, operands, results, _, _) in enumerate(work.instructions):
        if section is not None and at == work.commit and bounded:
            needs.append(section.start(needs))
        task = len(needs)
        needed = dict.fromkeys([producer[slot] for slot in operands])
        needed.pop(-1, None)
        for slot in results:
            producer[slot] = task
        needs.append([*needed] if section is None else section.needs(task, needed, operands, results))
        if work.overwritable[at]:
            pairs = [(made, [s for s in homes if sizes[s]]) for made, homes, _ in work.overwritable[at] if sizes[made]]
            if pairs:
                overwrites[task] = pairs
    return OrderProblem(needs, uses, sizes, (), overwrites, _ranks(work, bounded))


class _Section:
    """What a commit section adds to needs: it comes behind all else, and a variable is read before it is written."""

    def __init__(self, work: Storages) -> None:
        self.work = work
        self.at = LAST if work.commit else -1  # the number of the task that stands before it, if one does
        self.readers: dict[int, dict[int, None]] = {}  # storage of a variable -> tasks of the section that read it

    def start(self, needs: Sequence[Sequence[int]]) -> list[int]:
        """What the task needs that stands before the section: the tasks that no other needs."""
        self.at = len(needs)
        needed = set(chain.from_iterable(needs))
        return [task for task in range(len(needs)) if task not in needed]

    def needs(self, task: int, needed: dict[int, None], operands: Sequence[int], results: Sequence[int]) -> list[int]:
        """What a task needs, of which all but what is in the section goes without saying."""
        if task < self.at:
            return [*needed]
        work = self.work
        for slot in results:
            storage = work.storage[slot]
            if work.kind[storage] == NEXT:
                variable = work.storage[work.leaf_slots[VARIABLE][work.source[storage]]]
                needed = needed | self.readers.get(variable, {})
        for slot in operands:
            self.readers.setdefault(work.storage[slot], {})[task] = None
        return [one for one in needed if one > self.at] or ([self.at] if self.at >= 0 else [])


def _ranks(work: Storages, has_section: bool) -> list[int]:
    """When the nodes of instructions were made: what the engine inserted goes with what it is inserted for."""
    ranks = []
    rank = LAST
    for node, *_ in reversed(work.instructions):
        rank = rank if isinstance(node, Inserted) else node.serial
        ranks.append(rank)
    ranks.reverse()
    if has_section:
        ranks.insert(work.commit, LAST)
    return ranks
