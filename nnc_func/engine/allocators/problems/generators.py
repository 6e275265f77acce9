"""Problems to measure allocators on, of a seed: two kinds whose optimum is known, five that are drawn.

`tiling` and `pinwheel` are cut out of one rectangle, so that a plan without any gap exists: the optimum is the
capacity, which is the max load at each step. Their idea is omnimalloc's, 2026.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np

from nnc_func.engine.allocators.problems.fields import Uses
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.errors import PlanError

LEAST = 1024  # bytes of a tile
Tile = tuple[int, int, int, int]  # lower, upper, low, high


def _at_least(count: int, least: int = 1, of: str = "buffers") -> None:
    if not isinstance(count, (int, np.integer)) or count < least:
        raise PlanError(f"wanted {least} {of} or more, given {count!r:.40}")


def tiling(count: int, seed: int = 0, capacity: int = 1 << 20, along: float = 0.5) -> Problem:
    """Tiles of a rectangle that is cut from edge to edge, again and again; with chance `along` at a number of bytes.

    Raises
    ------
    PlanError
        Less than one buffer, or a byte.

    Examples
    --------
    >>> problem = tiling(100)
    >>> len(problem), problem.max_load == problem.capacity
    (100, True)
    """
    _at_least(count)
    _at_least(capacity, of="bytes of capacity")
    draw, tiles = Random(seed), [(0, 8 * count, 0, capacity)]
    spent: list[Tile] = []
    while len(tiles) + len(spent) < count:
        lower, upper, low, high = tile = tiles.pop(draw.randrange(len(tiles)))
        thick, long = high - low >= 2 * LEAST, upper - lower >= 2
        if not thick and not long:
            spent.append(tile)
        elif thick and (not long or draw.random() < along):
            at = draw.randrange(low + LEAST, high - LEAST + 1)
            tiles += [(lower, upper, low, at), (lower, upper, at, high)]
        else:
            at = draw.randrange(lower + 1, upper)
            tiles += [(lower, at, low, high), (at, upper, low, high)]
    return _of(tiles + spent, capacity, draw)


def pinwheel(count: int, seed: int = 0, capacity: int = 1 << 20) -> Problem:
    """Tiles of a rectangle in which four blades are put round a centre, again and again: no cut goes through.

    Raises
    ------
    PlanError
        The number of buffers is not ``1 + 4 k``; or the rectangle has no room for so many.

    Examples
    --------
    >>> problem = pinwheel(101)
    >>> len(problem), problem.max_load == problem.capacity
    (101, True)
    """
    _at_least(count)
    if count % 4 != 1:
        raise PlanError(f"a pinwheel has 1 + 4 k tiles, given {count}; {count // 4 * 4 + 1} is near")
    draw, tiles = Random(seed), [(0, 8 * count, 0, capacity)]
    while len(tiles) < count:
        wide = [n for n, t in enumerate(tiles) if t[1] - t[0] >= 3 and t[3] - t[2] >= 3 * LEAST]
        if not wide:
            raise PlanError(f"{capacity} bytes cannot be cut into {count} tiles of {LEAST} bytes and a step each")
        lower, upper, low, high = tiles.pop(draw.choice(wide))
        first, second = sorted(draw.sample(range(lower + 1, upper), 2))
        under = draw.randrange(low + LEAST, high - 2 * LEAST + 1)
        over = draw.randrange(under + LEAST, high - LEAST + 1)
        tiles += [
            (lower, second, low, under),
            (second, upper, low, over),
            (first, upper, over, high),
            (lower, first, under, high),
            (first, second, under, over),
        ]
    return _of(tiles, capacity, draw)


def _of(tiles: list[Tile], capacity: int, draw: Random) -> Problem:
    draw.shuffle(tiles)
    lower, upper, low, high = np.array(tiles, np.int64).T
    return Problem(high - low, lower, upper, 1, capacity=capacity)


def uniform(count: int, seed: int = 0, live: int = 100) -> Problem:
    """Sizes and lives of uniform logarithms, starts of uniform times; about `live` of them are alive at a time.

    Raises
    ------
    PlanError
        Less than no buffers, or than one alive.

    Examples
    --------
    >>> len(uniform(1000))
    1000
    """
    _at_least(count, 0)
    _at_least(live, of="buffers alive")
    draw = np.random.default_rng(seed)
    lives = np.exp(draw.uniform(0, math.log(40 * live), count)).astype(np.int64) + 1
    lower = draw.integers(0, max(1, int(lives.sum()) // live), count)
    sizes = np.exp(draw.uniform(math.log(64), math.log(1 << 20), count)).astype(np.int64)
    return Problem(sizes, lower, lower + lives, 1)


def skewed(count: int, seed: int = 0, live: int = 100) -> Problem:
    """As `uniform`, with sizes by Pareto's law: a few of them have most of the bytes.

    Raises
    ------
    PlanError
        As `uniform` does.

    Examples
    --------
    >>> sizes = skewed(1000).sizes
    >>> bool(sizes.max() > 20 * sizes.mean())
    True
    """
    drawn = uniform(count, seed, live)
    heavy = np.random.default_rng(seed + 1).pareto(1.2, count)
    return Problem(np.minimum(64 * (1 + heavy), 2.0**40).astype(np.int64), drawn.lower, drawn.upper, 1)


def concurrent(count: int, seed: int = 0, streams: int = 2, meeting: float = 0.05) -> Problem:
    """Buffers of streams that run side by side, and wait for each other now and then.

    Where they do not, two buffers of one stream, and two of another, are in order by pairs only (2+2), so that no
    lifetimes in one order say what may share.

    Raises
    ------
    PlanError
        Less than no buffers, or than one stream.

    Examples
    --------
    >>> problem = concurrent(40, meeting=0.0)
    >>> problem.uses.apart(0)[[0, 1, 38, 39]]
    array([False, False,  True, False])
    """
    _at_least(count, 0)
    _at_least(streams, of="streams")
    draw = Random(seed)
    tasks = -(-count // streams)
    met = [0] * (tasks + 1)  # for each task of a stream how many of every other have surely run before it
    for t in range(1, tasks + 1):
        met[t] = t if draw.random() < meeting else met[t - 1]
    rows = []
    for n in range(count):
        stream, first = n % streams, n // streams
        last = min(tasks - 1, first + draw.randrange(4))
        before, until = [met[first]] * streams, [0] * streams
        before[stream], until[stream] = first, last + 1
        rows.append((64 << draw.randrange(8), first * streams + stream, last * streams + stream + 1, before, until))
    shape = (count, streams)
    uses = Uses(*(np.array([row[k] for row in rows], np.int64).reshape(shape) for k in (3, 4)))
    return Problem([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], 1, uses)


def lasting(count: int, seed: int = 0, exponent: float = 0.9) -> Problem:
    """Lives by Pareto's law: a few buffers live as long as all else. Sizes of uniform logarithms, any time to start.

    Raises
    ------
    PlanError
        Less than no buffers.

    Examples
    --------
    >>> problem = lasting(1000)
    >>> lives = problem.upper - problem.lower
    >>> bool(lives.max() > 20 * lives.mean())
    True
    """
    _at_least(count, 0)
    draw = np.random.default_rng(seed)
    lives = np.minimum(2 + 4 * draw.pareto(exponent, count), 2.0 * count).astype(np.int64)
    lower = draw.integers(0, max(1, 2 * count), count)
    sizes = np.exp(draw.uniform(math.log(64), math.log(1 << 20), count)).astype(np.int64)
    return Problem(sizes, lower, lower + lives, 1)


def waves(count: int, seed: int = 0) -> Problem:
    """Buffers of three sizes that start together, at one in sixteen steps, and die by chance.

    Raises
    ------
    PlanError
        Less than no buffers.

    Examples
    --------
    >>> sorted(set(waves(1000).sizes.tolist()))
    [512, 4096, 65536]
    """
    _at_least(count, 0)
    draw = np.random.default_rng(seed)
    lower = 16 * draw.integers(0, count // 8 + 1, count)
    return Problem(draw.choice([512, 4096, 65536], count), lower, lower + 1 + draw.geometric(1 / 40, count), 64)
