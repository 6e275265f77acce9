"""Instructions dealt out to streams: what waits for what, and which instructions surely run before which.

What a plan's waits and streams order is "before"; everything else may run at the same time, so that memory is shared
only among what is ordered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc_func.body import is_pure
from nnc_func.engine.allocators.base import Uses
from nnc_func.engine.planning.schedule import Scheduler, Tasks, issued
from nnc_func.facets.machine import Machine

NEVER = 1 << 60


class Streams:
    """For each instruction its stream, what it waits for, and how much of each stream surely runs before it.

    Attributes
    ----------
    stream, waits
        As in `Instruction`. Views compute nothing: they have the stream of what they show, and no waits.
    clock
        For each instruction and stream, how many kernels of the stream have run once it has, itself included.
    """

    def __init__(self, stream: Sequence[int], views: Sequence[bool], needs: Sequence[Iterable[int]]) -> None:
        count = max(stream, default=0) + 1
        self.stream = list(stream)
        self.waits: list[tuple[int, ...]] = [()] * len(self.stream)
        clocks: list[list[int]] = [[]] * len(self.stream)
        last: list[list[int]] = [[0] * count for _ in range(count)]  # the clock at the end of each stream, so far
        for t, s in enumerate(self.stream):
            if views[t]:
                clocks[t] = last[s]
                continue
            clock = list(last[s])
            self.waits[t] = self._needed(clock, needs[t], clocks)
            clock[s] += 1
            clocks[t] = last[s] = clock
        self.clock: NDArray[np.int64] = np.asarray(clocks, np.int64).reshape(len(self.stream), count)
        self.views = list(views)

    def _needed(self, clock: list[int], needs: Iterable[int], clocks: list[list[int]]) -> tuple[int, ...]:
        """Those that the stream and the other waits do not order already; the clock learns of them.

        The latest first: what it has waited for itself need not be waited for. So this is the transitive reduction.
        """
        waits = []
        for needed in sorted(set(needs), reverse=True):
            theirs = clocks[needed]
            if theirs[self.stream[needed]] > clock[self.stream[needed]]:
                waits.append(needed)
                clock[:] = map(max, clock, theirs)
        return tuple(sorted(waits))

    def uses(self, storages: Sequence[Iterable[int]]) -> Uses:
        """Of storages, given the instructions that use each of them."""
        count = self.clock.shape[1]
        before = np.full((len(storages), count), NEVER, np.int64)
        until = np.zeros((len(storages), count), np.int64)
        for i, users in enumerate(storages):
            for t in users:
                if self.views[t]:
                    continue
                s = self.stream[t]
                clock = self.clock[t].copy()
                until[i, s] = max(until[i, s], clock[s])
                clock[s] -= 1
                np.minimum(before[i], clock, out=before[i])
        return Uses(before, until)

    def all_before(self, users: Iterable[int], t: int) -> bool:
        """Whether these instructions have surely run when instruction t has."""
        clock = self.clock[t]
        return all(self.views[u] or self.clock[u][self.stream[u]] <= clock[self.stream[u]] for u in users)


def uses_of(plan: Any, buffers: Sequence[int]) -> Uses:
    """Of a finished plan's buffers, given their numbers."""
    rows = plan.instructions
    users: dict[int, list[int]] = {n: [] for n in buffers}
    for t, i in enumerate(rows):
        for n in {plan.slots[s].buffer for s in (*i.operands, *i.results, *i.scratch)}:
            if n in users:
                users[n].append(t)
    streams = Streams([i.stream for i in rows], [i.view for i in rows], [i.waits for i in rows])
    return streams.uses([users[n] for n in buffers])


