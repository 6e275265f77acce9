"""Bodies that wait for loops whose carries grow: they are cut into stages, and a loop goes over these.

A loop with ``dynamic=True`` is computed at once. Within the body of another loop its operands are not known while that
is traced; so the body is cut there. What can be computed before the inner loop is one stage, what reads its results
is a later one, with symbols for their extents. The outer loop is then computed at once too: a time of it computes stage
after stage, with the inner loops in between. Each of these is a function with a derivative of its own, so derivatives
are those of their composition, and what is traced and planned does not depend on how often the outer loop goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from attrs import evolve, field, frozen

from nnc_func.aval import Aval
from nnc_func.body import Application, Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.growing import GrowingLoop, told, value_now
from nnc_func.control_flow.growing_derivative import LISTS
from nnc_func.control_flow.row_by_row import row_by_row
from nnc_func.control_flow.tracing import OUTSIDE, Extents, Stage, TracedBody
from nnc_func.control_flow.waiting_derivatives import run_at_once
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.graph.ops.cut_bodies import avals_in
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.locks import cached_property


@frozen(eq=False)
class Part:
    """What is computed of a body between two inner loops: values by their numbers in that."""

    body: Body
    given: tuple[int, ...]
    made: tuple[int, ...]


@frozen(eq=False)
class StagedLoop:
    """A loop whose body waits for others that grow.

    Attributes
    ----------
    body
        Its parameters are constants, carries, slices, then results of the stages; its results are the next carries,
        what is stacked, then operands of the stages.
    avals
        Of its parameters, with symbols.
    constants, carries, slices, outputs
        How many there are.
    stages
        The loops within.
    symbols
        What the carries tell: symbol, number of the carry, axis.
    most
        How many times it goes at most, if it slices nothing; None: nothing bounds it.
    conditional
        Whether the first carry says whether there is a next time.
    told
        What messages end with: whose body it is.
    around
        Extents that are known outside.
    names
        How messages call the carries.
    """

    stack: Any
    body: Body
    avals: tuple[Aval, ...]
    constants: int
    carries: int
    slices: int = 0
    outputs: int = 0
    stages: tuple[Stage, ...] = ()
    symbols: tuple[tuple[str, int, int], ...] = ()
    most: int | None = None
    conditional: bool = False
    reverse: bool = False
    told: str = ""
    around: Mapping[str, int] = field(factory=dict)
    names: tuple[str, ...] = ()

    @cached_property
    def values(self) -> Sequence[Aval]:
        """Of all values of the body."""
        return avals_in(self.body, self.avals)

    @property
    def rows(self) -> list[Aval]:
        """Of a row of each output."""
        return [self.values[n] for n in self.body.results[self.carries : self.carries + self.outputs]]

    @cached_property
    def parts(self) -> list[Part]:
        """What is computed before each of the stages, and after the last one."""
        return [*_parts(self)]

    def described(self, args: Sequence[Aval], number: int) -> tuple[list[Aval], Extents]:
        """As of a `GrowingLoop`: it may be a stage itself."""
        if any(row.symbols for row in self.rows):
            raise OperatorError(LISTS)
        first = self.constants + self.carries
        count = self.most if self.most is not None or not self.slices else args[first].shape[0]
        return told(self.avals[self.constants : first], self.symbols, self.rows, count, self.conditional, number)

    def within(self, around: Mapping[str, int]) -> StagedLoop:
        """It where these extents are known."""
        return evolve(self, around={**self.around, **around})

    def applied(self, args: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        """As `run`: the last carries, and the outputs; one whose rows may differ in shape is a list of them."""
        found = [
            [Tensor(self.stack, row) for row in x] if isinstance(x, list) else Tensor(self.stack, x)
            for x in self.run(args)
        ]
        return found[: self.carries], found[self.carries :]  # type: ignore[return-value]

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The last carries, and the outputs.

        Parameters
        ----------
        args
            What flows through the layers: constants, carries, what is sliced.

        Raises
        ------
        ShapeError
            A carry has another shape after a time, along an axis that does not grow.
        UnboundError
            A value is not known, or is a row of a vmap.
        """
        rows = row_by_row(self, args)
        if rows is not None:
            return rows[0]
        found = run_at_once(self, args, in_rows=True)
        return self.computed(args)[0] if found is None else found

    def computed(self, args: Sequence[Any]) -> tuple[list[Any], None]:
        """As `run`, and nothing, of values that are known."""
        first = self.constants + self.carries
        constants, carry = args[: self.constants], [*args[self.constants : first]]
        rows = self._apart(args[first : first + self.slices])
        times, made = len(rows) if self.slices and self.most is None else self.most, list[list[Any]]()
        while (times is None or len(made) < times) and not (self.conditional and not self._goes_on(carry[0])):
            at = len(made) if times is None or not self.reverse else times - 1 - len(made)
            found = self._time([*constants, *carry, *(rows[at] if self.slices else ())])
            carry = found[: self.carries]
            made.append(found[self.carries :])
        if self.reverse:
            made.reverse()
        columns = [self._together([row[n] for row in made], aval) for n, aval in enumerate(self.rows)]
        return [*carry, *columns], None

    def _goes_on(self, more: Any) -> bool:
        found = value_now(self.stack, Tensor(self.stack, more), "whether a loop goes on", OUTSIDE)
        return bool(self.stack.engine.device.to_numpy(found))

    def _time(self, given: Sequence[Any]) -> list[Any]:
        """What the body gives once."""
        values, dims = dict(enumerate(given)), dict(self.around)
        dims.update({symbol: given[self.constants + n].shape[axis] for symbol, n, axis in self.symbols})
        for part, stage in zip_longest(self.parts, self.stages):
            if part.made:
                avals = tuple([self.values[n] for n in part.given])
                once = GrowingLoop(self.stack, part.body, avals, len(avals), 0, dims=[dict(dims)])
                found, _ = once.run([values[n] for n in part.given])
                values.update(zip(part.made, found, strict=True))
            if stage is not None:
                found = stage.loop.within(dims).run([values[self.body.results[n]] for n in stage.operands])
                found = found[0] if isinstance(found, tuple) else found
                values.update(zip(stage.results, found, strict=True))
                dims.update({name: found[n].shape[axis] for name, (n, axis) in stage.extents.items()})
        after = [values[n] for n in self.body.results[: self.carries + self.outputs]]
        growing = {(n, axis) for _, n, axis in self.symbols}
        for n in range(self.carries):
            was, now = tuple(given[self.constants + n].shape), tuple(after[n].shape)
            if any(a != b for axis, (a, b) in enumerate(zip(was, now, strict=True)) if (n, axis) not in growing):
                raise ShapeError(
                    f"a carry keeps its shape: {self.names[n]} is {was}, and {now} after the body, in which another "
                    "loop has grown, or elements told how many there are; let this one's carries grow, too, with "
                    f"dynamic=True{self.told}"
                )
        return after

    def _apart(self, slices: Sequence[Any]) -> list[list[Any]]:
        """The slices of each time: views."""
        if not slices:
            return []
        count, first = len(slices), self.constants + self.carries
        apart = GrowingLoop(self.stack, Body(count, (), range(count)), self.avals[first : first + count], 0, 0, count)
        found, _ = apart.run(slices)
        return [found[at : at + count] for at in range(0, len(found), count)]

    def _together(self, rows: list[Any], aval: Aval) -> Any:
        """An output: its rows side by side, if they have one shape."""
        if aval.symbols:
            return rows
        body, dims = Body(1, (), (0,)), [dict[str, int]() for _ in rows]
        return GrowingLoop(self.stack, body, (aval,), 0, 0, stacked=1, dims=dims).run(rows)[0][0]


