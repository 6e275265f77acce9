"""The derivative of a loop: a loop of tangents beside it; or a loop the other way, which reads what this one keeps.

The first one stacks, besides its own results, each value that the derivative of its body reads, and that is no
constant, no slice, and not cheap to have again from one of these. Cotangents of constants are added up in carries; of a
constant in a matrix product they are one product over all times, afterwards, of what was stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from nnc_func.body import Application, is_pure
from nnc_func.body_builder import BodyBuilder
from nnc_func.facets.dims import known
from nnc_func.facets.shapes import normalise_axes
from nnc_func.graph.ops.binary import add
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.cut_bodies import CutBody, aval_of, zeros
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.loop_checkpoints import Checkpointed
from nnc_func.graph.ops.loop_form import Form
from nnc_func.graph.ops.loop_policies import Candidate, keeps, policy_of
from nnc_func.graph.ops.loop_schedules import BUDGET, TAPE, backwards, chosen
from nnc_func.graph.ops.loop_segments import in_segments
from nnc_func.graph.ops.move import permute_dims, reshape
from nnc_func.graph.ops.reduce import sum_
from nnc_func.graph.ops.silent_bodies import silenced, unconditional, without_effects
from nnc_func.locks import cached_property
from nnc_func.op import Op

STACKED = 8  # elements of new rows, for each element of a constant's cotangent that need not be added up then


# --- forward -------------------------------------------------------------------------------------------------


def tangent_of_loop(op: Op, derive: Any, o: Any, ts: Sequence[Any], xs: Any, params: Any) -> tuple[Any, Any]:
    """The results of a loop, and their tangents: a loop that carries and slices tangents beside its own."""
    form = Form(op, o, xs, params)
    derived = form.derived(derive.tangent, frozenset(n for n, t in enumerate(ts) if t is not None))
    moving = derived.moving
    parameters, carries, results = form.body.parameters, len(form.carries), len(form.body.results)

    def moves(start: int, stop: int) -> list[int]:
        return [n for n in range(start, stop) if n in moving]

    start_of_carries = len(form.constants)
    kinds = [(0, start_of_carries), (start_of_carries, form.first), (form.first, form.last)]
    builder, at = BodyBuilder(), dict[Any, int]()
    operands: list[list[Any]] = []
    for number, (start, stop) in enumerate(kinds):
        more = [*derived.captured] if not number else []
        operands.append(
            [*xs[start:stop], *(o.zeros_like(xs[n]) if ts[n] is None else ts[n] for n in moves(start, stop))]
        )
        at.update((n, builder.parameter()) for n in range(start, stop))
        at.update((("t", n), builder.parameter()) for n in moves(start, stop))
        at.update((("captured", n), builder.parameter()) for n in range(len(more)))
        operands[-1] += more
    given = [at[n] for n in range(parameters)] + [at["t", n] for n in sorted(moving)]
    values = builder.include(derived.body, given + [at["captured", n] for n in range(len(derived.captured))])
    made = [values[n] for n in derived.body.results]
    slopes = dict(zip([n for n in range(results) if derived.moved[n]], made[results:], strict=True))
    carried = [n - start_of_carries for n in moves(*kinds[1])]
    following = [slopes[n] if n in slopes else zeros(builder, form.avals[start_of_carries + n]) for n in carried]
    stacked = [n for n in range(carries, results) if n in slopes]
    body = builder.built([*made[:carries], *following, *made[carries:results], *(slopes[n] for n in stacked)])
    found = form.apply(body, *operands)
    own, rest = carries + len(following), results - carries
    tangents: list[Any] = [None] * results
    for n, t in zip(carried, found[carries:own], strict=True):
        tangents[n] = t
    for n, t in zip(stacked, found[own + rest :], strict=True):
        tangents[n] = t
    return (*found[:carries], *found[own : own + rest]), tuple(tangents)


# --- reverse -------------------------------------------------------------------------------------------------


def linearized_loop(
    op: Op, derive: Any, o: Any, moving: frozenset[int], xs: Sequence[Any], params: Any
) -> tuple[Any, Any, Any]:
    """The results of a loop that keeps what its derivative reads, and the derivative both ways."""
    form = Form(op, o, xs, params)
    derived = form.derived(derive.cotangent, moving)
    kept = Kept(form, derived)
    schedule = TAPE
    if any(derived.moved):
        schedule = chosen(form, derived, params["checkpoint"], lambda: (kept.bytes_a_time(), kept.bytes_a_time(True)))
    again = form.body  # what a derivative computes a second time, which goes by the number of times
    if form.conditional and not form.body.is_pure:
        again = unconditional(form.body, len(form.constants))
    if schedule.way == "carries" and form.most is not None and silenced((("body", again),)) is None:
        schedule = TAPE  # what effects give is not computed again
    held: Checkpointed | Kept = kept
    if schedule.way == "segments":
        results, pull = derive.linearize(
            lambda *given: in_segments(derive, op, o, given, params, schedule.size), xs, derived.moving
        )
    elif schedule.way == "carries":
        held = Checkpointed(form, derive, derived, schedule.size)
        results, pull = held.linearized()
    else:
        results, pull = kept.run()

    def push(ts: Sequence[Any]) -> Any:
        if not form.conditional or not held.times or form.body.is_pure:
            return tangent_of_loop(op, derive, o, ts, xs, without_effects(params))[1]
        changed = {**params, "body": again, "counted": True, "conditional": False}
        given = (*xs[: form.last], *held.times)
        return tangent_of_loop(op, derive, o, (*ts[: form.last], None), given, without_effects(changed))[1]

    return results, push, pull


@frozen(eq=False)
class _Choice:
    """What the loop backwards reads and stacks.

    Attributes
    ----------
    sums
        Constants whose cotangents are summed afterwards, and how.
    added
        Constants whose cotangents are added up in carries.
    rows
        Values of which the sums are made.
    wanted
        Values that the second loop reads, or the sums.
    """

    sums: dict[int, Any]
    added: list[int]
    rows: list[int]
    wanted: list[int]


class Kept(CutBody):
    """The body of a loop and its derivative backwards, and the two loops that are made of them.

    Attributes
    ----------
    times
        How many times it went, once it has run, where that is not known before.
    """

    times: tuple[Any, ...] = ()

    def __init__(self, form: Form, derived: Any) -> None:
        super().__init__(form.body, form.avals, derived, [aval_of(form.o, x) for x in derived.captured])
        self.form, self.moving, self.captured = form, derived.moving, derived.captured
        checkpoint = form.params["checkpoint"]
        self.policy = policy_of(checkpoint)
        # where it is said what is to be kept, sums get no rows of their own
        self.in_place = self.policy is not None or checkpoint.startswith(BUDGET)
        self._chosen: dict[Application, bool] = {}

    def is_again(self, value: int) -> bool:
        """As of any body; and all that can be computed again and that a policy does not keep."""
        each = self.producer.get(value)
        if self.policy is None or each is None or value in self.backward or super().is_again(value):
            return bool(super().is_again(value))
        return not each.op.effect and silenced(each.items) is not None and not self._is_chosen(each, value)

    def _is_chosen(self, each: Application, value: int) -> bool:
        """Whether the policy keeps the results of an application; `value` is one of them."""
        found = self._chosen.get(each)
        if found is None:
            assert self.policy is not None
            made = tuple([self.avals[i] for i, its in self.producer.items() if its is each])
            operands = tuple([self.avals[i] for i in each.operands])
            found = self._chosen[each] = keeps(self.policy, Candidate(each.op, each.params, operands, made))
        return found

    def kept(self, results: Sequence[int]) -> list[int]:
        """As of any body; what a policy keeps is kept, cheap or not."""
        return super().kept(results) if self.policy is None else self.wanted(results)

    def is_kept(self, value: int) -> bool:
        """Whether it is to be stacked: neither a constant, nor a slice."""
        return not (self.is_constant(value) or self.is_slice(value) or value in self.made_of_constants)

    def is_stacked(self, value: int) -> bool:
        """Whether the loop backwards gives a value, of which there are rows to be."""
        return value in self.backward or self.is_again(value)

    def is_constant(self, value: int) -> bool:
        """Whether it is an operand that is the same each time."""
        return value < len(self.form.constants) or self.after <= value < self.joint.parameters

    def is_slice(self, value: int) -> bool:
        """Whether it is the slice of an operand."""
        return self.form.first <= value < self.own

    @cached_property
    def made_of_constants(self) -> frozenset[int]:
        """Values that are the same each time, but for the operands."""
        found: set[int] = set()
        for each, made in self.applications():
            if is_pure(each.op, each.items) and all(i in found or self.is_constant(i) for i in each.operands):
                found.update(made)
        return frozenset(found)

    # --- sums over all times -------------------------------------------------------------------------------

    def sums(self) -> dict[int, Any]:
        """Constants whose cotangents are summed afterwards, and how, see `_sum`."""
        found = {}
        for n in range(len(self.form.constants)):
            if n in self.cotangents and (summed := self._sum(self.cotangents[n])) is not None:
                found[n] = summed
        return found

    def _sum(self, value: int) -> Any:
        """A function of stacked values that gives the sum of a value over all times, and these; None: none is known."""
        each, o = self.producer.get(value), self.form.o
        if each is None or value not in self.backward:
            return None
        params = dict(each.items)
        if each.op is matmul:
            return self._sum_of_products(each)
        if each.op is add and all(self.avals[i].shape == self.avals[value].shape for i in each.operands):
            parts = [self._sum(i) for i in each.operands]
            if parts[0] is None or parts[1] is None:
                return None
            (one, its), (other, others) = parts[0], parts[1]
            return (lambda *s: o.add(one(*s[: len(its)]), other(*s[len(its) :]))), (*its, *others)
        if each.op in (reshape, permute_dims):
            inner = self._sum(each.operands[0])
            return None if inner is None else (lambda *s: o.bind(each.op, inner[0](*s), **params), inner[1])
        if each.op is sum_ and not params["keepdims"]:
            (x,) = each.operands
            axes = tuple([a + 1 for a in normalise_axes(params["axis"], len(self.avals[x].shape))])
            return (lambda s: o.sum(s, axis=(0, *axes), keepdims=False)), (x,)
        return None

    def _sum_of_products(self, each: Application) -> Any:
        a, b = each.operands
        if any(len(self.avals[i].shape) != 2 or self.is_constant(i) or i in self.made_of_constants for i in (a, b)):
            return None
        params, o = dict(each.items), self.form.o
        left, right = int(not params["transpose_a"]), int(params["transpose_b"])
        if left == 0 and right == 0:
            return (lambda x, y: o.matmul(_long(o, x), _long(o, y), transpose_a=True)), (a, b)
        return (lambda x, y: o.tensordot(x, y, axes=((0, left + 1), (0, right + 1)))), (a, b)

    def worth(self, sums: dict[int, Any]) -> dict[int, Any]:
        """Those of the sums that do not want more rows than what they save."""
        products = {n: each for n, each in sums.items() if self._has_product(self.cotangents[n])}
        stacked: set[int] = set()
        kept = {}
        for n, each in [*products.items(), *(pair for pair in sums.items() if pair[0] not in products)]:
            new = {i for i in each[1] if i not in stacked and not self._is_stacked_anyway(i)}
            sizes = [self.avals[i].size for i in new] + [self.avals[n].size]
            if all(map(known, sizes)) and sum(sizes[:-1]) > STACKED * sizes[-1] * (n in products):
                continue
            if new and (self.in_place or n not in products):
                continue
            stacked |= new
            kept[n] = each
        return kept

    def _has_product(self, value: int) -> bool:
        each = self.producer.get(value)
        return each is not None and (
            each.op is matmul
            or (each.op in (reshape, permute_dims, add) and any(map(self._has_product, each.operands)))
        )

    def _is_stacked_anyway(self, value: int) -> bool:
        return not self.is_stacked(value)

    # --- both loops ----------------------------------------------------------------------------------------

    @cached_property
    def choice(self) -> _Choice:
        """What the second loop reads, and how it adds up cotangents of constants."""
        sums = self.worth(self.sums())
        added = [n for n in range(len(self.form.constants)) if n in self.cotangents and n not in sums]
        rows = list(dict.fromkeys(i for each in sums.values() for i in each[1]))
        passed = [self.cotangents[n] for n in self.cotangents if n not in sums]
        wanted = self.kept([*passed, *(i for i in rows if self.is_stacked(i))])
        wanted += [i for i in rows if not self.is_stacked(i) and i not in wanted]
        return _Choice(sums, added, rows, wanted)

    @property
    def own_rows(self) -> dict[int, int]:
        """Values that are results of the loop, which are stacked anyway, and which result each is."""
        results = [*enumerate(self.joint.results[: self.results])]
        return {i: n for n, i in reversed(results) if n >= len(self.form.carries)}

    def bytes_a_time(self, with_results: bool = False) -> Any:
        """What the tape takes for each time; without results of the loop that are there anyway, or with them."""
        choice, own = self.choice, {} if with_results else self.own_rows
        rows = [i for i in choice.wanted if self.is_kept(i) and i not in own]
        rows += [i for i in choice.rows if self.is_stacked(i)]
        return sum([self.avals[i].size * self.avals[i].dtype.itemsize for i in rows])

    def run(self) -> tuple[tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]]:
        """The results of the loop, and the function from their cotangents to those of its operands."""
        form, carries = self.form, len(self.form.carries)
        sums, added, rows, wanted = attrs.astuple(self.choice, recurse=False)
        outside = [i for i in wanted if i in self.made_of_constants]
        kept = [i for i in wanted if self.is_kept(i)]
        own = self.own_rows
        following = self._following(kept)
        more = list(dict.fromkeys(i for i in (following.get(i, i) for i in kept) if i not in own))

        builder = BodyBuilder()
        given = dict(enumerate(builder.parameters(len(form.constants))))
        given.update(enumerate(builder.parameters(len(self.captured)), self.after))
        given.update(enumerate(builder.parameters(carries), len(form.constants)))
        times = [builder.parameter()] if form.params["conditional"] else []
        given.update(enumerate(builder.parameters(self.own - form.first), form.first))
        values = self.first_part(builder, given)
        results = [values[i] for i in self.joint.results[: self.results]]
        counter = [builder.apply(add, at, builder.apply(full, shape=(), value=1, dtype="int64")) for at in times]
        body = builder.built([*results[:carries], *counter, *results[carries:], *(values[i] for i in more)])
        o = form.o
        zero = [o.full(shape=(), value=0, dtype="int64") for _ in times]
        found = form.apply(body, [*form.constants, *self.captured], [*form.carries, *zero], form.slices)
        count = self.times = found[carries : carries + len(times)] or form.count
        ys = (*found[:carries], *found[carries + len(times) :])
        stacks = dict(zip(more, ys[self.results :], strict=True)) | {i: ys[n] for i, n in own.items()}
        stacks.update((i, self._before(i, stacks[after])) for i, after in following.items())
        stacks.update((n, form.slices[n - form.first]) for n in range(form.first, self.own))
        fixed = dict(enumerate(form.constants)) | dict(enumerate(self.captured, self.after))
        fixed |= self._outside(outside, fixed)

        def pull(gs: Sequence[Any]) -> list[Any]:
            return self._pulled(gs, ys, wanted, fixed, stacks, sums, rows, added, tuple(count))

        return ys[: self.results], pull

    def _following(self, kept: Sequence[int]) -> dict[int, int]:
        """The carries of which there are to be rows, and what each is after the body: of that there are rows instead.

        For a carry that is stacked is written there, and is read there the next time.
        """
        form, first = self.form, len(self.form.constants)
        if not known(form.most) or (form.params["reverse"] and form.count):
            return {}
        found = {i: self.joint.results[i - first] for i in kept if first <= i < form.first}
        return {i: after for i, after in found.items() if after in self.producer and self.is_tensor(i - first)}

    def is_tensor(self, carry: int) -> bool:
        """Whether a carry starts as a tensor, and not as a number."""
        return hasattr(self.form.carries[carry], "shape")

    def _before(self, carry: int, rows: Any) -> Any:
        """What a carry was before each time, of what it was after: the first row is what it starts with."""
        form, o = self.form, self.form.o
        start = form.carries[carry - len(form.constants)]
        shape, most = tuple(start.shape), form.most
        start = o.reshape(start, shape=(1, *shape))
        skipped = int(form.params["reverse"])
        every = o.concat(*((rows, start) if skipped else (start, rows)), axis=0)
        starts, stops = (skipped, *(0 for _ in shape)), (skipped + most, *shape)
        return o.slice(every, starts=starts, stops=stops, steps=(1,) * len(starts))

    def _outside(self, values: Sequence[int], fixed: Mapping[int, Any]) -> dict[int, Any]:
        """Values that are the same each time, computed once."""
        if not values:
            return {}
        found = dict(fixed)
        for each, made in self.applications():
            if self.made_of_constants.issuperset(made):
                y = self.form.o.bind(each.op, *[found[i] for i in each.operands], **dict(each.items))
                found.update(zip(made, y if each.op.multi_result else (y,), strict=True))
        return {i: found[i] for i in values}

    def _pulled(
        self, gs: Sequence[Any], ys: Sequence[Any], wanted: Sequence[int], fixed: Mapping[int, Any],
        stacks: Mapping[int, Any], sums: Mapping[int, Any], rows: Sequence[int], added: Sequence[int], count: Any,
    ) -> list[Any]:  # fmt: skip
        """The loop the other way."""
        form, o, carries = self.form, self.form.o, len(self.form.carries)
        first = len(form.constants)
        if form.most == 0:  # what it never reads takes no cotangent: a zero beside an infinite slope would be a NaN
            mine = [gs[n] if first + n in self.moving else None for n in range(carries)]
            return [*[None] * first, *mine, *[None] * (len(form.slices) + len(form.count))]
        carried_on = {n: first + n for n in range(carries) if first + n in self.moving}
        back, absent = self.live([n for n in range(self.results) if gs[n] is not None], carried_on)

        def has(parameter: int) -> bool:
            return parameter in self.cotangents and self.cotangents[parameter] not in absent

        added = [n for n in added if has(n)]
        sums = {n: each for n, each in sums.items() if has(n)}
        builder, at = BodyBuilder(), dict[int, int]()
        same = [i for i in wanted if i in fixed]
        at.update((i, builder.parameter()) for i in same)
        flowing = self.flowing
        carried = {n: builder.parameter() for n in back}
        totals = {n: builder.parameter() for n in added}
        sliced = [i for i in wanted if i in stacks]
        at.update((i, builder.parameter()) for i in sliced)
        given = [n for n in range(carries, self.results) if n in flowing and gs[n] is not None]
        at.update((flowing[n], builder.parameter()) for n in given)
        at.update((flowing[n], carried[n]) for n in back if n in flowing)
        values = self.second_part(builder, at, absent)

        def of(value: int) -> int:
            return zeros(builder, self.avals[value]) if value in absent else values[value]

        def cotangent(parameter: int) -> int:
            found = self.cotangents.get(parameter)
            return zeros(builder, form.avals[parameter]) if found is None else of(found)

        moved = [n for n in range(form.first, form.last) if has(n)]
        read = {i for _, parts in sums.values() for i in parts}
        stacked = [i for i in rows if self.is_stacked(i) and i in read]
        body = builder.built([
            *(cotangent(first + n) for n in back),
            *(builder.apply(add, totals[n], cotangent(n)) for n in added),
            *(cotangent(n) for n in moved), *map(of, stacked),
        ])  # fmt: skip
        starts = [o.zeros_like(ys[n]) if gs[n] is None else gs[n] for n in back]
        starts += [o.zeros_like(form.constants[n]) for n in added]
        found: Sequence[Any] = ()
        if body.results:
            found = form.apply(
                body, [fixed[i] for i in same], starts, [*(stacks[i] for i in sliced), *(gs[n] for n in given)],
                reverse=not form.params["reverse"], conditional=False,
                checkpoint=backwards(form.params["checkpoint"]), count=count,
            )  # fmt: skip
        result: list[Any] = [None] * (form.last + len(form.count))
        for n, g in zip([*(first + n for n in back), *added, *moved], found, strict=False):
            result[n] = g
        all_rows = {**stacks, **dict(zip(stacked, found[len(starts) + len(moved) :], strict=True))}
        for n, (total, parts) in sums.items():
            result[n] = total(*[all_rows[i] for i in parts])
        return result


def _long(o: Any, x: Any) -> Any:
    """All rows of matrices one below the other."""
    times, rows, columns = x.shape
    return o.reshape(x, shape=(times * rows, columns))
