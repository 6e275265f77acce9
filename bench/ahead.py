"""Work formed ahead: an asynchronous dynamic stack beside the same one without, by wall time, in turn in one process.

- *waits*: the host sleeps while kernels go. Bar: 0.6 of the synchronous time.
- *Python*: pure Python beside kernels of 1 ms and more. Bar: 0.8.
- the rest gains nothing: chains of tiny and of middling operators, kernels that are looked at one by one, training
  steps. Bar: 1.05.
- 100,000 inspections from four threads: seconds, and that it ends.

BLAS has one thread, so that two cores are there for two threads. On a machine that others keep busy there is no second
core, and the first two bars tell nothing: two threads of bare NumPy say whether there is one. The load is printed with
each row, and beside the median ratio that of the least times, and of processor time, which is what is spent beyond.

python bench/ahead.py [--smallest]: prints a table, writes bench/results/ahead.json.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import options, pinned, report

import nnc_func as nnc

INSPECTIONS, THREADS = 100_000, 4


def asynchronous(**more: Any) -> Any:
    """The dynamic stack that forms work ahead."""
    return nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, **more))


@functools.cache
def busy(seconds: float) -> int:
    """How often a loop of pure Python goes in that time, with nobody beside it."""
    count = 20_000
    return int(count * seconds / least(lambda: counted(count)))


def counted(times: int) -> int:
    """Pure Python."""
    found = 0
    for n in range(times):
        found ^= n
    return found


def least(call: Callable[[], Any]) -> float:
    """The least seconds that it takes."""
    taken = []
    for _ in range(15):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


@functools.cache
def kernel(size: int) -> float:
    """The least seconds that a sine of so many elements takes: both stacks are given as much to do beside it."""
    x = np.linspace(0.0, 1.0, size)
    return least(lambda: np.sin(x))


def waiting(stack: Any, size: int, count: int) -> Callable[[], Any]:
    """So many kernels, then the host sleeps for as long, then looks."""
    x, seconds = stack.asarray(np.linspace(0.0, 1.0, size)), kernel(size)

    def run() -> None:
        y = x
        for _ in range(count):
            y = stack.ops.sin(y)
        time.sleep(count * seconds)
        y.numpy()

    return run


def multiplying(stack: Any, size: int, count: int) -> Callable[[], Any]:
    """As `waiting`, of products of square matrices, whose results are small beside what they take."""
    x = np.random.default_rng(0).normal(size=(size, size)) / size**0.5
    w, seconds = stack.asarray(x), least(lambda: x @ x)

    def run() -> None:
        y = w
        for _ in range(count):
            y = stack.ops.matmul(y, w)
        time.sleep(count * seconds)
        y.numpy()

    return run


def computing(stack: Any, size: int, count: int) -> Callable[[], Any]:
    """As often a kernel, and as much of pure Python."""
    x, times = stack.asarray(np.linspace(0.0, 1.0, size)), busy(kernel(size))

    def run() -> None:
        y = x
        for _ in range(count):
            y = stack.ops.sin(y)
            counted(times)
        y.numpy()

    return run


def beside_a_device(stack: Any, seconds: float, count: int) -> Callable[[], Any]:
    """As `computing`, of functions that take as long and need no processor, as on a device of their own."""
    x, times = stack.asarray(np.ones(4)), busy(seconds)

    def wait(array: Any) -> Any:
        time.sleep(seconds)
        return array

    def run() -> None:
        y = x
        for _ in range(count):
            (y,) = stack.ops.callback(y, function=wait, shapes=((4,),), dtypes=("float64",), pure=True)
            counted(times)
        y.numpy()

    return run


def side_by_side(size: int, count: int) -> dict[str, Any]:
    """Two threads of bare NumPy beside the same one after the other: whether there is a second core at all."""
    x = np.linspace(0.0, 1.0, size)

    def run() -> None:
        for _ in range(count):
            np.sin(x)

    def together() -> None:
        other = threading.Thread(target=run)
        other.start()
        run()
        other.join()

    def in_turn() -> None:
        run()
        run()

    found = {"what": "two threads of bare NumPy", "synchronous": 1e3 * least(in_turn), "ahead": 1e3 * least(together)}
    return {**found, "of the least": found["ahead"] / found["synchronous"], "load": os.getloadavg()[0]}


def looking(stack: Any, size: int, count: int) -> Callable[[], Any]:
    """Kernels one by one, each looked at."""
    x = stack.asarray(np.linspace(0.0, 1.0, size))
    apply = stack.ops.sin

    def run() -> None:
        y = x
        for _ in range(count):
            y = apply(y)
            y.value  # noqa: B018 - it is waited for

    return run


def chained(stack: Any, size: int, count: int) -> Callable[[], Any]:
    """Kernels one after another, the last one looked at."""
    x = stack.asarray(np.linspace(0.0, 1.0, size))

    def run() -> None:
        y = x
        for _ in range(count):
            y = stack.ops.sin(y)
        y.numpy()

    return run


def tiny(stack: Any, is_variable: bool, count: int) -> Callable[[], Any]:
    """Operators on four elements, recorded or not."""
    given = np.ones(4, "float32")
    x, constant = +stack.variable("x", given) if is_variable else stack.asarray(given), stack.asarray(given)

    def run() -> None:
        y = x
        for _ in range(count):
            y = y + constant
            y = y * 1.0
        y.numpy()

    return run


def after_large(stack: Any, size: int, count: int) -> Callable[[], Any]:
    """A kernel, and many operators on a number that is made of its result."""
    x = stack.asarray(np.linspace(0.0, 1.0, size))

    def run() -> None:
        y = stack.ops.sin(x).sum()
        for _ in range(count):
            y = y + 1.0
        y.numpy()

    return run


def step(stack: Any, sizes: tuple[int, ...], batch: int, looks: bool) -> Callable[[], Any]:
    """A training step of a perceptron, whose loss is looked at or not."""
    rng = np.random.default_rng(0)
    shapes = [*itertools.pairwise(sizes)]
    parameters = [+stack.variable("w", rng.normal(size=s).astype("float32") * 0.05) for s in shapes]
    images = stack.asarray(rng.normal(size=(batch, sizes[0])).astype("float32"))
    labels = stack.asarray(np.eye(sizes[-1], dtype="float32")[rng.integers(sizes[-1], size=batch)])

    def run() -> None:
        h = images
        for w in parameters[:-1]:
            h = stack.ops.relu(h @ w)
        loss = -(labels * stack.ops.log_softmax(h @ parameters[-1])).sum() / float(batch)
        with stack.no_grad():
            gradients = stack.gradients([loss], parameters)
        parameters[:] = [p - 0.01 * g for p, g in zip(parameters, gradients, strict=True)]
        if looks:
            loss.item()

    def steps() -> None:
        for _ in range(5):
            run()
        parameters[0].value  # noqa: B018 - it is waited for

    return steps


def inspections(count: int) -> dict[str, Any]:
    """From so many threads at a time, of values that all have formed ahead."""
    stack = asynchronous(ahead_from=0)
    shared = [stack.asarray(np.ones(4))]
    failed: list[BaseException] = []

    def run() -> None:
        try:
            mine = stack.asarray(np.ones(4))
            for n in range(count // THREADS):
                mine = mine * 0.5 + shared[0] * 0.5
                shared[0] = mine
                mine.value  # noqa: B018 - it is waited for
                if n % 50 == 0:
                    mine = stack.asarray(np.ones(4))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(THREADS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    taken = time.perf_counter() - start
    if failed or any(thread.is_alive() for thread in threads):
        raise SystemExit(f"inspections from {THREADS} threads: {failed or 'a deadlock'}")
    return {"what": f"{count} inspections, {THREADS} threads", "ahead": 1e3 * taken}


def compared(what: str, bar: float, rounds: int, make: Callable[..., Any], *given: Any) -> dict[str, Any]:
    """The same on both stacks, in turn: milliseconds by wall and by processor, and ratios."""
    calls = [make(nnc.dynamic(), *given), make(asynchronous(), *given)]
    for _ in range(3):
        for call in calls:
            call()
    wall: list[list[float]] = [[], []]
    spent: list[list[float]] = [[], []]
    for n in range(rounds):
        for i in (0, 1) if n % 2 else (1, 0):
            start, before = time.perf_counter(), time.process_time()
            calls[i]()
            wall[i].append(1e3 * (time.perf_counter() - start))
            spent[i].append(1e3 * (time.process_time() - before))
    return {
        "what": what,
        "synchronous": statistics.median(wall[0]),
        "ahead": statistics.median(wall[1]),
        "ratio": statistics.median([b / a for a, b in zip(*wall, strict=True)]),
        "of the least": min(wall[1]) / min(wall[0]),
        "processor": statistics.median([b / a for a, b in zip(*spent, strict=True)]),
        "bar": bar,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    rounds = 3 if given.smallest else 21
    few = 10 if given.smallest else 1
    interval = sys.getswitchinterval()
    gc.disable()
    rows = []
    with pinned(1):
        for what, bar, make, *rest in (
            ("the host waits, kernels of 1 ms", 0.6, waiting, 150_000, 5),
            ("the host waits, kernels of 10 ms", 0.6, waiting, 1_500_000, 2),
            ("the host waits, products", 0.6, multiplying, 512, 3),
            ("pure Python, kernels of 1 ms", 0.8, computing, 150_000, 5),
            ("pure Python, kernels of 5 ms", 0.8, computing, 750_000, 2),
            ("pure Python, functions of 5 ms that wait", 0.8, beside_a_device, 0.005, 4),
            ("tiny, recorded", 1.05, tiny, True, 3000 // few),
            ("tiny, constants", 1.05, tiny, False, 3000 // few),
            ("kernels of 0.1 ms, a chain", 1.05, chained, 15_000, 100 // few),
            ("kernels of 0.15 ms, a chain", 1.05, chained, 20_000, 100 // few),
            ("kernels of 0.1 ms, looked at", 1.05, looking, 15_000, 100 // few),
            ("kernels of 1 ms, looked at", 1.05, looking, 150_000, 10),
            ("kernels of 1 ms, a chain", 1.05, chained, 150_000, 10),
            ("tiny ones after a kernel of 10 ms", 1.05, after_large, 1_500_000, 3000 // few),
            ("steps 784-128-10", 1.05, step, (784, 128, 10), 32, False),
            ("steps 784-128-10, loss looked at", 1.05, step, (784, 128, 10), 32, True),
            ("steps 784-512-512-10", 1.05, step, (784, 512, 512, 10), 128, False),
        ):
            rows.append(compared(what, bar, rounds, make, *rest))
            gc.collect()
        rows.append(side_by_side(750_000, 1 if given.smallest else 5))
        rows.append(inspections(400 if given.smallest else INSPECTIONS))
    until = time.perf_counter() + 5
    while sys.getswitchinterval() < interval and time.perf_counter() < until:  # the worker finds its queue empty
        time.sleep(0.01)
    if sys.getswitchinterval() != interval:
        raise SystemExit(f"the switch interval was left at {sys.getswitchinterval()}")
    report("ahead", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
