"""The table of Owl's article, of the same networks here: computed at once against planned, bytes and milliseconds.

python bench/article.py [--rounds 3] [--side 1024] [--smallest]: prints a table, writes bench/results/article.json. The
smallest size has the zoo's reduced networks. Bytes are those of NumPy's arrays at the peak of a call, weights among
them; the article tells the process's resident memory, on an i5-6300HQ (Wang and Zhao, the table of the lazy engine's
chapter). The last rows plan Mask R-CNN at 1024 × 1024 on the device that computes nothing: as it is written with memory
of its own for each result, with parents' memory reused, and with the default allocator; then as it is rewritten.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from measure import alternating, fresh, options, report
from mnist_step import batch, peak, step_of

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.engine.comparing import bytes_without_reuse
from nnc_func.tree import mapped

ARTICLE = {  # seconds eager, to build, to run; MB eager, planned
    "inception-v3": (0.565, 0.107, 0.228, 625.76, 230.10),
    "resnet-50": (0.793, 0.140, 0.609, 1309.9, 397.07),
    "mnist training": (20.422, 0.144, 10.920, 3685.3, 895.32),
    "mask-rcnn": (11.538, 0.363, 8.379, 6483.4, 870.48),
}
WAYS = {"no reuse": 11_000, "parents reused": 7_000, "planned": 1_000}  # MB of the article, of Mask R-CNN


SMALLEST = ("resnet-50", "mnist training")  # of those that are computed; Mask R-CNN is planned


def model(name: str, side: int | None) -> Any:
    """A network of the zoo, Mask R-CNN for images of that side; a reduced one without a side."""
    found = models.get(name)
    if side is None:
        return found.reduced()
    if name != "mask-rcnn" or side == 1024:
        return found
    return found.with_options(shape=(side, side, 3), size=(side, side))


def eager(name: str, side: int | None) -> Callable[[], Any]:
    """A call that computes each value at once."""
    stack = nnc.eager()
    if name == "mnist training":
        step, (x, y) = step_of(stack, nn.ImmediateStep, side is None), batch(side is None)
        return lambda: step(x, y, 0.001)
    chosen = model(name, side)
    network = mapped(stack.asarray, chosen.network(1))
    given = stack.asarray(chosen.examples()[0])
    return lambda: network(given)


def planned(name: str, side: int | None) -> Callable[[], Any]:
    """A call of a compiled program."""
    stack = nnc.lazy()
    if name == "mnist training":
        step, (x, y) = step_of(stack, smallest=side is None), batch(side is None)
        return lambda: step(x, y, 0.001)
    chosen = model(name, side)
    program, given = stack.engine.compile(chosen.make(stack, seed=1)), chosen.examples()[0]
    return lambda: program(given)


def row(name: str, side: int | None, rounds: int) -> dict[str, Any]:
    """One network, beside the article's figures."""
    peaks = {}
    for make in (eager, planned):
        fresh()
        peaks[make.__name__] = peak(lambda make=make: make(name, side)) / 1e6
    start = time.perf_counter()
    calls = {"planned": planned(name, side)}
    build = time.perf_counter() - start
    seconds = alternating(calls | {"eager": eager(name, side)}, rounds)
    before, build_there, run, bytes_before, bytes_planned = ARTICLE[name]
    return {
        "network": f"{name}, {side} pixels" if name == "mask-rcnn" else name,
        "eager MB": peaks["eager"],
        "planned MB": peaks["planned"],
        "times less": peaks["eager"] / peaks["planned"],
        "article's": bytes_before / bytes_planned,
        "eager ms": 1e3 * seconds["eager"],
        "planned ms": 1e3 * seconds["planned"],
        "build ms": 1e3 * build,
        "times faster": seconds["eager"] / seconds["planned"],
        "article's, without building": before / run,
        "article's, with it": before / (build_there + run),
    }


def ways(chosen: Any) -> list[dict[str, Any]]:
    """Mask R-CNN's bytes, without what the weights take."""
    null = nnc.lazy(nnc.Null())
    as_written = null.swap(optimiser=null.optimiser.without_rules(*(rule.name for rule in null.optimiser.rules)))

    def plan(stack: Any) -> Any:
        return stack.engine.compile(chosen.make(stack, seed=None)).plan

    parents = as_written.swap(engine=as_written.engine.with_allocator("parent_reuse"))
    ours = plan(as_written)
    found = {
        "no reuse": bytes_without_reuse(ours),
        "parents reused": plan(parents).arena_bytes,
        "planned": ours.arena_bytes,
        "rewritten, planned": plan(null).arena_bytes,
    }
    return [
        {"network": f"mask-rcnn, {name}", "planned MB": n / 1e6, "article's planned MB": WAYS.get(name, "")}
        for name, n in found.items()
    ]


def main() -> None:
    """Print and write the table."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, default=1024)
    given = parser.parse_args()
    side = None if given.smallest else given.side
    rows = []
    for name in SMALLEST if given.smallest else ARTICLE:
        rows.append(row(name, side, 1 if given.smallest or name == "mask-rcnn" else given.rounds))
        print(rows[-1], flush=True)
    report("article", rows + ways(model("mask-rcnn", side and 1024)), smallest=given.smallest)


if __name__ == "__main__":
    main()
