"""Bodies run block by block: the kernels of what fusion makes.

What does not change from call to call is found once: how the shape is cut, and where the blocks of each array lie.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nnc_func.body import Body
from nnc_func.device.kernels import blocks
from nnc_func.device.shared.unrolled import maker
from nnc_func.facets import shapes
from nnc_func.facets.dims import product
from nnc_func.graph.ops.bodies import is_reduction, one_by_one, over_blocks
from nnc_func.graph.ops.lowering import (
    Lowered,
    call_lowered,
    copied,
    finish_lowered,
    gather_lowered,
    lowered,
    pattern_of,
)

UNROLLED = 1 << 18  # bytes of a value of what is bound as calls one after the other: one block, in one thread
Shape = tuple[int, ...]


def scratch_of(avals: Any, *, body: Body) -> tuple[tuple[Shape, Any], ...]:
    """Shape and dtype of each register, for all threads together."""
    shape = shapes.broadcast(*(a.shape for a in avals)) or (1,)
    found = _lowered(body, avals, shape)
    most = blocks.held(shape, found.itemsize, _whole(body, len(shape)))
    return tuple(((blocks.register_size(shape, pattern, most),), dtype) for dtype, pattern in found.registers)


def write(xp: Any, arrays: Any, outs: Any, scratch: Any, *, body: Body) -> None:
    """Compute a group into `outs`."""
    shape: Any = shapes.broadcast(*(a.shape for a in arrays))
    whole = _whole(body, len(shape))
    if not product(shape):
        _of_nothing(xp, arrays, outs, body)
        return
    if whole == len(shape):
        shape, seen = blocks.few_axes((*arrays, *outs), shape)
        whole = len(shape)
    else:
        kept = _kept(_lowered(body, arrays, shape), shape)
        seen = [*(blocks.wide(a, shape) for a in arrays), *(o.reshape(k) for o, k in zip(outs, kept, strict=True))]
    _Work(_lowered(body, seen[: len(arrays)], shape), shape, whole, len(arrays), scratch).run(seen)


def bound(avals: Any, *, body: Body) -> Any:
    """What makes a group, of its scratch, a function of arrays of these avals."""
    count = body.parameters
    given, outs = avals[:count], avals[count:]
    shape: Any = shapes.broadcast(*(a.shape for a in given))
    size = product(shape)
    if not isinstance(size, int) or not size or any(a.layout is not None for a in avals):
        return None
    found = _lowered(body, given, shape)
    kept = _kept(found, shape)
    if (
        size * found.itemsize <= min(UNROLLED, blocks.REGISTER)
        and kept == [out.shape for out in outs]
        and not found.gathered
    ):
        return _in_one_piece(found, shape, count, len(avals))
    whole = _whole(body, len(shape))
    flat = whole == len(shape) and all(a.shape == shape or product(a.shape) == 1 for a in avals)
    if flat:
        seen: list[Any] = [(product(a.shape),) for a in avals]
        shape, whole = (size,), 1
        found = lowered(body, tuple(a.dtype for a in given), tuple((n != (1,),) for n in seen[:count]))
    else:
        results = (
            [out.shape for out in outs] if whole == len(shape) else kept
        )  # a value that broadcasts fills the whole
        seen = [*((1,) * (len(shape) - len(a.shape)) + a.shape for a in given), *results]

    def of(*scratch: Any) -> Any:
        work = _Work(found, shape, whole, count, scratch)
        return partial(_called, work, seen, flat, partial(_written, count, scratch, body))

    return of


def _called(work: _Work, seen: list[Shape], flat: bool, otherwise: Any, *arrays: Any) -> None:
    """Run bound work: arrays with gaps between their elements cannot be seen with one axis."""
    if flat and not all(a.flags.c_contiguous for a in arrays):
        otherwise(arrays)
    else:
        work.run([a if a.shape == s else a.reshape(s) for a, s in zip(arrays, seen, strict=True)])


def _written(count: int, scratch: Any, body: Body, arrays: Any) -> None:
    write(np, arrays[:count], arrays[count:], scratch, body=body)


class _Work:
    """A group on arrays of known shapes.

    Parameters
    ----------
    found
        The body.
    shape, whole
        What all arrays broadcast to; the first axis that stays in one piece with all behind it.
    count
        How many of the arrays are arguments.
    scratch
        Memory of the registers, for all threads.
    """

    def __init__(self, found: Lowered, shape: Shape, whole: int, count: int, scratch: Any) -> None:
        self._found, self._shape, self._whole, self._count = found, shape, whole, count
        self._scratch = scratch
        self._register = blocks.held(shape, found.itemsize, whole)
        self._cuts: dict[int, blocks.Blocks] = {}
        self._call = partial(call_lowered, found)
        self._in_order = partial(gather_lowered, found) if found.gathered else None

    def run(self, seen: Any) -> None:
        """Compute results of arguments: arrays with as many axes as the shape."""
        found = self._found
        threads = blocks.threads_for(self._shape, len(found.calls), self._register, self._whole)
        cut = self._cuts.get(threads)
        if cut is None:
            cut = self._cuts[threads] = self._cut(seen, threads)
        cut.run(seen, self._call, self._in_order)
        if found.gathered:
            finish_lowered(found, [*seen[: self._count], *self._scratch, *seen[self._count :]], self._shape)

    def _cut(self, seen: Any, threads: int) -> blocks.Blocks:
        found, register = self._found, self._register
        most = min(register // threads, blocks.BLOCK // found.itemsize)
        grid = blocks.grid(self._shape, most, self._whole, threads)
        shapes_seen = [a.shape for a in seen]
        return blocks.Blocks(shapes_seen, self._count, found.registers, self._scratch, grid, threads, found.runs)


def _in_one_piece(found: Lowered, shape: Shape, count: int, arrays: int) -> Any:
    """What makes one block, of its registers, calls one after the other on arguments and results."""
    own = [tuple(map(_extent, shape, pattern)) for _, pattern in found.registers]

    def at(number: int) -> int:  # registers come last here, and before the results there
        within = 0 <= number - count < len(own)
        return number if number < count else number + arrays - count if within else number - len(own)

    calls: list[Any] = [(copied, (argument, at(count + register))) for argument, register in found.runs]
    calls += [(call, (*map(at, operands), at(target))) for call, operands, target in found.calls]
    calls += [(copied, (at(register), at(result))) for register, result in found.copies]
    made, sizes = maker(calls, arrays, len(own)), [*map(product, own)]
    return lambda *scratch: made(*[s[:n].reshape(k) for s, n, k in zip(scratch, sizes, own, strict=True)])


def _of_nothing(xp: Any, arrays: Any, outs: Any, body: Body) -> None:
    """Without elements there are no blocks, though a sum of none is zero."""
    values = one_by_one(xp, arrays, body)
    for out, position in zip(outs, body.results, strict=True):
        out[...] = values[position]


def _whole(body: Body, rank: int) -> int:
    """The first axis that stays in one piece with all behind it.

    It is the first one that a reduction of rows reduces, or that one over blocks leaves.
    """
    found = rank
    for each in body.applications:
        if is_reduction(each.op):
            axes = shapes.normalise_axes(each.params["axis"], rank)
            found = min([found, over_blocks(each.op, each.items, rank) or min(axes, default=rank)])
    return found


def _lowered(body: Body, arrays: Any, shape: Any) -> Lowered:
    given = tuple([a.dtype for a in arrays])
    return lowered(body, given, tuple([pattern_of(a.shape, shape) for a in arrays]))


def _kept(found: Lowered, shape: Any) -> list[Shape]:
    """The shapes of results, with the axes that were reduced."""
    return [tuple(map(_extent, shape, pattern)) for pattern in found.patterns]


def _extent(extent: int, own: bool) -> int:
    return extent if own else 1
