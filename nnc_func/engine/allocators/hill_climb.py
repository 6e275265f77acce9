"""Hill climbing over the order of first fit: what touches the top changes places with a neighbour.

Source: Apache TVM's unified static memory planner (apache/tvm, `src/tir/usmp/algo/hill_climb.cc`).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from nnc_func.engine.allocators.base import FEATURES, arena_size
from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.engine.allocators.problems.problem import Problem

STEPS = 500
WILLING = 50  # per cent: how likely a change for the worse is kept, times the share of bytes that it costs


@frozen
class HillClimb:
    """First fit by size, and then by changed orders, each one exchange away from the last one kept.

    A buffer that reaches the top, or one that is alive with it, changes places with one that is alive with that and
    stands before it. A smaller arena is kept; a larger one sometimes, the less so the longer it has gone on.

    Attributes
    ----------
    steps
        How many orders are tried at most.
    seed
        Of what is drawn.
    seconds
        Of processor time at most, but for the first order; None: as long as the steps take.

    Examples
    --------
    >>> HillClimb(steps=10)(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    steps: int = field(default=STEPS)
    seed: int = field(default=0)
    seconds: float | None = field(default=None)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        deadline = Deadline(self.seconds)
        order = np.lexsort((np.arange(len(problem)), problem.lower, -problem.sizes)).tolist()
        best = kept = first_fit(problem, order)
        least = size = arena_size(problem, best)
        random, bound = Random(self.seed), problem.max_load
        for attempt in range(1, self.steps + 1):
            if least == bound or not deadline.has_room():
                break
            changed = _exchanged(problem, order, kept, size, random)
            if changed is None:
                break
            offsets = first_fit(problem, changed)
            found = arena_size(problem, offsets)
            if found < least:
                best, least = offsets, found
            if found < size or random.random() * 100 < WILLING * (found - size) / found / attempt:
                order, kept, size = changed, offsets, found
        return best


def _exchanged(
    problem: Problem, order: list[int], offsets: Sequence[int], size: int, random: Random
) -> list[int] | None:
    """Another order; None where no buffer that reaches the top has another alive with it."""
    ends = np.asarray(offsets) + problem.rounded
    top = random.choice(np.flatnonzero(ends == size).tolist())
    position = {b: p for p, b in enumerate(order)}
    near = _others(problem, top)
    if not near:
        return None
    moved = random.choice([top, *near])
    others = [b for b in _others(problem, moved) if position[b] < position[moved]] or near
    other = random.choice(others)
    changed = list(order)
    changed[position[moved]], changed[position[other]] = other, moved
    return changed


def _others(problem: Problem, i: int) -> list[int]:
    return [j for j in np.flatnonzero(problem.conflicting(i)).tolist() if j != i]
