"""Fuzzing of schedules: kernels run in random legal orders, one by one, or on threads with random delays."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import field, frozen

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.walks import by_rank
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA
from nnc_func.engine.planning.schedule import Tasks
from nnc_func.engine.running.frame import Frame
from nnc_func.engine.running.program import Program

POISON = 0xFF  # all bits set: NaN in every floating dtype, -1 in signed integers


@frozen
class RandomScheduler:
    """Any stream for any task, in any order that their needs allow: what no sensible scheduler would do.

    Attributes
    ----------
    seed
        Of the choices.

    Examples
    --------
    >>> sorted(task for task, _ in RandomScheduler(3)(Tasks([1.0, 1.0], [1.0, 1.0], [(), (0,)]), 2))
    [0, 1]
    """

    seed: int = field(default=0)

    def __call__(self, tasks: Tasks, streams: int) -> Sequence[tuple[int, int]]:
        """Tasks and their streams, in order."""
        draw = random.Random(self.seed)
        order = _drawn(OrderProblem(tasks.needs, [()] * len(tasks), []), draw)
        return [(task, 0 if task in tasks.first else draw.randrange(streams)) for task in order]


@frozen
class RandomOrder:
    """Any task that is ready, one after another: an order that keeps nothing but what it must.

    Attributes
    ----------
    seed
        Of the choices.

    Examples
    --------
    >>> from nnc_func.engine.orders import OrderProblem
    >>> sorted(RandomOrder(3)(OrderProblem([(), (), (0,)], [(), (), ()], [])))
    [0, 1, 2]
    """

    seed: int = field(default=0)

    def __call__(self, problem: OrderProblem) -> list[int]:
        """Tasks in that order."""
        return _drawn(problem, random.Random(self.seed))


def _drawn(problem: OrderProblem, draw: random.Random) -> list[int]:
    return by_rank(problem, lambda _: draw.random())


def legal_orders(plan: Plan, count: int, seed: int = 0) -> Iterator[list[int]]:
    """Random orders of the plan's instructions, by number, that its streams and waits allow.

    In some of them one stream runs far ahead of the others.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> lazy = lazy.swap(engine=lazy.engine.with_streams(2, RandomScheduler(1)))
    >>> x, y = (lazy.input(name, (3, 3), "float64") for name in "xy")
    >>> plan = lazy.compile([x, y], [x @ x, y @ y]).plan
    >>> sorted({tuple(order) for order in legal_orders(plan, 20)})
    [(0, 1), (1, 0)]
    """
    draw = random.Random(seed)
    streams: dict[int, list[int]] = {}
    for t, i in enumerate(plan.instructions):
        streams.setdefault(i.stream, []).append(t)
    for _ in range(count):
        steep = draw.choice((1.0, 1.0, 8.0, 40.0))
        weights = {s: draw.random() ** steep for s in streams}
        at = dict.fromkeys(streams, 0)
        done: set[int] = set()
        order: list[int] = []
        while len(order) < len(plan.instructions):
            able = [
                s for s, rows in streams.items()
                if at[s] < len(rows) and done.issuperset(plan.instructions[rows[at[s]]].waits)
            ]  # fmt: skip
            chosen = draw.choices(able, [weights[s] + 1e-9 for s in able])[0]
            order.append(streams[chosen][at[chosen]])
            done.add(order[-1])
            at[chosen] += 1
        yield order


class Replay(Program):
    """A program that runs its kernels one by one, in an order that is set before the call, over poisoned memory.

    The arena is filled with poison before the run, and each buffer again after its last use in that order.

    Attributes
    ----------
    sequence
        Instructions by number, as `legal_orders` gives them.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> lazy = lazy.swap(engine=lazy.engine.with_streams(2, RandomScheduler(1)))
    >>> x = lazy.input("x", (2, 2), "float64")
    >>> replay = Replay.of(lazy.compile([x], lazy.ops.tanh(x @ x) @ lazy.ops.cumulative_sum(x, axis=0)))
    >>> for replay.sequence in legal_orders(replay.plan, 3):
    ...     print(replay(np.zeros((2, 2))).tolist())
    [[0.0, 0.0], [0.0, 0.0]]
    [[0.0, 0.0], [0.0, 0.0]]
    [[0.0, 0.0], [0.0, 0.0]]
    """

    sequence: Sequence[int] = ()

    @classmethod
    def of(cls, program: Program, plan: Plan | None = None) -> Replay:
        """The same program, and the same variables; with another plan, if one is given: that is not verified."""
        found = cls(
            program.plan if plan is None else plan,
            program._device,
            program._constants,
            [*program.variables.values()],
            graph=program.graph,
            source=program.source,
        )
        found.together = None
        found.is_straight = False
        return found

    def _run(self, frame: Frame, section: list[Any], start: int) -> None:
        number = {t: position for position, t in enumerate(frame.order)}
        wanted = [number[t] for t in self.sequence if t in number]
        if not start:
            self._rest = self._uses()
            self._poison(frame, range(len(self.plan.buffers)))
        for position in wanted:
            if not start <= position < start + len(section):
                continue
            call, args = frame.calls[position]
            try:
                call(*args)
            except Exception as error:
                raise frame.failure(frame.order[position], error) from error
            touched = self._touched(frame.order[position])
            for buffer in touched:
                self._rest[buffer] -= 1
            self._poison(frame, [b for b in touched if not self._rest[b]])

    def _touched(self, t: int) -> set[int]:
        i = self.plan.instructions[t]
        return {self.plan.slots[s].buffer for s in (*i.operands, *i.results, *i.scratch)}

    def _uses(self) -> list[int]:
        found = [0] * len(self.plan.buffers)
        for t, i in enumerate(self.plan.instructions):
            if not i.view:
                for buffer in self._touched(t):
                    found[buffer] += 1
        return found

    def _poison(self, frame: Frame, buffers: Sequence[int]) -> None:
        for number in buffers:
            b = self.plan.buffers[number]
            if b.kind == ARENA and b.nbytes:
                self._device.view(frame.arenas[b.place], b.offset, (b.nbytes,), "uint8")[...] = POISON


def delayed(program: Program, seed: int = 0, most: float = 2e-4, share: float = 0.5) -> None:
    """Make the program's kernels wait at random before they run: on threads, in another order each time.

    Parameters
    ----------
    program
        It is changed: its next calls run so.
    seed
        Of the delays.
    most
        The longest delay, in seconds.
    share
        Which part of the kernels waits.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float64")
    >>> program = lazy.compile([x], lazy.ops.cumulative_sum(x, axis=0))
    >>> delayed(program)
    >>> program(np.ones(2))
    array([1., 2.])
    """
    draw = random.Random(seed)

    def slow(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> None:
            if draw.random() < share:
                time.sleep(draw.random() * most)
            call(*args)

        return run

    frame = program.arenas.take(program, program.plan, program._frame)
    commit = len(frame.early)
    frame.calls = [(slow(call), args) for call, args in frame.calls]
    frame.early, frame.late = frame.calls[:commit], frame.calls[commit:]
    frame.sections.clear()
    frame.call = None
    program.arenas.give(frame)
