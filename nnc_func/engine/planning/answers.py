"""Answers of strategies as plans: what each takes, and the least that any of them takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve, frozen

from nnc_func.engine.naming import name_of
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import NEXT, OUTPUT
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.planner import Planned, planned
from nnc_func.engine.planning.recomputed import Recomputable, rebuilt
from nnc_func.engine.planning.request import Request
from nnc_func.engine.rematerialising import Simulation, Strategy, answered
from nnc_func.engine.rematerialising.portfolio import least_answers
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node
from nnc_func.graph.pictures.svg import sized
from nnc_func.graph.rules.cost import NOTHING
from nnc_func.locks import cached_property

LIKELY = 1.1  # times a budget that an answer may be simulated to take and is planned at once to see whether it fits


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
    """A program of a strategy's answer.

    Attributes
    ----------
    graph, planned
        Its graph, and the plan.
    recomputation
        What it computes again.
    cost
        Of all of its tasks, as the strategy counts.
    sequence
        The nodes as the strategy has them; None: nothing is computed again.
    """

    graph: ComputationGraph
    planned: Planned
    recomputation: Recomputation
    cost: float
    sequence: Sequence[Node] | None = None

    @property
    def nbytes(self) -> int:
        """What it takes: arenas and fresh results."""
        return self.recomputation.nbytes


def footprint(plan: Plan) -> int:
    """The bytes that a plan takes besides what is there before the run: arenas, and fresh results."""
    return sum(plan.arenas.values()) + sum(b.nbytes for b in plan.buffers if b.kind in (OUTPUT, NEXT))


def taken(draft: Draft) -> int:
    """The `footprint` of the plan of a draft that has offsets."""
    rows = enumerate(draft.storages)
    return sum(draft.arenas.values()) + sum(s.nbytes for i, s in rows if s.merged == i and s.kind in (OUTPUT, NEXT))


@frozen(eq=False)
class Answer:
    """What a strategy answers.

    Attributes
    ----------
    tasks
        What it was asked.
    simulation
        The sequence of tasks, and what that takes.
    by
        The strategy's name.
    """

    tasks: Recomputable
    simulation: Simulation
    by: str


class Answers:
    """What strategies answer for one request, as plans. Nothing is asked or planned twice.

    Parameters
    ----------
    request
        What is planned.
    tasks
        The same as problems.
    plan
        Makes its plan where nothing is computed twice, which is made if it is wanted.
    strategy
        What is asked; the others are beside it.
    floor
        Bytes that this plan takes at the least.
    """

    def __init__(
        self,
        request: Request,
        tasks: Sequence[Recomputable],
        plan: Callable[[], Planned],
        strategy: Strategy,
        floor: int = 0,
    ) -> None:
        self.request, self.tasks, self.plan, self.strategy, self.floor = request, tasks, plan, strategy, floor
        self.names: list[str] = []  # of what was asked for the least
        self._found: dict[tuple[int, tuple[int, ...]], Fitted] = {}
        self._told: dict[tuple[int, Strategy, int], Answer] = {}
        self._least: list[Fitted] = []
        self._more = iter(self._answers_for_least())
        self._later: list[Answer] = []  # not planned yet: they are not likely to take little

    @cached_property
    def plain(self) -> Fitted:
        """The plan where nothing is computed twice."""
        base = Answer(self.tasks[0], self.tasks[0].problem.base, name_of(self.strategy))
        return self._fitted(base, self.plan(), self.request.graph)

    def to(self, nbytes: int, tasks: Recomputable, strategy: Strategy | None = None) -> Answer:
        """The strategy's answer to a budget, or another one's."""
        asked = strategy or self.strategy
        key = id(tasks), asked, nbytes
        if key not in self._told:
            self._told[key] = Answer(tasks, answered(asked, tasks.problem, nbytes), name_of(asked))
        return self._told[key]

    def planned(self, answer: Answer) -> Fitted:
        """The plan of an answer."""
        sequence = tuple(answer.simulation.sequence)
        key = id(answer.tasks), sequence
        if key not in self._found:
            graph, nodes = rebuilt(self.request.graph, answer.tasks.nodes, sequence)
            found = planned(evolve(self.request, graph=graph, sequence=nodes))
            self._found[key] = evolve(self._fitted(answer, found, graph), sequence=nodes)
        return self._found[key]

    def reaches(self, nbytes: int) -> bool:
        """Whether the least is as little as that, or less; strategies are asked until one shows that it is.

        The plan where nothing is computed twice takes more, as is known.
        """
        while all(found.nbytes > nbytes for found in self._least):
            answer = next(self._more, None)
            if answer is None:
                return self.least.nbytes <= nbytes
            if answer.simulation.peak > LIKELY * nbytes:
                self._later.append(answer)
            else:
                self._add(answer)
        return True

    @cached_property
    def least(self) -> Fitted:
        """The plan that takes least: of all answers to a budget of 0, and of none. Of equals the cheapest.

        It depends on the request and the strategy, and on no budget.
        """
        for answer in (*self._later, *self._more):
            self._add(answer)
        found = min(self._least, key=_size, default=None)
        return found if found is not None and found.nbytes < self.floor else min(self.plain, *self._least, key=_size)

    def within(self, nbytes: int) -> Fitted:
        """The cheapest of the answers to a budget of 0 that take no more than that, as the least one does."""
        kept = [found for found in (self.least, *self._least) if found.nbytes <= nbytes]
        return min(kept, key=lambda found: found.cost)

    def _answers_for_least(self) -> Iterator[Answer]:
        for tasks in self.tasks:
            for by, found in least_answers(tasks.problem, self.strategy):
                yield Answer(tasks, found, by)

    def _add(self, answer: Answer) -> None:
        self.names.append(answer.by)
        self._least.append(self.planned(answer))

    def _fitted(self, answer: Answer, found: Planned, graph: ComputationGraph) -> Fitted:
        again, nodes, works = _repeated(answer.simulation.sequence), answer.tasks.nodes, answer.tasks.works
        everything, extra = sum(works, NOTHING), sum([works[task] for task in again], NOTHING)
        runs = sum(map(len, nodes)), sum(len(nodes[task]) for task in again)
        nbytes = footprint(found.plan)
        recomputation = Recomputation(
            sum(runs), runs[1], everything.flops, extra.flops, everything.seconds, extra.seconds,
            nbytes, nbytes, answer.by,
        )  # fmt: skip
        return Fitted(graph, found, recomputation, answer.simulation.cost)


def _size(found: Fitted) -> tuple[int, float]:
    return found.nbytes, found.cost


def _repeated(sequence: Sequence[int]) -> list[int]:
    """The tasks of a sequence that have been run before, as often as they are."""
    ran: set[int] = set()
    return [task for task in sequence if task in ran or ran.add(task)]  # type: ignore[func-returns-value]
