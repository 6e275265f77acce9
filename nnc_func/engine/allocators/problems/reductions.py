"""Problems in fewer words: groups as one buffer, gaps as pieces, spaces one by one, for allocators that know less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve, frozen

from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import ALONE, FREE, Gap, Pieces

if TYPE_CHECKING:
    from nnc_func.engine.allocators.problems.problem import Problem


def cut(problem: Problem) -> Pieces:
    """What each buffer of a problem takes from time to time, its gaps taken out.

    Ends are rounded up to the granularity where all pieces start at multiples of it: nothing else fits in between.
    """
    gaps: dict[int, list[Gap]] = {}
    for gap in problem.gaps:
        gaps.setdefault(gap.buffer, []).append(gap)
    rows: list[tuple[int, int, int, int, int]] = []
    windows = [gap.window for gap in problem.gaps if gap.window is not None]
    step = 1 if any(low % problem.granularity for low, _ in windows) else problem.granularity
    sizes, lower, upper = (-(-problem.sizes // step) * step).tolist(), problem.lower.tolist(), problem.upper.tolist()
    for i in range(len(problem)):
        at = lower[i]
        for gap in sorted(gaps.get(i, ()), key=lambda g: g.lower):
            if at < gap.lower:
                rows.append((i, at, gap.lower, 0, sizes[i]))
            if gap.window is not None:
                rows.append((i, gap.lower, gap.upper, gap.window[0], -(-gap.window[1] // step) * step))
            at = gap.upper
        if at < upper[i]:
            rows.append((i, at, upper[i], 0, sizes[i]))
    return Pieces(*np.array(rows, np.int64).reshape(-1, 5).T)


@frozen(eq=False)
class Merged:
    """A problem without groups, and which of its buffers stands for each of the original one's."""

    problem: Problem
    stands_for: Integers


def merged(problem: Problem) -> Merged:
    """Each group as one buffer: as large as its largest, alive while one of them is, with windows where less is.

    Examples
    --------
    >>> from nnc_func.engine.allocators.problems.problem import Problem
    >>> found = merged(Problem([64, 128], [0, 4], [2, 6], groups=[7, 7]))
    >>> found.problem.sizes, found.problem.gaps
    (array([128]), (Gap(buffer=0, lower=0, upper=2, window=(0, 64)), Gap(buffer=0, lower=2, upper=4, window=None)))
    """
    if problem.groups is None:
        return Merged(problem, np.arange(len(problem)))
    members: dict[tuple[bool, int], list[int]] = {}
    for i, g in enumerate(problem.groups.tolist()):
        members.setdefault((g != ALONE, i if g == ALONE else g), []).append(i)
    stands_for = np.zeros(len(problem), np.int64)
    for new, old in enumerate(members.values()):
        stands_for[old] = new
    first = [old[0] for old in members.values()]
    found = problem.of(first)
    gaps: list[Gap] = []
    sizes, lower, upper = found.sizes.copy(), found.lower.copy(), found.upper.copy()
    pins = None if found.pins is None else found.pins.copy()
    alignments = None if isinstance(found.alignment, int) else found.alignment.copy()
    for new, old in enumerate(members.values()):
        sizes[new], lower[new], upper[new] = (
            problem.sizes[old].max(),
            problem.lower[old].min(),
            problem.upper[old].max(),
        )
        if pins is not None and problem.pins is not None:
            pins[new] = max((p for p in problem.pins[old].tolist() if p != FREE), default=FREE)
        if alignments is not None:
            alignments[new] = math.lcm(*problem.alignments[old].tolist())
        gaps += _gaps(new, [_pieces(problem, i) for i in old], int(sizes[new]))
    uses = problem.uses
    if uses is not None:
        before = [uses.before[old].min(axis=0) for old in members.values()]
        until = [uses.until[old].max(axis=0) for old in members.values()]
        shape = (len(members), -1) if members else uses.before.shape
        uses = evolve(uses, before=np.reshape(before, shape), until=np.reshape(until, shape))
    made = evolve(
        found,
        sizes=sizes,
        lower=lower,
        upper=upper,
        alignment=found.alignment if alignments is None else alignments,
        uses=uses,
        pins=pins,
        gaps=gaps,
        groups=None,
    )
    return Merged(made, stands_for)


def _pieces(problem: Problem, i: int) -> list[tuple[int, int, int, int]]:
    """What one buffer takes: (lower, upper, low, high)."""
    pieces = problem.pieces
    begin, end = np.searchsorted(pieces.buffer, (i, i + 1))
    columns = (pieces.lower, pieces.upper, pieces.low, pieces.high)
    return [tuple(c[k].item() for c in columns) for k in range(begin, end)]


def _gaps(buffer: int, members: Sequence[Sequence[tuple[int, int, int, int]]], size: int) -> list[Gap]:
    """Where of all members together less than the whole is alive."""
    rows = [row for member in members for row in member]
    times = sorted({t for row in rows for t in row[:2]})
    found: list[Gap] = []
    for lower, upper in pairwise(times):
        alive = [row for row in rows if row[0] <= lower and upper <= row[1] and row[2] < row[3]]
        window = (min(r[2] for r in alive), min(size, max(r[3] for r in alive))) if alive else None
        if window == (0, size):
            continue
        if found and found[-1].upper == lower and found[-1].window == window:
            found[-1] = evolve(found[-1], upper=upper)
        else:
            found.append(Gap(buffer, lower, upper, window))
    return found


def by_space(problem: Problem) -> list[tuple[Integers, Problem]]:
    """The problem of each space, without spaces, and the numbers of its buffers."""
    if problem.spaces is None:
        return [(np.arange(len(problem)), problem)]
    found = []
    for space in np.unique(problem.spaces):
        buffers = np.flatnonzero(problem.spaces == space)
        found.append((buffers, evolve(problem.of(buffers), spaces=None)))
    return found
