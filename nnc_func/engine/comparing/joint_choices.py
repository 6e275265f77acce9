"""Joint choices beside each other: how small an arena each search finds for each problem. Every answer is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from nnc_func.engine.comparing.comparison import Comparison, Trial, seeded
from nnc_func.engine.comparing.trials import ANSWER, Conditions, Task, digest, rows, timed, whole_seeds
from nnc_func.engine.joint_choice.choice import Choice, Run, arena
from nnc_func.engine.joint_choice.problem import JointProblem
from nnc_func.engine.joint_choice.search import floor, separate
from nnc_func.engine.joint_choice.solution import Solution
from nnc_func.errors import PlanError

Search = Callable[[JointProblem], Solution]


def compare_joint_choices(
    problems: Mapping[str, JointProblem],
    searches: Mapping[str, Search],
    *,
    repeat: int = 1,
    seeds: Iterable[int] = (0,),
    conditions: Conditions = Conditions(),
) -> Comparison:
    """What each search makes of each problem, as `compare` does for allocators.

    Ratios are to the arena of the chain of separate choices (`joint_choice.search.separate`); ``bound`` is what no
    choice goes below, without a search.

    Examples
    --------
    >>> from nnc_func.engine.joint_choice.generators import network
    >>> from nnc_func.engine.joint_choice.search import JointSearch
    >>> found = compare_joint_choices({"network": network(7, 20)}, {"chain": separate, "joint": JointSearch().solved})
    >>> [(t.by, t.value, t.unit, t.bound) for t in found.trials]
    [('chain', 2112, 2112, 1984), ('joint', 1984, 2112, 1984)]
    """
    return Comparison(
        "joint choice", tuple(map(Trial.of, rows(_tasks(problems, searches, repeat, whole_seeds(seeds)), conditions)))
    )


def _tasks(
    problems: Mapping[str, JointProblem], searches: Mapping[str, Search], repeat: int, seeds: tuple[int, ...]
) -> Iterator[Task]:
    for name, problem in problems.items():
        known = {"count": len(problem), "bound": floor(problem), "unit": separate(problem).nbytes}
        content = digest(problem.to_json())
        for of, search in searches.items():
            for seed, asked in seeded(search, seeds):
                call = partial(_asked, asked, problem, repeat)
                yield Task(name, of, content, search, seed, repeat, call, partial(_judged, problem), known=known)


def _asked(search: Search, problem: JointProblem, repeat: int) -> dict[str, Any]:
    seconds, found = timed(lambda: search(problem), repeat)
    choice = found.choice
    if choice is None:
        raise PlanError(f"no choice was found in {found.steps} steps")
    runs = [(run.task, run.kernel, run.over) for run in choice.runs]
    return {"seconds": seconds, ANSWER: (runs, choice.offsets, choice.homes)}


def _judged(problem: JointProblem, found: Any) -> dict[str, Any]:
    runs, offsets, homes = found[ANSWER]
    made = tuple(Run(task, kernel, tuple(map(tuple, over))) for task, kernel, over in runs)
    return {"value": arena(problem, Choice(made, tuple(offsets), tuple(homes))), **found}
