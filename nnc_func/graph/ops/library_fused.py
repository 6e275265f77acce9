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
    leaks,
    result_array,
)
from nnc_func.facets.dtypes import is_bfloat16
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC
from nnc_func.graph.ops.lowering import Lowered, call_in_blocks, call_lowered

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import After

BLOCK = 1 << 18  # bytes of a block: it and what is beside it fit in the second cache
MOST = 8  # operators that the library does itself
CLOSE = 1e-7  # by so much a number may be another one: a sixth has no end
LEAST = 1e-45  # below it there is no positive number of single precision
EITHER_WAY = frozenset({"add", "multiply"})
WITH_ANOTHER = EITHER_WAY | {"subtract"}


LOSSY = frozenset({"fast relu", "sigmoid", "swish", "clip", "hardswish", "gelu"})  # what loses NaN


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
    given
        Operands of one element, by their places, each with the least and the largest number that it may be.
    """

    after: tuple[After, ...]
    others: tuple[int, ...]
    rest: Body | None
    beside: tuple[int, ...]
    given: tuple[tuple[int, float, float], ...] = ()


@frozen
class _Step:
    """What a library does at a time: so many operators of a body, with which operands, where some are given numbers."""

    after: After
    count: int = 1
    others: tuple[int, ...] = ()
    given: tuple[tuple[int, float, float], ...] = ()


class _Walk:
    """A body as it is walked along; `value` is the number of what the library has so far."""

    def __init__(self, body: Body, kinds: tuple[str, ...]) -> None:
        self.body, self.kinds = body, kinds
        self.read = [i for each in body.applications for i in each.operands] + [*body.results]
        self.value, self.place = 0, 0

    def named(self, place: int, name: str, *operands: int) -> bool:
        """Whether an operator of that name stands there, of these operands; of some, in either order."""
        if place >= len(self.body.applications):
            return False
        each = self.body.applications[place]
        found = each.operands
        same = found == operands or (name in {*EITHER_WAY, "maximum"} and found == operands[::-1])
        return each.op.name == name and same

    def operand(self, place: int, value: int) -> int | None:
        """The place of the operand beside a value, if there is such an operand."""
        a, b = self.body.applications[place].operands
        found = (b if a == value else a) - 1
        return found if 0 <= found < len(self.kinds) and value in (a, b) else None

    def binary(self) -> _Step | None:
        """A sum, a product or a difference with an operand that the library takes."""
        each, value = self.body.applications[self.place], self.value
        if self.read.count(value) != 1 or value not in each.operands or each.op.name not in WITH_ANOTHER:
            return None
        if each.operands[1] == value and each.op.name not in EITHER_WAY:
            return None
        other = self.operand(self.place, value)
        if other is None or self.kinds[other] == "none":
            return None
        return _Step(_after(each.op.name, self.kinds[other]), others=(other,))

    def rectifier(self, fast: bool) -> _Step | None:
        """A rectifier: with `fast` the library's own, else one that keeps NaN, where it can be put together."""
        each = self.body.applications[self.place]
        if each.op.name != "relu" or each.operands != (self.value,) or self.read.count(self.value) != 1:
            return None
        return _Step(_after("fast relu" if fast else "relu")) if fast or keeps_nan() else None

    def lossy(self) -> _Step | None:
        """A function of one operand that the library computes, but for NaN."""
        each, value = self.body.applications[self.place], self.value
        if each.operands != (value,):
            return None
        name, params, here = each.op.name, dict(each.items), self.body.parameters + self.place
        times = self.read.count(value)
        if name == "sigmoid" and times == 2 and self.read.count(here) == 1:
            weighed = self.named(self.place + 1, "multiply", value, here)
            return _Step(_after("swish"), 2) if weighed else None
        if times != 1:
            return None
        if name == "clip" and all(b is not None and repr(float(b)) != "-0.0" for b in (params["min"], params["max"])):
            return _Step(_after("clip", numbers=(float(params["min"]), float(params["max"]))))
        return _Step(_after(name)) if name == "sigmoid" else None

    def hard_swish(self) -> _Step | None:
        """``x clip(x + 3, 0, 6) / 6``, where two operands of one element are these numbers."""
        value, place, first = self.value, self.place, self.body.parameters + self.place
        steps = self.body.applications[place : place + 4]
        if len(steps) < 4 or any(len(steps[n].operands) != 2 for n in (0, 3)):
            return None
        if [self.read.count(i) for i in (value, first, first + 1, first + 2)] != [2, 1, 1, 1]:
            return None
        bounds = {"min": 0, "max": 6}
        three, six = self.operand(place, value), self.operand(place + 3, first + 2)
        if three is None or six is None or self.kinds[three] != "number" or self.kinds[six] != "number":
            return None
        same = self.named(place, "add", value, three + 1) and self.named(place + 2, "multiply", value, first + 1)
        if not same or not self.named(place + 1, "clip", first) or dict(steps[1].items) != bounds:
            return None
        if self.named(place + 3, "divide", first + 2, six + 1):
            scale = 6.0
        elif self.named(place + 3, "multiply", first + 2, six + 1):
            scale = 1 / 6
        else:
            return None
        numbers = (three, 3.0), (six, scale)
        return _Step(_after("hardswish"), 4, given=tuple([(place, n - CLOSE, n + CLOSE) for place, n in numbers]))

    def gelu(self) -> _Step | None:
        """``x erfc(x r) h`` in any order, where two operands of one element are ``-1 / sqrt(2)`` and a half.

        The library's loses digits of what is small: at -3 it is 2,000 units off in the last place, 1e-7 of 1.
        """
        value, place, first = self.value, self.place, self.body.parameters + self.place
        steps = self.body.applications[place : place + 4]
        if len(steps) < 4 or [self.read.count(i) for i in (value, first, first + 1, first + 2)] != [2, 1, 1, 1]:
            return None
        at = next((n for n in (1, 2) if steps[n].op.name == "erfc"), None)
        if at is None or any(len(each.operands) != 2 for n, each in enumerate(steps) if n != at):
            return None
        inner = steps[at].operands[0] - first
        if not 0 <= inner < at:
            return None
        ratio, scale = self.operand(place + inner, value), None
        (rest,) = {0, 1, 2} - {at, inner}
        curve = first + at
        if rest < at or not self.named(place + rest, "multiply", value, curve):
            scale = self.operand(place + rest, value)  # half of the value, times the curve
            whole = self.named(place + 3, "multiply", first + rest, curve)
            whole = whole and scale is not None and self.named(place + rest, "multiply", value, scale + 1)
        else:  # the value times the curve, half of that
            scale = self.operand(place + 3, first + rest)
            whole = scale is not None and self.named(place + 3, "multiply", first + rest, scale + 1)
        if not whole or ratio is None or scale is None:
            return None
        if not self.named(place + inner, "multiply", value, ratio + 1):
            return None
        if self.kinds[ratio] != "number" or self.kinds[scale] != "number":
            return None
        numbers = (ratio, -math.sqrt(0.5)), (scale, 0.5)
        return _Step(_after("gelu"), 4, given=tuple([(each, n - CLOSE, n + CLOSE) for each, n in numbers]))

    def leaky(self) -> _Step | None:
        """``max(x, a x)``, where one operand is such a factor: between 0 and 1 it is x or a x, as x has a sign."""
        value, place, scaled = self.value, self.place, self.body.parameters + self.place
        if [self.read.count(i) for i in (value, scaled)] != [2, 1] or len(self.body.applications[place].operands) != 2:
            return None
        factor = self.operand(place, value)
        if factor is None or self.kinds[factor] != "number" or not self.named(place, "multiply", value, factor + 1):
            return None
        if not self.named(place + 1, "maximum", value, scaled) or not leaks():
            return None
        return _Step(_after("prelu", "number"), 2, others=(factor,), given=((factor, LEAST, 1.0),))


