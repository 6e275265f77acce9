"""A library's kernel and the elementwise operators that follow it.

Sums and products with other operands, and rectifiers, with which most bodies begin, the library does itself before it
writes an element. What is left is computed block by block in its result, by kernels of ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.device.kernels.linalg import last_channels
from nnc_func.device.kernels.onednn import (
    FAST,
    Primitives,
    Run,
    Scratch,
    keeps_nan,
    kernel_of,
    kind_of,
    result_array,
)
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC
from nnc_func.graph.ops.lowering import Lowered, call_in_blocks

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import After

BLOCK = 1 << 17  # bytes of a block: it and what is beside it fit in the second cache
MOST = 8  # operators that the library does itself
EITHER_WAY = frozenset({"add", "multiply"})
WITH_ANOTHER = EITHER_WAY | {"subtract"}


@frozen
class Split:
    """A body whose first operators a library does, with what follows.

    Attributes
    ----------
    after
        What the library does.
    others
        The operands of that, by their places among those beside the library's result.
    rest, beside
        What is done then with its result, if anything is; and the operands of that.
    """

    after: tuple[After, ...]
    others: tuple[int, ...]
    rest: Body | None
    beside: tuple[int, ...]


def split(body: Body, kinds: tuple[str, ...], most: int, fast: bool = False) -> Split:
    """The body with as many of its first operators as the library can do, at most so many, taken apart.

    Parameters
    ----------
    kinds
        Of each operand beside the result: which of `After.other` it is, or ``"none"`` of them.
    fast
        Whether the library's own rectifier is taken, which makes 0 of NaN.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> body = Body.of(3, (OPS["add"], 0, 1), (OPS["exp"], 3), (OPS["multiply"], 4, 2))
    >>> found = split(body, ("channels", "whole"), 8)
    >>> found.after, found.others, found.beside
    ((After(name='add', other='channels'),), (0,), (1,))
    >>> found.rest
    (%0, %1) { %2 = exp(%0); %3 = multiply(%2, %1); return %3 }
    """
    from nnc_func.device.onednn.primitives import After

    read = [i for each in body.applications for i in each.operands] + [*body.results]
    after: list[After] = []
    others: list[int] = []
    value = 0
    for each in body.applications[:most]:
        if read.count(value) != 1 or value not in each.operands:
            break
        if each.op.name == "relu" and (fast or keeps_nan()):
            after.append(After("fast relu" if fast else "relu"))
            value = body.parameters + len(after) - 1
            continue
        if each.op.name not in WITH_ANOTHER:
            break
        a, b = each.operands
        if b == value and each.op.name not in EITHER_WAY:
            break
        other = (b if a == value else a) - 1
        if other >= len(kinds) or kinds[other] == "none":
            break
        after.append(After(each.op.name, kinds[other]))
        others.append(other)
        value = body.parameters + len(after) - 1
    left = body.applications[len(after) :]
    if not left:
        return Split(tuple(after), tuple(others), None, ())
    beside = sorted({i - 1 for each in left for i in each.operands if 0 < i < body.parameters})
    numbers = {value: 0} | {other + 1: n for n, other in enumerate(beside, 1)}
    first = body.parameters + len(after)  # the number of the next value, as it was
    numbers |= {first + n: len(beside) + 1 + n for n in range(len(left))}
    rest = [each.of_others(tuple([numbers[i] for i in each.operands])) for each in left]
    return Split(
        tuple(after), tuple(others), Body(len(beside) + 1, rest, [numbers[i] for i in body.results]), tuple(beside)
    )


@lru_cache(4096)
def _fitted(
    primitives: Primitives, body: Body, avals: tuple[Aval, ...], kinds: tuple[str, ...], lasting: tuple[int, ...],
    items: tuple[tuple[str, Any], ...], fast: bool,
) -> Split:  # fmt: skip
    """The body split so that the library has code for its part."""
    params = dict(items)
    for most in range(min(MOST, len(body.applications)), 0, -1):
        found = split(body, kinds, most, fast)
        if len(found.after) == most and primitives.takes(
            (*avals[:2], *[avals[2 + i] for i in found.others]), lasting=lasting, after=found.after, **params
        ):
            return found
    return split(body, kinds, 0)


def blockwise(
    primitives: Primitives,
    name: str,
    lowered_after: Callable[[Body, Any, Any], Lowered],
    result: Callable[..., Any],
    accepts: Callable[..., bool],
    lasting: tuple[int, ...] = (),
    fast: bool = False,
    **facts: Any,
) -> Kernel:
    """The kernel of an operator whose parameter ``body`` says what is done with the result of another one.

    Parameters
    ----------
    primitives
        The library's, of the other operator, of two operands.
    name, lasting, facts
        Of the kernel.
    fast
        Whether it may lose NaN; it is taken only where there is a rectifier that it does itself.
    lowered_after
        ``lowered_after(body, dtype, others)``: what is done with a result of that dtype, and the arguments beside it.
    result
        ``result(*arrays, **params)``: shape and dtype.
    accepts
        ``accepts(avals, **params)``: whether the body's result may lie where that of the library does.
    """

    def parts(avals: Any, lasting: tuple[int, ...], body: Body, params: Any) -> Split:
        shape, _ = result(*avals, body=body, **params)
        layout = getattr(avals[0], "layout", None)
        channels = -1 if params.get("data_format", NHWC) == NHWC else -3
        kinds = tuple([kind_of(each, shape, layout, channels) for each in avals[2:]])
        plain = tuple([Aval(a.shape, a.dtype) for a in avals])
        return _fitted(primitives, body, plain, kinds, lasting, tuple(params.items()), fast)

    def takes(avals: Any, *, body: Body, lasting: tuple[int, ...] = (), **params: Any) -> bool:
        if not (accepts(avals, body=body, **params) and primitives.takes(avals[:2], lasting=lasting, **params)):
            return False
        return not fast or any(each.name == "fast relu" for each in parts(avals, lasting, body, params).after)

    def scratch_of(avals: Any, *, body: Body, lasting: tuple[int, ...] = (), **params: Any) -> Scratch:
        shape, dtype = result(*avals, body=body, **params)
        found, others = parts(avals, lasting, body, params), avals[2:]
        given = (*avals[:2], *[others[i] for i in found.others])
        pads = primitives.scratch(given, lasting=lasting, after=found.after, **params)
        if found.rest is None:
            return pads
        count = max(min(BLOCK // dtype.itemsize, math.prod(shape)), *shape)  # of a block, or of its innermost axis
        registers = lowered_after(found.rest, dtype, [others[i] for i in found.beside]).registers[1:]
        return (*pads, *[((count,), d) for d, _ in registers])

    def bound_of(
        avals: Any, *, body: Body, lasting: tuple[int, ...] = (), shares: bool = False, **params: Any
    ) -> Callable[..., Run]:
        *given, out = avals
        others = given[2:]
        found = parts(given, lasting, body, params)
        whole = (*given[:2], *[others[i] for i in found.others])
        of = primitives.bound((*whole, out), lasting=lasting, after=found.after, shares=shares, **params)
        pads = len(primitives.scratch(whole, lasting=lasting, after=found.after, **params))
        rest = found.rest
        finish = rest and lowered_after(rest, out.dtype, [others[i] for i in found.beside])

        def made(*scratch: Any) -> Run:
            first = of(*scratch[:pads])
            if not finish and found.others == tuple(range(len(others))):  # the library does all of it
                return first
            return partial(_run, first, found, finish or None, scratch[pads:], params.get("data_format", NHWC))

        return made

    def empty(*arrays: Any, **params: Any) -> Any:
        shape, dtype = result(*arrays, **params)
        return result_array(shape, dtype, params.get("data_format", NHWC))

    if fast:
        facts["library"] = FAST
    return kernel_of(name, bound_of, scratch_of, takes, empty, lasting, **facts)


def _run(
    first: Run, parts: Split, finish: Lowered | None, registers: Any, data_format: str, a: Any, b: Any, *arrays: Any
) -> None:
    *others, out = arrays
    first(a, b, *[others[i] for i in parts.others], out)
    if finish is not None:
        beside = [last_channels(np.broadcast_to(others[i], out.shape), data_format) for i in parts.beside]
        seen = last_channels(out, data_format)
        call_in_blocks(BLOCK, finish, beside, seen, seen, registers)
