"""What running costs beyond the kernels: an instruction, a call, a leaf, an eager operator, a layer, the import.

Bars: <= 0.3 µs an instruction against the same NumPy calls with `out=`; a call <= 15 µs + 0.3 µs a leaf; an eager
operator <= 2 µs above NumPy's; a pass-through layer adds nothing to a program; import < 0.3 s.

python bench/run_speed.py [--smallest]: prints a table, writes bench/results/run_speed.json.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
from measure import alternating, options, pinned, report

import nnc_func as nnc
from nnc_func.layer import PassThrough, layer

LENGTH = 1000
A = np.ones(4, "float32")


@layer(on="operator")
class Transparent(PassThrough):
    """A layer of a user's own that changes nothing."""

    operator: Any


def chain(stack: nnc.Stack) -> Any:
    """A program of `LENGTH` tiny operators."""
    x, y = stack.input("x", (4,), "float32"), stack.input("y", (4,), "float32")
    v = x
    for i in range(LENGTH):
        v = v * y if i % 2 else v + y
    program = stack.compile(inputs=[x, y], outputs=[v])
    assert program.plan.kernels == LENGTH, program.plan.kernels
    return program


def bare() -> None:
    """The same operators as NumPy calls into one buffer."""
    out = np.empty(4, "float32")
    np.add(A, A, out)
    for i in range(1, LENGTH):
        if i % 2:
            np.multiply(out, A, out)
        else:
            np.add(out, A, out)


def instructions(rounds: int, number: int) -> list[dict[str, Any]]:
    """Microseconds an instruction, above NumPy's own calls; with and without a layer of a user's own."""
    lazy = nnc.lazy()
    lazy = lazy.swap(optimiser=lazy.optimiser.without_rules("fuse_elementwise", "fuse_multiply_add"))
    plain, layered = chain(lazy), chain(lazy.insert(Transparent))
    programs = {"numpy": bare, "program": lambda: plain(A, A), "layered": lambda: layered(A, A)}
    taken = alternating(programs, rounds, number)
    return [
        {"what": "an instruction above NumPy", "µs": 1e6 * (taken["program"] - taken["numpy"]) / LENGTH, "bar": 0.3},
        {"what": "program with a layer more / without", "µs": taken["layered"] / taken["program"], "bar": 1.0},
    ]


def calls(rounds: int, number: int) -> list[dict[str, Any]]:
    """Microseconds of a call beyond its kernels, for 2 to 200 leaves."""
    lazy = nnc.lazy()
    rows = []
    for n in (1, 10, 100):
        inputs = [lazy.input(f"x{i}", (4,), "float32") for i in range(n)]
        program = lazy.compile(inputs=inputs, outputs=[x + 1 for x in inputs])
        arrays, one = [A.copy() for _ in inputs], np.float32(1)
        outs = [np.empty(4, "float32") for _ in inputs]

        def numpy_calls(arrays: Any = arrays, outs: Any = outs, one: Any = one) -> None:
            for a, o in zip(arrays, outs, strict=True):
                np.add(a, one, o)

        taken = alternating({"numpy": numpy_calls, "program": lambda p=program, a=arrays: p(*a)}, rounds, number)
        above = 1e6 * (taken["program"] - taken["numpy"]) - 0.3 * n  # instructions have a budget of their own
        rows.append({"what": f"a call with {2 * n} leaves", "µs": above, "bar": 15 + 0.3 * 2 * n})
    return rows


def eager(rounds: int, number: int) -> list[dict[str, Any]]:
    """Microseconds of an eager operator above the bare NumPy call, without the Autodiff layer and with all layers."""
    full = nnc.eager()
    rows = []
    bind, catalogue = full.engine.bind, full.type.ops
    for case, args, params, theirs in (
        ("add", (A, A), {}, lambda: np.add(A, A)),
        ("exp", (A,), {}, lambda: np.exp(A)),
        ("multiply", (A, 2.0), {}, lambda: A * 2.0),
        ("reshape", (A,), {"shape": (2, 2)}, lambda: np.reshape(A, (2, 2))),
        ("sum", (A,), {"axis": None, "keepdims": False}, lambda: np.sum(A)),
    ):
        ours = partial(bind, catalogue[case], *args, **params)
        taken = alternating({"ours": ours, "numpy": theirs}, rounds, number)
        rows.append({"what": f"eager {case}, engine.bind", "µs": 1e6 * (taken["ours"] - taken["numpy"]), "bar": 2.0})
    for name, stack in (("tensors, no autodiff", nnc.Stack(full.engine)), ("tensors, all layers", full)):
        t, ops = stack.asarray(A), stack.ops
        cases = {
            "add": (lambda ops=ops, t=t: ops.add(t, t), lambda: np.add(A, A)),
            "exp": (lambda ops=ops, t=t: ops.exp(t), lambda: np.exp(A)),
            "multiply by a number": (lambda t=t: t * 2.0, lambda: A * 2.0),
            "reshape": (lambda ops=ops, t=t: ops.reshape(t, shape=(2, 2)), lambda: np.reshape(A, (2, 2))),
            "sum": (lambda ops=ops, t=t: ops.sum(t), lambda: np.sum(A)),
        }
        for case, (ours, theirs) in cases.items():
            taken = alternating({"ours": ours, "numpy": theirs}, rounds, number)
            rows.append({"what": f"eager {case}, {name}", "µs": 1e6 * (taken["ours"] - taken["numpy"]), "bar": 2.0})
    return rows


def importing(rounds: int) -> list[dict[str, Any]]:
    """Seconds to import the package in a new process, without NumPy's own import."""
    code = "import time, {}; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"

    def once(first: str, then: str) -> float:
        command = [sys.executable, "-c", code.format(first, then)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def best(first: str, then: str) -> float:
        return min(once(first, then) for _ in range(rounds))

    return [
        {"what": "import nnc_func, NumPy's import included, s", "µs": best("sys", "nnc_func"), "bar": 0.3},
        {"what": "import nnc_func after numpy, s", "µs": best("numpy", "nnc_func"), "bar": 0.3},
    ]


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    rounds = [(1, 1), (1, 1), (1, 1), (1,)] if given.smallest else [(101, 5), (201, 20), (51, 500), (5,)]
    parts = (instructions, calls, eager, importing)
    with pinned(1):
        rows = [row for part, numbers in zip(parts, rounds, strict=True) for row in part(*numbers)]
    report("run_speed", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
