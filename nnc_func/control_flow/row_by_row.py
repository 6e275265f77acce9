"""Loops whose carries grow, under `vmap`: each row is computed by itself, at once, and the results are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.autodiff.traced import Traced
from nnc_func.batching.batching import Rows
from nnc_func.control_flow.tracing import OUTSIDE, innermost_of
from nnc_func.errors import BatchingError, UnboundError
from nnc_func.facets.dims import known, same_extent
from nnc_func.graph.tensors.tensor import Tensor


def row_by_row(loop: Any, args: Sequence[Any]) -> tuple[list[Any], Any] | None:
    """What a loop gives of the rows of a vmap, as its `run`; None where it is given no rows.

    Raises
    ------
    BatchingError
        Rows end with different extents, or go differently often and stack rows that differ in shape.
    UnboundError
        How many rows there are is not known.
    """
    trace = innermost_of(args)
    if not isinstance(trace, Rows):
        return None
    trace.check()
    if not known(trace.size) or trace.size == 0:
        raise UnboundError(f"vmap of {trace.size} rows: {OUTSIDE}")
    stack, found, told = loop.stack, list[list[Any]](), list[Any]()
    for n in range(trace.size):
        row = [stack.carrier(Tensor(stack, a.primal.whole)[n]) if trace.owns(a) else a for a in args]
        made = loop.run(row)
        results, dims = made if isinstance(made, tuple) else (made, None)
        found.append(results)
        told.append(dims)
    unlike = getattr(loop, "made", 0) and told.count(told[0]) < len(told)
    if unlike or any(len(each) != len(found[0]) for each in found):
        raise BatchingError(f"rows of a vmap go differently often through a loop that gives lists: {REMEDY}")
    columns = []
    for n, parts in enumerate(zip(*found, strict=True)):
        if any(isinstance(each, list) for each in parts):
            raise BatchingError(f"a loop under vmap gives a list of tensors that differ in shape: {REMEDY}")
        shapes = [tuple(each.shape) for each in parts]
        other = next((k for k, shape in enumerate(shapes) if not _alike(shape, shapes[0])), None)
        if other is not None:
            what = loop.names[n] if n < len(loop.names) else f"output {n - loop.carries} of a loop whose carries grow"
            raise BatchingError(
                f"{what} ends as {shapes[0]} in row 0 of a vmap, and as {shapes[other]} in row {other}: {REMEDY}"
            )
        whole = stack.ops.stack(*[Tensor(stack, each) for each in parts], axis=0)
        columns.append(trace.row(stack.carrier(whole)))
    return columns, told[0]


def is_row(arg: Any) -> bool:
    """Whether it is a row of a vmap, beneath derivatives."""
    while type(arg) is Traced:
        arg = arg.primal
        if hasattr(arg, "whole"):
            return True
    return False


REMEDY = (
    "rows of a vmap have one shape. Let the loop grow alike in all rows, or use stack.map(f, xs), whose function may "
    "wait for such a loop, and gives what has one shape in all rows: a sum, a last row, a padded tensor"
)


def _alike(shape: tuple[Any, ...], first: tuple[Any, ...]) -> bool:
    """Whether they may be one shape; extents that are not known yet are compared when they are."""
    return len(shape) == len(first) and all(map(same_extent, shape, first))
