"""Tuned programs against the same programs as they are by default: an MNIST step, a ResNet block, an LSTM step.

python bench/autotune.py [--rounds 25] [--budget 20] [--threads 2] [--smallest]: prints a table, writes
bench/results/autotune.json.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from lstm import lstm_step
from measure import fresh, options, pinned, report
from mnist_step import batch, step_of

import nnc_func as nnc
from nnc_func.graph.leaves import owned


def mnist(stack: Any, smallest: bool = False) -> tuple[Any, list[Any]]:
    """The main job's training step, and a batch of a hundred images, or one."""
    x, y = batch(smallest)
    step = step_of(stack, smallest=smallest)
    return step.program(x, y), [x, np.asarray(y), np.array(0, np.int64), np.array(0.001, "float32")]


def resnet_block(
    stack: Any, data_format: str = "NHWC", channels: int = 64, extent: int = 28, count: int = 16
) -> tuple[Any, list[Any]]:
    """Two convolutions, normalised, around which what goes in is added: forward and backward."""
    ops, rng = stack.ops, np.random.default_rng(0)
    shape = (count, extent, extent, channels) if data_format == "NHWC" else (count, channels, extent, extent)
    axes, kept = ((0, 1, 2), (channels,)) if data_format == "NHWC" else ((0, 2, 3), (channels, 1, 1))
    x = stack.input("x", shape, "float32")

    def parameter(name: str, *extents: int, scale: float = 0.05) -> Any:
        return stack.variable(name, (scale * rng.standard_normal(extents)).astype("float32"))

    ws = [parameter(f"w{i}", 3, 3, channels, channels) for i in range(2)]
    scales = [parameter(f"s{i}", *kept, scale=1.0) for i in range(2)]
    shifts = [parameter(f"b{i}", *kept) for i in range(2)]

    def normalised(y: Any, scale: Any, shift: Any) -> Any:
        centred = y - ops.mean(y, axis=axes, keepdims=True)
        spread = ops.mean(ops.square(centred), axis=axes, keepdims=True)
        return centred / ops.sqrt(spread + 1e-5) * scale + shift

    def loss(*parameters: Any) -> Any:
        (w0, w1), (s0, s1), (b0, b1) = parameters[:2], parameters[2:4], parameters[4:]
        inner = ops.relu(normalised(ops.conv2d(x, w0, padding="SAME", data_format=data_format), s0, b0))
        outer = normalised(ops.conv2d(inner, w1, padding="SAME", data_format=data_format), s1, b1)
        return ops.mean(ops.square(ops.relu(outer + x)))

    parameters = [*ws, *scales, *shifts]
    value, gradients = stack.value_and_grad(loss, argnums=tuple(range(6)))(*parameters)
    updates = [(p, p - 0.01 * g) for p, g in zip(parameters, gradients, strict=True)]
    return stack.compile([x], [value], updates), [rng.standard_normal(shape).astype("float32")]


def lstm(stack: Any, steps: int = 100) -> tuple[Any, list[Any]]:
    """The unrolled LSTM's training step."""
    rng = np.random.default_rng(0)
    program = stack.engine.compile(lstm_step(stack, steps))
    return program, [rng.standard_normal(n.aval.shape).astype("float32") * 0.1 for n in program.graph.inputs]


PROGRAMS: dict[str, Callable[[Any], tuple[Any, list[Any]]]] = {
    "MNIST step": mnist,
    "ResNet block": resnet_block,
    "ResNet block, NCHW": lambda stack: resnet_block(stack, "NCHW"),
    "LSTM step": lstm,
}
SMALLEST: dict[str, Callable[[Any], tuple[Any, list[Any]]]] = {
    "MNIST step": lambda stack: mnist(stack, True),
    "ResNet block": lambda stack: resnet_block(stack, "NHWC", 4, 4, 1),
    "ResNet block, NCHW": lambda stack: resnet_block(stack, "NCHW", 4, 4, 1),
    "LSTM step": lambda stack: lstm(stack, 1),
}


def over_copies(program: Any) -> Any:
    """The program over variables of its own."""
    return program.over(
        [type(v)(v.name, owned(nnc.NumPy(), v.array), v.aval, nnc.NumPy()) for v in program.variables.values()]
    )


def far(one: Any, other: Any, inputs: list[Any]) -> float:
    """The largest difference of results and variables after one run, relative to the largest element of each."""
    pairs = []
    for program in (one, other):
        mine = over_copies(program)
        pairs.append([*mine.run(inputs), *(v.array for v in mine.variables.values())])
    found = [
        float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))
        for a, b in zip(*pairs, strict=True)
        if a.dtype.kind == "f"
    ]
    return max(found, default=0.0)


def measured(name: str, make: Callable[[Any], tuple[Any, list[Any]]], rounds: int, budget: float) -> dict[str, Any]:
    """One program: tuned and default in turn."""
    program, inputs = make(nnc.lazy())
    inputs = [nnc.NumPy().asarray(x) for x in inputs]
    start = time.perf_counter()
    tuning = program.autotune(*inputs, budget=budget)
    spent = time.perf_counter() - start
    print(tuning)
    runs = [over_copies(program), over_copies(tuning.program)]
    taken: list[list[float]] = [[], []]
    for i in range(rounds + 2):
        for run, times in zip(runs, taken, strict=True):
            fresh()
            start = time.perf_counter()
            run.run(inputs)
            if i >= 2:
                times.append(time.perf_counter() - start)
    ratios = [b / a for a, b in zip(*taken, strict=True)]
    return {
        "program": name,
        "default ms": statistics.median(taken[0]) * 1e3,
        "tuned ms": statistics.median(taken[1]) * 1e3,
        "tuned / default": statistics.median(ratios),
        "least / least": min(taken[1]) / min(taken[0]),
        "bar": 1.03,
        "kernels chosen": len(tuning.table),
        "tuning s": spent,
        "differ by": far(program, tuning.program, inputs),
    }


def main() -> None:
    """Measure, tell, write."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tuning for each program")
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    rounds, budget = (1, 0.2) if chosen.smallest else (chosen.rounds, chosen.budget)
    with pinned(chosen.threads):
        programs = SMALLEST if chosen.smallest else PROGRAMS
        rows = [measured(name, make, rounds, budget) for name, make in programs.items()]
    report("autotune", rows, smallest=chosen.smallest)


if __name__ == "__main__":
    main()
