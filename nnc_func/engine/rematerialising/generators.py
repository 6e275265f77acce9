"""Problems to try strategies on: chains, training steps of layers, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from nnc_func.engine.rematerialising.problem import RematerialisationProblem


def chain(steps: int, *, size: int = 1) -> RematerialisationProblem:
    """Griewank's: a state from the one before, and each step turned back with the state that it started from.

    The first state is given; the others cost 1 each, and may be written over the one before. Turning back is free, and
    needs no memory. So a budget of c + 1 states is that of c checkpoints.

    Examples
    --------
    >>> chain(3).needs
    [(), (0,), (1,), (2,), (1, 3), (0, 4)]
    """
    needs: list[tuple[int, ...]] = [(), *((i,) for i in range(steps - 1))]
    for i in range(steps):
        needs.append((steps - 1 - i, *((steps + i - 1,) if i else ())))
    sizes = [size] * steps + [0] * steps
    costs = [0] + [1] * (steps - 1) + [0] * steps
    overwrites = {i: (i - 1,) for i in range(1, steps)}
    return RematerialisationProblem(needs, sizes, costs, overwrites=overwrites, once=frozenset({0}))


def layers(count: int, *, size: int = 1, skips: int = 0) -> RematerialisationProblem:
    """A training step of layers: of each its result, and a gradient that costs twice as much and reads its operand.

    With `skips` every layer also reads the result of the one so many layers before.

    Examples
    --------
    >>> layers(2).needs, layers(2).costs
    ([(), (0,), (0, 1), (0, 2)], [1, 1, 2, 2])
    """
    needs: list[tuple[int, ...]] = []
    for i in range(count):
        needs.append((*((i - 1,) if i else ()), *((i - skips,) if skips > 1 and i >= skips else ())))
    for i in range(count):
        layer, before = count - 1 - i, count + i - 1
        needs.append(tuple(dict.fromkeys((*(needs[layer] or (layer,)), before))))
    return RematerialisationProblem(needs, [size] * (2 * count), [1] * count + [2] * count)


def random_problem(seed: int, count: int = 20) -> RematerialisationProblem:
    """Tasks that need up to three earlier ones, most of them near, some far behind.

    Examples
    --------
    >>> len(random_problem(0, 8))
    8
    """
    draw = Random(seed)
    needs: list[tuple[int, ...]] = []
    for task in range(count):
        near = [draw.randrange(max(0, task - 3), task) for _ in range(draw.randrange(3)) if task]
        far = [draw.randrange(task)] if task and draw.random() < 0.4 else []
        needs.append(tuple(dict.fromkeys(near + far)))
    sizes = [draw.choice([0, 1, 8, 8, 64, 100]) for _ in range(count)]
    costs = [draw.choice([0, 1, 1, 2, 10]) for _ in range(count)]
    overwrites = {t: n[:1] for t, n in enumerate(needs) if n and draw.random() < 0.5}
    some = [frozenset(t for t in range(count) if draw.random() < 0.1) for _ in range(2)]
    scratch = [draw.choice([0, 0, 16]) for _ in range(count)]
    return RematerialisationProblem(needs, sizes, costs, scratch, overwrites, *some)


# By name: of a number of steps, of layers, of tasks of a seed.
GENERATORS: Mapping[str, Callable[[int, int], RematerialisationProblem]] = {
    "chain": lambda count, seed: chain(count),
    "layers": lambda count, seed: layers(count),
    "random": lambda count, seed: random_problem(seed, count),
}
