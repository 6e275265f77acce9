"""The derivative of a loop whose carries grow: the times that went, backwards, each with the extents that it had.

What the derivative of the body reads is kept as it is, an array for each time; of a carry that something was put behind
that is the memory in which it goes on growing, so that nothing is copied. Both ways are loops of the same kind, so that
they are differentiated in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nnc_func.body_builder import BodyBuilder
from nnc_func.graph.ops.binary import add
from nnc_func.graph.ops.cut_bodies import CutBody, aval_of, is_smooth, zeros

LISTS = (
    "an output that changes its shape from time to time is a list of tensors, one for each time, and how many there "
    "are is not known in the body of another loop, in a branch, or under jit: give rows of one shape there (a sum, the "
    "last row, a padded tensor), carry what is wanted of them, or compute that loop outside"
)


class Growing:
    """A loop that grows, as Autodiff asks for a function with a rule of its own.

    Parameters
    ----------
    loop
        See `growing.GrowingLoop`.
    traced
        For each argument whether it may be under differentiation.

    Attributes
    ----------
    dims
        The extents of each time, once it was computed.
    """

    name = "a loop with dynamic=True"

    def __init__(self, loop: Any, traced: Sequence[bool]) -> None:
        self.loop = loop
        self.dims: list[dict[str, int]] | None = None
        self._moving = self._by_parameter(traced)

    def value(self, args: Sequence[Any]) -> list[Any]:
        """The results."""
        found, self.dims = self.loop.computed(args)
        return found  # type: ignore[no-any-return]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results and their tangents."""
        moving = frozenset(self._by_parameter([t is not None for t in tangents]))
        derived = self._derived(self.loop.stack.autodiff.bodies.tangent, moving)
        along = Along(self.loop, derived, self._functions)
        found, self.dims = along.both.run(along.args(primals, tangents))
        return along.apart(found, len(self.dims or ()))

    def linearize(self, primals: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """The results, and the derivative both ways."""
        loop = self.loop
        derived = self._derived(loop.stack.autodiff.bodies.cotangent, frozenset(self._moving))

        def push(ts: Sequence[Any]) -> list[Any]:
            return self.jvp(primals, ts)[1]

        if not any(derived.moved):
            found, self.dims = loop.run(primals)
            return found, push, lambda gs: [None] * len(primals)
        back = Backwards(loop, derived, self._functions)
        found, self.dims, pull = back.run(primals)
        return found, push, pull

    # --- how -----------------------------------------------------------------------------------------------

    @property
    def _functions(self) -> Any:
        return self.loop.stack.autodiff.functions

    def _by_parameter(self, flags: Sequence[bool]) -> list[int]:
        """Parameters of the body of whose arguments that holds of any."""
        first, rows = self.loop.body.parameters - self.loop.rows, self.loop.rows
        found = [n for n in range(first) if flags[n]]
        return found + [first + n for n in range(rows) if any(flags[first + n :: rows])]

    def _derived(self, derive: Callable[..., Any], moving: frozenset[int]) -> Any:
        """The derivative of the body where carries move as well that depend on what moves."""
        loop = self.loop
        moving = frozenset(n for n in moving if is_smooth(loop.avals[n]))
        return derive(loop.body, loop.avals, moving, tuple(range(loop.constants, loop.constants + loop.carries)))


class Along:
    """The loop that carries tangents beside its own values, and takes slices and rows of them.

    Attributes
    ----------
    both
        The loop: each kind of its parameters, and of its results, has the values first and then their tangents.
    """

    def __init__(self, loop: Any, derived: Any, o: Any) -> None:
        self.loop, self.derived, self.o = loop, derived, o
        parameters, results = loop.body.parameters, len(loop.body.results)
        first = loop.constants + loop.carries
        self.kinds = [
            range(loop.constants), range(loop.constants, first), range(first, first + loop.slices),
            range(first + loop.slices, parameters),
        ]  # fmt: skip
        self.moved = [[n for n in kind if n in derived.moving] for kind in self.kinds]
        extra = [aval_of(o, x) for x in derived.captured]
        builder, own, slopes, avals = BodyBuilder(), dict[int, int](), dict[int, int](), list[Any]()
        captured: list[int] = []
        for number, (kind, moved) in enumerate(zip(self.kinds, self.moved, strict=True)):
            own.update((n, builder.parameter()) for n in kind)
            slopes.update((n, builder.parameter()) for n in moved)
            avals += [loop.avals[n] for n in (*kind, *moved)]
            if not number:
                captured, avals = builder.parameters(len(extra)), avals + extra
        given = [*(own[n] for n in range(parameters)), *(slopes[n] for n in sorted(derived.moving)), *captured]
        values = builder.include(derived.body, given)
        made = [values[n] for n in derived.body.results]
        found = dict(zip([n for n in range(results) if derived.moved[n]], made[results:], strict=True))
        head = loop.carries + loop.stacked
        self.results = [range(loop.carries), range(loop.carries, head), range(head, results)]
        carried = [n - loop.constants for n in self.moved[1]]
        self.sloped = [carried, *([n for n in each if n in found] for each in self.results[1:])]
        for n in carried:
            if n not in found:
                found[n] = zeros(builder, loop.aval_of_result(n))
        order = [
            each
            for whole, moved in zip(self.results, self.sloped, strict=True)
            for each in (*(made[n] for n in whole), *(found[n] for n in moved))
        ]
        self.both = loop.having(
            body=builder.built(order), avals=tuple(avals), constants=loop.constants + len(self.moved[0]) + len(extra),
            carries=loop.carries + len(carried), slices=loop.slices + len(self.moved[2]),
            stacked=loop.stacked + len(self.sloped[1]),
        )  # fmt: skip

    def args(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """What the loop is given."""
        found: list[Any] = []

        def add_all(kind: Iterable[int], moved: Iterable[int], later: int = 0) -> None:
            found.extend(primals[n + later] for n in kind)
            for n in moved:
                t = tangents[n + later]
                found.append(self.o.zeros_like(primals[n + later]) if t is None else t)

        for number, pair in enumerate(zip(self.kinds[:3], self.moved, strict=False)):
            add_all(*pair)
            found.extend([] if number else self.derived.captured)
        rows = len(self.kinds[3])
        for later in range(0, len(primals) - self.kinds[3].start, rows) if rows else ():
            add_all(self.kinds[3], self.moved[3], later)
        return found

    def apart(self, found: Sequence[Any], times: int) -> tuple[list[Any], list[Any]]:
        """The results, and their tangents."""
        values, tangents, rest = list[Any](), dict[int, Any](), iter(found)
        made = len(self.results[2])
        for whole, moved in zip(self.results[:2], self.sloped, strict=False):
            values += [next(rest) for _ in whole]
            tangents.update((n, next(rest)) for n in moved)
        for later in range(0, times * made, made) if made else ():
            values += [next(rest) for _ in self.results[2]]
            tangents.update((n + later, next(rest)) for n in self.sloped[2])
        return values, [tangents.get(n) for n in range(len(values))]


class Backwards(CutBody):
    """The body of a loop that grows and its derivative backwards, and the two loops that are made of them."""

    def __init__(self, loop: Any, derived: Any, o: Any) -> None:
        self.extra = [aval_of(o, x) for x in derived.captured]
        super().__init__(loop.body, loop.avals, derived, self.extra)
        self.loop, self.moving, self.o, self.captured = loop, derived.moving, o, derived.captured
        self.first = loop.constants + loop.carries
        self.start_of_rows = self.own - loop.rows
        wanted = self.wanted([*self.cotangents.values()])
        self.same = [i for i in wanted if self._is_constant(i)]
        self.sliced = [i for i in wanted if self.first <= i < self.start_of_rows]
        self.given_rows = [i for i in wanted if self.start_of_rows <= i < self.own]
        known = {*self.same, *self.sliced, *self.given_rows}
        self.stored = [i for i in wanted if i not in known]

    def _result(self, n: int) -> Any:
        return self.avals[self.joint.results[n]]

    def _is_constant(self, value: int) -> bool:
        return value < self.loop.constants or self.after <= value < self.joint.parameters

    def run(self, primals: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """The results of the loop, the extents of each time, and the function from cotangents to cotangents."""
        loop, builder = self.loop, BodyBuilder()
        given = dict(enumerate(builder.parameters(loop.constants)))
        given.update(enumerate(builder.parameters(len(self.captured)), self.after))
        given.update(enumerate(builder.parameters(self.own - loop.constants), loop.constants))
        values = self.first_part(builder, given)
        body = builder.built([values[i] for i in (*self.joint.results[: self.results], *self.stored)])
        avals = (*loop.avals[: loop.constants], *self.extra, *loop.avals[loop.constants :])
        both = loop.having(body=body, avals=avals, constants=loop.constants + len(self.captured))
        found, dims = both.run([*primals[: loop.constants], *self.captured, *primals[loop.constants :]])
        head, made, wide = loop.carries + loop.stacked, loop.made, loop.made + len(self.stored)
        rows = [found[head + t * wide : head + (t + 1) * wide] for t in range(len(dims))]
        results = [*found[:head], *(x for row in rows for x in row[:made])]
        kept = [row[made:] for row in rows]
        return results, dims, lambda gs: self.pulled(gs, primals, results, kept, dims)

    def pulled(
        self, gs: Sequence[Any], primals: Sequence[Any], results: Sequence[Any], kept: Sequence[Any], dims: Any
    ) -> list[Any]:
        """Cotangents of the arguments: the loop the other way."""
        loop, o, builder, at = self.loop, self.o, BodyBuilder(), dict[int, int]()
        head, made, times, first = loop.carries + loop.stacked, loop.made, len(dims), loop.constants
        carried_on = {n: first + n for n in range(loop.carries) if first + n in self.moving}
        if not times:  # what is never read takes no cotangent
            return [gs[n - first] if n - first in carried_on else None for n in range(len(primals))]
        given = [n for n in range(head) if gs[n] is not None]
        given += [n for n in range(head, head + made) if any(gs[n + t * made] is not None for t in range(times))]
        back, absent = self.live(given, carried_on)

        def has(parameter: int) -> bool:
            return parameter in self.cotangents and self.cotangents[parameter] not in absent

        added = [n for n in range(first) if has(n)]
        stacked = [n for n in given if loop.carries <= n < head and n in self.flowing]
        rows = [n for n in given if n >= head and n in self.flowing]
        at.update((i, builder.parameter()) for i in self.same)
        carried = {n: builder.parameter() for n in back}
        totals = {n: builder.parameter() for n in added}
        at.update((i, builder.parameter()) for i in self.sliced)
        at.update((self.flowing[n], builder.parameter()) for n in stacked)
        at.update((i, builder.parameter()) for i in (*self.given_rows, *self.stored))
        at.update((self.flowing[n], builder.parameter()) for n in rows)
        at.update((self.flowing[n], carried[n]) for n in back if n in self.flowing)
        values = self.second_part(builder, at, absent)

        def cotangent(parameter: int) -> int:
            found = self.cotangents.get(parameter)
            if found is None or found in absent:
                return zeros(builder, loop.avals[parameter])
            return values[found]

        slices = [n for n in range(self.first, self.start_of_rows) if has(n)]
        more = [n for n in range(self.start_of_rows, self.own) if has(n)]
        body = builder.built([
            *(cotangent(first + n) for n in back),
            *(builder.apply(add, totals[n], cotangent(n)) for n in added),
            *(cotangent(n) for n in (*slices, *more)),
        ])  # fmt: skip
        avals = [self.avals[i] for i in self.same] + [self._result(n) for n in back]
        avals += [loop.avals[n] for n in added] + [self.avals[i] for i in self.sliced]
        avals += [self._result(n) for n in stacked] + [self.avals[i] for i in (*self.given_rows, *self.stored)]
        avals += [self._result(n) for n in rows]
        other = loop.having(
            body=body, avals=tuple(avals), constants=len(self.same), carries=len(back) + len(added),
            slices=len(self.sliced) + len(stacked), stacked=len(slices), symbols=(), dims=dims, most=None,
            conditional=False, reverse=not loop.reverse,
        )  # fmt: skip
        fixed = dict(enumerate(primals[: loop.constants])) | dict(enumerate(self.captured, self.after))
        args = [fixed[i] for i in self.same]
        args += [o.zeros_like(results[n]) if gs[n] is None else gs[n] for n in back]
        args += [o.zeros_like(primals[n]) for n in added]
        args += [*(primals[i] for i in self.sliced), *(gs[n] for n in stacked)]
        for t in range(times):
            args += [primals[self.start_of_rows + t * loop.rows + i - self.start_of_rows] for i in self.given_rows]
            args += kept[t]
            for n in rows:
                at_row = n + t * made
                args.append(o.zeros_like(results[at_row]) if gs[at_row] is None else gs[at_row])
        result: list[Any] = [None] * len(primals)
        if not body.results:
            return result
        found, _ = other.run(args)
        for n, g in zip([*(loop.constants + n for n in back), *added, *slices], found, strict=False):
            result[n] = g
        rest = found[len(back) + len(added) + len(slices) :]
        for t in range(times):
            for k, n in enumerate(more):
                result[n + t * loop.rows] = rest[t * len(more) + k]
        return result
