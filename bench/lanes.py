"""Recurrent layers over a batch whose sequences have different lengths: in lanes, beside the padded batch with a mask.

`padded` computes every step of every sequence, and keeps the states of those that have ended; `in lanes` is the layer
with ``lengths=``. Both give the same outputs and last states. Operations are those of the loops, for as many times as
these went, divided by the sum of lengths times what a row takes in a step; times are of the processor, medians and the
least of calls that take turns in one process, one thread, each round with new lengths, uniform from 1 to the longest.

python bench/lanes.py [--smallest]: prints a table, writes bench/results/lanes.json.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import options, pinned, report

import nnc_func as nnc
from nnc_func import nn
from nnc_func.graph.ops.bodies import flops_of
from nnc_func.graph.ops.loop import avals_of

SIZES = ((100, 32, 128), (100, 32, 256))  # steps, samples, units
SMALLEST = ((4, 8, 3),)
STACK = nnc.lazy()


def padded(layer: Any, x: Any, lengths: Any) -> Any:
    """Outputs and last states of a masked loop over all steps."""
    ops = STACK.ops
    cell, kept = getattr(ops, f"{layer.operator}_cell"), lengths.reshape((lengths.shape[0], 1))
    zeros = [np.zeros((x.shape[0], layer.hidden), "float32")] * layer.states

    def body(rows: Any, carried: Any) -> Any:
        t, *states = carried
        found = cell(rows, *states, layer.weight, layer.recurrent, *layer.biases())
        after = found if isinstance(found, tuple) else (found,)
        going = kept > t
        new = [ops.where(going, a, s) for a, s in zip(after, states, strict=True)]
        return ops.where(going, after[0], 0), (t + 1, *new)

    outs, (_, *last) = STACK.foreach(body, ops.permute_dims(x, axes=(1, 0, 2)), (0, *zeros))
    return [ops.permute_dims(outs, axes=(1, 0, 2)), *last]


def in_lanes(layer: Any, x: Any, lengths: Any) -> Any:
    """The same by the layer."""
    return [*layer.run(x, *(layer.hidden,) * layer.states, lengths=lengths)]


def operations(program: Any, times: int) -> float:
    """Those of a program's loop that goes so many times."""
    (row,) = [i for i in program.plan.instructions if i.op.name == "loop"]
    params, avals = dict(row.items), tuple([program.plan.slots[s].aval for s in row.operands])
    facts = [params[name] for name in ("body", "constants", "carries", "counted")]
    return float(times * flops_of(params["body"], avals_of(avals, *facts)))


def row(kind: Any, size: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    """One layer and size."""
    steps, samples, units = size
    layer, draw = kind(units).init(0, (None, steps, units)), np.random.default_rng(0)
    x = STACK.input("x", (samples, steps, units), "float32")
    lengths = STACK.input("lengths", (samples,), "int64")
    programs = {f.__name__: STACK.compile([x, lengths], f(layer, x, lengths)) for f in (padded, in_lanes)}
    array = draw.normal(size=x.shape).astype("float32")
    alone = STACK.input("x", (1, steps, units), "float32")
    a_row = operations(STACK.compile([alone], layer(alone)), 1) + 2 * units * layer.gates * units  # and its input's
    lanes = max(1, samples * 3 // 8)
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    counted = []
    for _ in range(rounds):
        drawn, found = draw.integers(1, steps + 1, samples), {}
        for name, program in programs.items():
            begun = time.process_time()
            found[name] = program(array, drawn)
            seconds[name].append(time.process_time() - begun)
        for one, other in zip(found["padded"], found["in_lanes"], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
        times = max(int(drawn.max()), -(-int(drawn.sum()) // lanes))
        counted.append(operations(programs["in_lanes"], times) / (a_row * int(drawn.sum())))
    ratios = [b / a for a, b in zip(seconds["padded"], seconds["in_lanes"], strict=True)]
    return {
        "layer": kind.__name__, "steps": steps, "samples": samples, "units": units,
        "operations": round(float(np.median(counted)), 3), "at most": round(max(counted), 3),
        "padded ms": round(1e3 * float(np.median(seconds["padded"])), 2),
        "in lanes ms": round(1e3 * float(np.median(seconds["in_lanes"])), 2),
        "time": round(float(np.median(ratios)), 2),
        "least of time": round(min(seconds["in_lanes"]) / min(seconds["padded"]), 2),
    }  # fmt: skip


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    with pinned(1):
        sizes, rounds = (SMALLEST, 2) if given.smallest else (SIZES, 25)
        rows = [row(kind, size, rounds) for size in sizes for kind in (nn.LSTM, nn.GRU)]
    report("lanes", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
