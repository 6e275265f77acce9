"""A body as calls on registers: what runs on each block."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.declaration import Items
from nnc_func.device.shared.namespace import writing
from nnc_func.errors import OperatorError
from nnc_func.facets import shapes
from nnc_func.facets.dims import known
from nnc_func.facets.kernels import ALL, Kernel
from nnc_func.graph.ops.bodies import GATHERED, Pattern, block_kernel, dtypes_in, is_reduction, over_blocks
from nnc_func.graph.ops.reduce import mean
from nnc_func.memo import cached_by_body

SLOW_OF_NUMBERS = frozenset({"maximum", "minimum", "power"})  # NumPy has vector code of them for runs only


@frozen
class Lowered:
    """The applications of a body as calls on registers.

    Attributes
    ----------
    calls
        (function, numbers of operands, number of the result): arguments, then registers, then results.
    registers
        Dtype and pattern of each.
    runs
        (argument, register): a number of which a register is full, from the first block to the last.
    copies
        (register, result): what cannot be computed where it is wanted.
    gathered
        (function, register, result, number of axes, whether it is a mean): reductions over blocks.
    patterns
        Of the results.
    itemsize
        Of the widest value that has all elements.
    """

    calls: tuple[tuple[Any, tuple[int, ...], int], ...]
    registers: tuple[tuple[Any, Pattern], ...]
    runs: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, int], ...]
    gathered: tuple[tuple[Any, int, int, int, bool], ...]
    patterns: tuple[Pattern, ...]
    itemsize: int


class _Registers:
    """Scratch arrays by dtype and pattern; one is free again once nothing reads what it holds."""

    def __init__(self) -> None:
        self.kinds: list[tuple[Any, Pattern]] = []
        self.free: list[int] = []

    def take(self, kind: tuple[Any, Pattern]) -> int:
        """One of that kind that is free, or another."""
        for i, r in enumerate(self.free):
            if self.kinds[r] == kind:
                return self.free.pop(i)
        return self.own(kind)

    def own(self, kind: tuple[Any, Pattern]) -> int:
        """One of that kind that holds nothing else, from the first block to the last."""
        self.kinds.append(kind)
        return len(self.kinds) - 1


def _scratched(into: Callable[..., Any] | None, count: int, params: dict[str, Any], *arrays: Any) -> None:
    assert into is not None
    into(np, arrays[: -count - 1], arrays[-1:], arrays[-count - 1 : -1], **params)


class _Lowering:
    """One lowering under way."""

    def __init__(self, body: Body, given: tuple[Any, ...], patterns: tuple[Pattern, ...]):
        self.body, self.count = body, len(given)
        self.dtypes, self.patterns = dtypes_in(body, given), list(patterns)
        self.results = {position: n for n, position in enumerate(body.results)}
        self.last, self.whole = body.last_uses(), _joined(self.patterns, tuple(range(len(given))))
        self.registers = _Registers()
        self.held: dict[int, int] = {}  # value to register
        self.calls: list[tuple[Any, tuple[int, ...], int]] = []
        self.copies: list[tuple[int, int]] = []
        self.runs: dict[int, int] = {}
        self.gathered: list[tuple[Any, int, int, int, bool]] = []

    def lower(self, n: int) -> None:
        """Lower one application; a result's number is negative until all registers are counted."""
        applied = self.body.applications[n]
        op, at, items = applied.op, applied.operands, applied.items
        value, registers = self.count + n, self.registers
        kernel = block_kernel(op, tuple(self.dtypes[i] for i in at), items)
        if kernel is None:
            raise OperatorError(
                f"{op.name} cannot be computed in blocks, so it cannot stand in the body of a blockwise"
            )
        reduces = is_reduction(op)
        self.patterns.append(_reduced(self.patterns[at[0]], items) if reduces else _joined(self.patterns, at))
        kind = self.dtypes[value], self.patterns[value]
        axes = over_blocks(op, items, len(self.whole)) if reduces else 0
        if axes:
            self.gather(n, GATHERED[op], at[0], axes, op is mean)
            return
        scratch = [registers.take((d, self.patterns[value])) for d in _scratch_dtypes(kernel, self.dtypes, at, items)]
        dying = sorted({self.held[i] for i in at if i in self.held and self.last[i] == n and i not in self.results})
        in_place = kernel.overwrites == ALL and not reduces
        result = self.results.get(value)
        apart = reduces or all(self.dtypes[i] != self.dtypes[value] for i in at)  # it lies over no operand
        is_alike = not scratch or kind[1] == self.whole  # what a kernel has besides is as large as what it writes
        if result is not None and (in_place or apart) and is_alike:
            target = -1 - result
        else:
            if in_place:
                registers.free += dying
                dying = []
            target = registers.take(kind)
            self.held[value] = target
            if result is not None:
                self.copies.append((target, result))
        operands = tuple(self.run(i, kind[1]) if op.name in SLOW_OF_NUMBERS else self.at(i) for i in at)
        registers.free += [*dying, *scratch]
        if value not in self.last and result is None:
            registers.free.append(target)
        self.calls.append((
            _call(kernel, items, reduces, len(scratch)),
            (*operands, *(self.count + s for s in scratch)),
            target if target < 0 else self.count + target,
        ))  # fmt: skip

    def gather(self, n: int, function: Any, of: int, axes: int, is_mean: bool) -> None:
        """Lower a reduction over blocks: of a register of its own, whose first row is added to."""
        register = self.registers.own((self.dtypes[self.count + n], self.patterns[of]))
        self.calls.append((copied, (self.at(of),), self.count + register))
        if of in self.held and self.last[of] == n and of not in self.results:
            self.registers.free.append(self.held[of])
        result = -1 - self.results[self.count + n]
        self.gathered.append((function, self.count + register, result, axes, is_mean))

    def at(self, value: int) -> int:
        """Where a value is: an argument, a register, or (negative) a result."""
        if value in self.held:
            return self.count + self.held[value]
        return value if value < self.count else -1 - self.results[value]

    def run(self, value: int, pattern: Pattern) -> int:
        """Where a value is; a register that is full of it, if it is a number beside runs."""
        if value >= self.count or value in self.held or any(self.patterns[value]):
            return self.at(value)
        if pattern != self.whole or not any(pattern):
            return self.at(value)
        if value not in self.runs:
            self.runs[value] = self.registers.own((self.dtypes[value], pattern))
        return self.count + self.runs[value]

    def done(self) -> Lowered:
        """All of it."""
        first = self.count + len(self.registers.kinds)
        pairs = zip(self.dtypes, self.patterns, strict=True)  # none is whole where an argument that nothing reads is

        def placed(number: int) -> int:
            return number if number >= 0 else first - 1 - number

        return Lowered(
            tuple((call, tuple(map(placed, operands)), placed(target)) for call, operands, target in self.calls),
            tuple(self.registers.kinds),
            tuple(self.runs.items()),
            tuple((self.count + register, first + result) for register, result in self.copies),
            tuple((f, register, placed(result), *rest) for f, register, result, *rest in self.gathered),
            tuple(self.patterns[position] for position in self.results),
            max((int(d.itemsize) for d, p in pairs if p == self.whole), default=int(self.dtypes[-1].itemsize)),
        )


