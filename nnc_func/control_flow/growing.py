"""Loops whose carries grow: a body with symbols for extents, computed time after time by the engine that there is.

How large a carry is depends on values, so such a loop is computed at once, on a lazy stack too. The body is traced as
that of any loop. An engine that plans has one plan for each capacity (`engine.growing`); no time is traced or planned
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from nnc_func.autodiff.traced import Traced
from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.control_flow.growing_derivative import LISTS, Growing
from nnc_func.control_flow.row_by_row import row_by_row
from nnc_func.control_flow.tracing import OUTSIDE, Extents, TracedBody, depth
from nnc_func.control_flow.waiting_derivatives import run_at_once
from nnc_func.engine.dynamic.records import is_smooth_value
from nnc_func.engine.growing.graphs import Run
from nnc_func.engine.growing.step import Appended, steps_of
from nnc_func.errors import OperatorError, UnboundError
from nnc_func.facets.dims import Dim, substitute
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.leaves import Variable
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.cut_bodies import avals_in
from nnc_func.graph.ops.move import concat
from nnc_func.graph.ops.move import stack as side_by_side
from nnc_func.graph.ops.unary import cast
from nnc_func.graph.tensors.tensor import Tensor

Dims = list[dict[str, int]]
"""For each time the extents, by symbol."""


@frozen(eq=False)
class GrowingLoop:
    """A loop whose carries may have other extents each time.

    Attributes
    ----------
    stack
        Whose operators it applies.
    body
        Its parameters are constants, carries, slices of tensors, and rows that differ in shape; its results the next
        carries, what is stacked, and such rows.
    avals
        Of the parameters, with symbols.
    constants, carries, slices, stacked
        How many there are.
    symbols
        What is told by the carries: symbol, number of the carry, axis.
    dims
        The extents of each time, where they are known before: of what goes backwards. None: the carries tell.
    most
        How many times it goes at most; None: nothing bounds it.
    conditional
        Whether the first carry is a truth value: whether there is a next time.
    reverse
        From the last row to the first.
    around
        Extents that are known outside, where it stands in the body of another loop.
    names
        How messages call the carries.
    """

    stack: Any
    body: Body
    avals: tuple[Aval, ...]
    constants: int
    carries: int
    slices: int = 0
    stacked: int = 0
    symbols: tuple[tuple[str, int, int], ...] = ()
    dims: Dims | None = field(default=None, repr=False)
    most: int | None = None
    conditional: bool = False
    reverse: bool = False
    around: Mapping[str, int] = field(factory=dict)
    names: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many parameters are rows that differ in shape."""
        return self.body.parameters - self.constants - self.carries - self.slices

    @property
    def made(self) -> int:
        """How many results are such rows."""
        return len(self.body.results) - self.carries - self.stacked

    def having(self, **changed: Any) -> GrowingLoop:
        """The same with other attributes."""
        return evolve(self, **changed)

    def run(self, args: Sequence[Any]) -> tuple[list[Any], Dims | None]:
        """Its results, and the extents of each time; None where these are not known yet: in a body that waits for it.

        Parameters
        ----------
        args
            What flows through the layers: constants, carries, what is sliced, and the rows, time after time.

        Returns
        -------
        The last carries, what is stacked, and the rows, time after time.

        Raises
        ------
        UnboundError
            A value is not known, or is a row of a vmap.
        """
        rows = row_by_row(self, args)
        if rows is not None:
            return rows
        later = run_at_once(self, args)
        if later is not None:
            return later, None
        traced = [type(a) is Traced for a in args]
        rule = Growing(self, traced)
        if any(traced):
            return self.stack.autodiff.call(rule, args), rule.dims
        recording = getattr(self.stack.engine, "recording", None)
        if recording is not None and recording.is_on:
            known = [recording.known(x, *self._forced([x])) if recording.noted(x) else x for x in args]
            if any(map(is_smooth_value, known)):
                return self.recorded(known)
        return rule.value(args), rule.dims

    def within(self, around: Mapping[str, int]) -> GrowingLoop:
        """It where these extents are known."""
        return self.having(around={**self.around, **around})

    def described(self, args: Sequence[Aval], number: int) -> tuple[list[Aval], Extents]:
        """Avals of its results in a body that waits for them; and which of them tell which new symbols.

        Parameters
        ----------
        args
            Avals of what it is given.
        number
            Of its stage.

        Raises
        ------
        OperatorError
            It gives rows that differ in shape: how many there are is not known.
        """
        if self.made:
            raise OperatorError(LISTS)
        first = self.constants + self.carries
        rows = [self.aval_of_result(self.carries + n) for n in range(self.stacked)]
        count = self.most if self.most is not None or not self.slices else args[first].shape[0]
        return told(self.avals[self.constants : first], self.symbols, rows, count, self.conditional, number)

    def computed(self, args: Sequence[Any]) -> tuple[list[Any], Dims]:
        """As `run`, of values that are under no transformation."""
        engine, arrays = self.stack.engine, self._forced(args)
        step = steps_of(engine, self.body, self.avals, self._appended()).times()
        return self._gone_through(arrays, step, engine.device.bind, lambda x, row: x[row, ...])

    def _forced(self, args: Sequence[Any]) -> list[Any]:
        try:
            return self.stack.engine.force([*args])  # type: ignore[no-any-return]
        except UnboundError as error:
            raise UnboundError(f"{OUTSIDE} ({error})") from None

    def recorded(self, args: Sequence[Any]) -> tuple[list[Any], Dims]:
        """As `run`, of values of a dynamic stack: each operator is recorded, as in a loop of Python's."""
        stack, engine = self.stack, self.stack.engine
        given = [engine.reading(x) if type(x) is Variable else x for x in args]

        def row_of(x: Any, row: int) -> Any:
            return stack.carrier(Tensor(stack, x)[row])

        return self._gone_through(
            given, steps_of(engine, self.body, self.avals, recorded=True).times(), engine.bind, row_of
        )

    def _gone_through(
        self, given: Sequence[Any], step: Run, bind: Callable[..., Any], row_of: Callable[[Any, int], Any]
    ) -> tuple[list[Any], Dims]:
        """Its results, and the extents of each time.

        Parameters
        ----------
        step
            Computes the body.
        bind, row_of
            Apply an operator, and give a row, of what is given.
        """
        first, engine = self.constants + self.carries, self.stack.engine
        constants, carry = given[: self.constants], given[self.constants : first]
        slices, rows = given[first : first + self.slices], given[first + self.slices :]
        count, told, t = self._count(slices), Dims(), 0
        stacked, made = list[list[Any]](), list[list[Any]]()
        host = engine.device.to_numpy
        while (count is None or t < count) and not (self.conditional and not bool(host(engine.force(carry[:1])[0]))):
            row = t if count is None or not self.reverse else count - 1 - t
            dims = self._dims(carry) if self.dims is None else self.dims[row]
            cut = [row_of(x, row) for x in slices]
            after = step([*constants, *carry, *cut, *rows[row * self.rows : (row + 1) * self.rows]], dims)
            carry, t = after[: self.carries], t + 1
            stacked.append(after[self.carries : self.carries + self.stacked])
            made.append(after[self.carries + self.stacked :])
            told.append(dims)
        if self.reverse:
            for each in (stacked, made, told):
                each.reverse()
        columns = [self._column(bind, [each[n] for each in stacked], n) for n in range(self.stacked)]
        last = [bind(cast, x, dtype=self.avals[self.constants + n].dtype) for n, x in enumerate(carry)]  # copies
        return [*last, *columns, *(x for each in made for x in each)], told

    def _count(self, slices: Sequence[Any]) -> int | None:
        if self.dims is not None:
            return len(self.dims)
        return slices[0].shape[0] if slices and self.most is None else self.most

    def _dims(self, carry: Sequence[Any]) -> dict[str, int]:
        return {**self.around, **{symbol: carry[n].shape[axis] for symbol, n, axis in self.symbols}}

    def _column(self, bind: Callable[..., Any], rows: Sequence[Any], n: int) -> Any:
        """Rows side by side."""
        if rows:
            return bind(side_by_side, *rows, axis=0)
        aval = self.aval_of_result(self.carries + n)
        return bind(full, shape=(0, *aval.shape), value=0, dtype=aval.dtype)

    def aval_of_result(self, n: int) -> Aval:
        """Of a result of the body."""
        return avals_in(self.body, self.avals)[self.body.results[n]]

    def _appended(self) -> list[Appended]:
        """Carries that are themselves with something behind them, the next time."""
        made, number = dict[int, Any](), self.body.parameters
        for applied in self.body.applications:
            made[number] = applied
            number += applied.count
        found = []
        for n in range(self.carries):
            result, own = self.body.results[n], self.constants + n
            each: Any = made.get(result)
            if each is not None and each.op is concat and each.operands[0] == own and each.operands.count(own) == 1:
                found.append((result, own, normalise_axis(each.params["axis"], self.avals[own].ndim)))
        return found


