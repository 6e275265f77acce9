"""Allocation problems with all that one may say, and a check of answers that looks at every pair and every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve
from hypothesis import strategies as st

from nnc_func.engine.allocators import ALLOCATORS, Allocator, Gap, Problem
from nnc_func.engine.allocators.problems.generators import concurrent

plain = st.builds(
    lambda rows, alignment: Problem([r[0] for r in rows], [r[1] for r in rows], [r[1] + r[2] for r in rows], alignment),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(1, 6)), max_size=24),
    st.sampled_from((1, 16, 64)),
)


@st.composite
def featured(draw: Any, most: int = 14) -> Problem:
    """With any of streams, gaps and windows, groups, spaces, alignments and pins; some plan answers each of them."""
    count = draw(st.integers(0, most))
    numbers = st.lists(st.integers(0, 300), min_size=count, max_size=count)
    sizes = draw(numbers)
    uses = None
    if draw(st.booleans()):
        made = concurrent(count, draw(st.integers(0, 999)), meeting=draw(st.sampled_from((0.0, 0.3, 1.0))))
        uses, lower, upper = made.uses, made.lower.tolist(), made.upper.tolist()
    else:
        lower = [n % 13 for n in draw(numbers)]
        upper = [low + 1 + n % 6 for low, n in zip(lower, draw(numbers), strict=True)]
    gaps = [gap for i in range(count) if draw(st.integers(0, 3)) == 0 for gap in draw(_gaps(i, lower, upper, sizes))]
    few = st.lists(st.integers(-1, 2), min_size=count, max_size=count)
    groups = draw(few) if draw(st.integers(0, 2)) == 0 else None
    key = [i if groups is None or groups[i] < 0 else -1 - groups[i] for i in range(count)]
    spaces = [draw(st.integers(0, 99)) * 7 % 2 + abs(k) % 2 for k in key] if draw(st.integers(0, 2)) == 0 else None
    if spaces is not None:
        spaces = [spaces[key.index(k)] for k in key]
    alignment: Any = draw(st.sampled_from((1, 16, 64)))
    if draw(st.integers(0, 3)) == 0:
        alignment = draw(st.lists(st.sampled_from((1, 2, 3, 16, 64)), min_size=count, max_size=count))
    pins = _pins(draw, key, sizes) if draw(st.integers(0, 2)) == 0 else None
    return Problem(sizes, lower, upper, alignment, uses, pins, gaps, groups, spaces)


@st.composite
def _gaps(draw: Any, i: int, lower: Sequence[int], upper: Sequence[int], sizes: Sequence[int]) -> list[Gap]:
    edges = sorted(draw(st.sets(st.integers(lower[i], upper[i]), max_size=4)))
    found = []
    for low, up in zip(edges[::2], edges[1::2], strict=False):
        bytes_ = sorted(draw(st.tuples(st.integers(0, sizes[i]), st.integers(0, sizes[i]))))
        found.append(Gap(i, low, up, (bytes_[0], bytes_[1]) if bytes_[0] < bytes_[1] else None))
    return found


def _pins(draw: Any, key: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Places one after the other, each as large as all buffers of its group and a multiple of any alignment."""
    room, at = {}, 0
    for k in dict.fromkeys(key):
        room[k] = at if draw(st.booleans()) else -1
        at += -(-max(s for s, other in zip(sizes, key, strict=True) if other == k) // 192) * 192 + 192
    return [room[k] for k in key]


def taken(problem: Problem, i: int, t: int) -> tuple[int, int]:
    """The bytes of buffer i that are alive at a step."""
    if not problem.lower[i] <= t < problem.upper[i]:
        return 0, 0
    for gap in problem.gaps:
        if gap.buffer == i and gap.lower <= t < gap.upper:
            return gap.window or (0, 0)
    return 0, int(problem.sizes[i])


def ordered(problem: Problem, i: int, j: int) -> bool:
    """Whether all uses of buffer i are surely over before those of buffer j begin."""
    assert problem.uses is not None
    return bool((problem.uses.until[i] <= problem.uses.before[j]).all())


def check(problem: Problem, offsets: Sequence[int]) -> None:
    """Look at every pair at every step: slow, and independent of how anybody allocates."""
    assert len(offsets) == len(problem)
    count, alignments = len(problem), np.broadcast_to(problem.alignment, len(problem))
    for i, offset in enumerate(offsets):
        assert offset >= 0
        assert offset % alignments[i] == 0
        assert problem.pins is None or problem.pins[i] in (-1, offset)
    steps = range(int(problem.lower.min()), int(problem.upper.max())) if count else range(0)
    bytes_ = [[taken(problem, i, t) for t in steps] for i in range(count)]
    offsets = [*map(int, offsets)]
    for i in range(count):
        for j in range(i):
            if problem.spaces is not None and problem.spaces[i] != problem.spaces[j]:
                continue
            if problem.groups is not None and problem.groups[i] == problem.groups[j] != -1:
                assert offsets[i] == offsets[j]
                continue
            pairs = set(zip(bytes_[i], bytes_[j], strict=True))
            if problem.uses is not None and not ordered(problem, i, j) and not ordered(problem, j, i):
                pairs = {(a, b) for a in bytes_[i] for b in bytes_[j]}
            for a, b in pairs:
                meet = max(offsets[i] + a[0], offsets[j] + b[0]) < min(offsets[i] + a[1], offsets[j] + b[1])
                assert not (meet and a[0] < a[1] and b[0] < b[1]), (i, j, a, b, offsets[i], offsets[j])


def hurried() -> dict[str, Allocator]:
    """All allocators; those that search do not search for long."""
    little: dict[str, dict[str, Any]] = {
        "boxing": {"steps": 2},
        "branch_and_bound": {"steps": 100},
        "hill_climb": {"steps": 8},
        "local_search": {"steps": 40},
        "peak_shaving": {"around": 3, "enough": 1.0},
    }
    return {name: evolve(a, **little.get(name, {})) for name, a in ALLOCATORS.items()}  # type: ignore[misc]
