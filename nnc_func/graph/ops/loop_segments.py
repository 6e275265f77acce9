"""A loop as a loop over segments: the derivative keeps carries at their beginnings, and the tape of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.graph.ops.loop_form import Form
from nnc_func.graph.ops.loop_policies import CARRIES
from nnc_func.graph.ops.loop_schedules import ALL, BUDGET
from nnc_func.op import Op

INT = "int64"


def in_segments(derive: Any, op: Op, o: Any, xs: Sequence[Any], params: Any, size: int) -> list[Any]:
    """The results of a loop of a known number of times at most, in segments of `size` times.

    What is left over is a loop of its own: the last times, or, of one that goes backwards, the first rows.
    """
    form = Form(op, o, xs, params)
    most, carries = form.most, len(form.carries)
    whole = most // size
    rest = most - whole * size
    begin = rest if form.reverse else 0
    # under a budget nothing is stacked to be summed, in a segment neither
    inner = params["checkpoint"] if params["checkpoint"].startswith(BUDGET) else ALL

    def part(x: Any, start: int, stop: int) -> Any:
        rank = len(x.shape)
        return o.slice(x, starts=(start, *(0,) * (rank - 1)), stops=(stop, *x.shape[1:]), steps=(1,) * rank)

    def times(o: Any, count: Any, start: Any, length: int) -> Any:
        """How many of so many times from a row on there are, of a number of times."""
        left = o.subtract(o.cast(count, dtype=INT), start)
        return o.minimum(o.maximum(left, 0), length)

    def looped(o: Any, given: Sequence[Any], carried: Sequence[Any], slices: Sequence[Any], length: int, count: Any,
               body: Any, checkpoint: str, conditional: bool) -> list[Any]:  # fmt: skip
        changed = {
            "body": body, "constants": len(given), "carries": len(carried), "length": None if slices else length,
            "counted": bool(count), "checkpoint": checkpoint, "conditional": conditional,
        }  # fmt: skip
        return [*o.bind(op, *given, *carried, *slices, *count, **{**params, **changed})]

    def turn(o: Any, *given: Any) -> list[Any]:
        same, carried, slices = (
            given[: len(fixed)],
            given[len(fixed) : len(fixed) + carries],
            given[len(fixed) + carries :],
        )
        count = [times(o, same[-1], slices[-1], size)] if form.count else []
        constants = same[: len(form.constants)]
        rows = slices[: len(form.slices)]
        return looped(o, constants, carried, rows, size, count, form.body, inner, form.conditional)

    fixed = [*form.constants, *form.count]
    blocks = [o.reshape(part(x, begin, begin + whole * size), shape=(whole, size, *x.shape[1:])) for x in form.slices]
    starts = []
    if form.count:
        rows = o.arange(start=0, stop=whole, dtype=INT)
        starts = [o.add(o.multiply(rows, size), begin)]
    avals = [form.aval(x) for x in (*fixed, *form.carries)]
    avals += [a.having(shape=a.shape[1:], layout=None) for a in map(form.aval, (*blocks, *starts))]
    key = (
        "segment",
        form.body,
        len(form.constants),
        len(form.slices),
        size,
        begin,
        inner,
        form.reverse,
        form.conditional,
    )
    body = derive.written(key, turn, avals)

    def long(carried: Sequence[Any]) -> list[Any]:
        found = looped(o, fixed, carried, [*blocks, *starts], whole, (), body, CARRIES, form.conditional)
        return [*found[:carries], *(o.reshape(y, shape=(whole * size, *y.shape[2:])) for y in found[carries:])]

    def left(carried: Sequence[Any]) -> list[Any]:
        start = 0 if form.reverse else whole * size
        slices = [part(x, start, start + rest) for x in form.slices]
        count = [times(o, form.count[0], start, rest)] if form.count else []
        return looped(o, form.constants, carried, slices, rest, count, form.body, inner, form.conditional)

    first = long(form.carries)
    if not rest:
        return first
    last = left(first[:carries])
    pairs = zip(first[carries:], last[carries:], strict=True)
    joined = [o.concat(b, a, axis=0) if form.reverse else o.concat(a, b, axis=0) for a, b in pairs]
    return [*last[:carries], *joined]
