"""Branches with loops in them whose carries grow: each is a loop that goes once, or not at all.

Such a loop is computed at once, and a branch may not be taken. So a branch that waits for one is a loop around it (see
`stages`): of one time where its condition holds, of none elsewhere. Results that grow are carries that grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.tracing import SCALARS, TracedBody, waiting
from nnc_func.errors import OperatorError
from nnc_func.facets.dims import is_computing, same_extent
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.create import full
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten


def as_loops(
    stack: Any, name: str, index: Tensor, functions: Mapping[str, Callable[..., Any]], operands: Sequence[Any],
    bodies: Mapping[str, TracedBody], dtypes: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """The results of the function of that number, of functions of which one waits for loops.

    Parameters
    ----------
    dtypes
        Of the results.

    Raises
    ------
    OperatorError
        A result has another shape in one than in another, along an axis that does not grow, outside of a loop with
        dynamic=True.
    """
    number = index.astype("int64")
    if "default" not in functions:
        number = _checked(stack, number, len(functions))
    begun = [_begin(stack, name, bodies, n, dtype) for n, dtype in enumerate(dtypes)]
    found, grows = [zeros for zeros, _ in begun], any(grown for _, grown in begun)
    for n, (which, f) in enumerate(functions.items()):
        taken = stack.ops.equal(number, n)
        if which == "default":
            taken = stack.ops.logical_or(number < 0, number >= n)

        def body(more: Any, rows: list[Any], f: Callable[..., Any] = f) -> tuple[None, tuple[Any, list[Any]]]:
            with waiting(stack.carrier(more).trace):  # the branch may not be taken
                leaves = flatten(f(*operands))[0]
            made = [
                stack.asarray(leaf, dtype) if type(leaf) in SCALARS else stack.asarray(leaf).astype(dtype)
                for leaf, dtype in zip(leaves, dtypes, strict=True)
            ]
            return None, (stack.asarray(np.bool_(False)), made)

        _, (_, found), _ = stack.while_loop(
            lambda more, rows: more, body, (taken, found), max_iterations=1, dynamic=grows
        )
    return found


def _told(body: TracedBody) -> set[str]:
    """Symbols of extents that loops within a body tell."""
    return {symbol for stage in body.stages for symbol in stage.extents}


def _begin(
    stack: Any, name: str, bodies: Mapping[str, TracedBody], n: int, dtype: Any
) -> tuple[Any, bool]:  # fmt: skip
    """Zeros of the shape that a result has, without elements along axes that grow; and whether there are such."""
    shapes = {which: body.avals[n].shape for which, body in bodies.items()}
    late, shape, grows = {symbol for body in bodies.values() for symbol in _told(body)}, [], False
    first, one = next(iter(shapes.items()))
    for which, other in shapes.items():
        if len(other) != len(one):
            raise OperatorError(f"branches of {name} give alike: result {n} is {one} in {first}, {other} in {which}")
    for axis, extents in enumerate(zip(*shapes.values(), strict=True)):
        is_late = any({*getattr(each, "symbols", ())} & late for each in extents)
        is_late |= is_computing() and any(each != extents[0] for each in extents)
        unlike = next((which for which, other in shapes.items() if not same_extent(other[axis], one[axis])), None)
        if unlike is not None and not is_late:
            raise OperatorError(
                f"branches of {name} give alike: result {n} is {one} in {first}, {shapes[unlike]} in {unlike}, and no "
                f"loop grows along axis {axis}; broadcast one"
            )
        grows |= is_late
        shape.append(0 if is_late else extents[0])
    return stack.ops.full(shape=tuple(shape), value=0, dtype=dtype), grows


def _checked(stack: Any, number: Tensor, count: int) -> Tensor:
    """The number; an error where there is no function of that number."""
    bodies = []
    for n in range(count):
        builder = BodyBuilder()
        bodies.append(builder.built([builder.apply(full, shape=(), value=n, dtype=np.dtype("int64"))]))
    (found,) = stack.bind(branch, number, bodies=tuple(bodies), default=False)
    return found  # type: ignore[no-any-return]
