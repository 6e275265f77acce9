"""Lazy against eager on the MNIST training step, and memory of it and of a forward pass: medians of alternating runs.

python bench/mnist_step.py [--rounds 15]: prints a table, writes bench/results/mnist_step.json.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import argparse
import contextlib
import gc
import importlib
import importlib.util
import json
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.engine.allocators import NoReuse
from nnc_func.tree import mapped

RESULTS = Path(__file__).parent / "results" / "mnist_step.json"
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


def batch(count: int = 100) -> tuple[Any, Any]:
    """Images like MNIST's digits, mostly black: what they show does not matter for time or memory."""
    generator = np.random.default_rng(0)
    x = generator.random((count, 28, 28, 1), "float32") * (generator.random((count, 28, 28, 1)) < 0.2)
    return x.astype("float32"), generator.integers(0, 10, count)


def network() -> Any:
    """The main job's network."""
    return models.get("mnist").network(seed=1)


def step_of(stack: Any, kind: Any = nn.Step) -> Any:
    """The main job's training step."""
    return kind(stack, network(), nn.softmax_cross_entropy, nn.Adagrad(epsilon=1e-7), metrics={"accuracy": nn.accuracy})


def times(rounds: int) -> dict[str, list[float]]:
    """Seconds of a step, of each kind in turn: A B C A B C."""
    eager, lazy = nnc.eager(), nnc.lazy()
    steps = {
        "eager, immediate": step_of(eager, nn.ImmediateStep), "eager, compiled": step_of(eager), "lazy": step_of(lazy),
    }  # fmt: skip
    x, y = batch()
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


def step_peak(stack: Any) -> int:
    """Of a training step: parameters, slots, activations, gradients, scratch."""
    x, y = batch()

    def make() -> Callable[[], Any]:
        step = step_of(stack)
        return lambda: step(x, y, 0.001)

    return peak(make)


def forward_peak(stack: Any, compiled: bool = True) -> int:
    """Of twelve convolutional layers applied: what is beside the parameters and the images."""
    layers = [part for _ in range(12) for part in (nn.Conv2D(16, 3, padding="SAME"), nn.relu)]
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


def threads() -> Any:
    """BLAS held to two threads."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return contextlib.nullcontext()
    return importlib.import_module("threadpoolctl").threadpool_limits(THREADS)


def measured(rounds: int) -> dict[str, Any]:
    """All figures."""
    seconds = times(rounds)
    medians = {name: statistics.median(all_of) for name, all_of in seconds.items()}
    least = {name: min(all_of) for name, all_of in seconds.items()}
    steps = {name: step_peak(stack) for name, stack in stacks().items()}
    forwards = {name: forward_peak(stack) for name, stack in stacks().items()}
    immediate = forward_peak(nnc.eager(), compiled=False)
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


def told(found: dict[str, Any]) -> None:
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
    parser = argparse.ArgumentParser(description="Lazy against eager on the MNIST training step.")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    with threads():
        found = measured(chosen.rounds)
    told(found)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
