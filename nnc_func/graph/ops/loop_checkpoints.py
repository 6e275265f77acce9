"""The derivative of a loop that holds few of the values carried, and computes the others again from these.

On the way there the loop is a loop over stretches: each begins by putting what is carried into one of the places for
it. On the way back, time after time, the latest one held is carried on to a time before the wanted one and put into a
free place, again and again, until it is the wanted one. How far is Griewank and Walther's choice ("Algorithm 799:
revolve", 2000), which is the best there is: so are the stretches of a loop whose number of times is known when it
begins. Where it is not, a value is held each ``s`` times, and s doubles when too many are held (as in the online
schedules of Stumm and Walther, 2010, and of Wang, Moin and Iaccarino, 2009; simpler, and with a third of the places
left for the way back). Nothing here knows the number of times when it is built, and nothing is copied but what is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isqrt
from typing import Any

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.facets.dims import known
from nnc_func.graph.ops.loop_form import Form, written_out
from nnc_func.graph.ops.silent_bodies import of_results, without_effects
from nnc_func.locks import cached_property

HELD = 100  # carries that are held where nothing bounds a loop, and nobody says how many
FEWEST = 4  # of the loops here, when they are differentiated themselves
LEVELS = 128  # times that anything is computed again, up to which distances are the best
EXACT = 1 << 53  # up to which floating numbers are all integers
NEVER = (1 << 62) - 1
INT = "int64"


class Checkpointed:
    """A loop whose derivative holds so many carries at most, each of one time.

    Parameters
    ----------
    derive
        Gives derivatives of bodies.
    derived
        The body's own derivative.
    places
        How many carries are held at most.

    Attributes
    ----------
    needed
        The carries that are held, by number: those that the derivative reads, and what these are made of.
    times
        How many times it went, once it is linearized.
    """

    times: tuple[Any, ...] = ()

    def __init__(self, form: Form, derive: Any, derived: Any, places: int) -> None:
        self.form, self.o, self.derive, self.derived, self.moving = form, form.o, derive, derived, derived.moving
        self.places = places
        # while the number of times is unknown a third of the places are for the way back; an even number, so that what
        # is put into the first one after s has doubled stands at a multiple of it
        self.most_on_the_way = places if not form.conditional else 2 * (places // 3) if places > 3 else 1
        self.needed = needed_carries(form, derived)
        self.inner = str(max(FEWEST, isqrt(places)))  # `checkpoint` of the loops here
        self.exact = not form.conditional
        # what is computed again does nothing again, and asks no condition: how many times there are is known then
        after = [i if n in self.needed else len(form.constants) + n for n, i in enumerate(self.after)]
        self.silent = without_effects({"body": of_results(form.body, after)})["body"]

    @property
    def after(self) -> Sequence[int]:
        """The carries after the body, as its values."""
        return self.form.body.results[: len(self.form.carries)]

    @property
    def key(self) -> tuple[Any, ...]:
        """What bodies made here depend on."""
        form = self.form
        given = tuple([form.aval(x) for x in (*form.constants, *form.carries, *form.slices)])
        flags = (form.reverse, form.conditional, form.count != ())
        return (form.body, given, form.most if known(form.most) else None, flags, self.moving, self.places)

    def body(self, name: str, f: Callable[..., Any], groups: Sequence[Sequence[Any]], *more: Any) -> Any:
        """A function of lists of values as a body; `groups` are examples of them, values or avals."""
        sizes = [len(group) for group in groups]
        avals = [x if isinstance(x, Aval) else self.form.aval(x) for group in groups for x in group]

        def flat(o: Any, *given: Any) -> list[Any]:
            lists, at = [], 0
            for size in sizes:
                lists.append([*given[at : at + size]])
                at += size
            return [*f(o, *lists)]

        return self.derive.written((name, *self.key, *more, tuple(avals)), flat, avals)

    def looped(self, o: Any, body: Any, constants: Any, carries: Any, slices: Any = (), **params: Any) -> list[Any]:
        """One of the loops here."""
        count = params.pop("count", ())
        given = {"checkpoint": self.inner, "conditional": False, "reverse": False, **params}
        return [
            *o.bind(
                self.form.op, *constants, *carries, *slices, *count, body=body, constants=len(constants),
                carries=len(carries), counted=bool(count), **{"length": None, **given},
            )
        ]  # fmt: skip

    # --- how often ------------------------------------------------------------------------------------------

    @cached_property
    def limit(self) -> Any:
        """How many times it goes at most, as one number; where nothing bounds it a very large one."""
        o, most = self.o, self.form.most
        if most is None or known(most):
            found = _number(o, NEVER if most is None else most)
        else:
            found = o.sum(o.full(shape=(most,), value=1, dtype=INT), axis=None, keepdims=False)
        for count in self.form.count:
            found = o.minimum(found, o.maximum(o.cast(count, dtype=INT), _number(o, 0)))
        return found

    def linearized(self) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
        """The results of the loop, and the function from their cotangents to those of its operands."""
        results, kept, times = self.forward()
        self.times = (times,)
        return results, lambda gs: self.pull(gs, results, kept, times)

    # --- the way there --------------------------------------------------------------------------------------

    def steps(self, o: Any, same: list[Any], slices: list[Any], limit: Any, at: Any, carries: list[Any], rows: Any,
              until: Any) -> tuple[Any, list[Any], list[Any]]:  # fmt: skip
        """The loop itself, from a time until another one: the time where it ends, its carries, and rows so far."""
        form = self.form
        count = len(carries)
        groups = [[*same], [*slices], [limit], [*carries], [at], [*rows]]

        def turn(o: Any, same: Any, slices: Any, limit: Any, carries: Any, at: Any, rows: Any) -> list[Any]:
            row = o.subtract(o.subtract(limit[0], at[0]), 1) if form.reverse else at[0]
            found = form.values(o, same, carries, [o.take(x, row, axis=0) for x in slices])
            written = [o.scatter_set(y, row, new, axis=0) for y, new in zip(rows, found[count:], strict=True)]
            return [*found[:count], o.add(at[0], 1), *written]

        body = self.body("step", turn, [_avals(form, each) for each in groups])
        found = self.looped(
            o, body, [*same, *slices, limit], [*carries, at, *rows], count=[o.subtract(until, at)],
            conditional=form.conditional,
        )  # fmt: skip
        return found[count], found[:count], found[count + 1 :]

    def forward(self) -> tuple[list[Any], list[Any], Any]:
        """The results of the loop, what is held, and how many times it went."""
        form, o = self.form, self.o
        limit, zero = self.limit, _number(o, 0)
        held = [
            o.scatter_set(o.broadcast_to(o.zeros_like(x), shape=(self.places, *x.shape)), zero, x, axis=0)
            for x in self.of(form.carries)  # memory of its own for each, which the loop is written over
        ]
        where = o.full(shape=(self.places,), value=-1, dtype=INT)
        rows = [o.full(shape=(form.most, *a.shape), value=0, dtype=a.dtype) for a in form.stacked]
        spacing = _number(o, 1 if self.most_on_the_way > 1 else NEVER)
        goes = o.less(zero, limit)
        if form.conditional:
            goes = o.logical_and(goes, form.carries[0])
        constants = [*form.constants, *form.slices, limit]
        groups = [form.constants, form.slices, [limit], [goes, zero, spacing, where], held, form.carries, rows]

        def turn(o: Any, same: Any, slices: Any, limit: Any, state: Any, held: Any, carries: Any, rows: Any) -> Any:
            (limit,), (_, at, spacing, where) = limit, state
            spacing, where = self.thinned(o, spacing, where)
            left = o.subtract(limit, at)
            if self.exact:
                free = o.sum(o.cast(o.less(where, 0), dtype=INT), axis=None, keepdims=False)
                far = o.where(o.less(1, free), distance(o, left, free), left)
            else:
                far = o.minimum(spacing, left)
            where, held = self.put(o, where, held, at, self.of(carries))
            at, carries, rows = self.steps(o, same, slices, limit, at, carries, rows, o.add(at, far))
            goes = o.less(at, limit)
            if form.conditional:
                goes = o.logical_and(goes, carries[0])
            return [goes, at, spacing, where, *held, *carries, *rows]

        body = self.body("forward", turn, groups)
        found = self.looped(
            o, body, constants, [goes, zero, spacing, where, *held, *form.carries, *rows], conditional=True
        )
        _, at, _, where, *rest = found
        held, ys = rest[: len(held)], rest[len(held) :]
        return ys, [where, *held], at

    def thinned(self, o: Any, spacing: Any, where: Any) -> tuple[Any, Any]:
        """The times that are held, every second one where they are too many, and the distance between them."""
        if self.exact:
            return spacing, where
        count = o.sum(o.cast(o.less_equal(0, where), dtype=INT), axis=None, keepdims=False)
        spacing = o.where(o.less(count, self.most_on_the_way), spacing, o.multiply(spacing, 2))
        return spacing, o.where(o.equal(o.remainder(where, spacing), 0), where, -1)

    def put(self, o: Any, where: Any, held: list[Any], at: Any, carries: list[Any]) -> tuple[Any, list[Any]]:
        """What is held, and this besides, in a place that is free."""
        place = o.argmin(where, axis=0, keepdims=False)
        held = [o.scatter_set(each, place, x, axis=0) for each, x in zip(held, carries, strict=True)]
        return o.scatter_set(where, place, at, axis=0), held

    def of(self, carries: Sequence[Any]) -> list[Any]:
        """Those that are held."""
        return [carries[n] for n in self.needed]

    # --- the way back ---------------------------------------------------------------------------------------

    def advanced(self, o: Any, same: list[Any], slices: list[Any], limit: Any, at: Any, carries: list[Any],
                 until: Any) -> list[Any]:  # fmt: skip
        """The carries that are held, carried on from a time to a later one."""
        form = self.form
        groups = [[*same], [*slices], [limit], [*carries], [at]]

        def turn(o: Any, same: Any, slices: Any, limit: Any, carries: Any, at: Any) -> list[Any]:
            row = o.subtract(o.subtract(limit[0], at[0]), 1) if form.reverse else at[0]
            whole = self.whole(o, carries)
            slices = [o.take(x, row, axis=0) for x in slices]
            found = form.values(o, same, whole, slices, self.silent)
            return [*self.of(found), o.add(at[0], 1)]

        body = self.body("advance", turn, [_avals(form, each) for each in groups])
        found = self.looped(
            o, body, [*same, *slices, limit], [*carries, at], count=[o.subtract(until, at)]
        )  # fmt: skip
        return found[:-1]

    def whole(self, o: Any, carries: Sequence[Any]) -> list[Any]:
        """All carries, of those that are held: nobody reads the others."""
        given = dict(zip(self.needed, carries, strict=True))
        first = len(self.form.constants)
        avals = self.form.avals[first : self.form.first]
        return [given[n] if n in given else _zeros(o, a) for n, a in enumerate(avals)]

    def pull(self, gs: Sequence[Any], ys: Sequence[Any], kept: Sequence[Any], times: Any) -> list[Any]:
        """The cotangents of the operands, of those of the results."""
        form, o, derived = self.form, self.o, self.derived
        first, carries = len(form.constants), len(form.carries)
        if form.most == 0:  # what it never reads takes no cotangent: a zero beside an infinite slope would be a NaN
            mine = [gs[n] if first + n in self.moving else None for n in range(carries)]
            return [*[None] * first, *mine, *[None] * (len(form.slices) + len(form.count))]
        reached = [n for n in range(form.last) if derived.reached[n]]
        back = [n for n in range(carries) if first + n in self.moving]
        added = [n for n in reached if n < first]
        sliced = [n for n in reached if n >= form.first]
        flowing = [n for n in range(len(form.body.results)) if derived.moved[n]]
        given = [n for n in flowing if n >= carries and gs[n] is not None]
        starts = [o.zeros_like(ys[n]) if gs[n] is None else gs[n] for n in back]
        totals = [o.zeros_like(form.constants[n]) for n in added]
        last = o.subtract(times, _number(o, 1))
        where, *held = kept

        def turn(o: Any, same: Any, captured: Any, whole: Any, limit: Any, state: Any, held: Any, gs: Any, totals: Any,
                 slices: Any, rows: Any) -> list[Any]:  # fmt: skip
            (limit,), (at, where) = limit, state
            where, held = self.reached(o, same, whole, limit, at, where, held)
            place = o.argmax(where, axis=0, keepdims=False)
            carried = self.advanced(
                o, same, whole, limit, o.take(where, place, axis=0), [o.take(x, place, axis=0) for x in held], at
            )
            cotangents = dict(zip(back, gs, strict=True)) | dict(zip(given, rows, strict=True))
            found = self.cotangents(o, [*same, *self.whole(o, carried), *slices], cotangents, captured)
            where = o.where(o.equal(where, at), -1, where)
            before = [found[first + n] if first + n in found else _zeros(o, form.avals[first + n]) for n in back]
            sums = [o.add(total, found[n]) for n, total in zip(added, totals, strict=True)]
            return [o.subtract(at, 1), where, *held, *before, *sums, *(found[n] for n in sliced)]

        captured = [*derived.captured]
        rows = [gs[n] for n in given]
        a_row = [form.avals[n] for n in range(form.first, form.last)] + [form.stacked[n - carries] for n in given]
        groups = [
            form.constants, captured, form.slices, [self.limit], [last, where], held, starts, totals,
            a_row[: len(form.slices)], a_row[len(form.slices) :],
        ]  # fmt: skip
        body = self.body("backward", turn, groups, tuple(given))
        slices = [*form.slices, *rows]
        known_times = self.exact and not form.count and form.most is not None
        found = self.looped(
            o, body, [*form.constants, *captured, *form.slices, self.limit], [last, where, *held, *starts, *totals],
            slices, reverse=not form.reverse, length=None if slices else form.most,
            count=() if known_times else [times],
        )  # fmt: skip
        result: list[Any] = [None] * (form.last + len(form.count))
        for n, g in zip([*(first + n for n in back), *added, *sliced], found[2 + len(held) :], strict=True):
            result[n] = g
        return result

    def reached(self, o: Any, same: list[Any], slices: list[Any], limit: Any, at: Any, where: Any, held: list[Any]) -> (
        tuple[Any, list[Any]]
    ):  # fmt: skip
        """What is held, and more between the latest of it and a time, as far as there are free places."""
        groups = [[*same], [*slices], [limit, at], [where, where], [*held]]

        def more(o: Any, where: Any, at: Any) -> Any:
            free = o.less(o.min(where, axis=None, keepdims=False), 0)
            return o.logical_and(free, o.less(o.max(where, axis=None, keepdims=False), at))

        def turn(o: Any, same: Any, slices: Any, times: Any, state: Any, held: Any) -> list[Any]:
            (limit, at), (_, where) = times, state
            place = o.argmax(where, axis=0, keepdims=False)
            begin = o.take(where, place, axis=0)
            free = o.add(o.sum(o.cast(o.less(where, 0), dtype=INT), axis=None, keepdims=False), 1)
            until = o.add(begin, distance(o, o.add(o.subtract(at, begin), 1), free))
            carries = self.advanced(o, same, slices, limit, begin, [o.take(x, place, axis=0) for x in held], until)
            where, held = self.put(o, where, held, until, carries)
            return [more(o, where, at), where, *held]

        goes = more(o, where, at)
        avals = [_avals(self.form, each) for each in groups]
        avals[3][0] = Aval((), "bool")
        body = self.body("reach", turn, avals)
        found = self.looped(o, body, [*same, *slices, limit, at], [goes, where, *held], conditional=True)
        return found[1], found[2:]

    def cotangents(
        self, o: Any, given: Sequence[Any], flowing: Mapping[int, Any], captured: Sequence[Any]
    ) -> dict[int, Any]:
        """Of parameters of the body, at one time, of those of its results."""
        results = len(self.form.body.results)
        own = of_results(self.derived.body, self.derived.body.results[results:])
        joint: Body = without_effects({"body": own})["body"]
        gs = [
            flowing[n] if n in flowing else _zeros(o, self.form.results[n])
            for n in range(results)
            if self.derived.moved[n]
        ]
        values = written_out(o, joint, [*given, *gs, *captured])
        reached = [n for n in range(self.form.last) if self.derived.reached[n]]
        return dict(zip(reached, [values[i] for i in joint.results], strict=True))


def distance(o: Any, left: Any, free: Any) -> Any:
    """How far to carry on before something is held, so that the least is computed again: Griewank and Walther's.

    With ``b(s, r) = (s + r)! / (s! r!)``, the number of times that s places are enough for if none is computed more
    than r times again, and the least r for which b(s, r) is at least `left`: ``max(b(s, r - 2), left - b(s - 1, r))``.
    Where r is more than `LEVELS` the share is that of `LEVELS`.

    Parameters
    ----------
    left
        Times that are left: 1 or more.
    free
        Places for what is carried, that of the time now among them: 2 or more.
    """
    levels = o.arange(start=1, stop=LEVELS + 1, dtype="float64")
    counts = o.cumulative_prod(o.divide(o.add(levels, o.cast(free, dtype="float64")), levels), axis=0)
    counts = o.cast(o.round(o.minimum(counts, float(EXACT))), dtype=INT)
    level = o.add(o.sum(o.cast(o.less(counts, left), dtype=INT), axis=None, keepdims=False), 1)
    enough = o.take(counts, o.subtract(o.minimum(level, LEVELS), 1), axis=0)
    both = o.add(free, level)
    fewer = o.floor_divide(o.multiply(enough, free), both)  # b(s - 1, r)
    before = o.floor_divide(o.multiply(enough, level), both)  # b(s, r - 1)
    before = o.floor_divide(o.multiply(before, o.subtract(level, 1)), o.subtract(both, 1))  # b(s, r - 2)
    best = o.maximum(before, o.subtract(left, fewer))
    beyond = o.floor_divide(o.multiply(left, LEVELS), o.add(free, LEVELS))
    return o.maximum(o.where(o.less(LEVELS, level), beyond, best), 1)


def needed_carries(form: Form, derived: Any) -> list[int]:
    """The carries that the derivative of the body reads, and those that these are made of."""
    results, first = len(form.body.results), len(form.constants)
    read = {n for n in derived.body.read_by(derived.body.results[results:]) if n < form.last}
    found: set[int] = set()
    while more := {n - first for n in read if first <= n < form.first} - found:
        found |= more
        read |= form.body.read_by([form.body.results[n] for n in more])
    return sorted(found)


def _number(o: Any, value: int) -> Any:
    return o.full(shape=(), value=value, dtype=INT)


def _zeros(o: Any, aval: Aval) -> Any:
    return o.full(shape=aval.shape, value=0, dtype=aval.dtype)


def _avals(form: Form, values: Sequence[Any]) -> list[Aval]:
    return [x if isinstance(x, Aval) else form.aval(x) for x in values]
