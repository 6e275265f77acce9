"""The batching rule of loops: one loop of whole batches.

Where all rows go equally often it is the loop of a batched body. Where they do not, it goes on as long as any row
does: a row that has ended keeps its carries, and its body is given again what it was given last, so that it meets no
number that the function of one example would not meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.batching.bodies import (
    BatchedBody,
    avals_of_rows,
    filled,
    first_row,
    never_empty,
    read_by,
    replaced,
)
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.facets import batching
from nnc_func.facets.batching import Application, Same
from nnc_func.facets.dims import known
from nnc_func.graph.ops.binary import add, logical_and, where
from nnc_func.graph.ops.compare import less
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.effects import is_token
from nnc_func.graph.ops.loop import parts
from nnc_func.graph.ops.move import reshape
from nnc_func.graph.ops.reduce import any_
from nnc_func.graph.ops.unary import stop_gradient
from nnc_func.locks import cached_property


def loop_of_batches(call: Application) -> Any:
    """The rule of `loop`."""
    if not call.bodies.makes_nodes or (known(call.size) and call.size == 0):
        return batching.loop(call)
    form = Form(call)
    if form.never:
        return form.together()
    found, is_batched = form.settled(call.is_batched)
    apart = form.has_count_of_rows or (call.params["conditional"] and is_batched[form.first])
    return Apart(form).run() if apart else form.together(found, is_batched)


class Form:
    """One application of a loop to rows: its operands by kind.

    Attributes
    ----------
    body
        Of one example.
    first, slices, last
        Where carries begin among the operands, where slices do, and where these end.
    """

    def __init__(self, call: Application) -> None:
        self.call, self.o, params = call, call.o, call.params
        self.body: Body = params["body"]
        same, _, sliced = parts(len(call.args), self.body, params["constants"], params["carries"], params["counted"])
        self.first, self.slices, self.last = same.stop, sliced.start, sliced.stop
        self.carries = self.slices - self.first
        self.stacked = len(self.body.results) - self.carries
        self.avals: list[Aval] = avals_of_rows(call)[: self.last]
        for n in range(self.slices, self.last):
            self.avals[n] = self.avals[n].having(shape=self.avals[n].shape[1:])

    @property
    def most(self) -> Any:
        """How many times it goes at most; None: nothing bounds it."""
        if self.call.params["length"] is not None or self.slices == self.last:
            return self.call.params["length"]
        return self.call.rows[self.slices][0]

    @property
    def never(self) -> bool:
        """Whether it is known that it does not go once."""
        return self.most is not None and known(self.most) and self.most == 0

    @property
    def has_count_of_rows(self) -> bool:
        """Whether each row has its number of times."""
        return bool(self.call.params["counted"] and self.call.is_batched[-1])

    def settled(self, is_batched: Iterable[bool], wanted: Sequence[int] = ()) -> tuple[BatchedBody, list[bool]]:
        """The body of whole batches, and which of its parameters have rows: a carry that the body gives rows has."""
        found = [*is_batched][: self.last]
        while True:
            carried = [n for n in range(self.carries) if found[self.first + n]]
            made = self.call.bodies.of(self.body, self.avals, found, self.call.size, {*carried, *wanted})
            more = [self.first + n for n in range(self.carries) if made.is_batched[n] and n not in carried]
            if not more:
                return made, found
            for n in more:
                found[n] = True

    def by_time(self, at: int) -> Any:
        """A sliced operand with time along axis 0, and rows, where it has any, along axis 1."""
        return self.turned(self.call.args[at]) if self.call.is_batched[at] else self.call.args[at]

    def turned(self, x: Any) -> Any:
        """A tensor with its first two axes the other way round."""
        return self.o.permute_dims(x, axes=(1, 0, *range(2, len(x.shape))))

    def carried(self, at: int) -> Any:
        """A carry with rows."""
        return self.call.spread(at)

    def together(self, found: BatchedBody | None = None, is_batched: Sequence[bool] = ()) -> tuple[Any, ...]:
        """The loop where all rows go equally often."""
        changed: dict[str, Any] = {}
        args = self.call.args
        count = args[self.last :]
        if found is None:  # not once
            found, is_batched = self.settled(self.call.is_batched)
            changed, count = {"counted": False, "conditional": False}, ()
        operands = [
            *args[: self.first], *found.captured,
            *(self.carried(n) if is_batched[n] else args[n] for n in range(self.first, self.slices)),
            *map(self.by_time, range(self.slices, self.last)), *count,
        ]  # fmt: skip
        constants = self.first + len(found.captured)
        body = found.with_captured(self.first)
        ys = self.call.bind(*operands, body=body, constants=constants, **changed)
        return tuple([
            Same(y) if not b else y if n < self.carries else self.turned(y)
            for n, (y, b) in enumerate(zip(ys, found.is_batched, strict=True))
        ])  # fmt: skip


class Apart:
    """The loop where rows go differently often: what it carries, slices and keeps the same.

    Values of the body in the making have keys: ``("given", n)`` for parameter n of the body of one example, and
    ``("fed", n)`` for what it is given where a row does not go: what it was given last, or, before a row begins in a
    reversed loop, what it will be given first. A row that does not go once is given what another row is. Tokens are
    carried without rows, since the order of effects is of none.
    """

    def __init__(self, form: Form) -> None:
        self.form, self.call, self.o = form, form.call, form.o
        params = form.call.params
        self.conditional, self.reverse = bool(params["conditional"]), bool(params["reverse"])
        self.passed = {
            n for n in range(form.first, form.slices)
            if form.body.results[n - form.first] == n and not (self.conditional and n == form.first)
        }  # fmt: skip
        self.carried = [n for n in range(form.first, form.slices) if n not in self.passed]
        self.sliced = range(form.slices, form.last)
        self.read = read_by(form.body)
        same = {*self.passed} if form.body.is_pure else {
            *self.passed, *(n for n in self.carried if is_token(form.avals[n]) and not form.call.is_batched[n])
        }  # fmt: skip
        is_batched = [
            b or (n in self.carried and n not in same) or (n in self.sliced and n in self.read)
            for n, b in enumerate(form.call.is_batched[: form.last])
        ]
        everything = range(len(form.body.results))
        self.found, self.is_batched = form.settled(is_batched, [n for n in everything if n + form.first not in same])
        self.tokens = [n for n in self.carried if not self.is_batched[n]]
        self.fed = [n for n in (*self.carried, *self.sliced) if n in self.read and n not in self.tokens]

    # --- outside the loop ----------------------------------------------------------------------------------

    @cached_property
    def count(self) -> Any:
        """How often each row goes at most, as int64."""
        return self.o.cast(self.call.args[-1], dtype=np.dtype("int64"))

    @cached_property
    def begins(self) -> Any:
        """For each row, whether it goes at least once."""
        found = self.call.spread(self.form.first) if self.conditional else None
        if not self.form.has_count_of_rows:
            return found
        positive = self.o.less(self.zero(), self.count)
        return positive if found is None else self.o.logical_and(found, positive)

    @cached_property
    def one(self) -> Any:
        """The number of a row that goes at least once, where there is one."""
        return first_row(self.call, self.begins)

    @cached_property
    def times(self) -> Any:
        """Of each time and row, whether the row goes: of a loop without a condition, and with a bound."""
        o, most = self.o, self.form.most
        ones = o.full(shape=(most, 1), value=1, dtype=np.dtype("int64"))
        return o.less(
            o.subtract(o.cumulative_sum(ones, axis=0), ones), o.reshape(self.count, shape=(1, self.call.size))
        )

    def zero(self) -> Any:
        """The number."""
        return self.o.full(shape=(), value=0, dtype=np.dtype("int64"))

    def start(self, n: int) -> Any:
        """What a row that does not go once is fed; in a reversed loop also one that does not go yet."""
        o, form = self.o, self.form
        if n in self.carried:
            if self.call.is_batched[n]:
                return replaced(self.call, self.begins, self.call.args[n], self.one) if self.reverse else filled(
                    self.call, self.call.args[n], self.one
                )  # fmt: skip
            return o.stop_gradient(self.call.spread(n))
        whole, row = never_empty(o, form.by_time(n), form.most), form.avals[n].shape
        batched = self.call.is_batched[n]
        if self.reverse:
            at = o.subtract(o.sum(o.cast(self.times, dtype=np.dtype("int64")), axis=(0,), keepdims=False), self.ones())
            at = o.maximum(at, self.zero())
            if batched:
                shape = (1, self.call.size, *row)
                at = o.broadcast_to(o.reshape(at, shape=(1, self.call.size, *(1,) * len(row))), shape=shape)
                first = o.reshape(o.take_along_axis(whole, at, axis=0), shape=shape[1:])
            else:
                first = o.take(whole, at, axis=0)
            return o.stop_gradient(replaced(self.call, self.begins, first, self.one))
        rank = len(whole.shape)
        first = o.slice(whole, starts=(0,) * rank, stops=(1, *whole.shape[1:]), steps=(1,) * rank)
        first = o.reshape(first, shape=tuple(whole.shape[1:]))
        if batched:
            return filled(self.call, first, self.one)
        return o.stop_gradient(o.broadcast_to(o.reshape(first, shape=(1, *row)), shape=(self.call.size, *row)))

    def ones(self) -> Any:
        """The number one."""
        return self.o.full(shape=(), value=1, dtype=np.dtype("int64"))

    def constant(self, n: int) -> Any:
        """An operand that is the same each time, with rows of another where a row does not go once."""
        x = self.call.args[n]
        if not self.call.is_batched[n] or n not in self.read:
            return x
        return replaced(self.call, self.begins, x, self.one)

    # --- the loop ------------------------------------------------------------------------------------------

    @property
    def is_counted_inside(self) -> bool:
        """Whether the loop carries the number of times: a mask of all times is not to be had."""
        return self.form.has_count_of_rows and (self.conditional or self.form.most is None)

    def run(self) -> tuple[Any, ...]:
        """The results, with rows."""
        form, call, o = self.form, self.call, self.o
        if not (self.carried or form.stacked):
            return tuple(map(self.unchanged, range(form.first, form.slices)))
        same: dict[Any, Any] = {("given", n): self.constant(n) for n in (*range(form.first), *sorted(self.passed))}
        same |= {("captured", n): x for n, x in enumerate(self.found.captured)}
        carries: dict[Any, Any] = {}
        slices: dict[Any, Any] = {}
        count: tuple[Any, ...] = call.args[form.last :]
        if self.conditional:
            carries["any"] = o.any(self.begins, axis=None, keepdims=False)
        if form.has_count_of_rows:
            longest = o.max(never_empty(o, self.count, call.size), axis=None, keepdims=False)
            count = () if self.conditional else (longest,)
            if self.is_counted_inside:
                same["count"] = self.count
                carries["time"] = o.subtract(longest, self.ones()) if self.reverse else self.zero()
            else:
                slices["goes"] = self.times
        carries |= {("given", n): call.args[n] if n in self.tokens else call.spread(n) for n in self.carried}
        (same if self.reverse else carries).update({("fed", n): self.start(n) for n in self.fed})
        slices |= {("given", n): form.by_time(n) for n in self.sliced}
        body = self.body([*same], [*carries], [*slices])
        ys = call.bind(
            *same.values(), *carries.values(), *slices.values(), *count, body=body, constants=len(same),
            carries=len(carries), length=None if slices else form.most, counted=bool(count),
        )  # fmt: skip
        named = dict(zip(carries, ys, strict=False))
        named |= {("given", n): Same(named["given", n]) for n in self.tokens}
        found = [named["given", n] if n in self.carried else self.unchanged(n) for n in range(form.first, form.slices)]
        return (*found, *map(form.turned, ys[len(carries) :]))

    def unchanged(self, n: int) -> Any:
        """A carry that the body passes on."""
        x = self.call.args[n]
        return x if self.call.is_batched[n] else Same(x)

    def body(self, same: Sequence[Any], carries: Sequence[Any], slices: Sequence[Any]) -> Body:
        """The body, of operands with these keys."""
        form, builder = self.form, BodyBuilder()
        at = {key: builder.parameter() for key in (*same, *carries, *slices)}
        goes, later = self.going(builder, at)

        def chosen(n: int, yes: int, no: int, rank: int) -> int:
            mask = builder.apply(reshape, goes, shape=(self.call.size, *(1,) * rank)) if rank else goes
            return builder.apply(where, mask, yes, no)

        given = {n: at["given", n] for n in range(form.last)}
        for n in self.fed:
            given[n] = chosen(n, at["given", n], at["fed", n], len(form.avals[n].shape))
        captured = [at["captured", n] for n in range(len(self.found.captured))]
        values = builder.include(self.found.body, [*given.values(), *captured])
        results = [values[i] for i in self.found.body.results]
        ranks, dtypes = self.results
        after: dict[Any, int] = {}
        for n in self.carried:
            which = n - form.first
            old, new = at["given", n], results[which]
            after["given", n] = new if n in self.tokens else chosen(n, new, old, ranks[which])
        for n in self.fed:
            after["fed", n] = builder.apply(stop_gradient, given[n])
        if "time" in at:
            after["time"] = later
        if "any" in at:
            more = after["given", form.first]
            if "time" in at:
                more = builder.apply(logical_and, more, builder.apply(less, later, at["count"]))
            after["any"] = builder.apply(any_, more, axis=None, keepdims=False)
        rows = []
        for which in range(form.carries, len(results)):
            zero = builder.apply(full, shape=(), value=np.zeros((), dtypes[which]).item(), dtype=dtypes[which])
            rows.append(chosen(which, results[which], zero, ranks[which]))
        return builder.built([*(after[key] for key in carries), *rows])

    def going(self, builder: BodyBuilder, at: dict[Any, int]) -> tuple[int, int]:
        """Which rows go at a time, and the time after it, where that is carried."""
        later = -1
        found = [at["goes"]] if "goes" in at else []
        if self.conditional:
            found.append(at["given", self.form.first])
        if "time" in at:
            found.append(builder.apply(less, at["time"], at["count"]))
            step = builder.apply(full, shape=(), value=-1 if self.reverse else 1, dtype="int64")
            later = builder.apply(add, at["time"], step)
        return (found[0] if len(found) == 1 else builder.apply(logical_and, *found)), later

    @cached_property
    def results(self) -> tuple[list[int], list[Any]]:
        """Ranks and dtypes of the body's results, for one example."""
        from nnc_func.graph.ops.bodies import dtypes_in, shapes_in

        shapes = shapes_in(self.form.body, tuple([a.shape for a in self.form.avals]))
        dtypes = dtypes_in(self.form.body, tuple([a.dtype for a in self.form.avals]))
        return [len(shapes[i]) for i in self.form.body.results], [dtypes[i] for i in self.form.body.results]
