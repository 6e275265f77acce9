"""Loops whose cost is linear in their number of times: time a time, and the ratio of times a doubling.

Four shapes that went quadratic in XLA at one time or another, forward and under grad: outputs that are stacked, a
buffer of which each time writes one row and reads another, a `cond` in the loop whose branch passes its operand on, and
one whose branches both compute. A row has 8 elements. Least seconds of the processor, of calls that
take turns in one process.

python bench/linear_cost.py [--smallest]: prints a table, writes bench/results/linear_cost.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from measure import options, pinned, report

import nnc_func as nnc

COUNTS = (10_000, 20_000, 40_000)
SMALLEST = (10, 20)
UNITS = 8


def stacked(stack: Any, x: Any, c: Any) -> Any:
    """Each output is a row of the result."""
    return stack.scan(lambda c, x: ((after := stack.ops.tanh(c + x)), after), c, x)[1]


def buffer(stack: Any, x: Any, c: Any) -> Any:
    """``x[i] = f(x[i - 1])``."""

    def body(i: Any, x: Any) -> Any:
        x[i] = stack.ops.tanh(x[i - 1] + c)
        return x

    return stack.fori(1, x.shape[0], body, x)


def passing(stack: Any, x: Any, c: Any) -> Any:
    """A branch that passes its operand on."""
    o = stack.ops
    return stack.fold(lambda c, x: stack.cond(x[0] > 0, lambda c: c, lambda c: o.tanh(c + x), c), c, x)


def computing(stack: Any, x: Any, c: Any) -> Any:
    """Two branches that compute."""
    o = stack.ops
    return stack.fold(lambda c, x: stack.cond(x[0] > 0, lambda c: o.sin(c) * x, lambda c: o.tanh(c + x), c), c, x)


SHAPES: dict[str, Callable[..., Any]] = {
    "stacking": stacked,
    "buf[i] = f(buf[i - 1])": buffer,
    "cond that passes on": passing,
    "cond that computes": computing,
}


def program(shape: Callable[..., Any], count: int, grad: bool) -> Callable[[], Any]:
    """A call of its program, on arrays that are drawn."""
    stack = nnc.lazy()
    inputs = [stack.input("x", (count, UNITS), "float64"), stack.input("c", (UNITS,), "float64")]
    draw = np.random.default_rng(0)
    arrays = [draw.normal(0, 0.3, (count, UNITS)), draw.normal(0, 0.3, UNITS)]
    if grad:
        made = stack.compile(inputs, [*stack.grad(lambda x, c: shape(stack, x, c).sum(), argnums=(0, 1))(*inputs)])
    else:
        made = stack.compile(inputs, shape(stack, *inputs))
    return lambda: made(*arrays)


def row(name: str, grad: bool, counts: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """One shape: seconds of each count, and ratios of neighbours."""
    calls = [program(SHAPES[name], count, grad) for count in counts]
    least = [float("inf")] * len(calls)
    for _ in range(rounds):
        for n, call in enumerate(calls):
            start = time.process_time()
            call()
            least[n] = min(least[n], time.process_time() - start)
    ratios = [after / before for before, after in pairwise(least)]
    return {
        "loop": name + (", grad" if grad else ""),
        **{f"µs a time, {count}": 1e6 * seconds / count for count, seconds in zip(counts, least, strict=True)},
        "largest ratio a doubling (bar 2.3)": max(ratios),
    }


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    counts, rounds = (SMALLEST, 2) if given.smallest else (COUNTS, 3)
    with pinned(1):
        rows = [row(name, grad, counts, rounds) for name in SHAPES for grad in (False, True)]
    report("linear_cost", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
