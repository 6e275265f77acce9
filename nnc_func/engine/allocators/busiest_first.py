"""Busiest step first: of the step at which the most bytes want a place yet, the largest buffer is placed.

Source: Glow (pytorch/glow, `lib/CodeGen/MemoryAllocator.cpp`, `allocateAll`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from nnc_func.engine.allocators.base import FEATURES
from nnc_func.engine.allocators.fitting import first_fit
from nnc_func.engine.allocators.greedy_by_breadth import sections
from nnc_func.engine.allocators.problem import Problem


@frozen
class BusiestFirst:
    """Each buffer lies at the lowest offset that is free; what it takes is no more counted at the steps of its life.

    Ties go to the earlier step, then to the longer life, then to the lower number. O(n²), in whole arrays.

    Examples
    --------
    >>> BusiestFirst()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        return first_fit(problem, _order(problem)) if len(problem) else []


def _order(problem: Problem) -> Iterator[int]:
    _, first, last, load = sections(problem)
    sizes, lives = problem.rounded.copy(), problem.upper - problem.lower
    for _ in range(int(np.count_nonzero(sizes))):
        busiest = int(load.argmax())
        there = np.flatnonzero((first <= busiest) & (last >= busiest) & (sizes > 0))
        i = int(there[np.lexsort((there, -lives[there], -sizes[there]))[0]])
        yield i
        load[first[i] : last[i] + 1] -= sizes[i]
        sizes[i] = 0
