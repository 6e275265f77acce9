"""What an allocation problem may say: one clear error for each thing that it may not."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve

from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import ALONE, FREE, MOST_BYTES, Uses
from nnc_func.engine.allocators.problems.reductions import by_space, cut, merged
from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.allocators.problems.problem import Problem


def check_problem(problem: Problem) -> None:
    """Look at every field.

    Raises
    ------
    PlanError
        As `Problem` says.
    """
    _lengths(problem)
    _lives(problem)
    _alignment(problem)
    _bytes(problem)
    if problem.pins is not None:
        _pins(problem, problem.pins)
    if problem.groups is not None:
        _groups(problem, problem.groups)
    if problem.gaps:
        _gaps(problem)
    if problem.names and len(set(problem.names)) != len(problem):
        seen: set[str] = set()
        twice = next(n for n in problem.names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
        raise PlanError(f"two buffers are named {twice!r}: wanted one name a buffer")
    if problem.capacity is not None and problem.capacity < 0:
        raise PlanError(f"the capacity is {problem.capacity} bytes; wanted 0 or more")
    if problem.pins is not None and (problem.pins != FREE).any():
        _pins_apart(problem, problem.pins)


def _lengths(problem: Problem) -> None:
    sizes, lower, upper = len(problem.sizes), len(problem.lower), len(problem.upper)
    if not sizes == lower == upper:
        raise PlanError(f"{sizes} sizes, {lower} starts, {upper} ends: wanted as many")
    others: dict[str, Any] = {name: getattr(problem, name) for name in ("pins", "groups", "spaces")}
    others["alignments"] = None if isinstance(problem.alignment, int) else problem.alignment
    others["names"] = problem.names or None
    if problem.uses is not None:
        _uses(problem.uses)
        others["rows of uses"], others["rows of last uses"] = problem.uses.before, problem.uses.until
    for name, given in others.items():
        if given is not None and len(given) != sizes:
            raise PlanError(f"{sizes} sizes, but {len(given)} {name}: wanted as many")


def _uses(given: Any) -> None:
    if not isinstance(given, Uses) or given.before.ndim != 2 or given.before.shape[1:] != given.until.shape[1:]:
        shapes = f"shapes {given.before.shape} and {given.until.shape}" if isinstance(given, Uses) else f"{given!r:.60}"
        raise PlanError(f"wanted uses as Uses(before, until), a row a buffer and a column a stream, given {shapes}")


def _lives(problem: Problem) -> None:
    wrong = (problem.sizes < 0) | (problem.lower >= problem.upper)
    if wrong.any():
        i = int(wrong.argmax())
        size, low, up = int(problem.sizes[i]), int(problem.lower[i]), int(problem.upper[i])
        raise PlanError(
            f"buffer {problem.name(i)}: {size} bytes alive in [{low}, {up}); wanted size >= 0 and a lifetime of 1 step "
            "or more"
        )
    if len(problem) and max(abs(int(problem.lower.min())), abs(int(problem.upper.max()))) > 1 << 62:
        raise PlanError(f"steps are from {problem.lower.min()} to {problem.upper.max()}; wanted them within 2**62 of 0")


def _bytes(problem: Problem) -> None:
    """All bytes together, each buffer rounded up to what all offsets may have to be multiples of."""
    step = problem.alignment if isinstance(problem.alignment, int) else math.lcm(*problem.alignment.tolist())
    if problem.sizes.sum(dtype=np.float64) + step * len(problem) < 2.0**61:
        return
    total = sum(problem.sizes.tolist())
    if total + step * len(problem) > MOST_BYTES:
        raise PlanError(
            f"{total} bytes in all, in {len(problem)} buffers whose offsets are multiples of up to {step}: "
            "wanted less than 2**62 bytes, aligned"
        )


def _alignment(problem: Problem) -> None:
    if isinstance(problem.alignment, int):
        if problem.alignment < 1:
            raise PlanError(f"alignment is at least 1 byte, given {problem.alignment}")
    elif (problem.alignment < 1).any():
        i = int((problem.alignment < 1).argmax())
        raise PlanError(f"buffer {problem.name(i)}: alignment is at least 1 byte, given {problem.alignment[i]}")


def _pins(problem: Problem, pins: Integers) -> None:
    wrong = (pins < -1) | ((pins >= 0) & (pins % problem.alignments != 0)) | (pins > 1 << 62)
    if wrong.any():
        i = int(wrong.argmax())
        raise PlanError(
            f"buffer {problem.name(i)} is pinned at {pins[i]}; wanted a multiple of its alignment, "
            f"{problem.alignments[i]}, below 2**62, or {FREE} for a buffer that is free"
        )


def _pins_apart(problem: Problem, pins: Integers) -> None:
    """No two pinned buffers want the same bytes at one time, and none wants more than there are."""
    ends = pins + problem.sizes
    beyond = (pins != FREE) & (ends > (problem.capacity or 0))
    if problem.capacity is not None and beyond.any():
        i = int(beyond.argmax())
        raise PlanError(
            f"buffer {problem.name(i)} is pinned at {pins[i]} and ends at {ends[i]}: the capacity is "
            f"{problem.capacity} bytes"
        )
    for buffers, part in by_space(evolve(problem, pins=None, capacity=None)):
        reduced = merged(part)
        stands_for = reduced.stands_for
        wanted = np.full(len(reduced.problem), FREE, np.int64)
        np.maximum.at(wanted, stands_for, pins[buffers])
        found = _overlap_of_pins(reduced.problem, wanted)
        if found is None:
            continue
        one, other = (int(buffers[np.flatnonzero(stands_for == i)[0]]) for i in sorted(found))
        raise PlanError(
            f"buffers {problem.name(one)} and {problem.name(other)} are pinned at {pins[one]} and {pins[other]}, with "
            f"{problem.sizes[one]} and {problem.sizes[other]} bytes, and may be alive at one time: their pins "
            "contradict each other"
        )


def _overlap_of_pins(problem: Problem, pins: Integers) -> tuple[int, int] | None:
    """Two pinned buffers that overlap, of a problem without groups and spaces: a sweep through time."""
    pieces = cut(problem)
    low, high = pins[pieces.buffer] + pieces.low, pins[pieces.buffer] + pieces.high
    chosen = np.flatnonzero((pins[pieces.buffer] != FREE) & (low < high))
    if problem.uses is not None:
        for n in chosen.tolist():
            i = int(pieces.buffer[n])
            hurt = (low[chosen] < high[n]) & (high[chosen] > low[n]) & (pieces.buffer[chosen] != i)
            hurt &= ~problem.uses.apart(i)[pieces.buffer[chosen]]
            if hurt.any():
                return i, int(pieces.buffer[chosen[int(hurt.argmax())]])
    columns = (low, high, pieces.buffer, pieces.lower, pieces.upper)
    rows = [*zip(*(each[chosen].tolist() for each in columns), strict=True)]
    events = sorted([(row[3], 1, row[:3]) for row in rows] + [(row[4], 0, row[:3]) for row in rows])
    alive: list[tuple[int, int, int]] = []  # in the order of their offsets: none meets another
    for _, begins, row in events:
        at = bisect_left(alive, row)
        if not begins:
            del alive[at]
            continue
        for other in alive[max(at - 1, 0) : at + 1]:
            if other[0] < row[1] and row[0] < other[1]:
                return other[2], row[2]
        alive.insert(at, row)
    return None


def _groups(problem: Problem, groups: Integers) -> None:
    for name, values in (("pins", problem.pins), ("spaces", problem.spaces)):
        if values is None:
            continue
        said: dict[int, int] = {}  # group -> the first of its buffers that says something
        for i in np.flatnonzero(groups != ALONE).tolist():
            if name == "pins" and values[i] < 0:
                continue
            first = said.setdefault(int(groups[i]), i)
            if values[first] != values[i]:
                raise PlanError(
                    f"buffers {problem.name(first)} and {problem.name(i)} are of group {groups[i]}, but of different "
                    f"{name}, {values[first]} and {values[i]}: wanted the same"
                )


def _gaps(problem: Problem) -> None:
    count = len(problem)
    last: dict[int, int] = {}
    for gap in sorted(problem.gaps, key=lambda g: (g.buffer, g.lower, g.upper)):
        b = gap.buffer
        if not 0 <= b < count:
            raise PlanError(f"a gap of buffer {b}: there are {count} buffers, numbered from 0")
        low, up, size = int(problem.lower[b]), int(problem.upper[b]), int(problem.sizes[b])
        if not low <= gap.lower < gap.upper <= up:
            raise PlanError(
                f"buffer {problem.name(b)} is alive in [{low}, {up}), with a gap in [{gap.lower}, {gap.upper}): "
                "wanted gaps of a step or more within the life"
            )
        if gap.lower < last.get(b, low):
            raise PlanError(f"two gaps of buffer {problem.name(b)} overlap, at step {gap.lower}")
        last[b] = gap.upper
        if gap.window is not None and not 0 <= gap.window[0] < gap.window[1] <= size:
            raise PlanError(
                f"buffer {problem.name(b)} has {size} bytes, of which [{gap.window[0]}, {gap.window[1]}) are alive in "
                "a gap: wanted a part of them"
            )
