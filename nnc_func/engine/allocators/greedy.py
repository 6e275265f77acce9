"""Greedy allocators: buffers one after the other in an order, each into a place that a fit finds. A row for each.

Any order goes with any fit; those that were published are rows, and `ALLOCATORS` has them by name. An order
says its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from attrs import field, frozen, validators

from nnc_func.engine.allocators.base import FEATURES, Integers, Problem, arena_size
from nnc_func.engine.allocators.placement.fits import first_fit, tightest_fit

# --- orders -------------------------------------------------------------------------------------------------


def by_size(problem: Problem) -> list[int]:
    """The largest first; buffers of one size by the start of their lives, then by index.

    Source: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, section 5, with the
    best fit. It needs to know only which buffers conflict, so that it serves partial orders as it does lifetimes.

    Examples
    --------
    >>> by_size(Problem([64, 128, 64], [1, 1, 0], [2, 3, 4]))
    [1, 2, 0]
    """
    found: list[int] = np.lexsort((problem.lower, -problem.rounded)).tolist()
    return found


def _spatial(problem: Problem) -> list[int]:
    """The largest first, then the longest life, then the lowest number: XLA's heap simulator.

    Source: openxla/xla, `heap_simulator.cc`: `GlobalDecreasingSizeBestFitHeap` with this order, ``"temporal"`` and
    ``"spatio_temporal"``, and with both fits; the best of the six, `ChooseBestHeapAlgorithm`, is `ChooseBest`. Its
    colocations are a problem's groups, which are one buffer by the time they come here.
    """
    return _largest(problem.lower - problem.upper, -problem.sizes)


def _temporal(problem: Problem) -> list[int]:
    """The longest life first, then the largest, then the lowest number; source: as ``"spatial"``."""
    return _largest(-problem.sizes, problem.lower - problem.upper)


def _largest(*keys: Integers) -> list[int]:
    found: list[int] = np.lexsort((np.arange(len(keys[0])), *keys)).tolist()
    return found


def _spatio_temporal(problem: Problem) -> list[int]:
    """The largest product of size and lifetime first, which may exceed 64 bits; source: as ``"spatial"``."""
    areas = problem.areas
    return sorted(range(len(problem)), key=lambda i: (-areas[i], i))


def _breadth(problem: Problem) -> list[int]:
    """The steps at which the most is alive come first, and of each the largest buffer: greedy by breadth.

    Source: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, sections 4 and 5, and
    TensorFlow Lite's GPU delegate, with the best fit. Steps go by the bytes alive, the most first, then by time; the
    buffers of a step by size, the largest first, then by number. O(n log n).
    """
    times, first, last, load = sections(problem)
    rank = np.empty(len(times), np.int64)
    rank[np.lexsort((np.arange(len(times)), -load))] = np.arange(len(times))
    return _largest(-problem.sizes, _least(rank, first, last))


def _busiest(problem: Problem) -> Iterator[int]:
    """Of the step at which the most bytes want a place yet, the largest buffer: what has one is no more counted.

    Source: Glow (pytorch/glow, `lib/CodeGen/MemoryAllocator.cpp`, `allocateAll`), with the lowest fit. Ties go to the
    earlier step, then to the longer life, then to the lower number. O(n²), in whole arrays.
    """
    _, first, last, load = sections(problem)
    sizes, lives = problem.rounded.copy(), problem.upper - problem.lower
    for _ in range(int(np.count_nonzero(sizes))):
        busiest = int(load.argmax())
        there = np.flatnonzero((first <= busiest) & (last >= busiest) & (sizes > 0))
        i = int(there[np.lexsort((there, -lives[there], -sizes[there]))[0]])
        yield i
        load[first[i] : last[i] + 1] -= sizes[i]
        sizes[i] = 0


ORDERS: Mapping[str, Callable[[Problem], Iterable[int]]] = {
    "size": by_size,
    "spatial": _spatial,
    "temporal": _temporal,
    "spatio_temporal": _spatio_temporal,
    "breadth": _breadth,
    "busiest": _busiest,
}
FITS: Mapping[str, Callable[[Problem, Iterable[int]], list[int]]] = {"best": tightest_fit, "lowest": first_fit}


# --- allocators ---------------------------------------------------------------------------------------------


@frozen
class Greedy:
    """Buffers one after the other in an order, each into the smallest gap that holds it, or into the lowest.

    Attributes
    ----------
    order
        ``"size"``: the largest first, then by the start of life; ``"spatial"``: the largest first, then the longest
        life; ``"temporal"``: the longest life first, then the largest; ``"spatio_temporal"``: the largest product of
        both first; ``"breadth"``: the steps at which the most bytes are alive first, and of each the largest;
        ``"busiest"``: of the step at which the most bytes want a place yet, the largest. Ties go to the lower number.
    fit
        ``"best"``: the smallest gap that holds the buffer, of these the lowest; ``"lowest"``: the lowest gap.

    Raises
    ------
    ValueError
        There is no such order or fit.

    Examples
    --------
    >>> Greedy("temporal", "lowest")(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    order: str = field(validator=validators.in_(tuple(ORDERS)))
    fit: str = field(default="best", validator=validators.in_(tuple(FITS)))

    @property
    def __name__(self) -> str:  # as errors and tables name it
        return repr(self)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        return FITS[self.fit](problem, ORDERS[self.order](problem)) if len(problem) else []


BUSIEST_FIRST = Greedy("busiest", "lowest")
DECREASING = Greedy("spatial", "best")
GREEDY_BY_BREADTH = Greedy("breadth", "best")
GREEDY_BY_SIZE = Greedy("size", "best")
GreedyBySize = partial(Greedy, "size", "best")


@frozen
class ChooseBest:
    """The smallest arena of XLA's three orders, each with both fits; ties go to the first. See `DECREASING`.

    Examples
    --------
    >>> ChooseBest()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    handles: ClassVar[frozenset[str]] = frozenset(FEATURES)

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        found = [Greedy(order, fit)(problem) for fit in FITS for order in ("spatial", "temporal", "spatio_temporal")]
        return min(found, key=lambda offsets: arena_size(problem, offsets))


# --- time ---------------------------------------------------------------------------------------------------


def sections(problem: Problem) -> tuple[Integers, Integers, Integers, Integers]:
    """Time cut where a buffer starts: when each section begins, each buffer's first and last, and the bytes alive.

    Examples
    --------
    >>> sections(Problem([64, 128], [0, 5], [7, 9]))[1:]
    (array([0, 1]), array([1, 1]), array([ 64, 192]))
    """
    times = np.unique(problem.lower)
    first, after = np.searchsorted(times, problem.lower), np.searchsorted(times, problem.upper)
    change = np.zeros(len(times) + 1, np.int64)
    np.add.at(change, first, problem.rounded)
    np.subtract.at(change, after, problem.rounded)
    return times, first, after - 1, np.cumsum(change)[:-1]


def _least(values: Integers, first: Integers, last: Integers) -> Integers:
    """For each pair the least value from the first to the last, both included: by a sparse table."""
    table = [values]
    while 1 << len(table) <= len(values):
        half = 1 << (len(table) - 1)
        table.append(np.minimum(table[-1][:-half], table[-1][half:]))
    level = np.frexp(last - first + 1)[1] - 1
    found = np.empty(len(first), np.int64)
    for k in np.unique(level):
        those = level == k
        found[those] = np.minimum(table[k][first[those]], table[k][last[those] - (1 << int(k)) + 1])
    return found
