"""Boxing: small buffers of about one size and of about the same life are put into boxes, boxes into larger boxes.

Sources: Buchsbaum, Karloff, Kenyon, Reingold and Thorup, "OPT versus LOAD in dynamic storage allocation", SIAM Journal
on Computing 33(3), 2004; Lamprakos and others, "idealloc", arXiv:2504.04874, 2025, whose last step is a first fit in
the order of the boxes. Here one step boxes a whole class of sizes; the constants that make the proof go through, and
only pay for sizes that differ by thousands, are left out. It needs as few bytes as idealloc on two of three shared
traces in as many tries, and on the third, resnet50, in four times as many (docs/adr/0261).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from random import Random
from typing import ClassVar

import numpy as np
from attrs import field, frozen, validators

from nnc_func.engine.allocators.base import FEATURES, arena_size
from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.engine.allocators.problems.problem import Problem

EPSILON = 0.5
STEPS = 30


@frozen
class Boxing:
    """Classes of sizes from the smallest on: buffers alive at a chosen step are boxed by start and end, and so on.

    Of those alive at the step strips are cut by their starts, of ``1/ε²`` buffers, and these by their ends, into boxes
    of ``1/ε``. The others are before the step, or after it, and are boxed among themselves. A box is one buffer of the
    next class. The last boxes, of about one size, are coloured as intervals are, and taken apart again; what lies
    lower comes first in a first fit. Steps are drawn, so that each try differs; the smallest arena is kept, first fit
    by size and life among them.

    Attributes
    ----------
    epsilon
        What sizes of one class differ by, as a ratio less one.
    steps
        How often it is done at most.
    seed
        Of what is drawn.
    seconds
        Of processor time at most, but for the first fit by size; None: as long as the steps take.

    Examples
    --------
    >>> Boxing(steps=2)(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    epsilon: float = field(default=EPSILON, validator=[validators.gt(0.0), validators.le(1.0)])
    steps: int = field(default=STEPS, validator=validators.ge(0))
    seed: int = 0
    seconds: float | None = None

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        deadline = Deadline(self.seconds)
        order = np.lexsort((np.arange(len(problem)), problem.lower - problem.upper, -problem.sizes)).tolist()
        best = first_fit(problem, order)
        least, bound, random = arena_size(problem, best), problem.max_load, Random(self.seed)
        jobs = [
            _Box(size, low, up, number=i)
            for i, (size, low, up) in enumerate(
                zip(problem.rounded.tolist(), problem.lower.tolist(), problem.upper.tolist(), strict=True)
            )
            if size
        ]
        for _ in range(self.steps if jobs else 0):
            if least == bound or not deadline.has_room():
                break
            offsets = first_fit(problem, _in_order(self._boxed(jobs, random)))
            if (size := arena_size(problem, offsets)) < least:
                best, least = offsets, size
        return best

    def _boxed(self, jobs: Iterable[_Box], random: Random) -> list[_Box]:
        """Boxes of the largest class."""
        classes: dict[int, list[_Box]] = {}
        for job in jobs:
            classes.setdefault(self._class(job.size), []).append(job)
        while True:
            smallest = min(classes)
            boxes = classes.pop(smallest)
            if not classes:
                return boxes
            for box in _grouped(boxes, math.ceil(1 / self.epsilon), random):
                over = max(self._class(box.size), smallest + 1)
                classes.setdefault(min(over, max(classes)), []).append(box)

    def _class(self, size: int) -> int:
        return math.floor(math.log(size) / math.log1p(self.epsilon))


@frozen(eq=False)
class _Box:
    """A buffer, or several on top of each other."""

    size: int
    lower: int
    upper: int
    number: int = -1
    inside: tuple[_Box, ...] = ()


def _grouped(jobs: list[_Box], many: int, random: Random) -> list[_Box]:
    """Boxes of so many jobs, of about the same size."""
    found: list[_Box] = []
    waiting = [jobs]
    while waiting:
        part = waiting.pop()
        if not part:
            continue
        times = sorted({job.lower for job in part})
        step = times[random.randrange(len(times))]
        alive = sorted((j for j in part if j.lower <= step < j.upper), key=lambda j: j.lower)
        for strip in _cut(alive, many * many):
            for group in _cut(sorted(strip, key=lambda j: j.upper), many):
                lower, upper = min(j.lower for j in group), max(j.upper for j in group)
                found.append(_Box(sum(j.size for j in group), lower, upper, inside=tuple(group)))
        waiting += [j for j in part if j.upper <= step], [j for j in part if j.lower > step]
    return found


def _cut(jobs: Sequence[_Box], many: int) -> list[Sequence[_Box]]:
    return [jobs[i : i + many] for i in range(0, len(jobs), many)]


def _in_order(boxes: list[_Box]) -> list[int]:
    """The buffers in boxes, by where they lie if each box is in the first row that is free when it starts."""
    ends: list[int] = []  # of rows: when they are free again
    rows: list[tuple[int, _Box]] = []
    for box in sorted(boxes, key=lambda b: (b.lower, -b.size)):
        row = next((r for r, end in enumerate(ends) if end <= box.lower), len(ends))
        ends[row : row + 1] = [box.upper]
        rows.append((row, box))
    heights = [0] * len(ends)
    for row, box in rows:
        heights[row] = max(heights[row], box.size)
    bases = [sum(heights[:row]) for row in range(len(heights))]
    found: list[tuple[int, int, int]] = []
    waiting = [(bases[row], box) for row, box in rows]
    while waiting:
        at, box = waiting.pop()
        if box.number >= 0:
            found.append((at, -box.size, box.number))
        for each in box.inside:
            waiting.append((at, each))
            at += each.size
    return [number for *_, number in sorted(found)]
