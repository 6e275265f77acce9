"""Lazy against eager on the MNIST training step, and memory of it and of a forward pass: medians of alternating runs.

python bench/mnist_step.py [--rounds 15] [--smallest]: prints a table, writes bench/results/mnist_step.json. The
smallest size is a step of one image, and a pass of two convolutions.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import gc
import json
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import options, pinned, write

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.engine.allocators import NoReuse
from nnc_func.tree import mapped

THREADS = 2
BARS = {
    "step time, eager compiled / lazy": (">=", 1.3),
    "step peak, lazy / eager": ("<=", 0.7),
    "forward peak, lazy / eager compiled": ("<=", 1.0),
    "forward peak, lazy / eager immediate": ("<=", 1.0),
    "forward peak, lazy / no reuse": ("<=", 0.15),
}


def stacks() -> dict[str, Any]:
    """What is compared."""
    lazy = nnc.lazy()
    return {"eager": nnc.eager(), "lazy": lazy, "no reuse": lazy.swap(engine=lazy.engine.with_allocator(NoReuse()))}


# --- the training step -----------------------------------------------------------------------------------


def model(smallest: bool) -> models.Model:
    """The main job's model, or its reduced one."""
    found = models.get("mnist")
    return found.reduced() if smallest else found


def batch(smallest: bool = False) -> tuple[Any, Any]:
    """A hundred images like MNIST's digits, or one: mostly black, since what they show matters for nothing measured."""
    generator, count = np.random.default_rng(0), 1 if smallest else 100
    shape = (count, *model(smallest).shape)
    x = generator.random(shape, "float32") * (generator.random(shape) < 0.2)
    return x.astype("float32"), generator.integers(0, 10, count)


def network(smallest: bool = False) -> Any:
    """The main job's network, or the reduced one."""
    return model(smallest).network(seed=1)


def step_of(stack: Any, kind: Any = nn.Step, smallest: bool = False) -> Any:
    """The main job's training step."""
    return kind(
        stack, network(smallest), nn.softmax_cross_entropy, nn.Adagrad(epsilon=1e-7), metrics={"accuracy": nn.accuracy}
    )


def times(rounds: int, smallest: bool) -> dict[str, list[float]]:
    """Seconds of a step, of each kind in turn: A B C A B C."""
    eager, lazy = nnc.eager(), nnc.lazy()
    steps = {
        "eager, immediate": step_of(eager, nn.ImmediateStep, smallest),
        "eager, compiled": step_of(eager, smallest=smallest),
        "lazy": step_of(lazy, smallest=smallest),
    }
    x, y = batch(smallest)
    found: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(rounds + 2):
        for name, step in steps.items():
            start = time.perf_counter()
            step(x, y, 0.001)
            seconds = time.perf_counter() - start
            if i >= 2:  # the first rounds compile, and fill caches
                found[name].append(seconds)
    return found


# --- memory ----------------------------------------------------------------------------------------------


def peak(make: Callable[[], Callable[[], Any]]) -> int:
    """The most bytes that NumPy's arrays made by `make` and by calls of what it returns hold, in a call."""
    tracemalloc.start()
    call = make()
    result = call()
    result = call()  # from now on all calls allocate alike
    gc.collect()
    objects = sum(t.size for t in tracemalloc.take_snapshot().traces if t.domain != np.lib.tracemalloc_domain)
    gc.collect()
    tracemalloc.reset_peak()
    result = call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    return most - objects


def step_peak(stack: Any, smallest: bool) -> int:
    """Of a training step: parameters, slots, activations, gradients, scratch."""
    x, y = batch(smallest)

    def make() -> Callable[[], Any]:
        step = step_of(stack, smallest=smallest)
        return lambda: step(x, y, 0.001)

    return peak(make)


def forward_peak(stack: Any, depth: int, compiled: bool = True) -> int:
    """Of so many convolutional layers applied: what is beside the parameters and the images."""
    layers = [part for _ in range(depth) for part in (nn.Conv2D(16, 3, padding="SAME"), nn.relu)]
    model = mapped(stack.asarray, nn.Sequential(*layers).init(0, (None, 32, 32, 16)))
    images = np.random.default_rng(0).random((16, 32, 32, 16), "float32")
    if not compiled:
        given = stack.asarray(images)
        return peak(lambda: lambda: model(given))

    def make() -> Callable[[], Any]:
        x = stack.input("images", images.shape, "float32")
        program = stack.compile(inputs=[x], outputs=[model(x)])
        return lambda: program(images)

    return peak(make)


# --- telling ---------------------------------------------------------------------------------------------


def measured(rounds: int, smallest: bool) -> dict[str, Any]:
    """All figures."""
    depth = 2 if smallest else 12
    seconds = times(rounds, smallest)
    medians = {name: statistics.median(all_of) for name, all_of in seconds.items()}
    least = {name: min(all_of) for name, all_of in seconds.items()}
    steps = {name: step_peak(stack, smallest) for name, stack in stacks().items()}
    forwards = {name: forward_peak(stack, depth) for name, stack in stacks().items()}
    immediate = forward_peak(nnc.eager(), depth, compiled=False)
    pairs = list(zip(seconds["eager, compiled"], seconds["lazy"], strict=True))
    ratios = {
        "step time, eager compiled / lazy": statistics.median(a / b for a, b in pairs),
        "step time, eager immediate / lazy": medians["eager, immediate"] / medians["lazy"],
        "step time, eager compiled / lazy, fastest": least["eager, compiled"] / least["lazy"],
        "step peak, lazy / eager": steps["lazy"] / steps["eager"],
        "forward peak, lazy / eager compiled": forwards["lazy"] / forwards["eager"],
        "forward peak, lazy / eager immediate": forwards["lazy"] / immediate,
        "forward peak, lazy / no reuse": forwards["lazy"] / forwards["no reuse"],
    }
    return {
        "ratios": ratios, "median seconds a step": medians, "fastest seconds a step": least,
        "peak bytes of a step": steps, "peak bytes of a forward pass": forwards, "rounds": rounds,
        "python": platform.python_version(), "numpy": np.__version__, "threads": THREADS,
    }  # fmt: skip


def print_figures(found: dict[str, Any]) -> None:
    """The figures, as a table."""
    print("ms a step       median  fastest")
    for name, seconds in found["median seconds a step"].items():
        print(f"  {name:18}{seconds * 1e3:8.1f}{found['fastest seconds a step'][name] * 1e3:9.1f}")
    print("peak MB              step  forward")
    for name, nbytes in found["peak bytes of a step"].items():
        print(f"  {name:18}{nbytes / 1e6:8.1f}{found['peak bytes of a forward pass'][name] / 1e6:9.1f}")
    for name, ratio in found["ratios"].items():
        sense, bar = BARS.get(name, ("", 0.0))
        met = ratio >= bar if sense == ">=" else ratio <= bar
        aim = f"   (bar {sense} {bar}: {'met' if met else 'missed'})" if sense else ""
        print(f"{name:46}{ratio:7.3f}{aim}")


def main() -> None:
    """Measure, tell, write."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    with pinned(THREADS):
        found = measured(1 if given.smallest else given.rounds, given.smallest)
    print_figures(found)
    write("mnist_step", json.dumps(found, indent=1), smallest=given.smallest)


if __name__ == "__main__":
    main()
