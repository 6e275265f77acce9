"""A body and its derivative backwards, in one that is cut in two: the second part reads what the first one keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.body import Application, Body, is_pure
from nnc_func.body_builder import BodyBuilder
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.ops.binary import add
from nnc_func.graph.ops.bodies import dtypes_in, is_fusible, is_reduction, shapes_in
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.move import broadcast_to
from nnc_func.graph.ops.silent_bodies import silenced
from nnc_func.locks import cached_property

SCALARS = (bool, int, float, complex)
CHEAP = 4  # operations an element of what is rather computed again than kept


def aval_of(o: Any, x: Any) -> Aval:
    """Of whatever flows through an interpretation; it has no layout."""
    if type(x) in SCALARS:
        return Aval((), np.result_type(x))
    found = getattr(x, "aval", None)
    return Aval(x.shape, o.dtype(x)) if found is None else Aval(found.shape, found.dtype, None, found.place)


def zeros(builder: BodyBuilder, aval: Aval) -> int:
    """Zeros, within a body."""
    return builder.apply(full, shape=aval.shape, value=np.zeros((), aval.dtype).item(), dtype=aval.dtype)


def is_smooth(aval: Aval) -> bool:
    """Whether what has that aval may have a tangent."""
    return kind_of(aval.dtype) in "fc"


class CutBody:
    """The joint body of a body and its derivative backwards. Values have their numbers in that.

    Parameters
    ----------
    body, avals
        The body, and avals of its parameters.
    derived
        What Autodiff made of it: its parameters are those of the body, then cotangents of those results that depend on
        what moves, then what it captures; its results are those of the body, then cotangents of parameters.
    captured
        Avals of what it captures.

    Attributes
    ----------
    flowing
        For each result of the body with a cotangent, the number of that.
    cotangents
        For each parameter of the body with a cotangent, the number of that.
    backward
        Values that depend on cotangents: those of the second part.
    """

    def __init__(self, body: Body, avals: Sequence[Aval], derived: Any, captured: Sequence[Aval]) -> None:
        self.joint: Body = derived.body
        self.own, self.results = body.parameters, len(body.results)
        moved = [n for n in range(self.results) if derived.moved[n]]
        self.flowing = {n: self.own + k for k, n in enumerate(moved)}
        self.after = self.own + len(moved)  # where what is captured begins
        reached = [n for n in range(self.own) if derived.reached[n]]
        self.cotangents = dict(zip(reached, self.joint.results[self.results :], strict=True))
        self.producer: dict[int, Application] = {}
        self.backward = set(range(self.own, self.after))
        for each, made in self.applications():
            self.producer.update(dict.fromkeys(made, each))
            if not self.backward.isdisjoint(each.operands):
                self.backward.update(made)
        self.again: set[int] = set()  # values of the first part that the second one computes again
        self._avals, self._captured, self._body = tuple(avals), tuple(captured), body

    def applications(self) -> Iterator[tuple[Application, range]]:
        """Each application of the joint body, and the numbers of its results."""
        number = self.joint.parameters
        for each in self.joint.applications:
            yield each, range(number, number + each.count)
            number += each.count

    @cached_property
    def avals(self) -> list[Aval]:
        """Of all values."""
        own = avals_in(self._body, self._avals)
        given = [*self._avals, *(own[self._body.results[n]] for n in self.flowing), *self._captured]
        return avals_in(self.joint, given)

    def is_again(self, value: int) -> bool:
        """Whether the second part computes a value again that is not its own: numbers, and views of one other value."""
        each = self.producer.get(value)
        if each is None or value in self.backward or not is_pure(each.op, each.items):
            return False
        return (
            value in self.again
            or not each.operands
            or (len(each.operands) == 1 and (each.op.view is not None or each.op is broadcast_to))
        )

    def is_kept(self, value: int) -> bool:
        """Whether a value of the first part takes memory if the second one reads it."""
        return value >= self.own

    def is_cheap(self, value: int) -> bool:
        """Whether a value is elementwise, and takes few operations an element."""
        each = self.producer.get(value)
        if each is None or value in self.backward or not is_fusible(each.op) or is_reduction(each.op):
            return False
        aval = self.avals[value]
        flops = each.op.cost(tuple([self.avals[i] for i in each.operands]), (aval,), **dict(each.items)).flops
        return bool(known(aval.size) and flops <= CHEAP * aval.size)

    def kept(self, results: Sequence[int]) -> list[int]:
        """As `wanted`, where what is cheap is computed again if that takes less memory."""
        found = set(self.wanted(results))
        for value in sorted(found, reverse=True):
            if not self.is_kept(value) or not self.is_cheap(value):
                continue
            within, more = self._made_of(value, found - {value})
            if _bytes(self.avals[i] for i in more if self.is_kept(i)) < _bytes([self.avals[value]]):
                self.again |= within
                found = (found - {value}) | more
        return sorted(found)

    def _made_of(self, value: int, found: set[int]) -> tuple[set[int], set[int]]:
        """The cheap values of which a value is made, itself one of them; and others that these read, not in `found`."""
        within, more, waiting = {value}, set[int](), [value]
        while waiting:
            for i in self.wanted(self.producer[waiting.pop()].operands):
                if i in found or i in within:
                    continue
                if self.is_kept(i) and self.is_cheap(i):
                    within.add(i)
                    waiting.append(i)
                else:
                    more.add(i)
        return within, more

    def wanted(self, results: Sequence[int]) -> list[int]:
        """Values of the first part that the second one reads for these of its results, and does not compute again."""
        seen, waiting, found = set(results), list(results), []
        while waiting:
            value = waiting.pop()
            if value not in self.backward and not self.is_again(value):
                found.append(value)
            elif value in self.producer:
                more = [i for i in self.producer[value].operands if i not in seen]
                seen.update(more)
                waiting += more
        return sorted(found)

    def first_part(self, builder: BodyBuilder, given: Mapping[int, int]) -> dict[int, int]:
        """All values that do not depend on cotangents, within a body."""
        values = dict(given)
        for each, made in self.applications():
            if each.operands and self.backward.intersection(each.operands):
                continue
            if all(i in values for i in each.operands):
                found = builder.again(each, [values[i] for i in each.operands])
                values.update(zip(made, found, strict=True))
        return values

    def absent(self, live: Collection[int]) -> set[int]:
        """Values of the second part that are zeros where only these results of the body have cotangents.

        It is linear in these. So a zero is not multiplied: beside an infinite slope that would be a NaN.
        """
        found = {value for n, value in self.flowing.items() if n not in live}
        for each, made in self.applications():
            backward = self.backward.intersection(each.operands)
            if backward and backward <= found:
                found.update(made)
        return found

    def live(self, given: Iterable[int], carried: Mapping[int, int]) -> tuple[list[int], set[int]]:
        """The carries that have cotangents at some time, where these results have; and values that never have.

        Parameters
        ----------
        carried
            A result of the body to the parameter that it is the next time, of those that move.
        """
        live = set(given)
        while True:
            absent = self.absent(live)
            more = {n for n, p in carried.items() if self.cotangents.get(p) not in {None, *absent}} - live
            if not more:
                return sorted(live & carried.keys()), absent
            live |= more

    def second_part(
        self, builder: BodyBuilder, given: Mapping[int, int], absent: Collection[int] = ()
    ) -> dict[int, int]:
        """All values that can be made of those that are given, within a body; absent ones are zeros, and not made."""
        values = dict(given)
        for each, made in self.applications():
            if made[0] in absent or all(i in values for i in made):
                continue
            if each.op.effect and made[0] not in self.backward:  # one of its own gives a derivative
                continue
            if not all(i in values or i in absent for i in each.operands):
                continue
            items = silenced(each.items)  # what is computed again does nothing again
            if items is None:
                continue
            if each.op is add and (whole := self._whole(each, made[0], absent)) is not None:
                values[made[0]] = values[whole]
                continue
            operands = [values[i] if i in values else zeros(builder, self.avals[i]) for i in each.operands]
            if items is each.items:
                found = builder.again(each, operands)
            else:
                found = builder.applied(each.op, operands, items, each.count)
            values.update((i, v) for i, v in zip(made, found, strict=True) if i not in values)
        return values

    def _whole(self, each: Application, made: int, absent: Collection[int]) -> int | None:
        """The operand that a sum is, where the other one is absent."""
        present = [i for i in each.operands if i not in absent]
        return present[0] if len(present) == 1 and self.avals[present[0]].shape == self.avals[made].shape else None


def _bytes(avals: Iterable[Aval]) -> Any:
    return sum([a.size * a.dtype.itemsize for a in avals])


def avals_in(body: Body, avals: Sequence[Aval]) -> list[Aval]:
    """Of all values of a body, of those of its parameters."""
    shapes = shapes_in(body, tuple([a.shape for a in avals]))
    dtypes = dtypes_in(body, tuple([a.dtype for a in avals]))
    return [Aval(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
