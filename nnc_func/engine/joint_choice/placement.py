"""Where the blocks of runs lie: exact search for the arena, after houses have taken in what lowers the load most."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc_func.engine.allocators.base import arena_size
from nnc_func.engine.allocators.exact.decision import minimise
from nnc_func.engine.allocators.placement.housing import borrowers
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.joint_choice.choice import HOUSE, Block, Choice, Run, blocks
from nnc_func.engine.joint_choice.problem import JointProblem

Place = Callable[[Problem], Sequence[int]]


def exactly(steps: int) -> Place:
    """Places buffers by exact search with so many steps."""
    return lambda problem: minimise(problem, steps=steps).offsets if len(problem) else ()


def placed(problem: JointProblem, runs: Sequence[Run], place: Place) -> tuple[int, Choice]:
    """Bytes of the arena, and the choice that runs make: houses take in what lowers the load, the rest is placed.

    Examples
    --------
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]})
    >>> placed(JointProblem(tasks), [Run(0), Run(1)], exactly(100))[0]
    16
    """
    found = blocks(problem, runs)
    offsets, homes = [0] * len(found), [-1] * len(found)
    for at, block in enumerate(found):
        if block.kind == HOUSE:
            homes[at] = block.first
    for at in sorted(range(len(found)), key=lambda i: (-found[i].size, i)):
        if found[at].kind == HOUSE:
            _let_in(found, at, offsets, homes)
    inside = [at for at, home in enumerate(homes) if home == -1]
    sizes, lower, upper = ([getattr(found[at], each) for at in inside] for each in ("size", "lower", "upper"))
    arena = Problem(sizes, lower, upper, 1)
    answer = [*map(int, place(arena))]
    for at, offset in zip(inside, answer, strict=True):
        offsets[at] = offset
    return arena_size(arena, answer), Choice(tuple(runs), tuple(offsets), tuple(homes))


def _let_in(found: Sequence[Block], house: int, offsets: list[int], homes: list[int]) -> None:
    """Let blocks live in a house before it is used, where that lowers the load."""
    inside = [at for at, home in enumerate(homes) if home == -1]
    free = [found[at] for at in inside]
    chosen = borrowers(
        [b.size if b.may_be_housed else 0 for b in free],
        [b.lower for b in free],
        [b.upper for b in free],
        found[house].size,
        found[house].lower,
        least=1,
    )
    for i, offset in chosen.items():
        offsets[inside[i]], homes[inside[i]] = offset, found[house].first