@cached_by_body(4096)
def lowered(body: Body, given: tuple[Any, ...], patterns: tuple[Pattern, ...], own: bool = False) -> Lowered:
    """A body on arguments of these dtypes and patterns; the first one lies in a register of its `own`, or none does.

    Raises
    ------
    OperatorError
        An operator in it cannot be computed in blocks.
    """
    lowering = _Lowering(body, given, patterns)
    if own:
        lowering.held[0] = lowering.registers.take((given[0], patterns[0]))
    for n in range(len(body.applications)):
        lowering.lower(n)
    return lowering.done()


def copied(x: Any, out: Any) -> None:
    """Write one array, broadcast, into another."""
    out[...] = x


def _scratch_dtypes(kernel: Kernel, dtypes: Any, at: tuple[int, ...], items: Items) -> list[Any]:
    if kernel.scratch is None:
        return []
    return [d for _, d in kernel.scratch(tuple(Aval((4,), dtypes[i]) for i in at), **dict(items))]


def _call(kernel: Kernel, items: Items, reduces: bool, scratch: int) -> Any:
    if reduces:
        items = tuple((name, True if name == "keepdims" else value) for name, value in items)
    if scratch:
        return partial(_scratched, kernel.into, scratch, dict(items))
    return writing(np, kernel, items, 1, ())


def _joined(patterns: list[Pattern], at: tuple[int, ...]) -> Pattern:
    return tuple(map(any, zip(*(patterns[i] for i in at), strict=True)))


def _reduced(pattern: Pattern, items: Items) -> Pattern:
    gone = shapes.normalise_axes(dict(items)["axis"], len(pattern))
    return tuple(own and i not in gone for i, own in enumerate(pattern))


def pattern_of(shape: Any, whole: Any) -> Pattern:
    """Along which axes of the whole a value of that shape has elements of its own; there are none of one element."""
    padded = (1,) * (len(whole) - len(shape)) + tuple(shape)
    return tuple(not known(n) or (n == extent and n != 1) for n, extent in zip(padded, whole, strict=True))


def call_lowered(lowered: Lowered, blocks: list[Any]) -> None:
    """Run them on blocks: of the arguments, of the registers, of the results."""
    for call, operands, target in lowered.calls:
        call(*[blocks[i] for i in operands], blocks[target])
    for register, result in lowered.copies:
        blocks[result][...] = blocks[register]


def call_in_blocks(block: int, lowered: Lowered, others: list[Any], first: Any, out: Any, registers: Any) -> None:
    """Run them on blocks of so many bytes, which fit in a cache; the first argument may lie where the result will."""
    if out.nbytes <= block or out.ndim <= 1:
        some = [r[: out.size].reshape(out.shape) for r in registers]
        call_lowered(lowered, [first, *others, first, *some, out])
        return
    rows = max(1, block // out[0].nbytes)
    for top in range(0, out.shape[0], rows):
        part: Any = slice(top, top + rows) if rows > 1 else top
        call_in_blocks(block, lowered, [each[part] for each in others], first[part], out[part], registers)


def gather_lowered(lowered: Lowered, blocks: list[Any], first: bool) -> None:
    """Go on with the reductions over blocks, in the order of blocks, row after row as NumPy does it."""
    for function, register, result, axes, _ in lowered.gathered:
        out = blocks[result][(0,) * axes]
        rows = blocks[register].reshape(-1, *out.shape)
        if not first:
            function(out, rows[0], out=rows[0])
        function.reduce(rows, axis=0, out=out)


def finish_lowered(lowered: Lowered, arrays: list[Any], shape: Any) -> None:
    """Make means of what has been gathered, of all that has that shape."""
    for _, _, result, axes, is_mean in lowered.gathered:
        if is_mean:
            np.divide(arrays[result], math.prod(shape[:axes]), arrays[result])
