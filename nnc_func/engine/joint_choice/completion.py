"""A sequence of tasks as runs: what is written over what follows, and the kernels are the best ones for it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from attrs import frozen

from nnc_func.engine.joint_choice.choice import Run
from nnc_func.engine.joint_choice.problem import JointProblem


@frozen(eq=False)
class Completed:
    """Runs, and what is alive in them.

    Attributes
    ----------
    runs
        With kernels, and what they make over what.
    loads
        Bytes of the arena that are alive while each lasts, if houses have in them as much as they can.
    cost
        Of all.
    """

    runs: tuple[Run, ...]
    loads: tuple[int, ...]
    cost: int

    @property
    def peak(self) -> int:
        """The most bytes alive at one time."""
        return max(self.loads, default=0)

    @property
    def rank(self) -> tuple[int, int]:
        """The peak, and how often there is as much."""
        return self.peak, self.loads.count(self.peak)


def completed(problem: JointProblem, sequence: Sequence[int], within: int | None = None) -> Completed | None:
    """The runs of a valid sequence, with the kernels that have the least peak within the limit; None: it costs more.

    With `within` bytes they are the cheapest ones whose peak is no higher, as far as there are such.

    Buffers that are over are written over where that may be; the first that is named first.

    Examples
    --------
    >>> from nnc_func.engine.joint_choice.problem import Alternative
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]})
    >>> slow = [Alternative((8,), 1), Alternative((), 2)]
    >>> completed(JointProblem(tasks, [slow, slow], limit=4), [0, 1]).loads
    (8, 8)
    >>> completed(JointProblem(tasks, [slow, slow], limit=3), [0, 1]).loads
    (16, 16)
    """
    over, loads = overwriting(problem, sequence)
    offers = problem.undominated
    most = _least_peak(problem, sequence, loads, offers)
    if most is None:
        return None
    most = most if within is None else max(most, within)
    kernels = [_cheapest(offers[task], most - load) for task, load in zip(sequence, loads, strict=True)]
    runs = tuple(Run(task, k, pairs) for task, k, pairs in zip(sequence, kernels, over, strict=True))
    chosen = [problem.offers[run.task][run.kernel] for run in runs]
    return Completed(
        runs,
        tuple([load + each.nbytes for load, each in zip(loads, chosen, strict=True)]),
        sum(each.cost for each in chosen),
    )


def overwriting(problem: JointProblem, sequence: Sequence[int]) -> tuple[list[tuple[tuple[int, int], ...]], list[int]]:
    """What each run makes over what, and the bytes of the arena that are alive without scratch."""
    tasks, again, sizes = problem.tasks, problem.again, problem.tasks.sizes
    of: dict[int, int] = {}  # buffer -> its life at the moment
    first: list[int] = []
    last: list[int] = []
    held: list[int] = []
    candidates: list[tuple[int, int, list[tuple[int, int]]]] = []  # run, what is made, over what and its life
    for at, task in enumerate(sequence):
        made = again.get(task, ())
        for buffer in tasks.uses[task]:
            if buffer in made or buffer not in of:
                of[buffer] = len(first)
                first.append(at)
                last.append(at)
                held.append(sizes[buffer])
            last[of[buffer]] = at
        for new, others in tasks.overwrites.get(task, ()):
            if sizes[new] and first[of[new]] == at:
                candidates.append((at, new, [(o, of[o]) for o in others if o in of]))
    for buffer in tasks.lasting:
        if buffer in of:
            last[of[buffer]] = len(sequence)
    over: list[list[tuple[int, int]]] = [[] for _ in sequence]
    change = [0] * (len(sequence) + 2)
    taken: set[int] = set()
    for at, new, lives in candidates:
        for other, life in lives:
            if last[life] == at and first[life] < at and life not in taken:
                taken.add(life)
                over[at].append((new, other))
                change[at] -= sizes[new]
                change[at + 1] += sizes[new]
                break
    for life, size in enumerate(held):
        change[first[life]] += size
        change[last[life] + 1] -= size
    loads = [*accumulate(change)][: len(sequence)]
    if problem.houses:
        loads = _without_housed(problem, sequence, loads)
    return [tuple(each) for each in over], loads


def _without_housed(problem: JointProblem, sequence: Sequence[int], loads: Sequence[int]) -> list[int]:
    """The loads without houses, and without what these may have in them before they are used, as far as it fits."""
    tasks = problem.tasks
    at: dict[int, list[int]] = {}
    for i, task in enumerate(sequence):
        for buffer in tasks.uses[task]:
            at.setdefault(buffer, []).append(i)
    begins = {house: at[house][0] for house in problem.houses if house in at}
    fits = [0] * (len(sequence) + 1)
    for buffer in problem.housed:
        if buffer in at and any(
            at[buffer][-1] < begins.get(h, 0) and buffer in b for h, b in problem.may_house.items()
        ):
            fits[at[buffer][0]] += tasks.sizes[buffer]
            fits[at[buffer][-1] + 1] -= tasks.sizes[buffer]
    used = [0] * (len(sequence) + 1)
    for house, begin in begins.items():
        used[begin] += tasks.sizes[house]
    rows = zip(loads, accumulate(fits), accumulate(used), strict=False)
    return [load - begun - min(fitting, problem.outside - begun) for load, fitting, begun in rows]


def _cheapest(offers: Sequence[tuple[int, int, int]], room: int) -> int:
    return next((number for nbytes, _, number in offers if nbytes <= room), offers[-1][2])


def _least_peak(
    problem: JointProblem, sequence: Sequence[int], loads: Sequence[int], offers: Sequence[list[tuple[int, int, int]]]
) -> int | None:
    """The least peak for which kernels are within the limit; None: there is none."""
    least = max((load + offers[task][-1][0] for task, load in zip(sequence, loads, strict=True)), default=0)
    if problem.limit is None:
        return least
    fixed, rows = 0, []
    peaks = {least}
    for task, load in zip(sequence, loads, strict=True):
        if len(offers[task]) == 1:
            fixed += offers[task][0][1]
        else:
            rows.append((load, offers[task]))
            peaks.update(load + nbytes for nbytes, _, _ in offers[task])
    ladder = sorted(peak for peak in peaks if peak >= least)

    def within(peak: int) -> bool:
        costs = (next(cost for nbytes, cost, _ in each if load + nbytes <= peak) for load, each in rows)
        return fixed + sum(costs) <= (problem.limit or 0)

    at = bisect_left(ladder, True, key=within)
    return ladder[at] if at < len(ladder) else None