def _after(name: str, other: str = "", numbers: tuple[float, ...] = ()) -> After:
    from nnc_func.device.onednn.primitives import After

    return After(name, other, numbers)


def split(body: Body, kinds: tuple[str, ...], most: int, fast: bool = False, guess: bool = False) -> Split:
    """The body with as many of its first operators as the library can do, at most so many, taken apart.

    Parameters
    ----------
    kinds
        Of each operand beside the result: which of `After.other` it is, or ``"none"`` of them.
    fast
        Whether what the library has is taken that makes something else of NaN.
    guess
        Whether what it has is taken that wants some operands to be certain numbers.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> body = Body.of(3, (OPS["add"], 0, 1), (OPS["exp"], 3), (OPS["multiply"], 4, 2))
    >>> found = split(body, ("channels", "whole"), 8)
    >>> found.after, found.others, found.beside
    ((After(name='add', other='channels', numbers=()),), (0,), (1,))
    >>> found.rest
    (%0, %1) { %2 = exp(%0); %3 = multiply(%2, %1); return %3 }
    """
    walk, steps = _Walk(body, kinds), list[_Step]()
    while len(steps) < most and walk.place < len(body.applications):
        found = walk.binary() or walk.rectifier(fast) or (walk.lossy() if fast else None)
        found = found or (walk.leaky() if guess else None)
        found = found or ((walk.hard_swish() or walk.gelu()) if fast and guess else None)
        if found is None:
            break
        steps.append(found)
        walk.place += found.count
        walk.value = body.parameters + walk.place - 1
    after, others = tuple([each.after for each in steps]), tuple([i for each in steps for i in each.others])
    given = tuple([pair for each in steps for pair in each.given])
    left = body.applications[walk.place :]
    if not left:
        return Split(after, others, None, (), given)
    beside = sorted({i - 1 for each in left for i in each.operands if 0 < i < body.parameters})
    numbers = {walk.value: 0} | {other + 1: n for n, other in enumerate(beside, 1)}
    first = body.parameters + walk.place  # the number of the next value, as it was
    numbers |= {first + n: len(beside) + 1 + n for n in range(len(left))}
    rest = [each.of_others(tuple([numbers[i] for i in each.operands])) for each in left]
    whole = Body(len(beside) + 1, rest, [numbers[i] for i in body.results])
    return Split(after, others, whole, tuple(beside), given)