def told(
    carries: Sequence[Aval], symbols: Sequence[tuple[str, int, int]], rows: Sequence[Aval], count: Any,
    conditional: bool, number: int,
) -> tuple[list[Aval], Extents]:  # fmt: skip
    """Avals of the results of a loop that is a stage of a body, with new symbols; and what tells these.

    Parameters
    ----------
    carries, rows
        Avals of the carries, and of a row of each that is stacked.
    symbols
        What carries tell.
    count
        How many times there are; None: it is not known.
    conditional
        Whether there may be fewer.
    number
        Of the stage.
    """
    names = {symbol: f"{symbol}@{number}" for symbol, _, _ in symbols}
    extents: Extents = {names[symbol]: (n, axis) for symbol, n, axis in symbols}
    new = {symbol: Dim.named(name) for symbol, name in names.items()}
    if rows and (count is None or conditional):
        times = f"times{depth()}@{number}"
        extents[times], count = (len(carries), 0), Dim.named(times)
    carried = [a.having(shape=substitute(a.shape, new)) for a in carries]
    return [*carried, *(Aval((count, *a.shape), a.dtype, None, a.place) for a in rows)], extents


class Grown:
    """A loop that grows, as `while_loop` and `scan` have it: what is stacked, and what differs in shape, apart.

    Parameters
    ----------
    body, avals
        Of constants, carries, slices.
    outputs
        Avals of the results behind the carries.
    symbols
        Carry and axis to the symbol of its extent.
    names
        How messages call the carries.
    """

    def __init__(
        self, stack: Any, body: Body, avals: Sequence[Aval], outputs: Sequence[Aval], constants: Sequence[Any],
        carries: Sequence[Any], slices: Sequence[Any], symbols: Mapping[tuple[int, int], str], names: Sequence[str],
    ) -> None:  # fmt: skip
        count = len(carries)
        self.stack, self.args = stack, [*constants, *carries, *slices]
        self.ragged = [bool(a.symbols) for a in outputs]
        first = [count + n for n, each in enumerate(self.ragged) if not each]
        last = [count + n for n, each in enumerate(self.ragged) if each]
        order = [body.results[n] for n in (*range(count), *first, *last)]
        self.loop = GrowingLoop(
            stack, Body(body.parameters, body.applications, order), tuple(avals), len(constants), count, len(slices),
            len(first), tuple((symbol, n, axis) for (n, axis), symbol in symbols.items()), names=tuple(names),
        )  # fmt: skip

    def applied(self, **how: Any) -> tuple[list[Any], list[Any]]:
        """The last carries, and for each output a tensor with a row for each time, or a list with a tensor for each."""
        loop = self.loop.having(**how)
        found, dims = loop.run(self.args)
        tensors = [Tensor(self.stack, x) for x in found]
        head = loop.carries + loop.stacked
        whole, rows = iter(tensors[loop.carries : head]), tensors[head:]
        number = iter(range(loop.made))
        outputs = [
            rows[next(number) :: loop.made][: len(dims or ())] if ragged else next(whole) for ragged in self.ragged
        ]
        return tensors[: loop.carries], outputs


