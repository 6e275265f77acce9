"""The least load of all choices: the best first of states of what has run and what is held, by their peak and cost.

A state of one-shot tasks is what has run: dynamic programming over it is Ahn and others', "Ordering chaos: memory-aware
scheduling of irregularly wired neural networks for edge devices", MLSys 2020. What may be made anew makes it a pebble
game (Sethi, "Complete register allocation problems", STOC 1973): what is held is a part of the state then. Kernels are
chosen on the way: of those that do not raise the peak the cheapest one is the best; a cheaper one may raise it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations, product
from typing import NamedTuple

from attrs import frozen

from nnc_func.engine.joint_choice.choice import Run
from nnc_func.engine.joint_choice.problem import JointProblem


@frozen
class Least:
    """What a search for the least load found.

    Attributes
    ----------
    bound
        Bytes of the arena: it is proven that no choice takes less.
    runs
        Runs in which no more is alive than that at a time; None: the search ended before.
    states
        That were looked at.
    """

    bound: int
    runs: tuple[Run, ...] | None
    states: int


class State(NamedTuple):
    """What has run, what is held, and what of that lies in houses, as bits."""

    done: int
    held: int
    inside: int


START = State(0, 0, 0)


class Step(NamedTuple):
    """What may come next in a state: a run, or that what is held is no more."""

    load: int  # bytes of the arena, the kernel's scratch among them
    cost: int  # beyond what the task costs at the least
    state: State
    run: Run | None


def bits(mask: int) -> Iterator[int]:
    """The numbers whose bits are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class States:
    """States of a problem, and what may come next in each.

    A state is two sets, as bits: the tasks that have run, and the buffers that are held. A buffer that may be needed
    is held, unless it can be made anew.

    Parameters
    ----------
    problem
        Its number of tasks and buffers is small: sets are integers.
    """

    def __init__(self, problem: JointProblem) -> None:
        self.problem = problem
        tasks = problem.tasks
        self.sizes = tasks.sizes
        self.all = (1 << len(problem)) - 1
        self.needs = [sum(1 << one for one in needed) for needed in tasks.needs]
        self.uses = [sum(1 << one for one in used) for used in tasks.uses]
        self.users = [sum(1 << one for one in users) for users in tasks.users]
        self.lasting = sum(1 << buffer for buffer in {*tasks.lasting})
        self.makes = {task: sum(1 << b for b in made) for task, made in problem.again.items() if made}
        self.barrier = 0 if problem.barrier is None else 1 << problem.barrier
        self.offers = problem.undominated
        self.least = [offers[0][1] for offers in self.offers]
        again = [self.least[task] for task in self.makes]
        self.spare = None if problem.limit is None else problem.limit - sum(self.least)
        if self.spare is not None and (not again or min(again) > self.spare):
            self.makes = {}  # nobody can pay for it
        self.remade = 0
        self.read_again = 0
        for task, made in self.makes.items():
            self.remade |= made
            self.read_again |= self.uses[task] & ~made
        self.houses = sum(1 << house for house in problem.houses)
        self.may_house = {h: sum(1 << b for b in housed) for h, housed in problem.may_house.items()}
        self._bytes: dict[int, int] = {}
        self._wanted: dict[int, int] = {}

    def nbytes(self, held: int) -> int:
        """Of a set of buffers."""
        found = self._bytes.get(held)
        if found is None:
            found = self._bytes[held] = sum([self.sizes[b] for b in bits(held)])
        return found

    def wanted(self, done: int) -> int:
        """Buffers that a task which has not run yet uses, or that last."""
        found = self._wanted.get(done)
        if found is None:
            found = 0
            for task in bits(self.all & ~done):
                found |= self.uses[task]
            found = self._wanted[done] = found | self.lasting
        return found

    def is_closed(self, done: int) -> bool:
        """Whether nothing is run again any more."""
        return not self.makes or bool(done & self.barrier)

    def tasks(self, done: int, held: int) -> Iterator[int]:
        """Those that may be run, for the first time or again."""
        for task in bits(self.all & ~done):
            if not self.needs[task] & ~done and self._is_readable(task, done, held):
                yield task
        if not self.is_closed(done):
            missing = ~held & (self.wanted(done) | self.read_again)
            for task, made in self.makes.items():
                if done >> task & 1 and made & missing and self._is_readable(task, done, held):
                    yield task

    def _is_readable(self, task: int, done: int, held: int) -> bool:
        """Whether all is held that others have made."""
        if not self.makes:
            return True
        missing = self.uses[task] & ~held & ~self.makes.get(task, 0)
        return not any(self.users[b] & done for b in bits(missing))

    def steps(self, state: State, peak: int, spare: int | None) -> list[Step]:
        """What may come next, for no more than `spare`: with the kernels that may be the best where a peak is known.

        Where a run is as good as done, it is the only one. What is held is given up just before a run has no room.
        """
        found: list[Step] = []
        done, held, inside = state
        closed, fits = self.is_closed(done), True
        for task in self.tasks(done, held):
            before = len(found)
            first = not done >> task & 1
            extra = -self.least[task] if first else 0
            after = done | 1 << task
            alive = held | self.uses[task]
            kept, loose = self.kept(alive, after)
            for over, given_up in self._ways(task, alive & ~kept, loose):
                for load, housed in self._loads(task, alive, inside, over, held):
                    for nbytes, price, kernel in self._kernels(task, peak - load):
                        if spare is not None and price + extra > spare:
                            continue
                        then = kept & ~given_up
                        run = Run(task, kernel, over)
                        found.append(Step(load + nbytes, price + extra, State(after, then, housed & then), run))
                        if first and not given_up and self._is_free(found[-1], state, peak, closed):
                            return found[-1:]
            fits = fits and all(step.load <= peak for step in found[before:]) and len(found) > before
        if not closed and not fits:
            found += [Step(0, 0, after, None) for after in self.without(state)]
        return found

    def without(self, state: State) -> list[State]:
        """The states in which one of those buffers is given up that need not be held."""
        done, held, inside = state
        wanted = self.wanted(done)
        loose = held & (self.remade & wanted | ~wanted)
        return [State(done, held & ~(1 << b), inside & ~(1 << b)) for b in bits(loose)]

    def _is_free(self, step: Step, state: State, peak: int, closed: bool) -> bool:
        """Whether nothing is lost by a run now: it has room, costs least, and holds no more than is gone for good."""
        if step.load > peak or step.cost > 0:
            return False
        _, held, inside = step.state
        gone = state.held & ~held & (-1 if closed else ~self.remade)
        new = held & ~state.held
        if self.houses:
            if new & (self.houses | inside | self._housable(held)):
                return False
            gone &= ~state.inside
        return self.nbytes(new) <= self.nbytes(gone)

    def _housable(self, alive: int) -> int:
        """Buffers that may lie in one of the houses that are not used yet."""
        found = 0
        for house, housed in self.may_house.items():
            if not alive >> house & 1:
                found |= housed
        return found

    def _loads(
        self, task: int, alive: int, inside: int, over: Sequence[tuple[int, int]], held: int
    ) -> Iterator[tuple[int, int]]:
        """Bytes of the arena while a task runs, without scratch, and what lies in houses: any part of what is new."""
        twice = sum([self.sizes[new] for new, _ in over])
        if not self.houses:
            yield self.nbytes(alive) - twice, 0
            return
        housable = self._housable(alive)
        moved = 0
        for new, old in over:
            if inside >> old & 1:
                moved |= 1 << new
        if (inside | moved) & ~housable:
            return
        taken = sum(1 << new for new, _ in over)
        fresh = self.uses[task] & ~taken & (~held | self.makes.get(task, 0))
        room = self.nbytes(self.houses & ~alive)
        doubled = sum([self.sizes[new] for new, _ in over if moved >> new & 1])
        for part in _subsets(fresh & housable):
            housed = inside & ~fresh & ~taken | moved | part
            if self.nbytes(housed) - doubled <= room:
                yield self.nbytes(alive & ~self.houses & ~housed) - (twice - doubled), housed

    def _ways(self, task: int, over: int, loose: int) -> Iterator[tuple[tuple[tuple[int, int], ...], int]]:
        """What a task makes over what, and what of that is given up though it may be needed: what may be best."""
        if self.houses:
            yield from self.all_ways(task, over, loose)
            return
        for given_up in self._given_up(task, loose):
            yield self._overwritten(task, over | given_up), given_up

    def all_ways(self, task: int, over: int, loose: int) -> Iterator[tuple[tuple[tuple[int, int], ...], int]]:
        """All that a task may make over what is over by then, or need not be held; the most first."""
        pairs = self.problem.tasks.overwrites.get(task, ())
        free = over | loose
        for chosen in product(*([*(o for o in others if free >> o & 1), None] for _, others in pairs)):
            found = tuple((new, old) for (new, _), old in zip(pairs, chosen, strict=True) if old is not None)
            if len({old for _, old in found}) == len(found):
                yield found, sum(1 << old for _, old in found if loose >> old & 1)

    def kept(self, alive: int, done: int) -> tuple[int, int]:
        """Of buffers that are alive while a task runs those that are held after it, and those that need not be."""
        wanted = self.wanted(done)
        if self.is_closed(done):
            return alive & wanted, 0
        kept = alive & (wanted | self.read_again)
        return kept, kept & (self.remade | ~wanted)

    def _given_up(self, task: int, loose: int) -> Iterator[int]:
        """Sets of buffers that a task might be made over, though they may be needed."""
        yield 0
        pairs = self.problem.tasks.overwrites.get(task, ())
        others = sorted({b for _, candidates in pairs for b in candidates if loose >> b & 1})
        for count in range(1, min(len(others), len(pairs)) + 1):
            for chosen in combinations(others, count):
                yield sum(1 << b for b in chosen)

    def _overwritten(self, task: int, over: int) -> tuple[tuple[int, int], ...]:
        """Pairs of what a task makes over what, of those buffers: with the most bytes in sum."""
        pairs = self.problem.tasks.overwrites.get(task, ())
        taken: dict[int, int] = {}  # other -> made
        for made, _ in sorted(pairs, key=lambda pair: -self.sizes[pair[0]]):
            if self.sizes[made]:  # the largest first is the best: sets that can be matched are a matroid
                _match(made, {m: [b for b in o if over >> b & 1] for m, o in pairs}, taken, set())
        return tuple(sorted((made, other) for other, made in taken.items()))

    def _kernels(self, task: int, room: int) -> Iterator[tuple[int, int, int]]:
        """Bytes, cost and number: the cheapest kernel that has room, and cheaper ones; at least the smallest one."""
        for each in self.offers[task]:
            yield each
            if each[0] <= room:
                return