@lru_cache(4096)
def _fitted(
    primitives: Primitives, body: Body, avals: tuple[Aval, ...], kinds: tuple[str, ...], lasting: tuple[int, ...],
    items: tuple[tuple[str, Any], ...], fast: bool, guess: bool = False,
) -> Split:  # fmt: skip
    """The body split so that the library has code for its part."""
    params = dict(items)
    for most in range(min(MOST, len(body.applications)), 0, -1):
        found = split(body, kinds, most, fast, guess)
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
        Whether it may lose NaN; of float32 it is taken only where there is a rectifier that it does itself.
    lowered_after
        ``lowered_after(body, dtype, others)``: what is done with a result of that dtype, and the arguments beside it.
    result
        ``result(*arrays, **params)``: shape and dtype.
    accepts
        ``accepts(avals, **params)``: whether the body's result may lie where that of the library does.
    """

    if fast:
        primitives = primitives.fast

    def parts(avals: Any, lasting: tuple[int, ...], body: Body, params: Any, guess: bool = False) -> Split:
        shape, _ = result(*avals, body=body, **params)
        layout = getattr(avals[0], "layout", None)
        channels = -1 if params.get("data_format", NHWC) == NHWC else -3
        kinds = tuple([kind_of(each, shape, layout, channels, avals[0].dtype) for each in avals[2:]])
        plain = tuple([Aval(a.shape, a.dtype) for a in avals])
        return _fitted(primitives, body, plain, kinds, lasting, tuple(params.items()), fast, guess)

    def ways(avals: Any, lasting: tuple[int, ...], body: Body, params: Any) -> list[Split]:
        """How it is taken apart, and how where some operands are certain numbers; if that is of use, it comes first."""
        known, guessed = parts(avals, lasting, body, params), parts(avals, lasting, body, params, True)
        return [guessed, known] if guessed.given else [known]

    def takes(avals: Any, *, body: Body, lasting: tuple[int, ...] = (), **params: Any) -> bool:
        if not (accepts(avals, body=body, **params) and primitives.takes(avals[:2], lasting=lasting, **params)):
            return False
        is_narrow = is_bfloat16(avals[0].dtype)
        if not fast and not is_narrow:
            return True
        found = ways(avals, lasting, body, params)
        if is_narrow and any(each.rest is not None for each in found):
            return False  # it is rounded once, at the end: no kernel of ours goes on with what was rounded
        return not fast or is_narrow or any(each.name in LOSSY for each in found[0].after)

    def pads_of(way: Split, avals: Any, lasting: tuple[int, ...], params: Any) -> Scratch:
        given = (*avals[:2], *[avals[2 + i] for i in way.others])
        return primitives.scratch(given, lasting=lasting, after=way.after, **params)

    def scratch_of(avals: Any, *, body: Body, lasting: tuple[int, ...] = (), **params: Any) -> Scratch:
        shape, dtype = result(*avals, body=body, **params)
        found = ways(avals, lasting, body, params)
        pads = max([pads_of(each, avals, lasting, params) for each in found], key=_bytes)
        count = max(min(BLOCK // dtype.itemsize, math.prod(shape)), *shape)  # of a block, or of its innermost axis
        return (*pads, *[((count,), d) for each in found for d, _ in _registers(each, dtype, avals)])

    def _registers(way: Split, dtype: Any, avals: Any) -> Any:
        return lowered_after(way.rest, dtype, [avals[2 + i] for i in way.beside]).registers[1:] if way.rest else ()

    def bound_of(
        avals: Any, *, body: Body, lasting: tuple[int, ...] = (), shares: bool = False, **params: Any
    ) -> Callable[..., Run]:
        *given, out = avals
        found = ways(given, lasting, body, params)
        each_pads = [pads_of(each, given, lasting, params) for each in found]
        ends = [len(max(each_pads, key=_bytes))]  # of the registers of each way, one after the other
        for each in found:
            ends.append(ends[-1] + len(_registers(each, out.dtype, given)))

        def one(way: Split, pads: Scratch, own: slice, *scratch: Any) -> Run:
            whole = (*given[:2], *[given[2 + i] for i in way.others])
            of = primitives.bound((*whole, out), lasting=lasting, after=way.after, shares=shares, **params)
            first = of(*scratch[: len(pads)])
            if way.rest is None and way.others == tuple(range(len(given) - 2)):  # the library does all of it
                return first
            if way.rest is None:
                return partial(_alone, first, way.others)
            beside = [given[2 + i] for i in way.beside]
            lowered = lowered_after(way.rest, out.dtype, beside)
            data_format = params.get("data_format", NHWC)
            after = _Finish.of(lowered, beside, out.shape, data_format, scratch[own], out.dtype)
            return partial(_run, first, way, after)

        def made(*scratch: Any) -> Run:
            owned = map(slice, ends, ends[1:])
            runs = [one(each, pads, own, *scratch) for each, pads, own in zip(found, each_pads, owned, strict=True)]
            return runs[0] if len(runs) == 1 else partial(_guessed, found[0].given, *runs)

        return made

    def empty(*arrays: Any, **params: Any) -> Any:
        shape, dtype = result(*arrays, **params)
        return result_array(shape, dtype, params.get("data_format", NHWC))

    if fast:
        facts["library"] = FAST
    return kernel_of(name, bound_of, scratch_of, takes, empty, lasting, narrow=True, **facts)


def _bytes(wanted: Scratch) -> int:
    return sum(math.prod(shape) for shape, _ in wanted)


def _guessed(given: Any, guess: Run, other: Run, a: Any, b: Any, *arrays: Any) -> None:
    """As it is guessed where operands are the numbers that they have to be, else as it is known."""
    run = guess
    for place, least, most in given:
        if not least <= arrays[place].item() <= most:
            run = other
    run(a, b, *arrays)


def _alone(first: Run, which: tuple[int, ...], a: Any, b: Any, *arrays: Any) -> None:
    *others, out = arrays
    first(a, b, *[others[i] for i in which], out)


def _run(first: Run, parts: Split, after: _Finish, a: Any, b: Any, *arrays: Any) -> None:
    *others, out = arrays
    first(a, b, *[others[i] for i in parts.others], out)
    after.run([others[i] for i in parts.beside], out)


@frozen(eq=False)
class _Finish:
    """What is done with a library's result where it lies.

    Attributes
    ----------
    lowered, data_format, registers
        The calls, of images in which order, and scratch memory.
    strides
        Of each operand beside the result, those of a view that has the result's shape, channels last, if it lies
        without gaps; none of one number, which is left one.
    shape
        Of the result, channels last.
    whole
        The registers as they go with a result that is one block; None where it is not.
    """

    lowered: Lowered
    data_format: str
    registers: Any
    strides: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    whole: Any

    @classmethod
    def of(cls, lowered: Lowered, others: Any, shape: Any, data_format: str, registers: Any, dtype: Any) -> _Finish:
        """As it is with operands of these avals."""
        last = shape if data_format == NHWC else (*shape[:-3], *shape[-2:], shape[-3])
        size = math.prod(shape)
        is_one = size * dtype.itemsize <= BLOCK or len(shape) <= 1
        strides = tuple([_spread(each, shape, data_format) for each in others])
        return cls(
            lowered, data_format, registers, strides, last,
            [each[:size].reshape(last) for each in registers] if is_one else None,
        )  # fmt: skip

    def run(self, others: Any, out: Any) -> None:
        """Do it."""
        seen, where = last_channels(out, self.data_format), self.data_format
        if self.whole is None:
            beside = [last_channels(np.broadcast_to(each, out.shape), where) for each in others]
            call_in_blocks(BLOCK, self.lowered, beside, seen, seen, self.registers)
            return
        beside = [self.shown(each, strides) for each, strides in zip(others, self.strides, strict=True)]
        call_lowered(self.lowered, [seen, *beside, seen, *self.whole, seen])

    def shown(self, other: Any, strides: tuple[int, ...]) -> Any:
        """An operand as it goes with the result, channels last."""
        if other.size == 1:
            return other.reshape(())
        if other.flags.c_contiguous:
            return np.ndarray(self.shape, other.dtype, other, 0, strides)
        whole = self.shape if self.data_format == NHWC else (*self.shape[:-3], self.shape[-1], *self.shape[-3:-1])
        return last_channels(np.broadcast_to(other, whole), self.data_format)


def _spread(other: Any, shape: Any, data_format: str) -> tuple[int, ...]:
    """Strides of a view of an operand that lies row by row, which has that shape, channels last then."""
    found, step = [], other.dtype.itemsize
    for n in reversed(other.shape):
        found.append(0 if n == 1 else step)
        step *= n
    strides = (0,) * (len(shape) - len(found)) + tuple(reversed(found))
    return strides if data_format == NHWC else (*strides[:-3], *strides[-2:], strides[-3])
