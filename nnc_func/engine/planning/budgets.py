"""Budgets of programs: of memory, kept by computing values again, or of time, for as little memory as that gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from numbers import Integral

from attrs import evolve, frozen

from nnc_func.engine.naming import unknown
from nnc_func.engine.orders import SEARCHES, unsearched
from nnc_func.engine.planning.answers import Answer, Answers, Fitted, taken
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.planner import Drafting, placed
from nnc_func.engine.planning.recomputed import Recomputable, recomputables
from nnc_func.engine.planning.request import Request
from nnc_func.engine.planning.unavoidable import Unavoidable, unavoidable, unavoidable_once
from nnc_func.engine.rematerialising import STRATEGIES, Strategy
from nnc_func.engine.rematerialising.portfolio import others
from nnc_func.errors import PlanError
from nnc_func.graph.pictures.svg import sized

FEW = 100  # tasks, up to which the order of a search is tried, too
TRIES = 5  # answers of a strategy to one budget, each stricter than the last
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
    if isinstance(given, Integral) and not isinstance(given, bool) and given >= 0:
        return int(given)
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


def fitted(budget: Budget, request: Request) -> Fitted:
    """The plan of a request within a budget: where it takes more as it is, kernels with less scratch are taken, and
    then values are computed again.

    Raises
    ------
    PlanError
        The budget is less than the least that any strategy meets, which is said.
    """
    drafting, memory = Drafting(request), request.memory
    written = drafting.as_written()
    floor, nbytes = unavoidable_once(written), budget.nbytes
    draft: Draft | None = None
    if nbytes is None or floor <= nbytes:
        draft = drafting.smallest()
        if nbytes is not None and taken(draft) > nbytes:
            memory, draft = _with_less_scratch(drafting, nbytes)
    else:
        memory = 0

    @cache
    def plain() -> Draft:
        """What computes nothing twice: for a budget that no such plan keeps it is made only if it is wanted."""
        return drafting.smallest(memory=memory) if draft is None else draft

    problems = _problems(drafting, plain, memory)
    asked = evolve(drafting.request, memory=memory)
    answers = Answers(asked, problems, lambda: placed(plain()), budget.chooses, floor)
    if nbytes is None:
        assert budget.work is not None
        found = _in_time(answers, budget.work)
    else:
        found = _in_memory(answers, nbytes, written)
    return evolve(found, recomputation=evolve(found.recomputation, nbytes_without=answers.plain.nbytes))


def _with_less_scratch(drafting: Drafting, nbytes: int) -> tuple[int, Draft]:
    """Kernels that want less scratch: as many as keep the budget, or else all; the `memory` of that, and the draft.

    What all of them take does not depend on the budget, so none is refused for which a smaller one has a plan.
    """
    draft = drafting.smallest(memory=0)
    if taken(draft) <= nbytes:
        found = drafting.smallest(memory=nbytes)
        if taken(found) <= nbytes:
            return nbytes, found
    return 0, draft


def _problems(drafting: Drafting, plain: Callable[[], Draft], memory: int | None) -> list[Recomputable]:
    """What may be computed again of a request, in the best of the orders that are not searched for.

    A search mixes the forward part with what turns it back, which is best where all is kept: less is to be gained by
    computing again. Where there are few tasks, those of the plan in which nothing is are given as well.
    """
    quick, machine = unsearched(drafting.request.orders), drafting.request.machine
    if not quick:
        return recomputables(plain(), machine)
    found = recomputables(drafting.arranged(orders=quick, memory=memory), machine)
    if len(found[0].problem) > FEW:
        return found
    if plain().order not in SEARCHES:
        return recomputables(plain(), machine)
    return [*found, *recomputables(plain(), machine)]


def _in_memory(answers: Answers, nbytes: int, written: Draft) -> Fitted:
    """The strategy's answer as a plan that keeps a budget; or another's, where it has none.

    What a plan takes differs from what was simulated: by the allocator's gaps, and by what is put together in place. So
    the strategy is asked for less and less.

    Every budget from the least on is kept, and none below, nor is a plan taken that needs less: else a budget could be
    refused for which a smaller one has a plan.
    """
    if answers.floor <= nbytes and answers.plain.nbytes <= nbytes:
        return answers.plain
    if not answers.reaches(nbytes):
        raise PlanError(_refusal(answers, nbytes, unavoidable(written)))
    for found in _asked(answers, nbytes):
        if found.nbytes <= nbytes and answers.reaches(found.nbytes):
            return found
    return answers.within(nbytes)


def _asked(answers: Answers, nbytes: int) -> Iterator[Fitted]:
    """Plans of the strategy's answers for smaller and smaller budgets, and of others' for this one."""
    for tasks in answers.tasks:
        target, met = nbytes, -1
        for _ in range(TRIES):
            answer = answers.to(max(0, target), tasks)
            peak = answer.simulation.peak
            if peak == met:
                break
            met, found = peak, answers.planned(answer)
            yield found
            target = min(target, peak) - (found.nbytes - nbytes)
    for tasks in answers.tasks:
        for strategy in others(answers.strategy):
            yield answers.planned(answers.to(nbytes, tasks, strategy))


def _in_time(answers: Answers, factor: float) -> Fitted:
    """The least plan of the answers with the least peak that cost at most so many times what it costs as it is."""
    found = [answers.planned(each) for tasks in answers.tasks if (each := _within_time(answers, tasks, factor))]
    return min([answers.plain, *found], key=lambda each: each.nbytes)


def _within_time(answers: Answers, tasks: Recomputable, factor: float) -> Answer | None:
    """The answer with the least peak; None: nothing is to be gained."""
    base = tasks.problem.base
    low, high, best = 0, base.peak, None
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        answer = answers.to(middle, tasks)
        found = answer.simulation
        if found.cost <= factor * base.cost:
            if best is None or (found.peak, found.cost) < (best.simulation.peak, best.simulation.cost):
                best = answer
            high = min(middle, found.peak)
        else:
            low = middle
    return best


def _refusal(answers: Answers, nbytes: int, bound: Unavoidable) -> str:
    """What was asked for, what there is, how it is known, and what to do."""
    least, name = answers.least, answers.request.graph.name
    said = f"the memory budget of {name!r} is {_told(nbytes)}"
    is_known = least.nbytes >= answers.floor  # what it is where nothing is computed again: else it may not win
    if is_known and least is answers.plain:
        by = "nothing computed again"
    else:
        without = _told(answers.plain.nbytes) if is_known else f"at least {_told(answers.floor)}"
        by = f"values computed again as {least.recomputation.strategy} chooses, without that {without}"
    if bound.nbytes == least.nbytes:
        return (
            f"{said}; the least is {_told(least.nbytes)}, with {by}: no plan takes less than {bound}. {_advice(least)}"
        )
    proven = f"; no plan takes less than {_told(bound.nbytes)}, of {bound}" if bound.nbytes else ""
    asked = ", ".join(dict.fromkeys(answers.names))
    return f"{said}; the least found is {_told(least.nbytes)}, with {by} (asked: {asked}){proven}. {_advice(least)}"


def _advice(least: Fitted) -> str:
    return f"Give {least.nbytes} bytes or more, or a graph that needs less: a smaller batch, say"


def _told(nbytes: int) -> str:
    return f"{nbytes} bytes ({sized(nbytes)})"
