"""Strategies of rematerialisation beside each other: at what cost each keeps within a budget. All is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from attrs import frozen

from nnc_func.engine.comparing.comparison import Comparison, Trial, seeded
from nnc_func.engine.comparing.trials import ANSWER, Conditions, Task, digest_of, rows, timed, whole_seeds
from nnc_func.engine.rematerialising.problem import RematerialisationProblem, Strategy, answered
from nnc_func.errors import PlanError


@frozen(eq=False)
class Budgeted:
    """A problem, and what it may take.

    Attributes
    ----------
    problem
        The tasks.
    budget
        Bytes alive at one time.
    """

    problem: RematerialisationProblem
    budget: int


def compare_strategies(
    problems: Mapping[str, Budgeted],
    strategies: Mapping[str, Strategy],
    *,
    repeat: int = 1,
    seeds: Iterable[int] = (0,),
    conditions: Conditions = Conditions(),
) -> Comparison:
    """What each strategy makes of each problem within its budget, as `compare` does for allocators.

    Ratios are of the cost to that without recomputation; a strategy that does not keep within the budget has none, and
    its trial says how many bytes it takes.

    Examples
    --------
    >>> from nnc_func.engine.rematerialising import STRATEGIES
    >>> from nnc_func.engine.rematerialising.generators import chain
    >>> chosen = {name: STRATEGIES[name] for name in ("binomial", "square_root")}
    >>> found = compare_strategies({"ten steps": Budgeted(chain(10), 4)}, chosen)
    >>> [(t.by, t.value, t.unit, t.error) for t in found.trials]
    [('binomial', 15, 9, ''), ('square_root', None, 9, 'what it found takes 6 bytes, of a budget of 4')]
    """
    return Comparison(
        "strategy", tuple(map(Trial.of, rows(_tasks(problems, strategies, repeat, whole_seeds(seeds)), conditions)))
    )


def _tasks(
    problems: Mapping[str, Budgeted], strategies: Mapping[str, Strategy], repeat: int, seeds: tuple[int, ...]
) -> Iterator[Task]:
    for name, given in problems.items():
        problem = given.problem
        known = {"count": len(problem), "bound": problem.base.cost, "unit": problem.base.cost}
        content = digest_of(problem, given.budget)
        for of, strategy in strategies.items():
            for seed, asked in seeded(strategy, seeds):
                call = partial(_asked, asked, given, repeat)
                yield Task(name, of, content, strategy, seed, repeat, call, partial(_judged, given), known=known)


def _asked(strategy: Strategy, given: Budgeted, repeat: int) -> dict[str, Any]:
    seconds, found = timed(partial(answered, strategy, given.problem, given.budget), repeat)
    if found.peak > given.budget:
        raise PlanError(f"what it found takes {found.peak} bytes, of a budget of {given.budget}")
    return {"seconds": seconds, ANSWER: [*map(int, found.sequence)]}


def _judged(given: Budgeted, found: Any) -> dict[str, Any]:
    simulated = answered(lambda *_: found[ANSWER], given.problem, given.budget)
    if simulated.peak > given.budget:
        raise PlanError(f"its sequence takes {simulated.peak} bytes, of a budget of {given.budget}")
    return {"value": simulated.cost, **found}
