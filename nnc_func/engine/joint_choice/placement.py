"""Where the blocks of runs lie: some in houses, by several greedy choices of which; the rest by an allocator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from nnc_func.engine.allocators.base import arena_size
from nnc_func.engine.allocators.exact.decision import minimise
from nnc_func.engine.allocators.placement.housing import lowest
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.joint_choice.choice import HOUSE, LIFE, Block, Choice, Run, blocks
from nnc_func.engine.joint_choice.problem import JointProblem

Place = Callable[[Problem], Sequence[int]]
DRAWN = 24  # choices of what houses have in them that are drawn, beside those by size and by life
MANY = 300  # blocks from which on none is drawn


def exactly(steps: int) -> Place:
    """Places buffers by exact search with so many steps."""
    return lambda problem: minimise(problem, steps=steps).offsets if len(problem) else ()


def placed(problem: JointProblem, runs: Sequence[Run], place: Place) -> tuple[int, Choice]:
    """Bytes of the arena, and the choice that runs make.

    Examples
    --------
    >>> from nnc_func.engine.orders.base import OrderProblem
    >>> tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]})
    >>> placed(JointProblem(tasks), [Run(0), Run(1)], exactly(100))[0]
    16
    """
    found = blocks(problem, runs)
    lies, homes = ({}, {}) if not problem.houses else _housed(found, len(runs) + 1)
    inside = [at for at in range(len(found)) if at not in homes]
    sizes, lower, upper = ([getattr(found[at], each) for at in inside] for each in ("size", "lower", "upper"))
    arena = Problem(sizes, lower, upper, 1)
    answer = [*map(int, place(arena))]
    lies.update(zip(inside, answer, strict=True))
    every = range(len(found))
    choice = Choice(tuple(runs), tuple([lies[at] for at in every]), tuple([homes.get(at, -1) for at in every]))
    return arena_size(arena, answer), choice


def _housed(found: Sequence[Block], end: int) -> tuple[dict[int, int], dict[int, int]]:
    """Offsets and houses of what lies in houses, and of these: of several choices the one that leaves least load."""
    draw = Random(0)
    ranks: list[Callable[[int], float]] = [
        lambda at: -found[at].size,
        lambda at: found[at].size,
        lambda at: found[at].lower - found[at].upper,
        lambda at: found[at].upper - found[at].lower,
        lambda at: -found[at].size * (found[at].upper - found[at].lower),
    ]
    for _ in range(DRAWN if len(found) < MANY else 0):
        drawn = [draw.random() for _ in found]
        ranks.append(drawn.__getitem__)
    return min((_let_in(found, end, rank) for rank in ranks), key=lambda each: each[0])[1:]


def _let_in(
    found: Sequence[Block], end: int, rank: Callable[[int], float]
) -> tuple[int, dict[int, int], dict[int, int]]:
    """Let blocks live in houses before these are used, where most bytes are alive: the load that is left."""
    load = [0] * (end + 1)
    for block in found:
        for t in range(block.lower, min(block.upper, end)) if block.kind != HOUSE else ():
            load[t] += block.size
    lies: dict[int, int] = {}
    homes: dict[int, int] = {}
    houses = [at for at, block in enumerate(found) if block.kind == HOUSE]
    houses.sort(key=lambda at: -found[at].size)
    for house in houses:
        lies[house], homes[house] = 0, found[house].first
    waiting = {at for at, block in enumerate(found) if block.kind == LIFE and block.may_be_housed}
    while waiting:
        peak = end - load[::-1].index(max(load))
        there = [at for at in waiting if found[at].lower <= peak < found[at].upper]
        there.sort(key=lambda at: (rank(at), at))
        for at in there:
            waiting.discard(at)
            block = found[at]
            if any(_enters(found, at, house, lies, homes) for house in houses):
                for t in range(block.lower, block.upper):
                    load[t] -= block.size
                break
        else:
            break
    return max(load), lies, homes


def _enters(found: Sequence[Block], at: int, house: int, lies: dict[int, int], homes: dict[int, int]) -> bool:
    """Let a block into a house, if there is room."""
    block, home = found[at], found[house]
    if block.size > home.size or block.upper > home.lower:
        return False
    taken = sorted(
        (lies[other], lies[other] + found[other].size)
        for other, of in homes.items()
        if of == home.first and other != house and found[other].lower < block.upper and block.lower < found[other].upper
    )
    offset = lowest(taken, block.size, 1)
    if offset + block.size > home.size:
        return False
    lies[at], homes[at] = offset, home.first
    return True
