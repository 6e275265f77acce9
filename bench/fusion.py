"""Fused groups beside unfused NumPy: chains of elementwise operators, updates of parameters, reductions of rows.

python bench/fusion.py [--rounds 15] [--threads 2] [--networks resnet-18 mnist] [--smallest]: prints a table, writes
bench/results/fusion.json. The smallest size has thousands of floats, and one small network. Each row has the median and
the fastest milliseconds of a call, how many times faster that is than each of what it is compared with, and the bytes
that the kernels of either program move, as their cost facets count them.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from costs import costs
from measure import options, pinned, report

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.tree import flatten

LARGE = {"1 M": 1 << 20, "4 M": 1 << 22, "10 M": 10_000_000}  # elements of a parameter
LAZY = nnc.lazy()
UNFUSED = LAZY.swap(optimiser=LAZY.optimiser.without_rules("fuse_elementwise"))
EAGER = nnc.eager()
Calls = dict[str, Callable[[], Any]]


def times(calls: Calls, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each, taken in turn; what the first call returns must be what the others do."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in (*calls.values(), *calls.values()):
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            result = call()
            found[name].append(1e3 * (time.perf_counter() - start))
            del result
    return found


def row(what: str, calls: Calls, rounds: int, programs: dict[str, Any]) -> dict[str, Any]:
    """Times of `fused` beside the others, and the bytes that programs move."""
    taken = times(calls, rounds)
    own = taken.pop("fused")
    line: dict[str, Any] = {"what": what, "ms": statistics.median(own), "fastest": min(own)}
    for name, theirs in taken.items():
        line[f"× {name}"] = statistics.median(theirs) / line["ms"]
        line[f"× {name}, fastest"] = min(theirs) / line["fastest"]
    for name, program in programs.items():
        line[f"MB {name}"] = costs(program.graph)["bytes"] / 1e6
    return line


# --- chains -----------------------------------------------------------------------------------------------


def chains(rounds: int, count: int) -> list[dict[str, Any]]:
    """Two chains over so many floats, against NumPy's expression and against NumPy with ``out=``."""
    x, y, z = (np.random.default_rng(i).random(count, np.float32) for i in range(3))
    out, other, two, zero = np.empty_like(x), np.empty_like(x), np.float32(2), np.float32(0)

    def begun() -> None:
        np.multiply(x, y, out)
        np.add(out, z, out)
        np.multiply(out, x, out)
        np.divide(y, two, other)
        np.subtract(out, other, out)

    def root() -> Any:
        begun()
        np.maximum(out, zero, out=out)
        return np.add(np.sqrt(out, out), z, out)

    def curve() -> Any:
        begun()
        return np.add(np.tanh(np.exp(out, out), out), z, out)

    cases: dict[str, tuple[Any, Any, Any]] = {
        "sqrt(max((x*y+z)*x - y/2, 0)) + z": (
            lambda o, x, y, z: o.sqrt(o.maximum((x * y + z) * x - y / 2, 0)) + z,
            lambda: np.sqrt(np.maximum((x * y + z) * x - y / 2, 0)) + z,
            root,
        ),
        "tanh(exp((x*y+z)*x - y/2)) + z": (
            lambda o, x, y, z: o.tanh(o.exp((x * y + z) * x - y / 2)) + z,
            lambda: np.tanh(np.exp((x * y + z) * x - y / 2)) + z,
            curve,
        ),
    }
    rows = []
    for what, (written, plain, in_place) in cases.items():
        made = {}
        for name, stack in (("fused", LAZY), ("unfused", UNFUSED)):
            inputs = [stack.input(n, (count,), "float32") for n in "xyz"]
            made[name] = stack.compile(inputs=inputs, outputs=[written(stack.ops, *inputs)])
        assert np.array_equal(np.asarray(made["fused"](x, y, z)).reshape(-1), plain())
        calls = {"numpy": plain, "numpy out=": in_place, "unfused": partial(made["unfused"], x, y, z)}
        rows.append(row(what, {**calls, "fused": partial(made["fused"], x, y, z)}, rounds, made))
    return rows


# --- updates ----------------------------------------------------------------------------------------------

UPDATES = (nn.SGD(), nn.SGD(0.9), nn.Adagrad(), nn.RMSprop(), nn.Adam())


