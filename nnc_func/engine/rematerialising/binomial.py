"""Binomial checkpointing of chains: the fewest steps that are run again, with so many states kept at a time.

A. Griewank and A. Walther, Algorithm 799: Revolve, ACM Transactions on Mathematical Software 26(1), 2000.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import comb

from nnc_func.engine.rematerialising.problem import RematerialisationProblem, best
from nnc_func.engine.rematerialising.replay import Replay

STEPS = 1 << 17  # tasks of the sequences that are looked at, about


def forward_steps(steps: int, checkpoints: int) -> int:
    """Revolve's t(N, c): steps that are run to turn N steps back with c states kept, the first one among them.

    With r such that C(c + r - 1, c) < N <= C(c + r, c), it is r N - C(c + r, c + 1).

    Examples
    --------
    >>> [forward_steps(10, c) for c in (1, 2, 3, 10)]
    [45, 20, 15, 9]
    """
    repeats = 0
    while comb(checkpoints + repeats, checkpoints) < steps:
        repeats += 1
    return repeats * steps - comb(checkpoints + repeats, checkpoints + 1)


@lru_cache(maxsize=1 << 14)
def split(steps: int, checkpoints: int) -> int:
    """How many steps to run before the next state is kept, of N steps with c states, c > 1: the first that is best.

    Costs are convex in it, so that it is found by halving.

    Examples
    --------
    >>> split(10, 3)
    4
    """

    def cost(first: int) -> int:
        return first + forward_steps(steps - first, checkpoints - 1) + forward_steps(first, checkpoints)

    return bisect_left(range(1, steps - 1), True, key=lambda first: cost(first + 1) >= cost(first)) + 1


def binomial(problem: RematerialisationProblem, budget: int) -> Sequence[int]:
    """The cheapest that fits, of binomial checkpointing with 1, 2, 3 … states.

    The states are the results that alone cross from one part of a forward part to the next: all of them in a chain. So
    a network whose every layer is crossed by others is one step, in which nothing is run again. What needs no other
    task may cross beside them, as targets do that an order computes first.

    Examples
    --------
    >>> from nnc_func.engine.rematerialising.generators import chain
    >>> from nnc_func.engine.rematerialising.problem import simulated
    >>> simulated(chain(10), binomial(chain(10), 3 + 1))
    <schedule: peak 4, 26 tasks run, 6 of them again, cost 15>
    """
    states = _states(problem)
    return best(problem, budget, (_Binomial(problem, states, c).sequence() for c in _counts(len(states), len(problem))))


def _counts(states: int, tasks: int) -> list[int]:
    """Numbers of states that are kept: all up to 16, then every power of √2; without the lowest, if these take long."""
    found = [*range(1, min(states, 17))]
    count = 16.0
    while (count := count * 2**0.5) < states:
        found.append(int(count))
    left = STEPS
    for at in range(len(found) - 1, -1, -1):
        left -= tasks + tasks * forward_steps(states, found[at]) // states
        if left < 0:
            return found[at + 1 :]
    return found


def _states(problem: RematerialisationProblem) -> list[tuple[int, int]]:
    """Pairs of a task of the forward part after which one result alone is read by what follows there, and that one.

    Beside it there may be results that need no other task.
    """
    turn = problem.turn
    leaves: dict[int, list[int]] = {}
    for task in range(turn + 1):
        reach = max((u for u in problem.users[task] if u <= turn), default=-1)
        if reach >= 0:
            leaves.setdefault(reach, []).append(task)
    crossing: dict[int, None] = {}
    found: dict[int, int] = {}
    for task in range(turn + 1):
        for gone in leaves.get(task, ()):
            crossing.pop(gone, None)
        if any(task < u <= turn for u in problem.users[task]):
            crossing[task] = None
        alone = [t for t in crossing if problem.needs[t]] or list(crossing)
        if len(alone) == 1:
            found.setdefault(alone[0], task)
    states = [(end, state) for state, end in found.items()]
    if not states or states[-1][1] != turn:
        states.append((turn, turn))  # what the forward part ends with
    return states


class _Binomial:
    """One sequence: a number of states are kept, of those that there are."""

    def __init__(self, problem: RematerialisationProblem, states: list[tuple[int, int]], count: int) -> None:
        self.problem, self.count = problem, count
        self.ends = [end for end, _ in states]
        self.states = [state for _, state in states]
        self.run = Replay(problem)
        self.kept: list[int] = []  # numbers of states, ascending

    def sequence(self) -> list[int]:
        """The base sequence, with what is run again."""
        problem, run = self.problem, self.run
        self.kept = [0, *self._places(0, len(self.states) - 1, self.count)] if self.states else []
        last = self.ends[-2] if len(self.ends) > 1 else -1
        fixed = {self.states[k] for k in self.kept} | {self.states[-1]} if self.states else set()
        reach = [max((u for u in users if u <= problem.turn), default=t) for t, users in enumerate(problem.users)]
        for task in range(len(problem)):
            if task <= problem.turn:
                run.bring(task)
                run.drop([t for t in (task, *problem.needs[task]) if reach[t] <= task and t <= last and t not in fixed])
                continue
            for needed in problem.needs[task]:
                if needed not in run.alive and needed <= problem.turn:
                    self._restore(min(bisect_left(self.ends, needed), len(self.ends) - 1), task)
            run.bring(task)
        return run.sequence

    def _places(self, start: int, target: int, count: int) -> Iterator[int]:
        """Which states to keep on the way from one to another, where so many may be kept, the first among them."""
        while count > 1 and target > start:
            start += split(target + 1 - start, count)
            count -= 1
            yield start

    def _restore(self, target: int, now: int) -> None:
        """Run from the last state that is kept to a part, and that part: what is read later stays."""
        run, problem = self.run, self.problem
        while self.kept and self.kept[-1] >= target and self.kept[-1]:
            self.kept.pop()
        if not self.kept:
            return
        start = self.kept[-1]
        self.kept += self._places(start, target, self.count - len(self.kept) + 1)
        fixed = {self.states[k] for k in self.kept}
        for k in range(start + 1, target):
            there = set(run.alive)
            run.bring(self.states[k])
            run.drop([t for t in run.alive - there if t not in fixed and t != self.states[k]])
            if self.states[k - 1] not in fixed:
                run.drop([self.states[k - 1]])
        first = self.ends[target - 1] + 1 if target else 0
        for task in range(first, self.ends[target] + 1):
            if any(u >= now for u in problem.users[task]):
                run.bring(task)
        if target and self.states[target - 1] not in fixed:
            run.drop([self.states[target - 1]])
