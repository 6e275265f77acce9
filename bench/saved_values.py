"""What a limit of saved values costs: a chain of 100 layers and ResNet-50, define by run, within parts of their memory.

Each step is forward, backward and update. Its time is the least processor time of several steps, variants in turn, of
which the first has no limit; the first two steps of each are not counted. Told are the bytes that are saved, the most
at a time, as the stack counts them; the same with the arena of the backward program; and what the whole step takes
beyond weights and batch, as it is measured: both, gradients and new weights. The bar: within half of what is saved
without a limit at most 1.5 times the time.

python bench/saved_values.py [--smallest] [--rounds 3] [--batch 2]: prints a table, writes
bench/results/saved_values.json.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import options, pinned, report

import nnc_func as nnc
from nnc_func import models
from nnc_func.models.losses import scored
from nnc_func.nn.modules import Context, partition

PARTS = (None, 0.5, 0.1)  # of what is saved without a limit
RATE = 1e-3
BAR = 1.5


class Training:
    """A network in training on a stack: `step()` goes on by one step.

    Attributes
    ----------
    saved
        The most bytes of saved values, as the stack counts them.
    """

    weights: list[Any]

    def __init__(self, limit: int | None) -> None:
        self.stack = nnc.dynamic(memory_limit=limit)
        self.saved = 0

    def loss(self) -> Any:
        """Forward."""
        raise NotImplementedError

    def step(self) -> None:
        """Forward, backward, update."""
        stack, loss = self.stack, self.loss()
        cache = stack.engine.cache
        self.saved = max(self.saved, stack.live.bytes if cache is None else cache.most)
        with stack.no_grad():
            gradients = stack.gradients([loss], self.weights)
        self.weights = [w - RATE * g for w, g in zip(self.weights, gradients, strict=True)]


class Chain(Training):
    """Layers of one width, each a product and a hyperbolic tangent."""

    def __init__(self, limit: int | None, given: Any) -> None:
        super().__init__(limit)
        layers, batch, width = (6, 8, 4) if given.smallest else (100, 512, 256)
        rng = np.random.default_rng(0)
        self.weights = [
            +self.stack.variable(f"w{n}", rng.normal(size=(width, width)).astype("float32") / width**0.5)
            for n in range(layers)
        ]
        self.batch = self.stack.asarray(rng.normal(size=(batch, width)).astype("float32"))

    def loss(self) -> Any:
        """The mean square of the last layer."""
        x = self.batch
        for w in self.weights:
            x = self.stack.ops.tanh(x @ w)
        return (x * x).mean()


class ResNet(Training):
    """ResNet-50 of the zoo, in training: means and variances are the batch's."""

    def __init__(self, limit: int | None, given: Any) -> None:
        super().__init__(limit)
        model = models.get("resnet-50")
        if given.smallest:
            model = model.reduced()
        weights, rest, self.merge = partition(model.network(0))
        self.weights = [+self.stack.variable(f"w{n}", each) for n, each in enumerate(weights)]
        self.rest = [*map(self.stack.asarray, rest)]
        rng, batch = np.random.default_rng(0), 2 if given.smallest else given.batch
        self.images = self.stack.asarray(rng.normal(size=(batch, *model.shape)).astype("float32"))
        self.classes = self.stack.asarray(rng.integers(model.classes, size=batch))

    def loss(self) -> Any:
        """Mean cross-entropy."""
        model, context = self.merge(self.weights, self.rest), Context(True)
        found = scored(model(self.images, context), self.classes)
        self.rest = [each.detach() for each in partition(context.updated(model))[1]]
        return found


def peak(make: Callable[[int | None, Any], Training], limit: int | None, given: Any) -> int:
    """Bytes that a step takes beyond what there is between steps, and what its programs keep for the next one."""
    gc.collect()
    tracemalloc.start()
    training = make(limit, given)
    training.step()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    training.step()
    found = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    engine = training.stack.engine
    return int(found + engine.arenas.nbytes + sum([pull.nbytes for pull in engine.pulls.values()]))


def measured(name: str, make: Callable[[int | None, Any], Training], given: Any, rounds: int) -> list[dict[str, Any]]:
    """A row for each part of what is saved without a limit."""
    free = make(None, given)
    free.step()
    limits = [None if part is None else int(part * free.saved) for part in PARTS]
    variants = [free, *(make(limit, given) for limit in limits[1:])]
    for each in variants:
        for _ in range(2):
            each.step()
    times: list[list[float]] = [[] for _ in variants]
    for _ in range(rounds):
        for each, taken in zip(variants, times, strict=True):
            start = time.process_time()
            each.step()
            taken.append(time.process_time() - start)
    structures = [len(each.stack.engine.pulls) for each in variants]
    saved = [each.saved for each in variants]
    both = [each.saved + each.stack.engine.arenas.nbytes for each in variants]
    del variants, free, each
    peaks = [peak(make, limit, given) for limit in limits]
    return [
        {
            "network": name, "limit": "none" if part is None else part, "ms": 1e3 * min(taken),
            "times": min(taken) / min(times[0]), "bar": BAR if part == PARTS[1] else "",
            "saved MB": kept / 1e6, "of saved": kept / saved[0], "with arena MB": held / 1e6,
            "of both": held / both[0], "step MB": whole / 1e6, "of step": whole / peaks[0],
            "programs": programs,
        }
        for part, taken, kept, held, whole, programs in zip(
            PARTS, times, saved, both, peaks, structures, strict=True
        )
    ]  # fmt: skip


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    for name, default in (("rounds", 3), ("batch", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    rounds = 1 if given.smallest else given.rounds
    with pinned(1):
        rows = measured("100 layers", Chain, given, 4 * rounds) + measured("ResNet-50", ResNet, given, rounds)
    report("saved_values", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
