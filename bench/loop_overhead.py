"""What a loop costs beyond the same bare calls: microseconds an instruction, and microseconds an iteration.

Bodies of few and of many operators on four elements, which are not fused, against a plain Python loop that makes the
same calls of NumPy with ``out=``. From two lengths follow both prices: what grows with the instructions, and the rest.
Least seconds of the processor, of calls that take turns in one process.

python bench/loop_overhead.py [--smallest]: prints a table, writes bench/results/loop_overhead.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import options, pinned, report

import nnc_func as nnc

CALLS = (np.tanh, np.sin, np.cos)
SHORT, LONG = 2, 22  # operators in a body


def chained(stack: Any, x: Any, count: int) -> Any:
    """So many operators one after another."""
    for n in range(count):
        x = getattr(stack.ops, CALLS[n % len(CALLS)].__name__)(x)
    return x


def carrying(count: int, times: int) -> tuple[Any, list[Any], Callable[[], Any]]:
    """One carry, in place: a program, its arrays, and the plain loop."""
    stack, start = unfused(), np.full(4, 0.5)
    c = stack.input("c", (4,), "float64")
    program = stack.compile([c], stack.fori(0, times, lambda i, c: chained(stack, c, count), c))
    calls = [CALLS[n % len(CALLS)] for n in range(count)]

    def plain() -> Any:
        c = start.copy()
        for _ in range(times):
            for call in calls:
                call(c, c)
        return c

    return program, [start], plain


def stacking(count: int, times: int) -> tuple[Any, list[Any], Callable[[], Any]]:
    """A carry that is stacked, and rows that are read."""
    stack, start, rows = unfused(), np.full(4, 0.5), np.ones((times, 4))
    inputs = [stack.input("c", (4,), "float64"), stack.input("xs", (times, 4), "float64")]
    body = lambda c, x: ((after := chained(stack, c + x, count)), after)  # noqa: E731
    program = stack.compile(inputs, stack.scan(body, *inputs)[1])
    calls = [CALLS[n % len(CALLS)] for n in range(count)]

    def plain() -> Any:
        ys, c = np.empty_like(rows), start
        for n in range(times):
            y = ys[n]
            np.add(c, rows[n], y)
            for call in calls:
                call(y, y)
            c = y
        return ys

    return program, [start, rows], plain


KINDS = {"a carry in place": carrying, "rows read and stacked": stacking}


def unfused() -> Any:
    """A lazy stack whose operators stay apart."""
    lazy = nnc.lazy()
    return lazy.swap(optimiser=lazy.optimiser.up_to_phase("layout"))


def row(kind: str, times: int, rounds: int) -> dict[str, Any]:
    """One kind of loop."""
    beyond, counts = [], []
    for operators in (SHORT, LONG):
        program, arrays, plain = KINDS[kind](operators, times)
        np.testing.assert_allclose(program(*arrays), plain())
        (loop,) = (each for i in program.plan.instructions for each in i.loops)
        counts.append(sum(not i.view for i in loop.plan.instructions))
        least = [float("inf")] * 2
        for _ in range(rounds):
            for n, call in enumerate((lambda program=program, arrays=arrays: program(*arrays), plain)):
                start = time.process_time()
                call()
                least[n] = min(least[n], time.process_time() - start)
        beyond.append(1e6 * (least[0] - least[1]) / times)
    an_instruction = (beyond[1] - beyond[0]) / (counts[1] - counts[0])
    return {
        "loop": kind,
        "µs an instruction (bar 0.15)": an_instruction,
        "µs an iteration (bar 1.5)": beyond[0] - an_instruction * counts[0],
    }


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    times, rounds = (10, 3) if given.smallest else (1000, 41)
    with pinned(1):
        rows = [row(kind, times, rounds) for kind in KINDS]
    report("loop_overhead", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
