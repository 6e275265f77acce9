"""Fuzzing of schedules: kernels run in random legal orders, one by one, or on threads with random delays."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from nnc_func.engine.linkers.base import failure
from nnc_func.engine.linkers.kernel_calls import Calls, Frame
from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.ready_list import by_rank
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import ARENA
from nnc_func.engine.planning.schedule import Tasks
from nnc_func.engine.running.program import Program
from nnc_func.facets.places import Place

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
        found.linker = found._link
        return found

    def _link(self, plan: Plan, device: Any, constants: Sequence[Any], memory: Mapping[Place, Any]) -> Frame:
        return ReplayedFrame(plan, device, constants, memory, self)


class ReplayedFrame(Frame):
    """What a `Replay` is linked to: it runs in the order that is set, and poisons what that has left."""

    def __init__(
        self, plan: Plan, device: Any, constants: Sequence[Any], memory: Mapping[Place, Any], replay: Replay
    ) -> None:
        super().__init__(plan, device, constants, memory)
        self.together = None
        self.replay = replay
        self.rest: list[int] = []  # buffer -> how many of its uses are left

    def section(self, instructions: Sequence[int]) -> Calls:
        """Those instructions, in the order that is set when they run."""
        return ReplayedCalls(self, instructions)

    def as_function(self, *_: Any, **__: Any) -> None:
        """None: each call runs in an order of its own."""

    def poison(self, buffers: Sequence[int]) -> None:
        """Fill buffers of the arena."""
        for number in buffers:
            b = self.plan.buffers[number]
            if b.kind == ARENA and b.nbytes:
                self.device.view(self.memory[b.place], b.offset, (b.nbytes,), "uint8")[...] = POISON

    def touched(self, t: int) -> set[int]:
        """The buffers that an instruction uses."""
        i = self.plan.instructions[t]
        return {self.plan.slots[s].buffer for s in (*i.operands, *i.results, *i.scratch)}


class ReplayedCalls(Calls):
    """A section of such a frame."""

    def __init__(self, frame: ReplayedFrame, instructions: Sequence[int]) -> None:
        super().__init__(frame, [at for at, t in enumerate(frame.order) if t in instructions])
        self._replayed = frame
        self._is_first = 0 in instructions

    def run(self) -> None:
        """Make the calls as the replay's sequence has them."""
        frame, calls = self._replayed, dict(zip(self.instructions, self.calls, strict=True))
        if self._is_first:
            frame.rest = [0] * len(frame.plan.buffers)
            for t in frame.order:
                for buffer in frame.touched(t):
                    frame.rest[buffer] += 1
            frame.poison(range(len(frame.plan.buffers)))
        for t in [t for t in frame.replay.sequence if t in calls]:
            call, args = calls[t]
            try:
                call(*args)
            except Exception as error:
                raise failure(frame.plan, t, error) from error
            touched = frame.touched(t)
            for buffer in touched:
                frame.rest[buffer] -= 1
            frame.poison([b for b in touched if not frame.rest[b]])


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

    link = program.linker

    def slowly(*given: Any) -> Any:
        frame: Any = link(*given)
        frame.calls = [(slow(call), args) for call, args in frame.calls]
        return frame

    program.linker = slowly
    program.arenas.forget(program)
