"""Steps: elementwise operators and reductions, one after another, as data; and as calls on registers.

A step is ``(operator's name, position of an operand, ..., (parameter, value), ...)``. Positions count the arguments,
then the steps; parameters that an operator has a default for may be left out, and dtypes are written by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.namespace import choose, fresh, writing
from nnc_func.errors import DeviceError, OperatorError, ShapeError
from nnc_func.facets import shapes
from nnc_func.facets.dims import known
from nnc_func.facets.kernels import ALL, Kernel
from nnc_func.facets.views import Cost
from nnc_func.op import Op

Step = tuple[Any, ...]
Steps = tuple[Step, ...]
Pattern = tuple[bool, ...]  # along which axes of all that is computed a value has elements of its own
REDUCTIONS = frozenset({"sum", "mean", "max", "min", "prod", "any", "all"})
ELEMENTWISE = (shapes.broadcast, shapes.same)
SLOW_OF_NUMBERS = frozenset({"maximum", "minimum", "power"})  # NumPy has vector code of them for runs only


# --- what a step says ------------------------------------------------------------------------------------


def step_operator(name: str) -> Op:
    """The operator of that name of this library's catalogue.

    Raises
    ------
    OperatorError
        There is none.
    """
    from nnc_func.graph.ops import CATALOGUE  # which is made of modules like this one

    found = CATALOGUE.get(name)
    if found is None:
        raise OperatorError(f"blockwise has a step {name!r}, and there is no such operator")
    return found


@lru_cache(4096)
def parsed(step: Step) -> tuple[Op, tuple[int, ...], Items]:
    """The operator of a step, the positions of its operands, its parameters."""
    op = step_operator(step[0])
    at = tuple(each for each in step[1:] if not isinstance(each, tuple))
    return op, at, op.canonical(dict(each for each in step[1:] if isinstance(each, tuple)))


def told(op: Op, at: tuple[int, ...], items: Items) -> Step:
    """The step that applies an operator to values at these positions."""
    params = tuple((name, value.name if isinstance(value, np.dtype) else value) for name, value in items)
    return (op.name, *at, *params)


def written(steps: Steps, names: tuple[str, ...]) -> str:
    """The last step as an expression of its arguments' names.

    Examples
    --------
    >>> written((("multiply", 1, 1), ("add", 0, 2), ("sqrt", 3)), ("h", "g"))
    'sqrt(add(h, multiply(g, g)))'
    """
    found = list(names)
    for name, *rest in steps:
        said = [found[each] if isinstance(each, int) else f"{each[0]}={each[1]!r}" for each in rest]
        found.append(f"{name}({', '.join(said)})")
    return found[-1]


def is_own(op: Op) -> bool:
    """Whether the operator can be named in a step: it is this library's own."""
    try:
        return step_operator(op.name) is op
    except OperatorError:
        return False


def is_reduction(op: Op) -> bool:
    """Whether it is a reduction that a group may end with."""
    return op.name in REDUCTIONS and is_own(op)


def step_kernel(op: Op, dtypes: tuple[Any, ...], items: Items = (), on: str = "numpy") -> Kernel | None:
    """The kernel that computes an operator in blocks; None if that cannot be done."""
    if not op.pure or op.several or op.variadic or op.view is not None:
        return None
    reduces = is_reduction(op)
    if op.shape not in ELEMENTWISE and not reduces:
        return None
    avals = tuple(Aval((1,) if reduces else (4,), d) for d in dtypes)
    try:
        found = choose(op, avals, dict(items), on)
    except DeviceError:
        return None
    if not found.infallible or (found.ufunc is None and found.into is None):
        return None
    if found.scratch is not None and any(shape != (4,) for shape, _ in found.scratch(avals, **dict(items))):
        return None
    if reduces and dtypes[0].kind in "fc" and op.dtype(*dtypes, **dict(items)) != dtypes[0]:
        return None
    return found


# --- of all values ---------------------------------------------------------------------------------------