def padded(stack: Any, y: Any, rows: int | None) -> Any:
    """Zeros behind what is stacked, up to so many rows."""
    if isinstance(y, list) or rows is None or y.shape[0] == rows:
        return y
    zeros = stack.ops.full(shape=(rows - y.shape[0], *y.shape[1:]), value=0, dtype=y.dtype)
    return stack.ops.concat(y, zeros, axis=0)


def counted_carry(stack: Any, body: TracedBody, places: tuple[int, int]) -> tuple[TracedBody, list[Any]]:
    """The body with its number of times as a carry, if it asks for that, and what that carry is before the first time.

    Parameters
    ----------
    places
        Where it stands then among the parameters of the function, and among its results.

    Raises
    ------
    OperatorError
        The body has effects.
    """
    if body.has_effects:
        raise OperatorError(
            "the body of a loop with dynamic=True has an effect, or a host predicate; print, check … what it gives "
            "instead"
        )
    if not body.is_counted:
        return body, []
    return body.carrying(*places), [stack.carrier(stack.asarray(np.int64(0)))]


def value_now(stack: Any, value: Tensor, what: str, remedy: str = "say max_iterations=, without exact") -> Any:
    """A device array, computed now.

    Raises
    ------
    UnboundError
        It depends on what has no value yet.
    """
    carrier = stack.carrier(value)
    while type(carrier) is Traced:
        carrier = carrier.primal
        if hasattr(carrier, "whole"):
            raise UnboundError(f"{what} differs from row to row of a vmap: go through the rows with stack.map")
    try:
        return stack.engine.force([carrier])[0]
    except (UnboundError, TypeError, AttributeError) as error:
        raise UnboundError(f"{what} depends on what has no value yet: {remedy} ({error})") from None
