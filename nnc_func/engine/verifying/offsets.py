"""Whether offsets answer an allocation problem: no code is shared with any allocator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nnc_func.engine.allocators.problem import ALONE, FREE, Problem
from nnc_func.engine.verifying.sweep import meeting
from nnc_func.errors import PlanError

Rectangle = tuple[int, int, int, int, int]  # low, high, lower, upper, and the buffer


def verify_offsets(problem: Problem, offsets: Sequence[int] | Any) -> None:
    """Raise unless these offsets, in bytes, are a plan of the problem. O(n log n), but for streams: O(n²).

    Buffers of a group may lie over one another; of what is alive of them at a step, all between counts as taken.

    Raises
    ------
    PlanError
        What is wrong first: no integer zero or more, one a buffer; no multiple of the alignment; not where it is
        pinned; a group at two offsets; above the capacity; two buffers that overlap, with their bytes.

    Examples
    --------
    >>> problem = Problem([64, 64], [0, 1], [2, 3])
    >>> verify_offsets(problem, [0, 64])
    >>> verify_offsets(problem, [0, 0])
    Traceback (most recent call last):
    nnc_func.errors.PlanError: buffers 0 and 1 overlap: bytes [0, 64) and [0, 64), both alive from step 1 on
    """
    found = np.asarray(offsets)
    if found.shape != (len(problem),) or (len(problem) and found.dtype.kind not in "iu"):
        raise PlanError(f"wanted {len(problem)} integers, one offset a buffer, given {offsets!r:.60}")
    at = [*map(int, found.tolist())]
    _each(problem, at)
    spaces = [0] * len(problem) if problem.spaces is None else problem.spaces.tolist()
    by_space: dict[int, list[Rectangle]] = {}
    for rectangle in _rectangles(problem, at):
        by_space.setdefault(spaces[rectangle[4]], []).append(rectangle)
    for rectangles in by_space.values():
        hurt = meeting(*list(zip(*rectangles, strict=True))[:4])
        if hurt is not None:
            raise _overlap(problem, rectangles[hurt[0]], rectangles[hurt[1]])
        if problem.uses is not None:
            _side_by_side(problem, rectangles)


def _each(problem: Problem, offsets: Sequence[int]) -> None:
    """What is to be said of buffers one by one, and of groups."""
    alignment = problem.alignment
    steps = [alignment] * len(offsets) if isinstance(alignment, int) else alignment.tolist()
    sizes = problem.sizes.tolist()
    pins = [FREE] * len(offsets) if problem.pins is None else problem.pins.tolist()
    capacity = problem.capacity
    for i, (offset, step, size, pin) in enumerate(zip(offsets, steps, sizes, pins, strict=True)):
        if offset < 0 or offset % step:
            raise PlanError(f"buffer {problem.name(i)} is at offset {offset}; wanted a multiple of {step}, 0 or more")
        if pin not in (FREE, offset):
            raise PlanError(f"buffer {problem.name(i)} is at offset {offset}, but pinned at {pin}")
        if capacity is not None and offset + size > capacity:
            raise PlanError(f"buffer {problem.name(i)} takes [{offset}, {offset + size}) of {capacity} bytes")
    first: dict[int, int] = {}
    for i, group in enumerate(() if problem.groups is None else problem.groups.tolist()):
        other = first.setdefault(group, i)
        if group != ALONE and offsets[other] != offsets[i]:
            raise PlanError(
                f"buffers {problem.name(other)} and {problem.name(i)} are of group {group}, but at offsets "
                f"{offsets[other]} and {offsets[i]}"
            )


def _rectangles(problem: Problem, offsets: Sequence[int]) -> list[Rectangle]:
    """What is taken, gaps left out, each group as one."""
    columns = (problem.sizes.tolist(), problem.lower.tolist(), problem.upper.tolist())
    parts: dict[int, list[Rectangle]] = {}
    gaps: dict[int, list[Any]] = {}
    for gap in problem.gaps:
        gaps.setdefault(gap.buffer, []).append(gap)
    found: list[Rectangle] = []
    groups = None if problem.groups is None else problem.groups.tolist()
    for i, (size, lower, upper) in enumerate(zip(*columns, strict=True)):
        own = found if groups is None or groups[i] == ALONE else parts.setdefault(groups[i], [])
        at, begin = offsets[i], lower
        for gap in sorted(gaps.get(i, ()), key=lambda gap: gap.lower):
            own.append((at, at + size, begin, gap.lower, i))
            low, high = gap.window or (0, 0)
            own.append((at + low, at + high, gap.lower, gap.upper, i))
            begin = gap.upper
        own.append((at, at + size, begin, upper, i))
    for members in parts.values():
        found += _together(members)
    return [r for r in found if r[0] < r[1] and r[2] < r[3]]


def _together(members: Sequence[Rectangle]) -> list[Rectangle]:
    """From step to step all bytes between the lowest and the highest that are alive of a group."""
    found = []
    for lower, upper in pairwise(sorted({t for r in members for t in r[2:4]})):
        alive = [r for r in members if r[2] <= lower and upper <= r[3] and r[0] < r[1]]
        if alive:
            found.append((min(r[0] for r in alive), max(r[1] for r in alive), lower, upper, alive[0][4]))
    return found


def _side_by_side(problem: Problem, rectangles: Sequence[Rectangle]) -> None:
    """No two that may run at one time overlap, at whatever steps of one order they stand."""
    uses = problem.uses
    assert uses is not None
    low, high, _, _, buffer = np.array(rectangles, np.int64).T
    groups = np.arange(len(problem)) - len(problem) if problem.groups is None else problem.groups
    for n, (begin, end, _, _, i) in enumerate(rectangles):
        earlier = (uses.until[buffer] <= uses.before[i]).all(axis=1)
        later = (uses.until[i] <= uses.before[buffer]).all(axis=1)
        same = (buffer == i) | ((groups[buffer] == groups[i]) & (groups[i] != ALONE))
        hurt = (low < end) & (high > begin) & ~earlier & ~later & ~same
        if hurt.any():
            raise _overlap(problem, rectangles[n], rectangles[int(hurt.argmax())])


def _overlap(problem: Problem, one: Rectangle, other: Rectangle) -> PlanError:
    first, second = sorted((one, other), key=lambda r: r[4])
    when = max(one[2], other[2])
    alive = f"both alive from step {when} on" if when < min(one[3], other[3]) else "which may be alive at one time"
    return PlanError(
        f"buffers {problem.name(first[4])} and {problem.name(second[4])} overlap: "
        f"bytes [{first[0]}, {first[1]}) and [{second[0]}, {second[1]}), {alive}"
    )
