"""Recurrent layers over a batch whose sequences have different lengths: in lanes, beside the padded batch with a mask.

`padded` computes every step of every sequence, and keeps the states of those that have ended; `in lanes` is the layer
with ``lengths=``. Both give the same outputs and last states. Operations are those of a run, as its profile counts
them, divided by the sum of lengths times what a step of one sequence takes; times are of the processor, medians and the
least of calls that take turns in one process, one thread, each round with new lengths, uniform from 1 to the longest.
Gradients are by the sequences and all weights.

python bench/lanes.py [--smallest]: prints a table, writes bench/results/lanes.json.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import options, pinned, report

import nnc_func as nnc
from nnc_func import nn

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


def operations(program: Any, *inputs: Any) -> int:
    """Those of a run, in loops for as many times as these go."""
    found = program.profile(*inputs)
    outside = [each for each in found.instructions if not each.name.startswith("loop")]
    return sum(each.flops for each in (*outside, *found.within))


def slopes(layer: Any, x: Any, lengths: Any, outputs: Any) -> list[Any]:
    """The gradient of the sum of squares of what `outputs` gives, by the sequences and all weights."""
    names = ["weight", "recurrent", "bias", "hidden_bias"][: 2 + len(layer.biases())]

    def loss(x: Any, *weights: Any) -> Any:
        found = outputs(layer.replaced(**dict(zip(names, weights, strict=True))), x, lengths)
        return sum((y * y).sum() for y in found)

    return [*STACK.grad(loss, argnums=tuple(range(1 + len(names))))(x, *[getattr(layer, name) for name in names])]


def row(kind: Any, size: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    """One layer and size."""
    steps, samples, units = size
    layer, draw = kind(units).init(0, (None, steps, units)), np.random.default_rng(0)
    x = STACK.input("x", (samples, steps, units), "float32")
    lengths = STACK.input("lengths", (samples,), "int64")
    programs = {f.__name__: STACK.compile([x, lengths], f(layer, x, lengths)) for f in (padded, in_lanes)}
    backward = {f.__name__: STACK.compile([x, lengths], slopes(layer, x, lengths, f)) for f in (padded, in_lanes)}
    array = draw.normal(size=x.shape).astype("float32")
    alone = STACK.input("x", (1, steps, units), "float32")
    a_row = operations(STACK.compile([alone], layer(alone)), array[:1]) / steps
    seconds: dict[str, list[float]] = {f"{name}{what}": [] for name in programs for what in ("", " gradient")}
    counted = []

    def timed(name: str, program: Any, drawn: Any) -> list[Any]:
        begun = time.process_time()
        found = program(array, drawn)
        seconds[name].append(time.process_time() - begun)
        return [np.asarray(each) for each in found]

    for _ in range(rounds):
        drawn = draw.integers(1, steps + 1, samples)
        found = [timed(name, program, drawn) for name, program in programs.items()]
        found += [timed(f"{name} gradient", program, drawn) for name, program in backward.items()]
        for one, other in zip(found[0] + found[2], found[1] + found[3], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * max(1, float(np.abs(one).max())))
        counted.append(operations(programs["in_lanes"], array, drawn) / (a_row * int(drawn.sum())))

    def columns(what: str) -> dict[str, float]:
        one, other = np.array(seconds[f"padded{what}"]), np.array(seconds[f"in_lanes{what}"])
        return {
            f"padded{what} ms": round(1e3 * float(np.median(one)), 2),
            f"in lanes{what} ms": round(1e3 * float(np.median(other)), 2),
            f"time{what}": round(float(np.median(other / one)), 2),
            f"least of time{what}": round(float(other.min() / one.min()), 2),
        }

    return {
        "layer": kind.__name__, "steps": steps, "samples": samples, "units": units,
        "operations": round(float(np.median(counted)), 3), "at most": round(max(counted), 3),
        **columns(""), **columns(" gradient"),
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
