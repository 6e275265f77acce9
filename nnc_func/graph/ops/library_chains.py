"""Groups of elementwise operators that begin with sums and products, which a library computes in one go.

What follows these is computed block by block in their result, by kernels of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.body import Application, Body
from nnc_func.device.kernels.onednn import FAST, FLOAT32, Run, Scratch, accepted, kernel_of, pad, result_array
from nnc_func.device.kernels.onednn_chains import Whole
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.ops import in_blocks
from nnc_func.graph.ops.binary import add, fma, multiply
from nnc_func.graph.ops.bodies import dtypes_in
from nnc_func.graph.ops.library_fused import EITHER_WAY, LOSSY, MOST, WITH_ANOTHER, Split, split

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import After, Primitive

FEW = 2  # operators that may follow: of more a block is better kept in the caches from the first one on


def in_twos(body: Body) -> Body:
    """The body, with a product and a sum for each `fma`.

    Examples
    --------
    >>> in_twos(Body.of(3, (fma, 0, 1, 2)))
    (%0, %1, %2) { %3 = multiply(%0, %1); %4 = add(%3, %2); return %4 }
    """
    if all(each.op is not fma for each in body.applications):
        return body
    numbers = [*range(body.parameters)]
    found: list[Application] = []
    for each in body.applications:
        given = tuple([numbers[i] for i in each.operands])
        if each.op is fma:
            found.append(Application(multiply, given[:2]))
            given, each = (body.parameters + len(found) - 1, given[2]), Application(add, (0, 1))
        found.append(each.of_others(given))
        numbers.append(body.parameters + len(found) - 1)
    return Body(body.parameters, found, [numbers[i] for i in body.results])


@frozen
class Parts:
    """A body of which a library computes the first operators.

    Attributes
    ----------
    whole
        Its extents.
    operands
        Positions of the arrays of the first operator; the first one is whole.
    first
        That operator.
    split
        What is done with its result; positions are those of all arrays.
    """

    whole: Whole
    operands: tuple[int, int]
    first: After
    split: Split

    @property
    def primitive(self) -> Primitive:
        """What the library computes."""
        return self.whole.chain(self.first, self.split.after)


@lru_cache(4096)
def parts(avals: tuple[Aval, ...], body: Body, fast: bool) -> Parts | None:
    """A body on arguments of these avals, taken apart; None where the library would do little of it."""
    from nnc_func.device.onednn.primitives import After

    whole = Whole.of(avals)
    if whole is None:
        return None
    body = in_twos(body)
    begin, *rest = body.applications
    count = body.parameters
    if begin.op.name not in WITH_ANOTHER or count in body.results:
        return None
    if dtypes_in(body, tuple([a.dtype for a in avals]))[body.results[0]] != FLOAT32:  # it lies where the library's does
        return None
    kinds = tuple(map(whole.kind, avals))
    a, b = begin.operands
    if kinds[a] != "whole" and begin.op.name in EITHER_WAY:
        a, b = b, a
    if kinds[a] != "whole" or kinds[b] == "none":
        return None
    numbers = [*range(1, count + 1), 0, *range(count + 1, count + len(rest) + 1)]
    after = Body(
        count + 1,
        [each.of_others(tuple([numbers[i] for i in each.operands])) for each in rest],
        [numbers[i] for i in body.results],
    )
    for most in range(min(MOST, len(rest)), 0, -1):
        found = split(after, kinds, most, fast)
        made = Parts(whole, (a, b), After(begin.op.name, kinds[b]), found)
        if len(found.after) == most and accepted(getattr, made, "primitive"):
            left = found.rest is not None and len(found.rest.applications)
            return made if left <= FEW and (not fast or any(each.name in LOSSY for each in found.after)) else None
    return None


def _parts(arrays: Any, body: Body, fast: bool) -> Parts | None:
    """Of arrays or avals: those of a plan may have another layout."""
    return parts(tuple([Aval(tuple(a.shape), a.dtype, getattr(a, "layout", None)) for a in arrays]), body, fast)


def _shown(found: Parts, arrays: Any) -> tuple[Any, ...]:
    """The whole result, and what is beside it, of what the library leaves."""
    beside = [arrays[i] for i in found.split.beside]
    result = Aval(found.whole.shape, np.float32, found.whole.layout)
    return (result, *[Aval(tuple(a.shape), a.dtype, getattr(a, "layout", None)) for a in beside])


def _takes(fast: bool, avals: Any, *, body: Body) -> bool:
    return _parts(avals, body, fast) is not None


def _scratch(fast: bool, avals: Any, *, body: Body) -> Scratch:
    found = _parts(avals, body, fast)
    assert found is not None
    rest = found.split.rest
    own = in_blocks.scratch_of(_shown(found, avals), body=rest) if rest is not None else ()
    return (*pad(found.primitive), *own)


def _bound(fast: bool, avals: Any, *, body: Body) -> Callable[..., Run]:
    given = avals[:-1]
    found = _parts(given, body, fast)
    assert found is not None
    primitive, rest = found.primitive, found.split.rest
    (a, b), others, beside = found.operands, found.split.others, found.split.beside
    pads = len(pad(primitive))
    finish = None
    if rest is not None:
        shown = _shown(found, given)
        finish = in_blocks.bound((*shown, shown[0]), body=rest) or partial(_finishing, rest)

    def of(*scratch: Any) -> Run:
        run = found.whole.run(primitive, (found.first, *found.split.after), scratch[:pads])
        last = finish and finish(*scratch[pads:])

        def called(*arrays: Any) -> None:
            result = arrays[-1]
            run(arrays[a], arrays[b], *[arrays[i] for i in others], result)
            if last:
                last(result, *[arrays[i] for i in beside], result)

        return called

    return of


def _finishing(body: Body, *scratch: Any) -> Run:
    def run(*arrays: Any) -> None:
        in_blocks.write(np, arrays[:-1], arrays[-1:], scratch, body=body)

    return run


def _empty(*arrays: Any, body: Body) -> Any:
    return result_array(np.broadcast_shapes(*[a.shape for a in arrays]), np.float32)


def _overwrites(count: int, *, body: Body) -> tuple[tuple[int, ...]]:
    """Arguments that nothing reads after the first operator: the library's result is written before what follows."""
    last = body.last_uses()
    return (tuple([i for i in range(count) if last.get(i, 0) == 0]),)


def _kernel(name: str, fast: bool, **facts: Any) -> Kernel:
    bound, scratch, takes = partial(_bound, fast), partial(_scratch, fast), partial(_takes, fast)
    return kernel_of(name, bound, scratch, takes, _empty, overwrites=_overwrites, **facts)


LIBRARY_CHAINS = (_kernel("onednn, fast math", True, library=FAST), _kernel("onednn", False))
