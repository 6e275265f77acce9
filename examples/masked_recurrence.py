"""A recurrence over a padded batch in which finished sequences stand still: one graph for any batch and any length.

Extents are symbols, so that no other batch is traced again. Beside it the layer with ``lengths=``, which computes the
elements that there are and no others, in lanes; and the gradient, which is the same of both.

python examples/masked_recurrence.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func import nn

INPUTS, UNITS = 3, 4


def masked(stack: Any, layer: Any, x: Any, lengths: Any) -> tuple[Any, Any]:
    """Outputs (samples, steps, units), zeros behind the ends, and last states; `x` is (samples, steps, inputs)."""
    ops = stack.ops
    ends = lengths.reshape((x.shape[0], 1))

    def body(rows: Any, carried: Any) -> Any:
        h, t = carried
        after = ops.rnn_cell(rows, h, layer.weight, layer.recurrent, layer.bias)
        going = ends > t
        return ops.where(going, after, 0), (ops.where(going, after, h), t + 1)

    begin = ops.full(shape=(x.shape[0], UNITS), value=0, dtype=x.dtype)
    outs, (last, _) = stack.foreach(body, ops.permute_dims(x, axes=(1, 0, 2)), (begin, 0))
    return ops.permute_dims(outs, axes=(1, 0, 2)), last


def by_hand(layer: Any, x: Any, lengths: Any) -> tuple[Any, Any]:
    """The same, one sequence after the other."""
    outs, last = np.zeros((*x.shape[:2], UNITS), x.dtype), np.zeros((x.shape[0], UNITS), x.dtype)
    for n, length in enumerate(lengths):
        for t in range(length):
            last[n] = np.tanh(x[n, t] @ layer.weight + last[n] @ layer.recurrent + layer.bias)
            outs[n, t] = last[n]
    return outs, last


def made() -> Any:
    """A layer with random weights."""
    return nn.RNN(UNITS).init(0, (None, None, INPUTS))


def batch(seed: int, samples: int, steps: int) -> tuple[Any, Any]:
    """Sequences, padded with what must not be read, and their lengths."""
    draw = np.random.default_rng(seed)
    x, lengths = draw.normal(size=(samples, steps, INPUTS)).astype("float32"), draw.integers(0, steps + 1, samples)
    x[np.arange(steps)[None] >= lengths[:, None]] = 99
    return x, lengths


def main() -> None:
    """Batches of several sizes by one program; and in lanes."""
    eager, lazy, layer = nnc.eager(), nnc.lazy(), made()
    x, lengths = lazy.input("x", ("samples", "steps", INPUTS), "float32"), lazy.input("lengths", ("samples",), "int64")
    program = lazy.compile([x, lengths], list(masked(lazy, layer, x, lengths)))
    for samples, steps in ((2, 5), (7, 3), (4, 11)):
        arrays = batch(samples, samples, steps)
        wanted = by_hand(layer, *arrays)
        at_once = masked(eager, layer, *map(eager.asarray, arrays))
        in_lanes = layer.run(lazy.asarray(arrays[0]), UNITS, lengths=arrays[1])
        for found in (program(*arrays), [y.numpy() for y in at_once], [y.numpy() for y in in_lanes]):
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        print(samples, "sequences of", arrays[1].tolist(), "elements:", float(wanted[0].sum().round(4)))


if __name__ == "__main__":
    main()
