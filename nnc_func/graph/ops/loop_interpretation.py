"""A loop as its body's operators one after another, by the kernels that a namespace runs alone.

What nobody else reads is written over where a kernel can: a row that is set in a carry, time after time, does not copy
all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.device.kernels.move import dtype_in, dtype_of
from nnc_func.device.shared.kernel_choice import fresh
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.ops.bodies import kernels_of
from nnc_func.memo import cached_by_body

SMALL = 4096  # bytes of what is made of nothing, and then remembered


@frozen(eq=False)
class _Step:
    """One application in a body.

    Attributes
    ----------
    function
        From arrays to a new one, or several.
    over
        From arrays to a result that is written over the first one; None: there is no such.
    loop
        Of a loop, its function of arrays and of the positions of those that it may write over.
    operands, results
        Numbers of values.
    last
        Positions of operands that nothing reads afterwards.
    """

    function: Callable[..., Any]
    over: Callable[..., Any] | None
    loop: Callable[..., Any] | None
    operands: tuple[int, ...]
    results: range
    last: frozenset[int]


def interpreted(
    xp: Any, *arrays: Any, body: Body, constants: int, carries: int, length: int | None, reverse: bool, counted: bool,
    conditional: bool, checkpoint: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The results of a loop."""
    return _run(xp, arrays, (), body, constants, carries, length, reverse, counted, conditional)


def _run(
    xp: Any, arrays: Sequence[Any], free: Collection[int], body: Body, constants: int, carries: int,
    length: int | None, reverse: bool, counted: bool, conditional: bool, **_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The results; operands in `free` are carries that may be written over."""
    first, last = constants + carries, len(arrays) - counted
    same, sliced = arrays[:constants], arrays[first:last]
    most: Any = length if length is not None or not sliced else sliced[0].shape[0]
    count: Any = most if not counted else _times(int(arrays[-1]), most)
    given = [Aval(a.shape, dtype_of(a)) for a in (*arrays[:first],)]
    given += [Aval(a.shape[1:], dtype_of(a)) for a in sliced]
    steps, avals, literals = _steps(body, tuple(given), xp)
    stacked = [avals[i] for i in body.results[carries:]]
    carry, rows, i = [*arrays[constants:first]], list[list[Any]](), 0
    owned = {n for n in free if constants <= n < first}
    once = {n for n in range(carries) if body.results.count(body.results[n]) == 1}
    while (count is None or i < count) and not (conditional and not bool(carry[0])):
        row = count - 1 - i if reverse else i
        values = {**literals, **dict(enumerate(same)), **dict(enumerate(carry, constants))}
        values.update((first + n, x[row, ...]) for n, x in enumerate(sliced))
        try:
            _applied(xp, steps, values, owned)
        except Exception as error:
            if error.args and isinstance(error.args[0], str):
                error.args = (f"{error.args[0]} in time {i} of the loop", *error.args[1:])
            raise
        carry, i = [values[n] for n in body.results[:carries]], i + 1
        owned = {constants + n for n in once if body.results[n] in owned}
        if stacked:
            rows.append([values[n] for n in body.results[carries:]])
    if reverse:
        rows.reverse()
    ys = [_column(xp, [row[n] for row in rows], most, aval) for n, aval in enumerate(stacked)]
    own = [x if constants + n in owned else xp.asarray(x, copy=True) for n, x in enumerate(carry)]
    return (*own, *ys)


def _applied(xp: Any, steps: Sequence[_Step], values: dict[int, Any], owned: set[int]) -> None:
    """Compute all values of a body; `owned` are those that nobody else has, and which may be written over."""
    for step in steps:
        operands = [values[n] for n in step.operands]
        free = [at for at in step.last if step.operands[at] in owned] if owned else []
        if step.loop is not None:
            made = step.loop(operands, free)
            owned.update(step.results)
        elif step.over is not None and 0 in free and _is_array(operands[0]):
            made = (step.over(*operands),)
            owned.update(step.results)
        else:
            found = step.function(*operands)
            made = found if len(step.results) != 1 or isinstance(found, tuple) else (found,)
            if xp is np:
                if any(type(x) is np.ndarray and (x.base is not None or any(x is y for y in operands)) for x in made):
                    owned.difference_update(step.operands)  # it may be a view
                else:
                    owned.update(step.results)
        for at in free:
            owned.discard(step.operands[at])
        values.update(zip(step.results, made, strict=True))


def _is_array(x: Any) -> bool:
    """Whether it may be written into: a number that NumPy gives in place of an array may not."""
    return type(x) is np.ndarray and x.flags.c_contiguous


@cached_by_body(4096)
def _steps(body: Body, given: tuple[Aval, ...], xp: Any) -> tuple[tuple[_Step, ...], tuple[Aval, ...], dict[int, Any]]:
    """The applications of a body to values of these avals, avals of all values, and small ones made of nothing."""
    kernels, avals = kernels_of(body, given, xp)
    last_uses, results, steps = body.last_uses(), {*body.results}, list[_Step]()
    number = body.parameters
    for n, (each, kernel) in enumerate(zip(body.applications, kernels, strict=True)):
        operands, params, made = each.operands, dict(each.items), range(number, number + each.count)
        last = [
            at for at, i in enumerate(operands) if last_uses[i] == n and i not in results and operands.count(i) == 1
        ]
        is_alike = operands and each.count == 1 and avals[operands[0]] == avals[number]
        over = _over(xp, kernel, params) if xp is np and is_alike else None
        inner = partial(_inner, xp, params) if xp is np and kernel.compute is interpreted else None
        steps.append(_Step(fresh(xp, kernel, each.items), over, inner, operands, made, frozenset(last)))
        number += each.count
    literals: dict[int, Any] = {}
    left: list[_Step] = []
    for step in steps:
        small = len(step.results) == 1 and avals[step.results[0]].nbytes <= SMALL
        if small and step.loop is None and all(i in literals for i in step.operands):
            literals[step.results[0]] = step.function(*[literals[i] for i in step.operands])
        else:
            left.append(step)
    return tuple(left), avals, literals


def _inner(xp: Any, params: dict[str, Any], arrays: Sequence[Any], free: Collection[int]) -> tuple[Any, ...]:
    return _run(xp, arrays, free, **params)


def _over(xp: Any, kernel: Kernel, params: dict[str, Any]) -> Callable[..., Any] | None:
    """A kernel that writes over its first operand as a function of arrays, which gives that."""
    if kernel.into is None or kernel.scratch is not None or kernel.overwrites != (0,):
        return None
    into = kernel.into

    def run(*arrays: Any) -> Any:
        into(xp, arrays, (arrays[0],), (), **params)
        return arrays[0]

    return run


def _column(xp: Any, rows: list[Any], most: int, aval: Aval) -> Any:
    """Rows side by side, and zeros after them, where the loop went less often than it may."""
    dtype = dtype_in(xp, aval.dtype)
    if not rows:
        return xp.zeros((most, *aval.shape), dtype=dtype)
    found = xp.stack(rows)
    if len(rows) == most:
        return found
    return xp.concat([found, xp.zeros((most - len(rows), *aval.shape), dtype=dtype)])


def _times(count: int, most: int | None) -> int:
    """How many times a loop goes that a number bounds."""
    return max(0, count if most is None else min(count, most))