def staged(
    stack: Any, body: TracedBody, own: Sequence[int | None], avals: Sequence[Aval], carries: int,
    growing: Mapping[tuple[int, int], str], what: str, **how: Any,
) -> StagedLoop:  # fmt: skip
    """The loop over a body that waits for others.

    Parameters
    ----------
    own
        For each carry and slice which parameter of the function it is; None: one that nothing reads.
    avals
        Of these.
    growing
        Carry and axis to the symbol of its extent.
    how
        Attributes of the loop.
    """
    builder, late = BodyBuilder(), [n for stage in body.stages for n in stage.results]
    count = body.body.parameters - len(body.captured)
    captured, at = builder.parameters(len(body.captured)), dict[Any, int]()
    for n in (*own, *late):
        at[n] = builder.parameter()
    values = builder.include(body.body, [*(at[n] for n in range(count)), *captured])
    return StagedLoop(
        stack, builder.built([values[n] for n in body.body.results]),
        (*body.parameters[count:], *avals, *(body.parameters[n] for n in late)), len(captured), carries,
        outputs=len(body.avals) - carries, told=what,
        stages=tuple([evolve(each, results=tuple([at[n] for n in each.results])) for each in body.stages]),
        symbols=tuple([(symbol, n, axis) for (n, axis), symbol in growing.items()]), **how,
    )  # fmt: skip


def _parts(loop: StagedLoop) -> Iterator[Part]:
    """What is computed before each of the stages, and after the last one, as soon as it can be."""
    body, stages = loop.body, loop.stages
    level, late = dict.fromkeys(range(body.parameters), 0), dict[str, int]()
    for k, stage in enumerate(stages, 1):
        level.update(dict.fromkeys(stage.results, k))
        late.update(dict.fromkeys(stage.extents, k))
    made, number = dict[int, Application](), body.parameters
    for each in body.applications:
        at = max([0, *(level[i] for i in each.operands), *(late.get(s, 0) for s in each.symbols)])
        for value in range(number, number + each.count):
            made[value], level[value] = each, at
        number += each.count
    last = dict.fromkeys(body.results, len(stages) + 1)  # the part that reads a value last
    for value, each in made.items():
        for i in each.operands:
            last[i] = max(last.get(i, 0), level[value])
    anew = {n for n, each in made.items() if not each.operands and n not in body.results}  # in whatever reads them
    for k in range(len(stages) + 1):
        own = [n for n in made if level[n] == k and n not in anew]
        given = sorted({i for n in own for i in made[n].operands if level[i] < k or i < body.parameters} - anew)
        outputs = tuple([n for n in own if last.get(n, 0) > k])
        builder = BodyBuilder()
        values = builder.include_partly(body, dict(zip(given, builder.parameters(len(given)), strict=True)))
        yield Part(builder.built([values[n] for n in outputs]), tuple(given), outputs)
