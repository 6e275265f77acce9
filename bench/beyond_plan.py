"""Bytes that runs take beyond their plans: every network of the zoo, inference and training, on NumPy.

python bench/beyond_plan.py [NAME ...] [--most GB] [--smallest]: prints a table, writes bench/results/beyond_plan.json.
`beyond` are the most bytes that Python and NumPy take while a program runs for the fifth time, less what stays, which
are its results; arenas are there before. `private` is what its kernels declare to take for themselves, of the one that
declares most. Bar: beyond - private <= 64 KiB. Batches are doubled up to 64 until an array has 4 MiB; `largest` is what
it has then. Plans of more than `--most` gigabytes (4) are of a smaller batch, or told to be left out. It is no timing.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

from measure import earlier, options, report

import nnc_func as nnc
from nnc_func import models

LARGE, BAR = 4 << 20, 1 << 16  # bytes of an array; and beyond a plan
BATCHES = (1, 2, 4, 8, 16, 32, 64)


def chosen(model: Any, training: bool, most: float) -> tuple[int, int] | None:
    """The least batch of which an array is large, else the largest; and the bytes of the largest array."""
    found = None
    for batch in BATCHES:
        stack = nnc.lazy(nnc.Null())
        plan = stack.engine.compile(model.make(stack, batch, training, seed=None)).plan
        if plan.peak_bytes > 1e9 * most:
            break
        found = batch, max(buffer.nbytes for buffer in plan.buffers)
        if found[1] >= LARGE:
            break
    return found


def row(name: str, training: bool, most: float) -> dict[str, Any]:
    """One network."""
    model, title = models.get(name), f"{name}, training" if training else name
    size = chosen(model, training, most)
    if size is None:
        return {"network": title, "left out": f"more than {most} GB"}
    stack = nnc.lazy()
    batch = size[0]
    program = stack.engine.compile(model.make(stack, batch, training, seed=0))
    given = model.examples(batch=batch)
    inputs = (*given, *(1, 0.01)[: len(program.plan.inputs) - len(given)]) if training else (given[0],)
    for _ in range(3):  # the second run may find out that later ones are one function
        program(*inputs)
    plan = program.plan
    tracemalloc.start()
    try:
        program(*inputs)  # what was there before is known from now on, when it grows or shrinks
        tracemalloc.reset_peak()
        kept = program(*inputs)
        stays, peak = tracemalloc.get_traced_memory()  # fresh results stay, of which some are old ones
    finally:
        tracemalloc.stop()
    del kept
    beyond, private = peak - stays, max(plan.private_bytes, default=0)
    return {
        "network": title,
        "batch": batch,
        "largest, MB": size[1] / 1e6,
        "arena, MB": plan.arena_bytes / 1e6,
        "beyond": beyond,
        "private": private,
        "within": beyond - private <= BAR,
    }


def rows(names: Sequence[str], most: float) -> Iterator[dict[str, Any]]:
    """All networks of these names."""
    for name in names:
        for training in (False, True)[: 1 + models.get(name).trains]:
            yield row(name, training, most)


def main() -> None:
    """Print and write the table, after each row."""
    parser = options(__doc__)
    parser.add_argument("names", nargs="*", help="networks of the zoo; those measured before stay in the results")
    parser.add_argument("--most", type=float, default=4.0, metavar="GB", help="of a plan")
    given = parser.parse_args()
    found = earlier("beyond_plan", {"rows": []})["rows"] if given.names and not given.smallest else []
    for each in rows(["lenet-5"] if given.smallest else (given.names or models.names()), given.most):
        found = [row for row in found if row["network"] != each["network"]] + [each]
        report("beyond_plan", found, smallest=given.smallest, bar=BAR)  # written after each: it takes long


if __name__ == "__main__":
    main()
