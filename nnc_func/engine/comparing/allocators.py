"""Allocators beside each other: what each makes of each problem. Every answer is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from nnc_func.engine.allocators.base import Allocator, answered, arena_size, lower_bound
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.comparing.comparison import Comparison, Trial, seeded
from nnc_func.engine.comparing.trials import ANSWER, Conditions, Task, digest, rows, timed, whole_seeds
from nnc_func.engine.plan import Plan
from nnc_func.engine.verifying.offsets import verify_offsets


def bytes_without_reuse(plan: Plan) -> int:
    """What the results of a plan's instructions take, views left out, and the scratch of each.

    It is the memory of who computes each value into some of its own, and in place nowhere.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy(nnc.Null())
    >>> x = stack.input("x", (1000,), "float32")
    >>> plan = stack.compile([x], [stack.ops.exp(stack.ops.sort(stack.ops.sort(x)[:500]))]).plan
    >>> bytes_without_reuse(plan), plan.arena_bytes
    (8000, 6080)
    """
    own = [slot for i in plan.instructions for slot in (*(() if i.view else i.results), *i.scratch)]
    return sum(int(plan.slots[slot].aval.nbytes) for slot in own)


def compare(
    problems: Mapping[str, Problem],
    allocators: Mapping[str, Allocator],
    *,
    repeat: int = 1,
    seeds: Iterable[int] = (0,),
    most: Mapping[str, int] | None = None,
    check: Callable[[Problem, Sequence[int]], Any] = verify_offsets,
    conditions: Conditions = Conditions(),
) -> Comparison:
    """What each allocator makes of each problem.

    An allocator that raises, gives a wrong answer, or, where there is a limit, never ends or ends its process, has a
    trial that says so; the others go on.

    Parameters
    ----------
    problems, allocators
        By name.
    repeat
        How often each is asked: the median of the seconds is told.
    seeds
        An allocator with an attribute ``seed`` is asked once for each; the others once.
    most
        Buffers, by allocator: of larger problems it is not asked, and its trial says so.
    check
        Raises `PlanError` where offsets are wrong; by default the verifier of plans, which shares no code with any. It
        is called in this process, wherever the allocator was.
    conditions
        Limits of time and memory, and a file for the rows.

    Raises
    ------
    PlanError
        A limit or a seed is none.

    Examples
    --------
    >>> from nnc_func.engine.allocators import BestFit
    >>> def endless(problem):
    ...     while True: pass
    >>> three = {"three": Problem([64, 64, 64], [0, 1, 2], [2, 3, 4])}
    >>> asked = {"fit": BestFit(), "all at 0": lambda problem: [0] * len(problem), "endless": endless}
    >>> for trial in compare(three, asked, conditions=Conditions(limit=3.0)).trials:
    ...     print(trial.by, trial.value, trial.error or "is right")
    fit 128 is right
    all at 0 None buffers 0 and 1 overlap: bytes [0, 64) and [0, 64), both alive from step 1 on
    endless None it was not done after 3 s, and was killed
    """
    tasks = _tasks(problems, allocators, repeat, whole_seeds(seeds), most or {}, check)
    return Comparison("allocator", tuple(map(Trial.of, rows(tasks, conditions))))


def _tasks(
    problems: Mapping[str, Problem],
    allocators: Mapping[str, Allocator],
    repeat: int,
    seeds: tuple[int, ...],
    most: Mapping[str, int],
    check: Callable[[Problem, Sequence[int]], Any],
) -> Iterator[Task]:
    for name, problem in problems.items():
        content = digest(problem.to_json())
        bound = lower_bound(problem)
        known = {"count": len(problem), "bound": bound, "unit": bound}

        def judged(found: Any, problem: Problem = problem) -> dict[str, Any]:
            check(problem, found[ANSWER])
            return {"value": arena_size(problem, found[ANSWER]), **found}

        for of, allocator in allocators.items():
            too_many = len(problem) > most.get(of, len(problem))
            why = f"more than {most[of]:,} buffers" if too_many else ""
            for seed, asked in seeded(allocator, seeds):
                call = partial(_asked, asked, problem, repeat)
                yield Task(name, of, content, allocator, seed, repeat, call, judged, why, known)


def _asked(allocator: Allocator, problem: Problem, repeat: int) -> dict[str, Any]:
    seconds, offsets = timed(partial(answered, allocator, problem), repeat)
    return {"seconds": seconds, ANSWER: offsets}
