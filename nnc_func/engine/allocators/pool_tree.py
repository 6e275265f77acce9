"""Pool tree: places divided in time and in space, as a tree that buffers descend.

Source: PyTorch Inductor (pytorch/pytorch, `torch/_inductor/codegen/memory_planning.py`), which keeps trees since its
sizes may be symbols.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field, frozen

from nnc_func.engine.allocators.problems.problem import Problem


@frozen
class PoolTree:
    """Buffers, the largest first, of one size the one that lives longest, then the one with the lowest number.

    One descends to the first place where at most one part is alive with it, and which holds it; where it is smaller
    than the place, the rest becomes a place beside it. Where there is none, the pool grows at its end. O(n²).

    Examples
    --------
    >>> PoolTree()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    [128, 0, 128]
    """

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        sizes, lower, upper = problem.rounded.tolist(), problem.lower.tolist(), problem.upper.tolist()
        order = np.lexsort((np.arange(len(problem)), problem.lower - problem.upper, -problem.rounded)).tolist()
        offsets = [0] * len(sizes)
        top: _Split | None = None
        for i in (i for i in order if sizes[i]):
            buffer = _Part(i, sizes[i], [(lower[i], upper[i])])
            if top is None:
                top = _Split(sizes[i], [*buffer.lives], [buffer])
            elif not _descended(top, buffer):
                beside = _Split(buffer.size, [*buffer.lives], [buffer])
                both = _Beside(top.size + buffer.size, [*top.lives, *buffer.lives], top, beside)
                top = _Split(both.size, [*both.lives], [both])
        waiting: list[tuple[_Part | _Beside | _Split, int]] = [] if top is None else [(top, 0)]
        while waiting:
            node, at = waiting.pop()
            if isinstance(node, _Part):
                offsets[node.number] = at
            elif isinstance(node, _Beside):
                waiting += (node.left, at), (node.right, at + node.left.size)
            else:
                waiting += [(part, at) for part in node.parts]
        return offsets


@define(eq=False)
class _Part:
    """A buffer."""

    number: int
    size: int
    lives: list[tuple[int, int]]


@define(eq=False)
class _Beside:
    """Two places beside each other; lives are of all that is in them."""

    size: int
    lives: list[tuple[int, int]]
    left: _Split
    right: _Split


@define(eq=False)
class _Split:
    """A place whose parts are never alive together."""

    size: int
    lives: list[tuple[int, int]] = field(factory=list)
    parts: list[_Part | _Beside] = field(factory=list)


def _descended(top: _Split, buffer: _Part) -> bool:
    """Put a buffer somewhere below, if there is room."""
    ((lower, upper),) = buffer.lives
    waiting: list[tuple[_Split | _Beside, ...]] = [(top,)]  # paths
    while waiting:
        path = waiting.pop()
        split = path[-1]
        assert isinstance(split, _Split)
        if buffer.size > split.size:
            continue
        met = [p for p in split.parts if any(low < upper and lower < up for low, up in p.lives)]
        if not met:
            split.parts.append(_filling(buffer, split.size))
            for node in path:
                node.lives.append((lower, upper))
            return True
        if len(met) == 1 and isinstance(met[0], _Beside):
            waiting += (*path, met[0], met[0].right), (*path, met[0], met[0].left)
    return False


def _filling(buffer: _Part, size: int) -> _Part | _Beside:
    if buffer.size == size:
        return buffer
    left = _Split(buffer.size, [*buffer.lives], [buffer])
    return _Beside(size, [*buffer.lives], left, _Split(size - buffer.size))