def updating(stack: Any, update: Any, shapes: list[Any]) -> tuple[Callable[[], Any], Any]:
    """A step of an update of parameters of these shapes, with gradients that are given; and its program."""
    random = np.random.default_rng(0)
    drawn = [random.standard_normal(s, np.float32) for s in shapes]
    parameters = [stack.variable(f"p{i}", a) for i, a in enumerate(drawn)]
    given = [stack.input(f"g{i}", a.shape, "float32") for i, a in enumerate(drawn)]
    rate, step = stack.input("rate", (), "float32"), stack.input("step", (), "int64")
    slots = {
        name: [stack.variable(f"{name}{i}", np.asarray(a)) for i, a in enumerate(leaves)]
        for name, leaves in update.init(drawn).items()
    }
    new, kept = update(given, slots, parameters, step, rate)
    pairs = [*zip(parameters, new, strict=True)]
    pairs += [p for name, own in slots.items() for p in zip(own, kept[name], strict=True)]
    program = stack.compile([*given, rate, step], [], pairs)
    return partial(program, *drawn, np.asarray(1e-3, "float32"), np.asarray(3)), program


def immediate(update: Any, shapes: list[Any]) -> Callable[[], Any]:
    """The same on the eager engine, operator by operator."""
    random = np.random.default_rng(0)
    drawn = [EAGER.asarray(random.standard_normal(s, np.float32)) for s in shapes]
    state = [drawn, {n: [EAGER.asarray(np.asarray(a)) for a in leaves] for n, leaves in update.init(drawn).items()}]
    rate, step = EAGER.asarray(np.float32(1e-3)), EAGER.asarray(np.int64(3))

    def call() -> None:
        state[:] = update(drawn, state[1], state[0], step, rate)

    return call


def shapes_of(name: str) -> list[Any]:
    """Of a network's parameters."""
    return [leaf.shape for leaf in flatten(models.get(name).network(seed=None))[0]]


def updates(rounds: int, large: dict[str, int], networks: Iterable[str]) -> list[dict[str, Any]]:
    """Updates of one large parameter, and of those of networks, against eager and against unfused programs."""
    cases: dict[str, list[Any]] = {name: [(count,)] for name, count in large.items()}
    cases |= {name: shapes_of(name) for name in networks}
    rows = []
    for update in UPDATES:
        for name, shapes in cases.items():
            fused, program = updating(LAZY, update, shapes)
            unfused, other = updating(UNFUSED, update, shapes)
            calls = {"eager": immediate(update, shapes), "unfused": unfused, "fused": fused}
            programs = {"fused": program, "unfused": other}
            rows.append(row(f"{update}, {name}", calls, rounds, programs))
    return rows


# --- reductions -------------------------------------------------------------------------------------------


def reductions(rounds: int, shape: tuple[int, int]) -> list[dict[str, Any]]:
    """Softmax with one zero more and layer normalisation of rows, and a mean of what is computed of rows."""
    rows = []
    x = np.random.default_rng(0).standard_normal(shape, np.float32)

    def softmax(ops: Any, t: Any) -> Any:
        e = ops.exp(t - ops.max(t, axis=-1, keepdims=True))
        return e / (1 + ops.sum(e, axis=-1, keepdims=True))

    def normalised(ops: Any, t: Any) -> Any:
        c = t - ops.mean(t, axis=-1, keepdims=True)
        return c / ops.sqrt(ops.mean(c * c, axis=-1, keepdims=True) + 1e-5)

    def mean(ops: Any, t: Any) -> Any:
        return ops.mean(ops.relu(t * 2 + 1), axis=-1)

    cases = {
        "softmax and a zero": softmax,
        "normalised rows": normalised,
        "means of rows of relu(2x + 1)": mean,
    }
    for what, written in cases.items():
        made = {}
        for name, stack in (("fused", LAZY), ("unfused", UNFUSED)):
            t = stack.input("x", x.shape, "float32")
            made[name] = stack.compile(inputs=[t], outputs=[written(stack.ops, t)])
        calls = {"unfused": partial(made["unfused"], x), "fused": partial(made["fused"], x)}
        rows.append(row(what, calls, rounds, made))
    return rows


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--networks", nargs="*", default=["resnet-18", "mnist"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.smallest:
        rounds, count, shape, large, networks = 1, 1 << 12, (16, 64), {"4 k": 1 << 12}, ["lenet-5"]
    else:
        rounds, count, shape, large, networks = given.rounds, 1 << 22, (4096, 1024), LARGE, given.networks
    with pinned(given.threads):
        rows = [*chains(rounds, count), *reductions(rounds, shape), *updates(rounds, large, networks)]
    report("fusion", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
