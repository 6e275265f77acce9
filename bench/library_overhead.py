"""What oneDNN's kernels cost beyond the library's own bare call: an instruction, and an input, variable or result.

python bench/library_overhead.py [--rounds 40] [--smallest]: prints a table, writes bench/results/library_overhead.json.

Chains of 10 to 100 convolutions, so small that one thread computes each: as a program, and as a loop that calls
``dnnl_primitive_execute`` with arguments that are ready. The slopes over their lengths differ by what a program adds to
an instruction. Programs of 2 to 42 inputs, variables or results, of one convolution each but for that, tell what one
of these adds to a call. Microseconds of the processor, the fastest of calls that take turns: what runs beside takes
part of a core away, and does not lengthen these. Without oneDNN there is nothing to measure.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from measure import options, pinned, report

import nnc_func as nnc
from nnc_func.device.onednn.library import library

LENGTHS, SMALLEST = (10, 40, 70, 100), (2, 4)
LEAVES, FEW = (2, 22, 42), (2, 3)
IMAGES, KERNEL = (1, 4, 4, 8), (1, 1, 8, 8)
BAR = 0.5  # microseconds


def fastest(calls: dict[Any, Callable[[], Any]], rounds: int, number: int = 20) -> dict[Any, float]:
    """Microseconds of a call of each, the least of all rounds, taken in turn."""
    least = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(number):
                call()
            least[name] = min(least[name], 1e6 * (time.process_time() - start) / number)
    return least


def slope(counts: Sequence[int], times: Sequence[float]) -> float:
    """Microseconds for one more, by least squares."""
    return float(np.polyfit(counts, times, 1)[0])


# --- an instruction --------------------------------------------------------------------------------------


def weights() -> Any:
    """Of a convolution that changes no size."""
    return np.random.default_rng(0).normal(size=KERNEL).astype("float32") / 3


def chain(stack: Any, length: int) -> Callable[[], Any]:
    """A program of so many convolutions, one after the other."""
    x = stack.input("x", IMAGES, "float32")
    y = x
    for _ in range(length):
        y = stack.ops.conv2d(y, weights())
    program, given = stack.compile([x], y), np.ones(IMAGES, "float32")
    kernels = {i.kernel for i in program.plan.instructions}
    assert kernels == {"onednn, packed"}, kernels
    return lambda: program(given)


def bare(length: int) -> Callable[[], Any]:
    """The same as calls of the library whose arguments are ready, there and back between two arrays."""
    from nnc_func.device.onednn.handles import Handle, Pair
    from nnc_func.device.onednn.packing import packed
    from nnc_func.device.onednn.primitives import Convolution, convolution

    of = Convolution(IMAGES, KERNEL, (4, 4), (1, 1), (1, 1), (0, 0), (0, 0), 1)
    made = convolution(of, "forward", (1,))
    found, arrays = made.library, [np.ones(IMAGES, "float32") for _ in range(2)]
    kernels = [packed(made, 1, weights()) if 1 in made.packings else weights() for _ in range(length)]
    stream = Handle(found, "stream", found.made("stream_create", found.engine, 1))
    scratch = np.empty(made.room, np.uint8)
    ((step, arguments),) = made.steps
    kept, calls = [stream, scratch, made, kernels, arrays], []
    for n in range(length):
        places = [arrays[n % 2], kernels[n], arrays[1 - n % 2]]
        pairs = (Pair * len(arguments))()
        for pair, argument in zip(pairs, arguments, strict=True):
            array = scratch if argument.array is None else places[argument.array]
            place = ctypes.c_void_p(array.ctypes.data + argument.offset)
            handle = Handle(found, "memory", found.made("memory_create", argument.description, found.engine, place))
            kept.append(handle)
            pair.number, pair.memory = argument.number, handle.pointer.value
        calls.append((step.pointer, stream.pointer, ctypes.c_int(len(arguments)), pairs))
    execute = found.functions.dnnl_primitive_execute

    def run(kept: Any = kept) -> None:
        for a, b, c, d in calls:
            execute(a, b, c, d)

    return run


def instructions(lengths: Sequence[int], rounds: int) -> dict[str, Any]:
    """The row of chains."""
    lazy = nnc.lazy(nnc.CPU())
    calls: dict[Any, Any] = {("program", n): chain(lazy, n) for n in lengths}
    calls |= {("bare", n): bare(n) for n in lengths}
    times = fastest(calls, rounds)
    slopes = {kind: slope(lengths, [times[kind, n] for n in lengths]) for kind in ("program", "bare")}
    return _row("an instruction", slopes["program"], slopes["bare"])


# --- a call ----------------------------------------------------------------------------------------------


def leaves(kind: str, count: int) -> Callable[[], Any]:
    """A program with so many inputs or variables, each convolved, or so many results of one."""
    lazy = nnc.lazy(nnc.CPU())
    x, given = lazy.input("x", IMAGES, "float32"), [np.ones(IMAGES, "float32")]
    ops, inputs, found = lazy.ops, [x], []
    for n in range(count):
        if kind == "an input":
            inputs.append(lazy.input(f"x{n}", IMAGES, "float32"))
            given.append(np.ones(IMAGES, "float32"))
            found.append(ops.conv2d(inputs[-1], weights() + np.float32(n)))
        elif kind == "a variable":
            found.append(ops.conv2d(x, lazy.variable(f"w{n}", weights())))
        else:
            found.append(ops.conv2d(x, weights() + np.float32(n)))
    results = found if kind == "a fresh result" else [sum(found[1:], found[0])]
    program = lazy.compile(inputs, results)
    return lambda: program(*given)


def beside(count: int) -> Callable[[], Any]:
    """A program of as many convolutions of one input and constants, whose results are added."""
    lazy = nnc.lazy(nnc.CPU())
    x = lazy.input("x", IMAGES, "float32")
    found = [lazy.ops.conv2d(x, weights() + np.float32(n)) for n in range(count)]
    program, given = lazy.compile([x], [sum(found[1:], found[0])]), np.ones(IMAGES, "float32")
    return lambda: program(given)


def of_call(counts: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """The rows of what is looked at once a call."""
    kinds = ("an input", "a variable", "a fresh result")
    calls: dict[Any, Any] = {(kind, n): leaves(kind, n) for kind in kinds for n in counts}
    calls |= {("beside", n): beside(n) for n in counts}
    times = fastest(calls, rounds)
    slopes = {kind: slope(counts, [times[kind, n] for n in counts]) for kind in (*kinds, "beside")}
    return [_row(kind, slopes[kind], slopes["beside"]) for kind in kinds]


def _row(what: str, whole: float, bare: float) -> dict[str, Any]:
    over = whole - bare
    return {"what": what, "whole µs": whole, "without µs": bare, "over µs": over, "bar": BAR,
            "": "met" if over <= BAR else "missed"}  # fmt: skip


def main() -> None:
    """Measure, tell, write."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    found = library()
    if isinstance(found, str):
        print(f"0 rows: {found}")
        return
    rounds = 2 if given.smallest else given.rounds
    with pinned(1):
        rows = [instructions(SMALLEST if given.smallest else LENGTHS, rounds)]
        rows += of_call(FEW if given.smallest else LEAVES, rounds)
    report("library_overhead", rows, smallest=given.smallest, onednn=nnc.CPU().library_setting)


if __name__ == "__main__":
    main()
