"""An allocator of one's own: sizes and lifetimes in, offsets out, tried on the training step of a real network."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.allocators import NoReuse, Problem


def largest_first(problem: Problem) -> list[int]:
    """Each buffer, the largest first, at the lowest offset that no buffer of overlapping lifetime takes."""
    sizes, offsets = problem.rounded, [0] * len(problem)
    placed: list[int] = []
    for i in sorted(range(len(problem)), key=lambda i: (-sizes[i], i)):
        alive = [j for j in placed if problem.lower[j] < problem.upper[i] and problem.lower[i] < problem.upper[j]]
        at = 0
        for j in sorted(alive, key=lambda j: offsets[j]):
            if at + sizes[i] <= offsets[j]:
                break
            at = max(at, offsets[j] + sizes[j])
        offsets[i] = at
        placed.append(i)
    return offsets


def plan(stack: Any) -> Any:
    """The plan of a training step of a small convolutional network."""
    model = nn.Sequential(nn.Conv2D(16, 3, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Flatten(), nn.Dense(10))
    x, y = np.zeros((64, 28, 28, 1), "float32"), np.zeros(64, "int64")
    step = nn.Step(stack, model.init(0, x.shape), nn.softmax_cross_entropy, nn.Adam())
    return step.program(x, y).plan


def main() -> None:
    """Bytes of the arena under each allocator; every plan is verified by code that shares nothing with the planner."""
    lazy = nnc.lazy()
    for allocator in (NoReuse(), lazy.engine.allocator, largest_first):
        made = plan(lazy.swap(engine=lazy.engine.with_allocator(allocator)))
        made.verify()
        name = getattr(allocator, "__name__", type(allocator).__name__)
        print(f"{name:14} {made.arena_bytes:>12,} bytes, {made.arena_bytes / made.max_load:.3f} of the lower bound")


if __name__ == "__main__":
    main()
