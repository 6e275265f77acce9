"""What one call costs: of a program of one kernel, of a jitted function, of an operator of the eager stack.

The jitted function is one of arrays, of tensors and of a dict. The operator is applied with and without a layer in
between that passes everything through.

Bars: a program enters at most 4 functions of Python's and a jitted function of one array at most 10; 1.25 µs for the
program, 4 µs for one array, 4.5 µs for two, 25 µs for a dict of 20 in and out; 1.2 µs for tanh at once, and 1.4 for a
sum with a number, with such a layer too. The kernels are counted in: 20 additions take 6 µs. Each figure is the median
of several processes; of another checkout beside them in turn, with the ratio.

python bench/calls.py [--beside CHECKOUT] [--smallest]: prints a table, writes bench/results/calls.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import options, report

import nnc_func as nnc
from nnc_func.layer import PassThrough, layer

ROOT = Path(__file__).resolve().parent.parent
LEAVES = 20  # arrays of the dict
BARS = {
    "program of one kernel": (4, 1.25),
    "jit(x)": (10, 4.0),
    "jit(x), x a tensor": (None, None),
    "jit(x, y)": (None, 4.5),
    f"jit of a dict of {LEAVES} in and out": (None, 25.0),
    "eager tanh(x)": (None, 1.2),
    "eager x + 1": (None, 1.4),
    "eager x + 1, a layer above the device": (None, 1.4),
}  # functions entered, and µs


@layer(on="device")
class Through(PassThrough):
    """A layer that changes nothing."""

    device: Any


def cases() -> dict[str, Callable[[], Any]]:
    """What is called."""
    lazy = nnc.lazy()
    a, b = np.ones(4, "float32"), np.ones(4, "float32")
    tensor, tree = lazy.asarray(a), {f"key {i:02}": a.copy() for i in range(LEAVES)}
    x = lazy.input("x", (4,), "float32")
    program = lazy.compile([x], [x + 1])
    one, two = lazy.jit(lambda x: x + 1), lazy.jit(lambda x, y: x + y)
    many = lazy.jit(lambda tree: {name: value + 1 for name, value in tree.items()})
    eager = nnc.eager()
    tanh, y, z = eager.ops.tanh, eager.asarray(a), eager.insert(Through).asarray(a)
    found = (
        *(lambda: program(a), lambda: one(a), lambda: one(tensor), lambda: two(a, b), lambda: many(tree)),
        *(lambda: tanh(y), lambda: y + 1, lambda: z + 1),
    )
    return dict(zip(BARS, found, strict=True))


def entered(call: Callable[[], Any]) -> int:
    """How many functions of Python's a call enters, the given one not counted.

    The least of three times: garbage that is collected meanwhile may call functions too.
    """
    counts = [-1, -1, -1]
    for at in range(len(counts)):

        def see(frame: Any, event: str, arg: Any, at: int = at) -> None:
            counts[at] += event == "call"

        sys.setprofile(see)
        try:
            call()
        finally:
            sys.setprofile(None)
    return min(counts)


def microseconds(call: Callable[[], Any], rounds: int, number: int) -> float:
    """Of a call, the median of the rounds."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(number):
            call()
        taken.append((time.perf_counter() - start) / number)
    return 1e6 * statistics.median(taken)


def measured(rounds: int, number: int) -> dict[str, list[float]]:
    """Functions entered by each call, and microseconds, in this process."""
    found: dict[str, list[float]] = {}
    for name, call in cases().items():
        for _ in range(3):
            call()
        found[name] = [entered(call), microseconds(call, rounds, number)]
    return found


def in_another_process(checkout: Path, rounds: int, number: int) -> dict[str, list[float]]:
    """The same in a new process, of the library that lies in that checkout."""
    command = [sys.executable, __file__, "--here", str(rounds), str(number)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another checkout, measured in turn with this")
    parser.add_argument("--here", type=int, nargs=2, metavar=("ROUNDS", "NUMBER"), help="in this process, as JSON")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measured(*given.here)))
        return
    processes, rounds, number = (1, 1, 1) if given.smallest else (5, 21, 300)
    checkouts = [ROOT] if given.beside is None else [ROOT, given.beside]
    taken: list[list[dict[str, list[float]]]] = [[] for _ in checkouts]
    for _ in range(processes):
        for checkout, found in zip(checkouts, taken, strict=True):
            found.append(in_another_process(checkout, rounds, number))
    rows = []
    for name, (most, bar) in BARS.items():
        ours, *theirs = [
            [statistics.median(part) for part in zip(*[f[name] for f in each], strict=True)] for each in taken
        ]
        row = {"what": name, "functions entered": int(ours[0]), "at most": most or "", "µs": ours[1], "bar": bar or ""}
        if theirs:
            row |= {"beside: functions": int(theirs[0][0]), "beside: µs": theirs[0][1], "ratio": ours[1] / theirs[0][1]}
        rows.append(row)
    report("calls", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
