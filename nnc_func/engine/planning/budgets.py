"""Budgets of programs: of memory, kept by computing values again, or of time, for as little memory as that gives."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from attrs import evolve, frozen

from nnc_func.engine.naming import name_of, unknown
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import NEXT, OUTPUT
from nnc_func.engine.planning.planner import Planned, arranged, offset, planned
from nnc_func.engine.planning.recomputed import Recomputable, rebuilt, recomputable
from nnc_func.engine.planning.request import Request
from nnc_func.engine.rematerialising import STRATEGIES, Simulation, Strategy, answered
from nnc_func.errors import PlanError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.pictures.svg import sized
from nnc_func.graph.rules.cost import total

TRIES = 5  # plans that are made for one budget, each after a stricter answer than the last
HALVINGS = 8  # of the range of peaks, for a budget of time


@frozen
class Budget:
    """What a program may take.

    Attributes
    ----------
    nbytes
        Of memory: its arenas and its fresh results, in bytes. None: as little as there is time for.
    work
        Of time, as a multiple of what it takes when nothing is computed twice, both as estimated. None: any.
    strategy
        What is computed again: one of `STRATEGIES`, by name, or any function like them.
    """

    nbytes: int | None = None
    work: float | None = None
    strategy: Strategy | str = "greedy"

    @property
    def chooses(self) -> Strategy:
        """The strategy itself."""
        return STRATEGIES[self.strategy] if isinstance(self.strategy, str) else self.strategy


UNITS = {"": 1, "B": 1} | {
    f"{letter}{infix}B": base**power
    for power, letter in enumerate("KMGT", 1)
    for infix, base in (("", 1000), ("i", 1024))
}  # of bytes


def as_bytes(given: int | str) -> int:
    """A number of bytes.

    Raises
    ------
    PlanError
        It is none.

    Examples
    --------
    >>> as_bytes("500MB"), as_bytes("1.5 GiB"), as_bytes(64)
    (500000000, 1610612736, 64)
    """
    if type(given) is int and given >= 0:
        return given
    said = (
        re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*", given) if isinstance(given, str) else None
    )
    factor = said and {u.lower(): f for u, f in UNITS.items()}.get(said[2].lower())
    if said is None or not factor:
        raise PlanError(f"a memory budget is a number of bytes, or as '500MB' or '1.5 GiB', given {given!r}")
    return int(Fraction(said[1]) * factor)


def check_budget(budget: Budget) -> None:
    """Refuse a budget that is none.

    Raises
    ------
    PlanError
        Bytes, factor or strategy are no such thing.
    """
    if (budget.nbytes is None) == (budget.work is None):
        raise PlanError(f"a budget is one of memory or one of time, given {budget!r}")
    if budget.nbytes is not None and (type(budget.nbytes) is not int or budget.nbytes < 0):
        raise PlanError(f"a memory budget is a number of bytes, given {budget.nbytes!r}")
    if budget.work is not None and not (isinstance(budget.work, (int, float)) and 1 <= budget.work < float("inf")):
        raise PlanError(f"a time budget is 1 or more, times what a run takes as it is; given {budget.work!r}")
    if isinstance(budget.strategy, str) and budget.strategy not in STRATEGIES:
        raise PlanError(unknown(budget.strategy, "strategy", STRATEGIES))
    if not isinstance(budget.strategy, str) and not callable(budget.strategy):
        raise PlanError(f"a strategy is a name or a function, given {budget.strategy!r}")


@frozen
class Recomputation:
    """What is computed again in a program.

    Attributes
    ----------
    nodes
        Nodes that are computed, of those the ones that are computed again.
    flops, extra_flops
        Arithmetic without, and what comes on top.
    seconds, extra_seconds
        The same as estimated time.
    nbytes, nbytes_without
        What it takes, arenas and fresh results, and what it would take if nothing were computed twice.
    strategy
        The name of what chose.
    """

    nodes: int
    again: int
    flops: int
    extra_flops: int
    seconds: float
    extra_seconds: float
    nbytes: int
    nbytes_without: int
    strategy: str

    def __str__(self) -> str:
        saved = f"{sized(self.nbytes)} instead of {sized(self.nbytes_without)}"
        extra = self.extra_flops / self.flops if self.flops else 0.0
        return f"{saved}: {self.again} of {self.nodes} computed again, {extra:.1%} more arithmetic"


@frozen(eq=False)
class Fitted:
    """A program that keeps a budget: its graph, what `planned` says of it, and what it computes again."""

    graph: ComputationGraph
    planned: Planned
    recomputation: Recomputation


def fitted(budget: Budget, request: Request) -> Fitted:
    """The plan of a request within a budget: where it takes more as it is, kernels with less scratch are taken, and
    then values are computed again.

    Raises
    ------
    PlanError
        The strategy finds no plan that takes as little: says the least that it found.
    """
    draft = arranged(request)
    found = offset(draft)
    if budget.nbytes is not None and footprint(found.plan) > budget.nbytes:
        request = evolve(request, memory=budget.nbytes)
        draft = arranged(request)
        found = offset(draft)
    trial = _Trial(budget, request, recomputable(draft, request.machine), footprint(found.plan))
    plain = trial.made(range(len(trial.tasks.problem)), found)
    if budget.work is not None:
        return trial.in_time(budget.work, plain)
    assert budget.nbytes is not None
    return plain if footprint(found.plan) <= budget.nbytes else trial.in_memory(budget.nbytes)


def footprint(plan: Plan) -> int:
    """The bytes that a plan takes besides what is there before the run: arenas, and fresh results."""
    return sum(plan.arenas.values()) + sum(b.nbytes for b in plan.buffers if b.kind in (OUTPUT, NEXT))


class _Trial:
    """Plans for one budget."""

    def __init__(self, budget: Budget, request: Request, tasks: Recomputable, nbytes: int) -> None:
        self.strategy, self.request, self.tasks, self.nbytes = budget.chooses, request, tasks, nbytes
        self.answers: dict[int, Simulation] = {}

    def in_memory(self, nbytes: int) -> Fitted:
        """Answers for smaller and smaller budgets until a plan keeps the one that there is.

        What a plan takes differs from what was simulated: by the allocator's gaps, and by what is put together in
        place.
        """
        least, target, met = self.nbytes, nbytes, -1
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            answer = self._answer(0 if last else max(0, target))
            if last or answer.peak != met:
                found = self._planned(answer)
                least = found.recomputation.nbytes  # in the end that of the least peak, which any budget falls back on
                if least <= nbytes:
                    return found
                target = min(target, answer.peak) - (least - nbytes)
            met = answer.peak
        least = min(least, self.nbytes)  # another order may have spared more than a sequence of the strategy's own
        raise PlanError(
            f"the memory budget of {self.request.graph.name!r} is {nbytes} bytes ({sized(nbytes)}); with values "
            f"computed again as {name_of(self.strategy)} chooses it takes at least {least} ({sized(least)}), without "
            f"{self.nbytes}"
        )

    def in_time(self, factor: float, plain: Fitted) -> Fitted:
        """The answer with the least peak that costs at most so many times what it costs as it is."""
        problem = self.tasks.problem
        low, high, best = 0, problem.base.peak, problem.base
        for _ in range(HALVINGS):
            middle = (low + high) // 2
            answer = self._answer(middle)
            if answer.cost <= factor * problem.base.cost:
                best = min(best, answer, key=lambda a: (a.peak, a.cost))
                high = min(middle, answer.peak)
            else:
                low = middle
        if best is problem.base:
            return plain
        found = self._planned(best)
        return found if found.recomputation.nbytes < self.nbytes else plain

    def _answer(self, nbytes: int) -> Simulation:
        if nbytes not in self.answers:
            self.answers[nbytes] = answered(self.strategy, self.tasks.problem, nbytes)
        return self.answers[nbytes]

    def _planned(self, answer: Simulation) -> Fitted:
        graph, nodes = rebuilt(self.request.graph, self.tasks, answer.sequence)
        return self.made(answer.sequence, planned(evolve(self.request, graph=graph, sequence=nodes)), graph)

    def made(self, sequence: Any, found: Planned, graph: ComputationGraph | None = None) -> Fitted:
        """What a sequence of tasks has become."""
        again = _repeated(sequence)
        nodes = [n for n in self.tasks.nodes if n is not None]
        everything = total(nodes, self.request.machine)
        extra = total([n for task in again if (n := self.tasks.nodes[task]) is not None], self.request.machine)
        recomputation = Recomputation(
            len(nodes) + len(again), len(again), everything.flops, extra.flops, everything.seconds, extra.seconds,
            footprint(found.plan), self.nbytes, name_of(self.strategy),
        )  # fmt: skip
        return Fitted(self.request.graph if graph is None else graph, found, recomputation)


def _repeated(sequence: Any) -> list[int]:
    """The tasks of a sequence that have been run before, as often as they are."""
    ran: set[int] = set()
    return [task for task in sequence if task in ran or ran.add(task)]  # type: ignore[func-returns-value]