def scheduled(draft: Any, scheduler: Scheduler, count: int, machine: Machine) -> Streams | None:
    """Deal a planning's instructions out to streams: they are put in the order of issue, and the commit section after.

    How long they take is estimated for cores like this machine. None, and nothing changed, where one stream is best.
    """
    if count == 1:
        return None
    makers = _makers(draft.instructions)
    sections = (range(draft.commit), range(draft.commit, len(draft.instructions)))
    order: list[tuple[int, int]] = []
    for section in sections:
        kernels = [t for t in section if not draft.instructions[t].is_view]
        number = {t: i for i, t in enumerate(kernels)}
        tasks = _tasks(draft, kernels, number, makers, count, machine)
        order += [(kernels[i], s) for i, s in issued(scheduler, tasks, count)]
    if not any(stream for _, stream in order):
        return None
    return _dealt(draft, order, sum(t < draft.commit for t, _ in order), makers)


def _makers(instructions: Sequence[tuple[Any, ...]]) -> dict[int, tuple[int, ...]]:
    """For each slot the kernels that write it, through views; none for a leaf."""
    found: dict[int, tuple[int, ...]] = {}
    for t, (_, _, operands, results, _, view) in enumerate(instructions):
        made = tuple({m for o in operands for m in found.get(o, ())}) if view else (t,)
        for slot in results:
            found[slot] = made
    return found


def _tasks(draft: Any, kernels: list[int], number: dict[int, int], makers: Any, cores: int, machine: Machine) -> Tasks:
    seconds, alone, needs, first = [], [], [], []
    for t in kernels:
        node, _, operands, *_ = draft.instructions[t]
        each = _seconds(draft, t, cores, machine)
        seconds.append(each[0])
        alone.append(each[1])
        needs.append(sorted({number[m] for o in operands for m in makers.get(o, ()) if m in number}))
        if not is_pure(node.op, node.items):
            first.append(number[t])
    return Tasks(seconds, alone, needs, frozenset(first))


def _seconds(draft: Any, t: int, cores: int, machine: Machine) -> tuple[float, float]:
    """Estimated seconds of an instruction on one core, and with all of them."""
    node, _, operands, results, *_ = draft.instructions[t]
    avals, made = (tuple([draft.slots[s].aval for s in slots]) for slots in (operands, results))
    cost = node.op.cost(avals, made, **dict(node.items))
    nbytes = sum(a.nbytes for a in (*avals, *made)) + cost.extra_bytes
    alone = machine.seconds(cost.flops, nbytes, cost.threaded, cores)
    return machine.seconds(cost.flops, nbytes, cost.threaded), alone


def _dealt(draft: Any, order: list[tuple[int, int]], early: int, makers: dict[int, tuple[int, ...]]) -> Streams:
    """Put the instructions in that order, each view behind what it shows."""
    position = {t: p for p, (t, _) in enumerate(order)}
    stream = dict(order)
    keys = []
    for t, (_, _, operands, _, _, view) in enumerate(draft.instructions):
        shown = [m for o in operands for m in makers.get(o, ())] if view else [t]
        last = max(shown, key=position.__getitem__, default=None)
        keys.append((-1 if last is None else position[last], view, t))
        stream[t] = 0 if last is None else stream[last]
    keys.sort()
    draft.commit = sum(p < early for p, *_ in keys)
    place = {t: p for p, (_, _, t) in enumerate(keys)}
    draft.reorder([t for *_, t in keys])
    rows = draft.instructions
    needs = [{place[m] for o in row.operands for m in makers.get(o, ())} if not row.is_view else set() for row in rows]
    _barrier([stream[t] for *_, t in keys], rows, draft.commit, needs)
    return Streams([stream[t] for *_, t in keys], [row.is_view for row in rows], needs)


def _barrier(stream: list[int], rows: Sequence[Any], commit: int, needs: list[set[int]]) -> None:
    """The commit section starts when all before it has run: the first kernel of each stream in it waits for that."""
    ends = {stream[t]: t for t in range(commit) if not rows[t].is_view}
    begun: set[int] = set()
    for t in range(commit, len(rows)):
        if not rows[t].is_view and stream[t] not in begun:
            begun.add(stream[t])
            needs[t] |= set(ends.values())
