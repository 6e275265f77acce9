"""Greedy by size: the largest buffer first, each into the tightest gap among those that it conflicts with.

Source: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, section 5. It needs to
know only which buffers conflict, so that it serves partial orders as it does lifetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import frozen

from nnc_func.engine.allocators.base import FEATURES, Problem
from nnc_func.engine.allocators.fitting import tightest_fit


@frozen
class GreedyBySize:
    """Each buffer takes the smallest gap that holds it, the largest buffers first; ties go to the lower offset.

    Buffers of one size go by the start of their lives, then by index. Deterministic; a few whole-array steps a buffer.

    Examples
    --------
    >>> GreedyBySize()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        return tightest_fit(problem, np.lexsort((problem.lower, -problem.rounded)).tolist())
