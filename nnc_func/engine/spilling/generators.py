"""Problems to try policies on: drawn ones, and those of layers that are turned back."""

from __future__ import annotations

from random import Random

from nnc_func.engine.spilling.problem import SpillProblem


def layers(count: int, *, size: int = 1) -> SpillProblem:
    """A training step of layers: each result is read by the next layer, and by the gradient, in the reverse order.

    Examples
    --------
    >>> problem = layers(3)
    >>> problem.touches, problem.base.peak
    (((0, 1, 5), (1, 2, 4), (2, 3), (3, 4), (4, 5), (5,)), 4)
    """
    last = 2 * count - 1
    forward = [(i, i + 1, last - i) if i + 1 < last - i else (i, i + 1) for i in range(count)]
    back = [(i, i + 1) if i < last else (i,) for i in range(count, 2 * count)]
    return SpillProblem([size] * (2 * count), (*forward, *back), [0] * (2 * count))


def drawn(steps: int, values: int, seed: int, *, clean: float = 0.2, uses: int = 4) -> SpillProblem:
    """Values of drawn sizes and uses; some are in slow memory from the beginning, and some may be written over.

    Parameters
    ----------
    steps, values
        How many there are.
    seed
        Of the draws.
    clean
        The part of the values that slow memory has.
    uses
        The most steps that touch a value, besides the one that makes it.

    Examples
    --------
    >>> problem = drawn(12, 6, seed=1)
    >>> len(problem), len(problem.sizes), problem.base.peak > problem.least.peak
    (12, 6, True)
    """
    random = Random(seed)
    sizes = [random.choice((1, 2, 2, 3, 5, 8)) for _ in range(values)]
    touches = []
    for _ in range(values):
        first = random.randrange(steps)
        later = random.sample(range(first + 1, steps), min(steps - first - 1, random.randint(0, uses)))
        touches.append((first, *sorted(later)))
    overwrites: dict[int, list[tuple[int, list[int]]]] = {}
    for made, touched in enumerate(touches):
        homes = [v for v, others in enumerate(touches) if touched[0] in others[1:] and sizes[v] == sizes[made]]
        if homes and random.random() < 0.5:
            overwrites.setdefault(touched[0], []).append((made, homes))
    held = [v for v in range(values) if random.random() < clean]
    scratch = [random.choice((0, 0, 0, 2)) for _ in range(steps)]
    return SpillProblem(sizes, touches, scratch, overwrites, clean=held)
