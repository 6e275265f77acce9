"""Loops of inner graphs as one operator: the graph is traced to a body, once, whatever the number of steps.

That is done where what is carried keeps its shapes and dtypes. Else steps are written out (`operators/control`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.errors import NncError, OnnxError
from nnc_func.facets.dims import known, same_extent
from nnc_func.graph.tensors.tensor import Tensor

INT64, BOOL = np.dtype("int64"), np.dtype("bool")
ENDLESS = 1 << 31
"""As many trips are none that a model counts on: something else ends the loop."""


def loop(o: Any, trips: Any, condition: Any, initial: Sequence[Any], graph: Any) -> list[Any] | None:
    """What a Loop gives, by one operator; None where it cannot be that, or elements that it wants are not known.

    Its rows are exact: where elements decide how many there are, they are counted at once.
    """
    if not o.rolls(graph) or not all(map(_is_plain, initial)):
        return None
    try:
        return _Loop(o, trips, condition, initial, graph).results()
    except NncError:  # the steps are written out, which says what is wrong
        o.rolls(graph, never=True)
        return None


def scan(
    o: Any, graph: Any, states: Sequence[Any], slices: Sequence[Any], reverse: bool, steps: Any
) -> list[Any] | None:
    """The last states of a Scan and its rows, by one operator; None where it cannot be that.

    Parameters
    ----------
    slices
        Tensors of which each step takes the next slice along the first axis, the last one first with `reverse`; so do
        the rows stand.
    """
    if not o.rolls(graph) or not all(map(_is_plain, (*states, *slices))):
        return None
    try:
        return over_slices(o, lambda values: graph(*values), states, slices, reverse, steps)
    except NncError:
        o.rolls(graph, never=True)
        return None


def over_slices(
    o: Any, step: Callable[[list[Any]], Sequence[Any]], states: Sequence[Any], slices: Sequence[Any], reverse: bool,
    steps: Any = None,
) -> list[Any]:  # fmt: skip
    """The last states of a function of these and of slices, and its rows, by one operator; see `scan`.

    Parameters
    ----------
    step
        Of states and slices: the next states, and the rows.
    steps
        How many there are, where there are no slices.

    Raises
    ------
    OnnxError
        A state changes its shape or dtype.
    """
    tensors = [o.tensor(x) for x in states]
    given = [*map(_aval, tensors), *(_aval(x).having(shape=x.shape[1:]) for x in slices)]
    traced = o.traced(lambda values: [_plain(o, x) for x in step(values)], given)
    _check_carries(given[: len(states)], traced.avals)
    inner, operands = traced.over(tensors, slices)
    return [*o.loop(
        *map(o.lifted, operands), body=inner, constants=len(traced.captured), carries=len(states),
        length=None if slices else steps, reverse=reverse,
    )]  # fmt: skip


def branch(o: Any, condition: Any, then: Any, otherwise: Any) -> list[Any] | None:
    """What an If gives, by one operator; None where its graphs do not give alike, or one cannot be traced."""
    if not o.rolls(then) or not o.rolls(otherwise):
        return None
    try:
        return list(o.branched(
            o.reshape(o.tensor(condition), shape=()), lambda: [_plain(o, x) for x in then()],
            lambda: [_plain(o, x) for x in otherwise()],
        ))  # fmt: skip
    except NncError:
        o.rolls(then, never=True)
        return None


class _Loop:
    """A Loop: what bounds it, and its body."""

    def __init__(self, o: Any, trips: Any, condition: Any, initial: Sequence[Any], graph: Any) -> None:
        self.o = o
        self.initial = [o.tensor(x) for x in initial]
        self.most: Any = None  # how many times at most, where that is known or symbolic
        self.count: Any = None  # a tensor of it, where it is not
        if trips is not None and o.is_known(trips):
            (self.most,) = o.integers(o.known(trips))
        elif trips is not None:
            self.count = o.reshape(o.cast(o.tensor(trips), dtype=INT64), shape=())
        self.begins: Any = True  # or False, or a tensor
        if condition is not None:
            self.begins = o.reshape(o.tensor(condition), shape=())
            if o.is_known(condition):
                self.begins = bool(o.known(condition).ravel()[0])
        if known(self.most) and self.most is not None:
            self.most = max(0, self.most) if self.begins is not False else 0
        elif self.begins is False:
            self.most, self.count = 0, None
        self.stacked = len(graph.outputs) - 1 - len(initial)
        self.ends = True  # whether the graph says of a step that it is the last one
        avals = [*map(_aval, self.initial)]
        self.traced = o.traced(lambda given: self._step(graph, *given), [Aval((), BOOL), Aval((), INT64), *avals])
        _check_carries(avals, self.traced.avals[2:])
        self.conditional = self.begins is not False and not (
            self.begins is True and (not self.ends or self.traced.body.results[0] == 0)
        )

    def _step(self, graph: Any, going: Any, number: Any, *carried: Any) -> list[Any]:
        o = self.o
        flag, *found = graph(number, going, *carried)
        self.ends = isinstance(flag, Tensor) or not np.asarray(flag).all()
        flag = o.tensor(flag)
        flag = o.reshape(flag, shape=()) if flag.shape else flag
        return [flag, o.add(number, 1), *(_plain(o, x) for x in found)]

    def results(self) -> list[Any]:
        """What is carried in the end, and the rows that somebody reads."""
        o, carries = self.o, len(self.initial)
        rows = [k for k in range(self.stacked) if o.is_read(carries + k)]
        most, count, conditional = self.most, self.count, self.conditional
        if rows and (conditional or count is not None):
            most, count, conditional = self._counted(), None, False
        elif conditional and (most is None or (known(most) and most > o.steps_left)):
            hidden, found = self._applied((), o.steps_left + 1, count, True, counts=True)
            if o.is_known(hidden[-1]):  # it is computed while the model is traced
                self._take_steps(int(o.known(hidden[-1])))
                return [*found, *[None] * self.stacked]
            most = None if most is None or most >= ENDLESS else most
        if (most is None and count is None and not conditional) or (known(most) and (most or 0) >= ENDLESS):
            raise OnnxError("nothing ends the loop: it has no number of trips, and its condition stays true")
        _, found = self._applied(rows, most, count, conditional)
        stacked: list[Any] = [None] * self.stacked
        for k, column in zip(rows, found[carries:], strict=True):
            stacked[k] = column
        return [*found[:carries], *stacked]

    def _counted(self) -> int:
        """How many times it goes, computed now."""
        o, limit = self.o, self.o.steps_left + 1
        if self.most is not None and not known(self.most):
            raise o.unresolved("how many rows a loop has depends on extents and on elements")
        if self.conditional:
            most = limit if self.most is None else min(self.most, limit)
            times = o.known(self._applied((), most, self.count, True, counts=True)[0][-1])
        else:
            times = np.maximum(o.known(self.count), 0)
        self._take_steps(int(times))
        return int(times)

    def _take_steps(self, times: int) -> None:
        for _ in range(min(times, self.o.steps_left + 1)):
            self.o.step()

    def _applied(
        self, rows: Sequence[int], most: Any, count: Any, conditional: bool, counts: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """The loop: what it carries besides (the condition; with `counts` the number of times), and what is asked for.

        Parameters
        ----------
        rows
            Which of them are stacked.
        """
        o, traced = self.o, self.traced
        body, numbered = traced.body, counts or _is_read(traced.body, 1)
        own = body.parameters - len(traced.captured)
        builder = BodyBuilder()
        captured = builder.parameters(len(traced.captured))
        going = builder.parameter()  # a constant, unless it is conditional
        number = builder.parameter() if numbered else going  # which nothing reads then
        values = builder.include(body, [going, number, *builder.parameters(own - 2), *captured])
        results = [values[i] for i in body.results]
        after, columns = results[2 : 2 + len(self.initial)], results[2 + len(self.initial) :]
        hidden = [*results[: int(conditional)], *results[1 : 1 + int(numbered)]]
        inner = builder.built([*hidden, *after, *(columns[k] for k in rows)])
        if not inner.results:
            return [], []
        begins = self.begins if conditional and isinstance(self.begins, Tensor) else o.tensor(np.array(True))
        found = [*o.loop(
            *map(o.lifted, traced.captured), begins, *([o.tensor(np.array(0))] if numbered else []), *self.initial,
            *([] if count is None else [count]), body=inner, constants=len(traced.captured) + (not conditional),
            carries=len(hidden) + len(after), length=most, counted=count is not None, conditional=conditional,
        )]  # fmt: skip
        return found[: len(hidden)], found[len(hidden) :]


def _is_read(body: Body, parameter: int) -> bool:
    """Whether a result of the body, but that which counts the steps, is made of a parameter."""
    return any(body.depends(result, parameter) for n, result in enumerate(body.results) if n != 1)


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor, or an array of numbers: none of symbolic extents, and not left out."""
    return value is not None and hasattr(value, "dtype") and value.dtype != object


def _plain(o: Any, value: Any) -> Any:
    if value is None:
        raise OnnxError("an inner graph gives nothing")
    return o.tensor(value)


def _aval(x: Any) -> Aval:
    return Aval(tuple(x.shape), x.dtype)


def _check_carries(before: Sequence[Aval], after: Sequence[Aval]) -> None:
    """Raise OnnxError where what is carried changes its shape or dtype."""
    for was, now in zip(before, after, strict=False):
        same = len(was.shape) == len(now.shape) and all(map(same_extent, was.shape, now.shape))
        if not same or was.dtype != now.dtype:
            raise OnnxError(f"what a loop carries is {was}, and {now} after a step")
