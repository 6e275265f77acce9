"""How loops and branches of random programs are drawn, with bodies that capture what is around, and hold others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import define, field
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.control_steps import INT64, Block, Branch, Decision, Loop, While
from nnc_func.testing.drawing import Drawing
from nnc_func.testing.program import Step

MOST = 32  # steps of a program, all levels together
TIMES = (2, 3, 1, 0)
HELD = 64  # elements of a carry at most
CHECKPOINTS = (
    (),
    (("checkpoint", "sqrt"),),
    (("checkpoint", 2),),
    (("checkpoint", "full"),),
    (("checkpoint", "costly"),),
)
UNROLLED = ((("unroll", 2),), (("unroll", True),))
POLES = frozenset((
    "log", "log1p", "log2", "log10", "sqrt", "cbrt", "reciprocal", "divide", "power", "tan", "asin", "acos", "acosh",
    "atanh", "erfinv", "lgamma", "polygamma", "atan2", "angle", "digamma", "norm", "remainder", "floor_divide",
))  # fmt: skip


@define
class ControlDrawing(Drawing):
    """A program with control flow in the making.

    Attributes
    ----------
    deepest
        How many loops and branches stand in each other at most.
    bases
        Of the blocks that are being drawn: how many values are around each.
    count
        How many steps there are.
    """

    deepest: int = 3
    bases: list[int] = field(factory=list)
    count: int = 0

    def make(self, most: int) -> None:
        """Up to so many steps, of which one is a loop or a branch."""
        self.repeat(most // 3, self.either)
        self.control()
        self.repeat(most // 3, self.either)

    def either(self) -> None:
        """A step, or a loop or branch."""
        self.count += 1
        if self.count > MOST:
            return
        if len(self.bases) < self.deepest and self.chance(3):
            self.control()
        else:
            self.step()

    def wanted(self) -> tuple[int, ...]:
        """What loops and branches give: one value of each."""
        at, found, known = len(self.leaves), [], self.known
        for step in self.steps:
            results = range(at, at := at + len(step.avals(known)))
            if not isinstance(step, (Step, Decision)):
                found.append(self.pick([n for n in results if known[n].dtype.kind == "f"] or results))
        return tuple(found)

    def takes(self, op: Op) -> bool:
        """As any program; those that are differentiated have no poles.

        Where only the run knows that a loop goes never, what it reads has cotangents of zeros; written out it has none.
        Times an infinite slope these differ.
        """
        return super().takes(op) and not (self.smooth and op.name in POLES)

    def operand(self, usable: list[int]) -> int:
        """One of these values; within a block rather one of its own."""
        own = [n for n in usable if self.bases and n >= self.bases[-1]]
        return super().operand(own if own and not self.chance(3) else usable)

    # --- what there is ---------------------------------------------------------------------------------------

    def numbers(self, fits: Callable[[Aval], bool]) -> list[int]:
        """Values that fit, the latest first."""
        known = self.known
        return [n for n in reversed(range(len(known))) if known[n].dtype != np.uint64 and fits(known[n])]

    def several(self, numbers: Sequence[int], most: int) -> tuple[int, ...]:
        """Up to so many of them; one may be there twice."""
        return tuple([self.pick(numbers) for _ in range(self.draw(st.integers(0, most)))]) if numbers else ()

    def control(self) -> None:
        """One loop or branch; none where no value is real, so that nothing decides."""
        if self.numbers(lambda a: a.dtype.kind != "c"):
            self.pick((self.loop, self.loop, self.branch, self.while_))()

    def add(self, step: Any, exact: Sequence[bool]) -> tuple[int, ...]:
        """A step; numbers of its results."""
        found = step.avals(self.known)
        base = len(self.known)
        self.steps.append(step)
        self.made += found
        self.exact += [e or a.dtype.kind not in "fc" for e, a in zip(exact, found, strict=True)]
        return tuple(range(base, base + len(found)))

    def block(
        self, given: Sequence[Aval], exact: Sequence[bool], results: Callable[[], tuple[int, ...]], most: int = 4
    ) -> Block:
        """A block of a few steps, with parameters of these avals; `results` chooses what it returns."""
        steps, base = self.steps, len(self.known)
        self.steps = []
        self.bases.append(base)
        self.made += given
        self.exact += [e or a.dtype.kind not in "fc" for e, a in zip(exact, given, strict=True)]
        self.repeat(most, self.either)
        found = results()
        made = Block(base, len(given), tuple(self.steps), found)
        self.steps = steps
        self.bases.pop()
        del self.made[base - len(self.leaves) :], self.exact[base:]
        return made

    # --- what has a given aval -------------------------------------------------------------------------------

    def fitting(self, aval: Aval) -> int:
        """A value of that aval: one that is there, or one that is made of another."""
        alike = self.numbers(lambda a: a.shape == aval.shape and a.dtype == aval.dtype)
        if not self.chance(3):
            found = self.converted(aval)
            if found is not None:
                return found
        return int(self.pick(alike))

    def converted(self, aval: Aval) -> int | None:
        """One that is made of another value; None if nothing fits."""
        kind = aval.dtype.kind
        sources = self.numbers(
            lambda a: a.dtype.kind in "biu" or (kind in "fc" and a.dtype.kind == "f") or (kind == a.dtype.kind == "c")
        )
        if not sources:
            return None
        at = self.operand(sources[::-1])
        if kind in "fc" and self.chance(2):
            at = self.one("tanh", at) if self.known[at].dtype.kind in "fc" else at
        if self.known[at].dtype != aval.dtype:
            at = self.one("cast", at, dtype=aval.dtype)
        try:
            broadcasts = np.broadcast_shapes(self.known[at].shape, aval.shape) == aval.shape
        except ValueError:
            broadcasts = False
        if not broadcasts:
            at = self.one("any" if kind == "b" else "sum", at)
            if self.known[at].dtype != aval.dtype:
                at = self.one("cast", at, dtype=aval.dtype)
        return at if self.known[at].shape == aval.shape else self.one("broadcast_to", at, shape=aval.shape)

    def one(self, name: str, at: int, **params: Any) -> int:
        """The number of an operator's result."""
        step = Step(CATALOGUE[name], (at,), params)
        (found,) = self.add(step, [False])
        return found

    def integer(self) -> int:
        """A number that decides: one that is there, or made of a value that is real."""
        there = self.numbers(lambda a: a.shape == () and a.dtype.kind in "iu")
        if there and self.chance(2):
            return int(self.pick(there))
        values = self.numbers(lambda a: a.dtype.kind != "c")
        (found,) = self.add(Decision(self.operand(values[::-1])), [True])
        return found

    # --- loops and branches ----------------------------------------------------------------------------------

    def rows(self, some: bool = False) -> tuple[int, ...]:
        """What a body gives besides: carries, constants, what it makes; `some`: at least one."""
        small = self.numbers(lambda a: a.size <= HELD)
        return self.several(small, 2) or ((self.pick(small),) if some else ())

    def loop(self) -> None:
        """`scan`, `foreach` or `fori`."""
        form = self.pick(("scan", "foreach", "fori"))
        counter = form == "fori" or self.chance(3)
        small = self.numbers(lambda a: a.size <= HELD)
        carries = self.several(small, 3)
        slices: tuple[int, ...] = ()
        if form != "fori" and (long := self.numbers(lambda a: a.ndim > 0 and a.shape[0] <= 4)):
            one = self.pick(long)
            extent = self.known[one].shape[0]
            slices = (one, *self.several([n for n in long if self.known[n].shape[0] == extent], 2))
            slices = () if self.chance(4) else slices
        count = None
        if self.chance(4) and (slices or not self.smooth):
            count = self.integer()
        rows = form != "fori" and (count is None or bool(slices))
        carries = carries or (() if rows else (self.pick(small),))
        how: tuple[tuple[str, Any], ...] = ()
        if count is None and self.chance(3):
            how = self.pick(CHECKPOINTS if form == "fori" else CHECKPOINTS + UNROLLED)
        length = self.pick(TIMES)
        known = self.known
        avals = [known[n] for n in carries]
        sliced = [known[n].having(shape=known[n].shape[1:], layout=None) for n in slices]
        exact = [True] * counter + [False] * len(carries) + [self.exact[n] for n in slices]

        def results() -> tuple[int, ...]:
            after = tuple([self.fitting(a) for a in avals])
            return (*after, *(self.rows(not carries) if rows else ()))

        body = self.block([*[INT64] * counter, *avals, *sliced], exact, results)
        reverse = form != "fori" and self.chance(3)
        made = Loop(form, counter, carries, slices, length, count, reverse, how, body)
        self.add(made, [False] * len(body.results))

    def while_(self) -> None:
        """`while_loop`."""
        bounded = self.smooth or not self.chance(3)
        counter = not bounded or self.chance(2)
        carries = self.several(self.numbers(lambda a: a.size <= HELD), 3)
        if not carries and not counter:
            return
        avals = [self.known[n] for n in carries]
        given, exact = [*[INT64] * counter, *avals], [True] * counter + [False] * len(carries)
        condition = self.block(given, exact, lambda: (self.integer(),), most=1)
        flags = self.numbers(lambda a: a.shape == () and a.dtype.kind == "b")
        below: int | None = self.pick((3, 1, 0, 5))
        if flags and self.chance(6):
            condition, below = Block(condition.base, condition.parameters, (), (self.pick(flags),)), None
        body = self.block(
            given, exact, lambda: (*(self.fitting(a) for a in avals), *(self.rows() if bounded else ()))
        )  # fmt: skip
        made = While(counter, carries, condition, below, self.pick(TIMES), bounded, body)
        self.add(made, [False] * (len(body.results) + 1))

    def branch(self) -> None:
        """`cond` or `case_of`."""
        form = self.pick(("cond", "case_of"))
        flags = self.numbers(lambda a: a.shape == () and a.dtype.kind == "b")
        index = self.pick(flags) if form == "cond" and flags and self.chance(2) else self.integer()
        small = self.numbers(lambda a: a.size <= HELD)
        operands = self.several(small, 3)
        default: Any = self.pick((None, "block", "bypass")) if form == "case_of" else None
        wanted = [self.known[n] for n in (operands if default == "bypass" else self.several(small, 2) or (small[0],))]
        if not wanted:
            return
        given, exact = [self.known[n] for n in operands], [self.exact[n] for n in operands]

        def block() -> Block:
            return self.block(given, exact, lambda: tuple([self.fitting(a) for a in wanted]), most=3)

        blocks = tuple([block() for _ in range(2 if form == "cond" else self.pick((2, 1, 3)))])
        if default == "block":
            default = block()
        self.add(Branch(form, index, operands, blocks, default), [False] * len(wanted))
