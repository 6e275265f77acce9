"""The largest first, by bytes, by lifetime or by both: XLA's heap simulator, and the best of its six.

Source: openxla/xla, `heap_simulator.cc`: `GlobalDecreasingSizeBestFitHeap` with its three orders and two fits, and
`ChooseBestHeapAlgorithm`. Its colocations are a problem's groups, which are one buffer by the time they come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from attrs import field, frozen, validators

from nnc_func.engine.allocators.base import FEATURES, arena_size
from nnc_func.engine.allocators.fitting import first_fit, tightest_fit
from nnc_func.engine.allocators.problem import Problem

ORDERS = ("spatial", "temporal", "spatio_temporal")
FITS = {"best": tightest_fit, "lowest": first_fit}


@frozen
class Decreasing:
    """Buffers one after the other, each into the smallest gap that holds it, or into the lowest.

    Attributes
    ----------
    by
        ``"spatial"``: by size, then by lifetime; ``"temporal"``: by lifetime, then by size; ``"spatio_temporal"``: by
        the product, which may exceed 64 bits. The largest first; ties go to the lower number.
    fit
        ``"best"``: the smallest gap, of these the lowest; ``"lowest"``.

    Examples
    --------
    >>> Decreasing()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    by: str = field(default="spatial", validator=validators.in_(ORDERS))
    fit: str = field(default="best", validator=validators.in_(tuple(FITS)))

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        lives = problem.upper - problem.lower
        if self.by == "spatio_temporal":
            areas = problem.areas
            order = sorted(range(len(problem)), key=lambda i: (-areas[i], i))
        else:
            keys = (-lives, -problem.sizes) if self.by == "spatial" else (-problem.sizes, -lives)
            order = np.lexsort((np.arange(len(problem)), *keys)).tolist()
        return FITS[self.fit](problem, order)


@frozen
class ChooseBest:
    """The smallest arena of the three orders, each with both fits; ties go to the first.

    Examples
    --------
    >>> ChooseBest()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        found = [Decreasing(by, fit)(problem) for fit in FITS for by in ORDERS]
        return min(found, key=lambda offsets: arena_size(problem, offsets))