def _subsets(mask: int) -> Iterator[int]:
    """All parts of a set."""
    part = mask
    while True:
        yield part
        if not part:
            return
        part = (part - 1) & mask


def _match(made: int, candidates: dict[int, list[int]], taken: dict[int, int], seen: set[int]) -> bool:
    for other in candidates[made]:
        if other not in seen:
            seen.add(other)
            if other not in taken or _match(taken[other], candidates, taken, seen):
                taken[other] = made
                return True
    return False


class LeastLoad:
    """The search for the choice with the least peak, which may be gone on with.

    Parameters
    ----------
    problem
        What is asked.
    bound
        Bytes: it is known that no choice has a lower peak.

    Examples
    --------
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (), (0,), (1,), (2, 3)], [(0,), (1,), (0, 2), (1, 3), (2, 3)], [9, 9, 1, 1])
    >>> search = LeastLoad(JointProblem(tasks))
    >>> search.run(3).runs is None
    True
    >>> found = search.run(100)
    >>> found.bound, [run.task for run in found.runs]
    (11, [0, 2, 1, 3, 4])
    """

    def __init__(self, problem: JointProblem, bound: int = 0) -> None:
        self.states, self.bound = States(problem), bound
        self.paid: dict[State, int] = {}  # the least that a state was reached for
        self.trail: list[tuple[int, Run | None]] = [(-1, None)]
        self.heap: list[tuple[int, int, int, int, State]] = [(bound, 0, 0, 0, START)]  # peak, left, cost, trail

    def run(self, steps: int, below: int | None = None) -> Least:
        """Look at so many states more.

        Parameters
        ----------
        steps
            States, at the most.
        below
            Bytes: what has as high a peak is not looked for, now and later; it is proven that there is nothing lower
            when the search is over. None: all is looked for.
        """
        states, paid, heap = self.states, self.paid, self.heap
        most = float("inf") if below is None else below
        count = 0
        while heap and heap[0][0] < most:
            peak, _, spent, at, state = heap[0]
            if state.done == states.all:
                return Least(peak, _walked(self.trail, at), count)
            if paid.get(state, spent + 1) <= spent:
                heappop(heap)
                continue
            if count >= steps:
                return Least(peak, None, count)
            heappop(heap)
            paid[state] = spent
            count += 1
            for step in states.steps(state, peak, None if states.spare is None else states.spare - spent):
                price = spent + step.cost
                if step.load < most and paid.get(step.state, price + 1) > price:
                    self.trail.append((at, step.run))
                    left = (states.all & ~step.state.done).bit_count()
                    heappush(heap, (max(peak, step.load), left, price, len(self.trail) - 1, step.state))
        return Least(max(self.bound, int(most)), None, count)


def _walked(trail: Sequence[tuple[int, Run | None]], at: int) -> tuple[Run, ...]:
    found: list[Run] = []
    while at > 0:
        at, run = trail[at]
        if run is not None:
            found.append(run)
    return tuple(reversed(found))
