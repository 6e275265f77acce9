"""Whether offsets answer an allocation problem: no code is shared with any allocator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.problems.fields import ALONE, FREE
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.verifying.arena_overlap import meeting
from nnc_func.errors import PlanError

FAR = 1 << 62  # bytes: more than any arena has
Numbers = NDArray[np.int64]
Row = tuple[int, int, int, int, int]  # low, high, lower, upper, and the buffer


@frozen(eq=False)
class Rectangles:
    """Bytes ``[low, high)`` that are taken in steps ``[lower, upper)``, and by which buffer."""

    low: Numbers
    high: Numbers
    lower: Numbers
    upper: Numbers
    buffer: Numbers

    def of(self, some: Any) -> Rectangles:
        """Some of them."""
        return Rectangles(self.low[some], self.high[some], self.lower[some], self.upper[some], self.buffer[some])

    def row(self, n: int) -> Row:
        """One of them."""
        low, high, lower, upper, buffer = (
            int(each[n]) for each in (self.low, self.high, self.lower, self.upper, self.buffer)
        )
        return low, high, lower, upper, buffer


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
    if len(found) and int(found.max()) >= FAR:
        i = int(found.argmax())
        raise PlanError(f"buffer {problem.name(i)} is at offset {found[i]}; wanted less than 2**62")
    at = found.astype(np.int64)
    _each(problem, at)
    _groups(problem, at)
    rectangles = _rectangles(problem, at)
    for one in _by_space(problem, rectangles):
        hurt = meeting(one.low, one.high, one.lower, one.upper)
        if hurt is not None:
            raise _overlap(problem, one.row(hurt[0]), one.row(hurt[1]))
        if problem.uses is not None:
            _side_by_side(problem, one)


def _each(problem: Problem, offsets: Numbers) -> None:
    """What is to be said of buffers one by one."""
    steps = problem.alignments
    wrong = (offsets < 0) | (offsets % steps != 0)
    if wrong.any():
        i = int(wrong.argmax())
        raise PlanError(
            f"buffer {problem.name(i)} is at offset {offsets[i]}; wanted a multiple of {steps[i]}, 0 or more"
        )
    if problem.pins is not None:
        wrong = (problem.pins != FREE) & (problem.pins != offsets)
        if wrong.any():
            i = int(wrong.argmax())
            raise PlanError(f"buffer {problem.name(i)} is at offset {offsets[i]}, but pinned at {problem.pins[i]}")
    if problem.capacity is not None and (offsets + problem.sizes > problem.capacity).any():
        i = int((offsets + problem.sizes).argmax())
        end = offsets[i] + problem.sizes[i]
        raise PlanError(f"buffer {problem.name(i)} takes [{offsets[i]}, {end}) of {problem.capacity} bytes")


def _groups(problem: Problem, offsets: Numbers) -> None:
    """Those of a group are at one offset."""
    first: dict[int, int] = {}
    for i, group in enumerate(() if problem.groups is None else problem.groups.tolist()):
        other = first.setdefault(group, i)
        if group != ALONE and offsets[other] != offsets[i]:
            raise PlanError(
                f"buffers {problem.name(other)} and {problem.name(i)} are of group {group}, but at offsets "
                f"{offsets[other]} and {offsets[i]}"
            )


def _rectangles(problem: Problem, offsets: Numbers) -> Rectangles:
    """What is taken, gaps left out, each group as one."""
    special = np.zeros(len(problem), np.bool_)
    special[[gap.buffer for gap in problem.gaps]] = True
    if problem.groups is not None:
        special |= problem.groups != ALONE
    rows = np.array(_rows(problem, offsets, np.flatnonzero(special).tolist()), np.int64).reshape(-1, 5).T
    plain = np.flatnonzero(~special & (problem.sizes > 0))
    low = offsets[plain]
    columns = (low, low + problem.sizes[plain], problem.lower[plain], problem.upper[plain], plain)
    return Rectangles(*(np.concatenate(pair) for pair in zip(columns, rows, strict=True)))


def _rows(problem: Problem, offsets: Numbers, buffers: Sequence[int]) -> list[Row]:
    """The same of buffers that have gaps, or are of groups."""
    gaps: dict[int, list[Any]] = {}
    for gap in problem.gaps:
        gaps.setdefault(gap.buffer, []).append(gap)
    parts: dict[int, list[Row]] = {}
    found: list[Row] = []
    for i in buffers:
        group = ALONE if problem.groups is None else int(problem.groups[i])
        own = found if group == ALONE else parts.setdefault(group, [])
        at, size, begin = int(offsets[i]), int(problem.sizes[i]), int(problem.lower[i])
        for gap in sorted(gaps.get(i, ()), key=lambda gap: gap.lower):
            own.append((at, at + size, begin, gap.lower, i))
            low, high = gap.window or (0, 0)
            own.append((at + low, at + high, gap.lower, gap.upper, i))
            begin = gap.upper
        own.append((at, at + size, begin, int(problem.upper[i]), i))
    for members in parts.values():
        found += _together(members)
    return [r for r in found if r[0] < r[1] and r[2] < r[3]]


def _by_space(problem: Problem, rectangles: Rectangles) -> Iterator[Rectangles]:
    if problem.spaces is None:
        yield rectangles
        return
    spaces = problem.spaces[rectangles.buffer]
    for space in np.unique(spaces):
        yield rectangles.of(spaces == space)


def _together(members: Sequence[Row]) -> list[Row]:
    """From step to step all bytes between the lowest and the highest that are alive of a group."""
    found = []
    for lower, upper in pairwise(sorted({t for r in members for t in r[2:4]})):
        alive = [r for r in members if r[2] <= lower and upper <= r[3] and r[0] < r[1]]
        if alive:
            found.append((min(r[0] for r in alive), max(r[1] for r in alive), lower, upper, alive[0][4]))
    return found


def _side_by_side(problem: Problem, rectangles: Rectangles) -> None:
    """No two that may run at one time overlap, at whatever steps of one order they stand."""
    uses = problem.uses
    assert uses is not None
    low, high, buffer = rectangles.low, rectangles.high, rectangles.buffer
    groups = np.arange(len(problem)) - len(problem) if problem.groups is None else problem.groups
    for n, i in enumerate(buffer.tolist()):
        earlier = (uses.until[buffer] <= uses.before[i]).all(axis=1)
        later = (uses.until[i] <= uses.before[buffer]).all(axis=1)
        same = (buffer == i) | ((groups[buffer] == groups[i]) & (groups[i] != ALONE))
        hurt = (low < high[n]) & (high > low[n]) & ~earlier & ~later & ~same
        if hurt.any():
            raise _overlap(problem, rectangles.row(n), rectangles.row(int(hurt.argmax())))


def _overlap(problem: Problem, one: Row, other: Row) -> PlanError:
    first, second = sorted((one, other), key=lambda r: r[4])
    when = max(one[2], other[2])
    alive = f"both alive from step {when} on" if when < min(one[3], other[3]) else "which may be alive at one time"
    return PlanError(
        f"buffers {problem.name(first[4])} and {problem.name(second[4])} overlap: "
        f"bytes [{first[0]}, {first[1]}) and [{second[0]}, {second[1]}), {alive}"
    )
