"""Schedulers: which stream runs a task, and in which order tasks are issued. They know costs and needs, not graphs.

Streams run side by side, each one task after another; a task that needs a result of another stream waits for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from operator import index
from typing import Protocol

from attrs import field, frozen

from nnc_func.engine.needs import inverted
from nnc_func.errors import PlanError

WAIT = 100e-6  # seconds until a thread that waits runs again: 20 to 40 µs on idle cores, more on busy ones
HELD = 2e-6  # seconds of an instruction in which Python runs no other thread
LOOKED = 8  # followers that a stream considers
GAIN = 1.2  # several streams must be estimated to be so many times faster than one


@frozen(eq=False)
class Tasks:
    """What is to be scheduled. Tasks have numbers, and need earlier ones only.

    Attributes
    ----------
    seconds
        How long each one is estimated to take on one core.
    alone
        The same where nothing runs beside it: a library that has threads of its own may use all cores then.
    needs
        For each one, the tasks whose results it reads.
    first
        Tasks that stay in stream 0, which the calling thread runs.

    Examples
    --------
    >>> Tasks([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [(), (), (0, 1)]).rank
    [2.0, 2.0, 1.0]
    """

    seconds: Sequence[float]
    alone: Sequence[float]
    needs: Sequence[Sequence[int]]
    first: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def followers(self) -> list[list[int]]:
        """For each task, those that read its results."""
        return inverted(self.needs, len(self))

    @property
    def rank(self) -> list[float]:
        """For each task, the seconds of the longest chain from it to an end, its own included."""
        found = [*self.seconds]
        for task, after in reversed([*enumerate(self.followers)]):
            found[task] += max((found[f] for f in after), default=0.0)
        return found


class Scheduler(Protocol):
    """Maps tasks to pairs (task, stream), in the order in which they are issued. It knows nothing else."""

    def __call__(self, tasks: Tasks, streams: int) -> Sequence[tuple[int, int]]: ...


def serial(tasks: Tasks, streams: int = 1) -> list[tuple[int, int]]:
    """All in one stream, in the order given."""
    return [(task, 0) for task in range(len(tasks))]


def issued(scheduler: Scheduler, tasks: Tasks, streams: int) -> list[tuple[int, int]]:
    """The scheduler's answer.

    Raises
    ------
    PlanError
        It is no pairs of integers, or a task is missing, issued twice or before what it needs, or in a stream that
        there is not; names the scheduler.
    """
    name = getattr(scheduler, "__name__", None) or type(scheduler).__name__
    answer = scheduler(tasks, streams)
    try:
        found = [(index(task), index(stream)) for task, stream in answer]
    except (TypeError, ValueError) as error:
        raise PlanError(
            f"the scheduler {name} gave no pairs (task, stream) of integers, but {answer!r}: {error}"
        ) from None
    if sorted(task for task, _ in found) != [*range(len(tasks))]:
        raise PlanError(f"the scheduler {name} did not issue each of {len(tasks)} tasks once")
    done: set[int] = set()
    for task, stream in found:
        if not 0 <= stream < streams or (task in tasks.first and stream):
            raise PlanError(f"the scheduler {name} put task {task} in stream {stream}, of {streams}")
        if not done.issuperset(tasks.needs[task]):
            raise PlanError(f"the scheduler {name} issued task {task} before what it needs, {tasks.needs[task]}")
        done.add(task)
    return found


@frozen
class ListScheduler:
    """Greedy list scheduling along the longest chains, after NNC's static schedule.

    The stream that is free first goes on with the highest ranked follower of its last task, as NNC's streams do, or
    with what else that follower needs. Where there is nothing it takes a task that is ready: the highest ranked one
    if that chain is as long as the work that is left to each stream, else the first in the order given, which was
    chosen for its memory, but for what another stream needs next. A task goes where it can start first. NNC ranks
    by hops, takes a new stream whenever there is one, and its tie-break by command never compares (it sets the rank
    that it compares with first). Here ranks are seconds, waiting has a price, so that small tasks stay together,
    and where several streams do not pay everything stays in one, in the order given. Ranks and earliest starts are
    those of HEFT (Topcuoglu, Hariri and Wu, 2002).

    Attributes
    ----------
    wait
        Seconds that pass until a stream goes on that has waited for another. With 0 work is spread as far as it goes.
    gain
        How many times faster than one stream several are to be, as estimated: every wait is charged once more there,
        also where the estimate hides it behind other work, since estimates of small tasks are no better than that.

    Examples
    --------
    >>> branches = Tasks([1.0, 1.0, 1.0, 1.0, 0.1], [1.0, 1.0, 1.0, 1.0, 0.1], [(), (0,), (), (2,), (1, 3)])
    >>> ListScheduler()(branches, 2)
    [(0, 0), (2, 1), (1, 0), (3, 1), (4, 1)]
    """

    wait: float = field(default=WAIT)
    gain: float = field(default=GAIN)

    def __call__(self, tasks: Tasks, streams: int) -> Sequence[tuple[int, int]]:
        """Tasks and their streams, in order."""
        simulation = _Simulation(tasks, streams, self.wait)
        found = [simulation.next() for _ in range(len(tasks))]
        held = sum(min(s, HELD) for s in tasks.seconds) if self.wait else 0.0
        if (max(simulation.end, held) + simulation.waits * self.wait) * self.gain > sum(tasks.alone):
            return serial(tasks)
        return found


class _Simulation:
    """When streams are free, and which tasks are ready, while tasks are issued one by one; counts `waits`."""

    def __init__(self, tasks: Tasks, streams: int, wait: float) -> None:
        self.waits = self.issued = 0
        self.number = [-1] * len(tasks)  # in the order of issue
        self.seen = [[-1] * streams for _ in range(streams)]  # by each stream of each: the last that it has waited for
        self.tasks, self.wait = tasks, wait
        self.rank = tasks.rank
        self.followers = [sorted(set(f), key=lambda t: (self.rank[t], -t)) for f in tasks.followers]  # the best is last
        self.missing = [len(set(n)) for n in tasks.needs]
        self.free = [0.0, *[wait] * (streams - 1)]  # the others are woken first
        self.last: list[int | None] = [None] * streams
        self.stream = [-1] * len(tasks)
        self.finish = [0.0] * len(tasks)
        self.left = sum(tasks.seconds)
        self.urgent: list[tuple[float, int]] = []  # those that are ready, by rank, and by the order given
        self.given: list[int] = []
        for task, missing in enumerate(self.missing):
            if not missing:
                self._ready(task)

    @property
    def end(self) -> float:
        """When all is done, and stream 0 knows."""
        used = [f for f, last in zip(self.free[1:], self.last[1:], strict=True) if last is not None]
        return max([self.free[0], *(f + self.wait for f in used)])

    def next(self) -> tuple[int, int]:
        """Issue one task."""
        free = min(range(len(self.free)), key=self.free.__getitem__)
        task = self._follower(free)
        if task is None:
            task = self._pick(free)
        stream = self._earliest(task, free)
        self.finish[task] = self.free[stream] = self._start(task, stream) + self.tasks.seconds[task]
        self.stream[task], self.last[stream] = stream, task
        self._wait(task, stream)
        self.left -= self.tasks.seconds[task]
        for after in self.followers[task]:
            self.missing[after] -= 1
            if not self.missing[after]:
                self._ready(after)
        return task, stream

    def _wait(self, task: int, stream: int) -> None:
        """Count the waits of a task: for the last that it needs of each other stream, unless that was waited for."""
        self.number[task], self.issued = self.issued, self.issued + 1
        seen = self.seen[stream]
        needs = sorted((self.number[n], self.stream[n]) for n in self.tasks.needs[task] if self.stream[n] != stream)
        for number, other in reversed(needs):
            if number > seen[other]:
                seen[other] = number
                self.waits += 1

    def _ready(self, task: int) -> None:
        heapq.heappush(self.urgent, (-self.rank[task], task))
        heapq.heappush(self.given, task)

    def _follower(self, stream: int) -> int | None:
        """The highest ranked task that can go on in the stream at once."""
        last = self.last[stream]
        if last is None:
            return None
        after, now = self.followers[last], self.free[stream]
        while after and self.stream[after[-1]] >= 0:
            after.pop()
        for task in after[: -LOOKED - 1 : -1]:
            if not self.missing[task] and self.stream[task] < 0 and self._start(task, stream) <= now:
                return task
        return None

    def _pick(self, stream: int) -> int:
        while self.stream[self.urgent[0][1]] >= 0:
            heapq.heappop(self.urgent)
        while self.stream[self.given[0]] >= 0:
            heapq.heappop(self.given)
        if -self.urgent[0][0] * len(self.free) >= self.left:
            return self.urgent[0][1]
        own = self._next(stream)
        if own:
            return own[0]
        others = {task for s in range(len(self.free)) if s != stream for task in self._next(s)}
        if self.given[0] not in others:
            return self.given[0]
        first = [t for t in heapq.nsmallest(4 * LOOKED, self.given) if self.stream[t] < 0]
        return next((t for t in first if t not in others), first[0])

    def _next(self, stream: int) -> list[int]:
        """Ready tasks that the best follower of the stream's last task needs, directly or not."""
        last = self.last[stream]
        waiting = [] if last is None else [t for t in self.followers[last][-1:] if self.stream[t] < 0]
        found, looked = [], 0
        while waiting and looked < 4 * LOOKED:
            task = waiting.pop()
            looked += 1
            if not self.missing[task]:
                found.append(task)
            else:
                waiting += sorted((n for n in self.tasks.needs[task] if self.stream[n] < 0), reverse=True)
        return found

    def _earliest(self, task: int, free: int) -> int:
        if task in self.tasks.first:
            return 0
        own = {self.stream[n] for n in self.tasks.needs[task]}  # where it may have no wait at all

        def key(stream: int) -> tuple[float, bool, bool, int]:
            return self._start(task, stream), stream not in own, stream != free, stream

        return min(range(len(self.free)), key=key)

    def _start(self, task: int, stream: int) -> float:
        at = self.free[stream]
        for needed in self.tasks.needs[task]:
            after = self.finish[needed] + (0.0 if self.stream[needed] == stream else self.wait)
            at = max(at, after)
        return at