@lru_cache(4096)
def step_dtypes(steps: Steps, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Dtypes of the arguments and of all steps."""
    found = list(given)
    for op, at, items in map(parsed, steps):
        found.append(op.dtype(*(found[i] for i in at), **dict(items)))
    return tuple(found)


def step_shapes(steps: Steps, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shapes of the arguments and of all steps."""
    found = list(given)
    for op, at, items in map(parsed, steps):
        found.append(op.shape(*(found[i] for i in at), **dict(items)))
    return tuple(found)


def step_flops(steps: Steps, args: tuple[Any, ...]) -> Any:
    """Arithmetic of all steps on arguments of these avals."""
    dtypes = step_dtypes(steps, tuple(a.dtype for a in args))
    shape_of = step_shapes(steps, tuple(a.shape for a in args))
    avals = [*map(Aval, shape_of, dtypes)]
    costs = [
        op.cost(tuple(avals[i] for i in at), (avals[len(args) + n],), **dict(items))
        for n, (op, at, items) in enumerate(map(parsed, steps))
    ]
    return sum(c.flops for c in costs)


def cost_of(args: tuple[Any, ...], results: tuple[Any, ...], *, steps: Steps, **_: Any) -> Cost:
    """Arithmetic of all steps; what goes to memory are arguments and results."""
    return Cost(step_flops(steps, args))


def one_by_one(xp: Any, xs: Any, steps: Steps) -> list[Any]:
    """One step after another, in any namespace: the arguments, and what each step gave."""
    values = list(xs)
    for op, at, items in map(parsed, steps):
        values.append(fresh(xp, op.kernels[-1], items)(*(values[i] for i in at)))
    return values


def check_readable(steps: Steps, count: int) -> None:
    """Refuse a step that reads what a block does not have: a reduction that has lost its axes.

    Raises
    ------
    ShapeError
        There is one; names it.
    """
    for op, at, _ in map(parsed, steps):
        for i in at:
            if i >= count and is_reduction(found := parsed(steps[i - count])[0]):
                keeps = dict(parsed(steps[i - count])[2])["keepdims"]
                if not keeps:
                    raise ShapeError(f"blockwise: {op.name} reads a {found.name} without keepdims=True")


# --- as calls on registers -------------------------------------------------------------------------------


@frozen
class Lowered:
    """Steps as calls on registers.

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
    patterns
        Of the results.
    """

    calls: tuple[tuple[Any, tuple[int, ...], int], ...]
    registers: tuple[tuple[Any, Pattern], ...]
    runs: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, int], ...]
    patterns: tuple[Pattern, ...]


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


def last_uses(steps: Steps) -> dict[int, int]:
    """Value to the last step that reads it."""
    return {i: n for n, step in enumerate(steps) for i in parsed(step)[1]}


def _scratched(into: Callable[..., Any] | None, count: int, params: dict[str, Any], *arrays: Any) -> None:
    assert into is not None
    into(np, arrays[: -count - 1], arrays[-1:], arrays[-count - 1 : -1], **params)


class _Lowering:
    """One lowering under way."""

    def __init__(self, steps: Steps, given: tuple[Any, ...], patterns: tuple[Pattern, ...], results: tuple[int, ...]):
        self.steps, self.count = steps, len(given)
        self.dtypes, self.patterns = step_dtypes(steps, given), list(patterns)
        self.results = {position: n for n, position in enumerate(results)}
        self.last, self.whole = last_uses(steps), _joined(self.patterns, tuple(range(len(given))))
        self.registers = _Registers()
        self.held: dict[int, int] = {}  # value to register
        self.calls: list[tuple[Any, tuple[int, ...], int]] = []
        self.copies: list[tuple[int, int]] = []
        self.runs: dict[int, int] = {}

    def step(self, n: int) -> None:
        """Lower one step; a result's number is negative until all registers are counted."""
        op, at, items = parsed(self.steps[n])
        value, registers = self.count + n, self.registers
        kernel = step_kernel(op, tuple(self.dtypes[i] for i in at), items)
        if kernel is None:
            raise OperatorError(f"blockwise has a step {op.name!r}, which cannot be computed in blocks")
        reduces = is_reduction(op)
        self.patterns.append(_reduced(self.patterns[at[0]], items) if reduces else _joined(self.patterns, at))
        kind = self.dtypes[value], self.patterns[value]
        scratch = [registers.take((d, self.patterns[value])) for d in _scratch_dtypes(kernel, self.dtypes, at, items)]
        dying = sorted({self.held[i] for i in at if i in self.held and self.last[i] == n and i not in self.results})
        in_place = kernel.overwrites == ALL and not reduces
        result = self.results.get(value)
        apart = reduces or all(self.dtypes[i] != self.dtypes[value] for i in at)  # it lies over no operand
        if result is not None and (in_place or apart):
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

        def placed(number: int) -> int:
            return number if number >= 0 else first - 1 - number

        return Lowered(
            tuple((call, tuple(map(placed, operands)), placed(target)) for call, operands, target in self.calls),
            tuple(self.registers.kinds),
            tuple(self.runs.items()),
            tuple((self.count + register, first + result) for register, result in self.copies),
            tuple(self.patterns[position] for position in self.results),
        )


@lru_cache(4096)
def lowered(
    steps: Steps,
    given: tuple[Any, ...],
    patterns: tuple[Pattern, ...],
    results: tuple[int, ...] = (),
    own: bool = False,
) -> Lowered:
    """Steps on arguments of these dtypes and patterns; the first one lies in a register of its `own`, or none does.

    Without `results` the last step is the one result.

    Raises
    ------
    OperatorError
        A step is no operator, or one that cannot be computed in blocks.
    """
    lowering = _Lowering(steps, given, patterns, results or (len(given) + len(steps) - 1,))
    if own:
        lowering.held[0] = lowering.registers.take((given[0], patterns[0]))
    for n in range(len(steps)):
        lowering.step(n)
    return lowering.done()


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


def call_steps(steps: Lowered, blocks: list[Any]) -> None:
    """Run them on blocks: of the arguments, of the registers, of the results."""
    for call, operands, target in steps.calls:
        call(*[blocks[i] for i in operands], blocks[target])
    for register, result in steps.copies:
        blocks[result][...] = blocks[register]
