"""Concatenation and slicing without copies: bytes that are copied, peak bytes, and time, with and without windows.

Each block is compiled twice in one process, once with the planner's windows and once without; calls alternate. Bars: no
instruction copies, and the arena is no larger than the whole side by side with its parts. It may be larger than without
windows where kernels want scratch: the memory of a whole is taken from its first part on.

python bench/joins.py [--smallest]: prints a table, writes bench/results/joins.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from measure import alternating, options, pinned, report

import nnc_func as nnc
from nnc_func.engine.planning.sub_buffers import NO_SUB_BUFFERS

MOVES = frozenset(("concat", "stack", "pad", "assemble", "copy", "fill", "split"))
LAZY = nnc.lazy()
Block = Callable[[Any, Any, Any], Any]


def inception(o: Any, x: Any, weight: Any) -> Any:
    """Four branches side by side along the channels."""
    channels = x.shape[-1]
    one = o.relu(o.conv2d(x, weight(1, 1, channels, 64)))
    three = o.relu(o.conv2d(o.relu(o.conv2d(x, weight(1, 1, channels, 96))), weight(3, 3, 96, 128), padding="SAME"))
    five = o.relu(o.conv2d(o.relu(o.conv2d(x, weight(1, 1, channels, 16))), weight(5, 5, 16, 32), padding="SAME"))
    pooled = o.max_pool2d(x, window=(3, 3), stride=(1, 1), padding="SAME")
    return o.concat(one, three, five, o.relu(o.conv2d(pooled, weight(1, 1, channels, 32))), axis=-1)


def dense(o: Any, x: Any, weight: Any) -> Any:
    """Each layer reads all that came before it, and is put behind that."""
    seen = o.relu(x)
    for _ in range(6):
        seen = o.concat(seen, o.relu(o.conv2d(seen, weight(3, 3, seen.shape[-1], 16), padding="SAME")), axis=-1)
    return seen


def elementwise(axis: int) -> Block:
    """Cheap parts: what a copy costs shows most."""
    return lambda o, x, _: o.concat(*(f(x) for f in (o.abs, o.negative, o.square, o.relu)), axis=axis)


def channels(o: Any, x: Any, weight: Any) -> Any:
    """The same along the channels of images that lie in memory channel by channel."""
    return elementwise(-1)(o, o.relayout(x, layout="NCHW"), weight)


def gradient_of_parts(o: Any, x: Any, _: Any) -> Any:
    """The gradient of what reads its argument slice by slice."""
    return LAZY.grad(lambda x: sum(o.sum(o.square(x[i : i + 64]) * (i + 1.0)) for i in range(0, 256, 64)))(x)


BLOCKS: dict[str, tuple[Block, tuple[int, ...]]] = {
    "inception block": (inception, (8, 28, 28, 192)),
    "densely connected block": (dense, (8, 28, 28, 32)),
    "4 parts, axis 0": (elementwise(0), (256, 4096)),
    "4 parts, axis 1": (elementwise(1), (256, 4096)),
    "4 parts, channels of an image, NCHW": (channels, (1, 256, 256, 16)),
    "4 parts, channels of 4 images, NCHW": (channels, (4, 128, 128, 16)),
    "gradient of 4 slices": (gradient_of_parts, (256, 4096)),
}


def compiled(block: Block, shape: tuple[int, ...]) -> Any:
    """The block as a program of one input, with its mean as the result so that the join itself is in the arena."""
    random = np.random.default_rng(0)

    def weight(*extents: int) -> Any:
        return LAZY.asarray((random.normal(size=extents) / 10).astype("float32"))

    x = LAZY.input("x", shape, "float32")
    joined = block(LAZY.ops, x, weight)
    return LAZY.compile([x], LAZY.ops.max(LAZY.ops.tanh(joined), axis=-1))


def copied(program: Any) -> int:
    """Bytes that are written by instructions that compute nothing."""
    plan = program.plan
    moves = [i for i in plan.instructions if not i.view and i.op.name in MOVES]
    return sum(plan.slots[s].aval.nbytes for i in moves for s in i.results)


def measured(name: str, block: Block, shape: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """One row."""
    given = np.random.default_rng(1).normal(size=shape).astype("float32")
    windows = compiled(block, shape)
    with patch("nnc_func.engine.planning.sub_buffers.sub_buffers", lambda *_: NO_SUB_BUFFERS):
        copies = compiled(block, shape)
    np.testing.assert_allclose(windows(given), copies(given), rtol=1e-5, atol=1e-6)
    taken = alternating({"windows": lambda: windows(given), "copies": lambda: copies(given)}, rounds)
    return {
        "block": name,
        "copied MB": copied(windows) / 1e6,
        "without": copied(copies) / 1e6,
        "arena MB": windows.plan.arena_bytes / 1e6,
        "without ": copies.plan.arena_bytes / 1e6,
        "ms": 1e3 * taken["windows"],
        "time / without": taken["windows"] / taken["copies"],
    }


def smaller(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Small images of few channels, or as many short rows: those of a matrix are taken apart by their number."""
    return (1, 8, 8, 4) if len(shape) == 4 else (shape[0], 4)


def main() -> None:
    """Print and write the table."""
    given, rows = options(__doc__).parse_args(), []
    with pinned():
        for name, (block, shape) in BLOCKS.items():
            rows.append(measured(name, block, *((smaller(shape), 1) if given.smallest else (shape, 21))))
    report("joins", rows, smallest=given.smallest)


if __name__ == "__main__":
    main()
