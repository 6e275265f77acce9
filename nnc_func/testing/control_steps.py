"""Loops and branches as steps of a program: what a stack makes of them, what they mean in Python, and how they print.

A body numbers its values on from those that were there where it stands, so that it reads what is around it by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen

from nnc_func.aval import Aval
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.meanings import Meaning
from nnc_func.testing.program import Step

INT64 = Aval((), "int64")
Names = Callable[[int], str]


@frozen(eq=False)
class Block:
    """What is computed of parameters and of what is around.

    Attributes
    ----------
    base
        How many values are around: parameters have the next numbers, then results of steps.
    results
        Numbers, of values around or within.
    """

    base: int
    parameters: int
    steps: tuple[Any, ...]
    results: tuple[int, ...]

    def avals(self, known: Sequence[Aval], given: Sequence[Aval]) -> list[Aval]:
        """Of the results, by those of what is around and of the parameters."""
        found = [*known[: self.base], *given]
        for step in self.steps:
            found += step.avals(found)
        return [found[n] for n in self.results]

    def run(
        self, values: Sequence[Any], given: Sequence[Any], each: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        """The results, where `each` gives those of a step by the values so far."""
        found = [*values[: self.base], *given]
        for step in self.steps:
            found += each(step, found)
        return [found[n] for n in self.results]

    def applied(self, stack: Any, values: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The results on a stack."""
        return self.run(values, given, lambda step, found: step.applied(stack, found))

    def meant(self, meaning: Meaning, values: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The results by what steps mean."""
        return self.run(values, given, lambda step, found: step.meant(meaning, found))

    @property
    def operators(self) -> tuple[Op, ...]:
        """What is applied."""
        return tuple([op for step in self.steps for op in step.operators])

    @property
    def args(self) -> set[int]:
        """Values around that it reads."""
        read = {*self.results, *(n for step in self.steps for n in step.args)}
        return {n for n in read if n < self.base}

    def moved(self, number: Callable[[int], int]) -> Block:
        """With other numbers."""
        steps = tuple([step.moved(number) for step in self.steps])
        return Block(number(self.base), self.parameters, steps, tuple(map(number, self.results)))

    def lines(self, names: Names, known: Sequence[Aval], given: Sequence[Aval]) -> list[str]:
        """Its steps as code, indented."""
        found, lines = [*known[: self.base], *given], []
        for step in self.steps:
            lines += step.lines(names, found)
            found += step.avals(found)
        return [f"    {line}" for line in lines]


@frozen(eq=False)
class Decision:
    """An integer of a value: twice the sum of its hyperbolic tangents, rounded."""

    value: int
    operators: ClassVar[tuple[Op, ...]] = tuple([CATALOGUE[n] for n in ("cast", "tanh", "sum", "multiply", "round")])

    @property
    def args(self) -> tuple[int, ...]:
        """What it reads."""
        return (self.value,)

    def avals(self, known: Sequence[Aval]) -> list[Aval]:
        """Of its result."""
        return [INT64]

    def moved(self, number: Callable[[int], int]) -> Decision:
        """With another number."""
        return Decision(number(self.value))

    def applied(self, stack: Any, values: Sequence[Any]) -> list[Any]:
        """On a stack."""
        ops = stack.ops
        found = ops.multiply(ops.sum(ops.tanh(ops.cast(values[self.value], dtype="float64"))), 2.0)
        return [ops.cast(ops.round(found), dtype="int64")]

    def meant(self, meaning: Meaning, values: Sequence[Any]) -> list[Any]:
        """By operators one by one."""
        found = values[self.value]
        for name, params in (("cast", {"dtype": np.dtype("float64")}), ("tanh", {}), ("sum", {})):
            (found,) = meaning.apply(CATALOGUE[name], [found], params)
        (found,) = meaning.apply(CATALOGUE["multiply"], [found, meaning.constant(np.float64(2))], {})
        meaning.near(found)
        (found,) = meaning.apply(CATALOGUE["round"], [found], {})
        return meaning.apply(CATALOGUE["cast"], [found], {"dtype": np.dtype("int64")})

    def lines(self, names: Names, known: Sequence[Aval]) -> list[str]:
        """As code."""
        total = f'ops.sum(ops.tanh(ops.cast({names(self.value)}, dtype="float64")))'
        return [f'{names(len(known))} = ops.cast(ops.round(ops.multiply({total}, 2.0)), dtype="int64")']


@frozen(eq=False)
class Loop:
    """`scan`, `foreach` or `fori`.

    Attributes
    ----------
    form
        Which of them.
    counter
        Whether the first parameter of the body is the number of the time.
    carries, slices
        Numbers of what is carried, and of what is sliced: the body has a parameter for each, and its results are the
        next carries, then outputs.
    length
        How often it goes at most, where nothing is sliced.
    count
        Number of an integer that says how often it goes, if it does not go as often as it may.
    how
        Other arguments.
    """

    form: str
    counter: bool
    carries: tuple[int, ...]
    slices: tuple[int, ...]
    length: int
    count: int | None
    reverse: bool
    how: tuple[tuple[str, Any], ...]
    body: Block

    @property
    def operators(self) -> tuple[Op, ...]:
        """What its blocks apply."""
        return tuple([op for block in (self.body,) for op in block.operators])

    @property
    def args(self) -> tuple[int, ...]:
        """Values around that it reads."""
        counts = () if self.count is None else (self.count,)
        return tuple(sorted({*self.carries, *self.slices, *counts, *self.body.args}))

    def given(self, known: Sequence[Aval]) -> list[Aval]:
        """Avals of the body's parameters."""
        slices = [known[n].having(shape=known[n].shape[1:], layout=None) for n in self.slices]
        return [*[INT64] * self.counter, *(known[n] for n in self.carries), *slices]

    def most(self, shapes: Sequence[Any]) -> int:
        """How often it goes at most, by the shapes of the values around."""
        return int(shapes[self.slices[0]][0]) if self.slices else self.length

    def avals(self, known: Sequence[Aval]) -> list[Aval]:
        """Of its results: carries, then stacked outputs."""
        found = self.body.avals(known, self.given(known))
        most = self.most([a.shape for a in known])
        count = len(self.carries)
        return [*found[:count], *(a.having(shape=(most, *a.shape), layout=None) for a in found[count:])]

    def moved(self, number: Callable[[int], int]) -> Loop:
        """With other numbers."""
        return evolve(
            self, carries=tuple(map(number, self.carries)), slices=tuple(map(number, self.slices)),
            count=None if self.count is None else number(self.count), body=self.body.moved(number),
        )  # fmt: skip

    def applied(self, stack: Any, values: Sequence[Any]) -> list[Any]:
        """On a stack, by its loop."""
        count = len(self.carries)

        def step(carry: Any, x: Any) -> Any:
            times, carried = carry if self.counter else (None, carry)
            given = [*([times] if self.counter else []), *carried, *(x if self.slices else ())]
            found = self.body.applied(stack, values, given)
            rows = tuple(found[count:]) or None
            after = tuple(found[:count])
            return ((times + 1, after) if times is not None else after), rows

        init = tuple([values[n] for n in self.carries])
        if self.form == "fori":
            upper = self.length if self.count is None else stack.ops.minimum(values[self.count], self.length)
            found = stack.fori(0, upper, lambda i, carried: step((i, carried), None)[0][1], init, **dict(self.how))
            return list(found)
        first = (0, init) if self.counter else init
        xs = tuple([values[n] for n in self.slices]) or None
        how = {**dict(self.how), "reverse": self.reverse, **self._length(stack, values)}
        if self.form == "scan":
            last, rows = stack.scan(step, first, xs, **how)
        else:
            rows, last = stack.foreach(lambda x, carry: step(carry, x)[::-1], xs, first, **how)
        return [*(last[1] if self.counter else last), *(rows or ())]

    def _length(self, stack: Any, values: Sequence[Any]) -> dict[str, Any]:
        if self.count is not None:
            count = values[self.count]
            return {"length": count if self.slices else stack.ops.minimum(count, self.length)}
        return {} if self.slices else {"length": self.length}

    def meant(self, meaning: Meaning, values: Sequence[Any]) -> list[Any]:
        """By a `for` of Python."""
        most, count = self.most([v.shape for v in values]), len(self.carries)
        times = most if self.count is None else max(0, min(most, meaning.integer(values[self.count])))
        carried = [values[n] for n in self.carries]
        avals = self.body.avals(*self._known(values))[count:]
        rows = [[meaning.constant(np.zeros(a.shape, a.dtype)) for _ in range(most)] for a in avals]
        for time in range(times):
            at = times - 1 - time if self.reverse else time
            counter = [meaning.constant(np.int64(time))] * self.counter
            found = self.body.meant(meaning, values, [*counter, *carried, *(values[n][at] for n in self.slices)])
            carried = found[:count]
            for row, each in zip(rows, found[count:], strict=True):
                row[at] = each
        return [*carried, *map(meaning.stacked, rows, avals)]

    def _known(self, values: Sequence[Any]) -> tuple[list[Aval], list[Aval]]:
        known = [Aval(v.shape, v.dtype) for v in values]
        return known, self.given(known)

    def lines(self, names: Names, known: Sequence[Aval]) -> list[str]:
        """As code."""
        at, base, count = len(known), self.body.base, len(self.carries)
        counter, first = names(base), base + self.counter
        carried = tupled([names(first + n) for n in range(count)])
        after = tupled([names(n) for n in self.body.results[:count]])
        rows = tupled([names(n) for n in self.body.results[count:]]) if len(self.body.results) > count else "None"
        init = tupled(map(names, self.carries))
        results = [names(at + n) for n in range(len(self.body.results))]
        last, stacked = tupled(results[:count]), tupled(results[count:]) if results[count:] else "_"
        inside = self.body.lines(names, known, self.given(known))
        how = "".join([f", {name}={value!r}" for name, value in self.how])
        bound = None if self.count is None else names(self.count)
        if bound is not None and not self.slices:
            bound = f"ops.minimum({bound}, {self.length})"
        if self.form == "fori":
            upper = self.length if bound is None else bound
            return [
                f"def body{base}({counter}, carry):", f"    {carried} = carry", *inside, f"    return {after}",
                f"{last} = stack.fori(0, {upper}, body{base}, {init}{how})",
            ]  # fmt: skip
        if self.counter:
            carried, after, init = f"{counter}, {carried}", f"({counter} + 1, {after})", f"(0, {init})"
            last = f"(_, {last})"
        xs = tupled(map(names, self.slices)) if self.slices else "None"
        if bound is None and not self.slices:
            bound = str(self.length)
        how += f", length={bound}" * (bound is not None) + ", reverse=True" * self.reverse
        sliced = [f"    {tupled([names(first + count + n) for n in range(len(self.slices))])} = x"] * bool(self.slices)
        taken, given, made = "carry, x", f"{init}, {xs}", f"{last}, {stacked}"
        returned = f"{after}, {rows}"
        if self.form == "foreach":
            taken, given, made, returned = "x, carry", f"{xs}, {init}", f"{stacked}, {last}", f"{rows}, {after}"
        return [
            f"def body{base}({taken}):", f"    {carried} = carry", *sliced, *inside, f"    return {returned}",
            f"{made} = stack.{self.form}(body{base}, {given}{how})",
        ]  # fmt: skip


@frozen(eq=False)
class While:
    """`while_loop`: while what a block gives of the variables is true, or less than `below`.

    Attributes
    ----------
    most
        How often it goes at most: by ``max_iterations``, if it is `bounded`, else by the condition itself.
    counter
        Whether the first variable is the number of the time, which an unbounded one needs.
    """

    counter: bool
    carries: tuple[int, ...]
    condition: Block
    below: int | None
    most: int
    bounded: bool
    body: Block

    @property
    def operators(self) -> tuple[Op, ...]:
        """What its blocks apply."""
        return tuple([op for block in (self.condition, self.body) for op in block.operators])

    @property
    def args(self) -> tuple[int, ...]:
        """Values around that it reads."""
        return tuple(sorted({*self.carries, *self.condition.args, *self.body.args}))

    def given(self, known: Sequence[Aval]) -> list[Aval]:
        """Avals of the parameters of body and condition."""
        return [*[INT64] * self.counter, *(known[n] for n in self.carries)]

    def avals(self, known: Sequence[Aval]) -> list[Aval]:
        """Of its results: variables, stacked outputs, how often it went."""
        found, count = self.body.avals(known, self.given(known)), len(self.carries)
        return [*found[:count], *(a.having(shape=(self.most, *a.shape), layout=None) for a in found[count:]), INT64]

    def moved(self, number: Callable[[int], int]) -> While:
        """With other numbers."""
        return evolve(
            self, carries=tuple(map(number, self.carries)), condition=self.condition.moved(number),
            body=self.body.moved(number),
        )  # fmt: skip

    def applied(self, stack: Any, values: Sequence[Any]) -> list[Any]:
        """On a stack, by its loop."""
        count = len(self.carries)

        def holds(*given: Any) -> Any:
            (found,) = self.condition.applied(stack, values, given)
            found = found if self.below is None else found < self.below
            return found if self.bounded else stack.ops.logical_and(given[0] < self.most, found)

        def body(*given: Any) -> Any:
            found = self.body.applied(stack, values, given)
            counter = (given[0] + 1,) if self.counter else ()
            return tuple(found[count:]) or None, (*counter, *found[:count])

        bound = {"max_iterations": self.most} if self.bounded else {}
        init = (*((0,) if self.counter else ()), *(values[n] for n in self.carries))
        rows, last, times = stack.while_loop(holds, body, init, **bound)
        return [*last[self.counter :], *(rows or ()), times]

    def meant(self, meaning: Meaning, values: Sequence[Any]) -> list[Any]:
        """By a `while` of Python."""
        count, carried, time = len(self.carries), [values[n] for n in self.carries], 0
        known = [Aval(v.shape, v.dtype) for v in values]
        avals = self.body.avals(known, self.given(known))[count:]
        rows: list[list[Any]] = [[] for _ in avals]
        while time < self.most:
            given = [*[meaning.constant(np.int64(time))] * self.counter, *carried]
            (found,) = self.condition.meant(meaning, values, given)
            decided = meaning.integer(found)
            if not (decided if self.below is None else decided < self.below):
                break
            results = self.body.meant(meaning, values, given)
            carried, time = results[:count], time + 1
            for row, each in zip(rows, results[count:], strict=True):
                row.append(each)
        for row, a in zip(rows, avals, strict=True):
            row += [meaning.constant(np.zeros(a.shape, a.dtype))] * (self.most - time)
        return [*carried, *map(meaning.stacked, rows, avals), meaning.constant(np.int64(time))]

    def lines(self, names: Names, known: Sequence[Aval]) -> list[str]:
        """As code."""
        at, base, count = len(known), self.body.base, len(self.carries)
        given = self.given(known)
        taken = ", ".join([names(base + n) for n in range(len(given))])
        holds = names(self.condition.results[0]) + ("" if self.below is None else f" < {self.below}")
        if not self.bounded:
            holds = f"ops.logical_and({names(base)} < {self.most}, {holds})"
        after = [f"{names(base)} + 1"] * self.counter + [names(n) for n in self.body.results[:count]]
        rows = tupled([names(n) for n in self.body.results[count:]]) if len(self.body.results) > count else "None"
        results = [names(at + n) for n in range(len(self.body.results) + 1)]
        last, stacked = tupled(["_"] * self.counter + results[:count]), tupled(results[count:-1])
        how = f", max_iterations={self.most}" * self.bounded
        init = tupled(["0"] * self.counter + [*map(names, self.carries)])
        return [
            f"def holds{base}({taken}):", *self.condition.lines(names, known, given), f"    return {holds}",
            f"def body{base}({taken}):", *self.body.lines(names, known, given), f"    return {rows}, {tupled(after)}",
            f"{stacked if results[count:-1] else '_'}, {last}, {results[-1]} = "
            f"stack.while_loop(holds{base}, body{base}, {init}{how})",
        ]  # fmt: skip


@frozen(eq=False)
class Branch:
    """`cond` of two blocks, the first where the index is true or above 0; or `case_of` of several.

    Attributes
    ----------
    operands
        The blocks have a parameter for each; what else they read they capture.
    default
        Of `case_of`: a block, "bypass", or None: then the index is taken modulo the number of blocks.
    """

    form: str
    index: int
    operands: tuple[int, ...]
    blocks: tuple[Block, ...]
    default: Block | str | None

    @property
    def every(self) -> tuple[Block, ...]:
        """All blocks."""
        return (*self.blocks, self.default) if isinstance(self.default, Block) else self.blocks

    @property
    def operators(self) -> tuple[Op, ...]:
        """What its blocks apply."""
        return tuple([op for block in self.every for op in block.operators])

    @property
    def args(self) -> tuple[int, ...]:
        """Values around that it reads."""
        return tuple(sorted({self.index, *self.operands, *(n for block in self.every for n in block.args)}))

    def avals(self, known: Sequence[Aval]) -> list[Aval]:
        """Of its results."""
        return self.blocks[0].avals(known, [known[n] for n in self.operands])

    def moved(self, number: Callable[[int], int]) -> Branch:
        """With other numbers."""
        default = self.default.moved(number) if isinstance(self.default, Block) else self.default
        blocks = tuple([block.moved(number) for block in self.blocks])
        return Branch(self.form, number(self.index), tuple(map(number, self.operands)), blocks, default)

    def applied(self, stack: Any, values: Sequence[Any]) -> list[Any]:
        """On a stack, by its branches."""
        index, operands = values[self.index], [values[n] for n in self.operands]
        functions = [
            lambda *given, block=block: tuple(block.applied(stack, values, given)) for block in self.every
        ]  # fmt: skip
        if self.form == "cond":
            return list(stack.cond(index if index.dtype.kind == "b" else index > 0, *functions, *operands))
        if self.default is None:
            return list(stack.case_of(stack.ops.remainder(index, len(functions)), functions, *operands))
        if self.default == "bypass":
            return list(stack.case_of(index, functions, *operands, default=lambda *given: given))
        return list(stack.case_of(index, functions[:-1], *operands, default=functions[-1]))

    def meant(self, meaning: Meaning, values: Sequence[Any]) -> list[Any]:
        """By an `if` of Python."""
        operands, index = [values[n] for n in self.operands], meaning.integer(values[self.index])
        if self.form == "cond":
            block: Any = self.blocks[0 if index > 0 else 1]
        elif self.default is None:
            block = self.blocks[index % len(self.blocks)]
        else:
            block = self.blocks[index] if 0 <= index < len(self.blocks) else self.default
        return operands if block == "bypass" else block.meant(meaning, values, operands)

    def lines(self, names: Names, known: Sequence[Aval]) -> list[str]:
        """As code."""
        at, base = len(known), self.blocks[0].base
        given = [known[n] for n in self.operands]
        taken, lines = ", ".join([names(base + n) for n in range(len(given))]), list[str]()
        called = [f"branch{base}_{n}" for n in range(len(self.every))]
        for name, block in zip(called, self.every, strict=True):
            results = tupled(map(names, block.results))
            lines += [f"def {name}({taken}):", *block.lines(names, known, given), f"    return {results}"]
        made = tupled([names(at + n) for n in range(len(self.blocks[0].results))])
        index, operands = names(self.index), "".join([f", {names(n)}" for n in self.operands])
        if self.form == "cond":
            index += "" if known[self.index].dtype.kind == "b" else " > 0"
            return [*lines, f"{made} = stack.cond({index}, {', '.join(called)}{operands})"]
        default = ""
        if self.default is None:
            index = f"ops.remainder({index}, {len(called)})"
        elif self.default == "bypass":
            default = ", default=lambda *given: given"
        else:
            default = f", default={called.pop()}"
        return [*lines, f"{made} = stack.case_of({index}, [{', '.join(called)}]{operands}{default})"]


def tupled(names: Any) -> str:
    """A tuple as code.

    Examples
    --------
    >>> tupled(["a"]), tupled([])
    ('(a,)', '()')
    """
    listed = list(names)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


AnyStep = Step | Decision | Loop | While | Branch
