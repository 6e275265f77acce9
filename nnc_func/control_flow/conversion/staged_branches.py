"""Branches of operators made of blocks of Python: both are traced on the objects there are, and then merged.

What they leave in variables, objects and tensors is one thing or the other, as a tensor decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import define, field

from nnc_func.autodiff.traced import Traced
from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.attempts import noting
from nnc_func.control_flow.conversion.arrays import Arrays, is_written
from nnc_func.control_flow.conversion.identities import Identities, Log, identities, known_identities
from nnc_func.control_flow.conversion.number_kinds import common_dtype, common_kind, is_number, kind_of, stands_for
from nnc_func.control_flow.conversion.objects import Objects, Opaque, is_same
from nnc_func.control_flow.conversion.optionals import aligned, missing, optional
from nnc_func.control_flow.conversion.staging import Where, truth, within_staged
from nnc_func.control_flow.conversion.values import (
    Get,
    Held,
    Rows,
    Set,
    Undefined,
    Unlike,
    Unreached,
    leaves_that_move,
    moving,
    same,
)  # fmt: skip
from nnc_func.control_flow.messages import of_fields, traced_always
from nnc_func.control_flow.tracing import TracedBody, aval_of, carrier_of, traced
from nnc_func.engine.effects import ordered
from nnc_func.errors import ControlFlowError
from nnc_func.facets.dims import same_extent
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.unary import cast
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten

FLAGS = ("_returned", "_broke", "_skipped")  # how the names of flags begin, see `exits`
ABSENT = object()  # what a variable is on the side that never reads it


@define(eq=False)
class Outcome:
    """One block of a branch, traced.

    Attributes
    ----------
    body
        Its results are all leaves that move.
    held
        The variables at its end.
    changed
        Of objects that it writes into, by number, what they have at its end.
    log
        Which tensors it writes into.
    leaves
        Of each result of the body, what it is the value of at the end.
    """

    body: TracedBody
    held: list[Held]
    changed: dict[int, Any]
    log: Log
    leaves: list[Any]

    positions: dict[int, int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.positions = {id(leaf): n for n, leaf in enumerate(self.leaves)}

    def exits(self, variable: Held) -> bool:
        """Whether it ends with a return, break or continue, so that nobody reads a variable that has no value then.

        What has a value in Python, which staged code cannot tell, may be read behind the loop.
        """
        flags = FLAGS[:1] if variable.lost else FLAGS
        return any(each.value is True and each.name.startswith(flags) for each in self.held)


def staged_branch(
    test: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any], get: Get, put: Set, names: Sequence[str],
    later: int, where: Where, is_optional: bool = True,
) -> None:  # fmt: skip
    """What one of two blocks leaves in variables and objects, where a tensor decides.

    Parameters
    ----------
    is_optional
        Whether a variable may be None on one side, and a tensor on the other.
    """
    stack, index, before = test.stack, truth(test), get()
    if is_optional and (around := known_identities()) is not None:
        before = optional(before, names, around)
    arrays = Arrays(before, names, where)
    entry = [Held.of(name, value) for name, value in zip(names, before, strict=True)]
    objects = Objects((then, otherwise), get, names)
    with identities() as known:
        try:
            why = f"both sides of what a tensor decides at {where} are traced, whether they are taken or not"
            with within_staged(where), noting(), traced_always(why):
                given = (get, put, later, objects, arrays, is_optional)
                ends = [_outcome(stack, entry, run, *given) for run in (otherwise, then)]
        finally:
            put(before)
        merge = _Merge(stack, ends, where, objects, known, is_optional)
        for n in range(later):
            merge.variable(n, entry[n])
        merge.written()
        after = merge.after(index)
        put([*after, *(held.value for held in entry[later:])])


def staged_choice(test: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any], where: Where) -> Any:
    """The value of one of two expressions, where a tensor decides.

    Raises
    ------
    ControlFlowError
        They are no values of one kind.
    """
    value: Any = Undefined("it")

    def assign(expression: Callable[[], Any]) -> None:
        nonlocal value
        value = expression()

    def get() -> tuple[Any, ...]:
        return (value,)

    def put(values: Sequence[Any]) -> None:
        nonlocal value
        (value,) = values

    at = Where(where.file, where.line, (where.line, where.line))
    staged_branch(test, partial(assign, then), partial(assign, otherwise), get, put, ("value",), 1, at, False)
    if isinstance(value, Undefined):
        with noting():
            raise ControlFlowError(
                f"the expression at {where} is one of two values, which a tensor decides, and {value.why}"
            )
    return value


def _outcome(
    stack: Any, entry: Sequence[Held], run: Callable[[], Any], get: Get, put: Set, later: int, objects: Objects,
    arrays: Arrays, is_optional: bool,
) -> Outcome:  # fmt: skip
    ended: list[Held] = []
    leaves: list[Any] = []
    changed: dict[int, Any] = {}
    logs: list[Log] = []
    before = objects.contents()

    def flat(_: list[Any]) -> list[Any]:
        put(arrays.copied())
        with identities() as known, known.block() as log:
            try:
                run()
                known.check_parts()
                last = get()
                found = arrays.unchanged(optional(last, [each.name for each in entry], known) if is_optional else last)
                ended[:] = [Held.of(held.name, value) for held, value in zip(entry[:later], found, strict=False)]
                changed.update(objects.changed(before))
                written = [tensor for tensor, _, _ in log.before.values()]
                conditions = [each for each in known.conditions() if isinstance(each, Tensor)]
                leaves[:] = leaves_that_move(
                    [*(held.value for held in ended), *changed.values(), *written, *conditions]
                )
                values = [Tensor(leaf.stack, leaf.value) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            finally:
                objects.restore(before, objects.changed(before))
        logs[:] = [log]
        return values

    body = traced(stack, flat, [], whole=True, effects=True)
    return Outcome(body, ended, changed, logs[0], leaves)


class _DifferError(Exception):
    """Why the two sides of a branch cannot be one value."""


Build = Callable[[Sequence[Any]], Any]
"""What makes a value of the leaves that the branch gives."""


class _Merge:
    """Two outcomes as one: which leaves a branch gives, and of what each variable and each object is built."""

    def __init__(
        self, stack: Any, ends: Sequence[Outcome], where: Where, objects: Objects, known: Identities,
        is_optional: bool,
    ) -> None:  # fmt: skip
        self.stack, self.ends, self.where, self.objects, self.known = stack, ends, where, objects, known
        self.before = objects.contents()
        self.chosen: list[tuple[Any, Any, Any]] = []  # where a result is on each side, and its aval
        self.values: list[Build] = []
        self.kept: list[Any] = []  # pairs are known by identity
        self.is_optional = is_optional
        self.contents: dict[int, Build] = {}
        self.given: list[tuple[Tensor, int]] = []  # tensors that are written into, and which leaf they get
        self.pairs: dict[tuple[int, int], Build] = {}
        self.tensors: list[tuple[Any, Any, Build]] = []  # those of which a pair is one tensor

    # --- variables and objects --------------------------------------------------------------------------

    def variable(self, n: int, entry: Held) -> None:
        """Decide of what one variable is built.

        Raises
        ------
        ControlFlowError
            It is an attribute of an object, which lasts, and no value can be told.
        """
        other, then = (end.held[n] for end in self.ends)
        lasts = "." in entry.name
        if other.absent and then.absent:
            self._always(then.value if then.value.why else other.value)
            return
        for which, (absent, there) in enumerate(((other, then), (then, other))):
            if absent.absent:
                unread = type(absent.value) is Unreached or (not lasts and self.ends[which].exits(absent))
                if not unread:
                    why = self._one_sided(entry.name, which, absent.value)
                    if lasts:
                        raise ControlFlowError(f"the branch at {self.where} writes into {entry.name}: {why}")
                    self._none(entry, why)
                    return
                none, value = missing(absent.value, there.value, ABSENT)
                pair = (none, value) if which == 0 else (value, none)
                self.kept += pair
                self.values.append(self._both(pair[0], pair[1], entry.name))
                return
        one, two = other.value, then.value
        if self.is_optional and not lasts and not entry.name.startswith("_result"):
            one, two = aligned(one, two, ABSENT)
            self.kept += (one, two)
        try:
            self.values.append(self._both(one, two, entry.name))
        except _DifferError as error:
            if lasts:
                raise ControlFlowError(self._unequal(entry.name, error)) from None
            self._always(Unlike(entry.name, str(error)))

    def written(self) -> None:
        """Decide what objects have that were written into.

        Raises
        ------
        ControlFlowError
            One has another structure where the condition holds.
        """
        for n in dict.fromkeys([*self.ends[0].changed, *self.ends[1].changed]):
            value, path = self.objects.found[n]
            self.known.check(value, f"a block of the statement at {self.where}")
            one, two = (end.changed.get(n, self.before[n]) for end in self.ends)
            try:
                if isinstance(one, (set, np.ndarray, Opaque)):
                    self.contents[n] = self._opaque(n, one, two, path)
                else:
                    if isinstance(one, dict) and not isinstance(value, dict) and {*one} == {*two}:
                        two = {name: two[name] for name in one}  # the attributes of an object have no order
                    self.contents[n] = self._both(one, two, path)
            except _DifferError as error:
                raise ControlFlowError(self._unequal(path, error)) from None
        tensors: dict[int, Tensor] = {}
        for end in self.ends:
            for key, (tensor, value, _) in end.log.before.items():
                if not (type(value) is Traced and not value.trace.live):  # else it was made in the block
                    tensors[key] = tensor
        for tensor in tensors.values():
            at = [self._at(which, tensor) for which in range(2)]
            aval, why = self._aval([tensor, tensor], at)
            if aval is None:
                raise ControlFlowError(self._unequal(self.objects.path(tensor), _DifferError(f"it {why}")))
            self.given.append((tensor, self._choose(at, aval)))

    def _opaque(self, n: int, one: Any, two: Any, path: str) -> Build:
        """What makes what a set, an array or an iterator has, which is to be the same on both sides."""
        if not is_same(one, two):
            kind = "a set" if isinstance(one, set) else f"a {type(self.objects.found[n][0]).__name__}"
            raise _DifferError(f"{path} is {kind}, of which a tensor cannot decide what it has")
        return lambda _: one

    def after(self, index: Tensor) -> list[Any]:
        """What the variables have after the branch; objects have it then, too."""
        related = self._relations()
        found = self.bound(index)
        with self.known.parting():
            for build in self.pairs.values():
                build(found)
            values = [build(found) for build in self.values]
            contents = [(n, build(found)) for n, build in self.contents.items()]
            for n, content in contents:
                self.objects.put(n, content)
        for tensor, at in self.given:
            self.known.give(tensor, found[at])
        for build, other, when in related:
            tensor = other if isinstance(other, Tensor) else other(found)
            if type(when) is bool:
                condition: Any = index if when else self.stack.ops.logical_not(index)
            else:
                condition = True if when is None else found[when]
            self.known.relate(build(found), tensor, condition)
        for each in (self.pairs, self.values, self.contents, self.tensors, self.kept):
            each.clear()  # else it would be known who holds what only when the collector has run
        return values

    def _unequal(self, name: str, why: Exception) -> str:
        return (
            f"the branch at {self.where}, which a tensor decides, writes into {name}, and {why}; let both sides leave "
            "it alike, or make new ones"
        )

    # --- values -----------------------------------------------------------------------------------------

    def _both(self, one: Any, two: Any, path: str) -> Build:
        """What makes the value that is one thing on one side, and another on the other; each pair is made once."""
        key = (id(one), id(two))
        if key not in self.pairs:
            self.pairs[key] = _once(self._made(one, two, path))
        return self.pairs[key]

    def _made(self, one: Any, two: Any, path: str) -> Build:
        there = one if two is ABSENT else two
        is_whole = one is not ABSENT and two is not ABSENT
        if one is two or (not is_whole and there in self.objects):
            return lambda _: there
        kind = type(there)
        if kind not in (list, dict, Rows) and not (isinstance(there, tuple) or flatten(there)[1].kind != "leaf"):
            return self._leaf(one, two, path)
        parts = [self._parts(which, each) for which, each in enumerate((one, two))]
        if is_whole and (type(one) is not kind or _shape(parts[0]) != _shape(parts[1])):
            shown = [self._shown(which, each) for which, each in enumerate((one, two))]
            raise _DifferError(f"{path} is {shown[1]} where {self._holds(1)}, {shown[0]} elsewhere")
        if is_whole and kind is dict and [*parts[0]] != [*parts[1]]:
            orders = [", ".join(map(repr, each)) for each in parts]
            raise _DifferError(
                f"{path} has its keys in the order {orders[1]} where {self._holds(1)}, {orders[0]} elsewhere; sort them"
            )
        found = parts[0] if two is ABSENT else parts[1]
        keys = [*found] if isinstance(found, dict) else range(len(found))
        rows = [part if part is not ABSENT else dict.fromkeys(keys, ABSENT) for part in parts]
        builds = [self._both(rows[0][key], rows[1][key], f"{path}.{key}") for key in keys]
        outer = [o for each in (one, two) if kind is not tuple for o in self.known.possible(each) if o in self.objects]
        make = _maker(there, keys)

        def build(given: Sequence[Any]) -> Any:
            made = make([each(given) for each in builds])
            if outer:
                self.known.part(made, outer, self.where)
            return made

        return build

    def _parts(self, which: int, value: Any) -> Any:
        """The parts of a container at the end of a side."""
        if value is ABSENT:
            return value
        n = self.objects.number(value)
        if n is not None and n in self.ends[which].changed:
            return self.ends[which].changed[n]
        if type(value) is Rows:
            return value.segments
        if isinstance(value, (list, dict, tuple)):
            return value
        return flatten(value)[0]

    def _shown(self, which: int, value: Any) -> str:
        """How messages show the structure of something at the end of a side."""

        def frozen(each: Any) -> Any:
            if type(each) not in (list, dict, tuple, Rows):
                return each
            parts = self._parts(which, each)
            return {k: frozen(v) for k, v in parts.items()} if type(each) is dict else [*map(frozen, parts)]

        return str(flatten(frozen(value))[1])

    def _leaf(self, one: Any, two: Any, path: str) -> Build:
        if one is ABSENT or two is ABSENT:
            which = 0 if two is ABSENT else 1
            there = (one, two)[which]
            if not moving(there):
                return lambda _: there
            at = self._at(which, there)
            n = self._choose((at, None) if which == 0 else (None, at), self._aval_at(which, at))
            return self._tensor(one, two, path, lambda found: found[n])
        if not (isinstance(one, Tensor) or isinstance(two, Tensor)) and same(one, two):
            return lambda _: one
        if not (moving(one) and moving(two)):
            shown = f"{path} is {two!r} where {self._holds(1)}, {one!r} elsewhere, which is no tensor"
            raise _DifferError(f"{shown}{of_fields(one)}")
        values = [end.log.after.get(id(each), (None, each))[1] for end, each in zip(self.ends, (one, two), strict=True)]
        if same(*values):
            value = values[0].value
            return self._tensor(one, two, path, lambda _: Tensor(self.stack, value))
        at = [self._at(which, leaf) for which, leaf in enumerate((one, two))]
        aval, why = self._aval([one, two], at)
        if aval is None:
            raise _DifferError(f"{path} {why}")
        n = self._choose(at, aval)
        return self._tensor(one, two, path, lambda found: found[n])

    def _tensor(self, one: Any, two: Any, path: str, make: Build) -> Build:
        sides = [each for each in (one, two) if each is not ABSENT]
        arrays, kind = [*filter(is_written, sides)], common_kind(map(kind_of, sides))

        def named(given: Sequence[Any]) -> Any:
            made = make(given)
            self.known.name(made, (str(self.where), path))
            if arrays:
                self.known.part(made, arrays, self.where)
            if kind is not None:
                stands_for(made, kind)
            return made

        build = _once(named)
        self.tensors.append((one, two, build))
        return build

    def _choose(self, at: Sequence[Any], aval: Aval) -> int:
        self.chosen.append((*at, aval))
        return len(self.chosen) - 1

    def _at(self, which: int, leaf: Any) -> Any:
        """Which result of a side a leaf is; of one from outside what flows in."""
        found = self.ends[which].positions.get(id(leaf))
        return carrier_of(self.stack, leaf) if found is None else found

    def _aval_at(self, which: int, at: Any) -> Aval:
        return self.ends[which].body.avals[at] if type(at) is int else aval_of(self.stack, at)

    def _aval(self, leaves: list[Any], at: list[Any]) -> tuple[Aval | None, str]:
        """Of a leaf that both sides have; or why there is none."""
        avals = [self._aval_at(which, i) for which, i in enumerate(at)]
        shapes = [a.shape for a in avals]
        if len(shapes[0]) != len(shapes[1]) or not all(map(same_extent, *shapes)):
            return None, f"has shape {shapes[1]} where {self._holds(1)}, {shapes[0]} elsewhere; broadcast one"
        weak = [is_number(leaf) for leaf in leaves]
        typed = [a.dtype for a, is_weak in zip(avals, weak, strict=True) if not is_weak]
        if len(typed) == 2 and typed[0] != typed[1]:
            return None, (
                f"is {typed[1]} where {self._holds(1)}, {typed[0]} elsewhere; cast one: x.astype({typed[0].name!r})"
            )
        numbers = [leaf for leaf, is_weak in zip(leaves, weak, strict=True) if is_weak]
        return avals[0].having(dtype=common_dtype(typed[:1], numbers)), ""

    # --- which tensors are one object -------------------------------------------------------------------

    def _relations(self) -> list[tuple[Build, Any, Any]]:
        """Pairs of tensors that may be one: what makes the first, the second or what makes it, and whether they are.

        That is None where they are one on both sides, a truth value where they are on the side of that, or a leaf.
        """
        found: list[tuple[Build, Any, Any]] = []
        logs, outside = [end.log for end in self.ends], self.known.tensors()
        for n, (one, two, build) in enumerate(self.tensors):
            others: dict[int, Tensor] = {}
            for log, each in zip(logs, (one, two), strict=True):
                for other in (each, *log.partners.get(id(each), ())):
                    if isinstance(other, Tensor) and (other in self.objects or id(other) in outside):
                        others[id(other)] = other
            near: list[tuple[Any, Any]] = [((other, other), other) for other in others.values()]
            near += [((a, b), made) for a, b, made in self.tensors[:n]]
            for pair, other in near:
                conditions = [
                    log.is_same(*each) for log, each in zip(logs, zip((one, two), pair, strict=True), strict=True)
                ]
                if conditions[0] is False and conditions[1] is False:
                    continue
                if conditions[0] is True and conditions[1] is True:
                    found.append((build, other, None))
                elif all(type(each) is bool for each in conditions):
                    found.append((build, other, conditions[1]))
                else:
                    at = [
                        each if type(each) is bool else self._at(which, each) for which, each in enumerate(conditions)
                    ]
                    found.append((build, other, self._choose(at, Aval((), "bool"))))
        return found

    # --- variables that are not on both sides -----------------------------------------------------------

    def _none(self, entry: Held, why: str) -> None:
        self._always(Undefined(entry.name, why))

    def _always(self, value: Any) -> None:
        self.values.append(lambda _: value)

    def _holds(self, which: int) -> str:
        return f"the condition at {self.where} {'holds' if which else 'does not hold'}"

    def _one_sided(self, name: str, absent: int, value: Undefined) -> str:
        line = self.where.blocks[absent]
        inner = f" ({value.why})" if value.why else ""
        return (
            f"only the branch at line {line}, where {self._holds(1 - absent)}, assigns it, and a tensor decides; "
            f"assign it in the other branch too, or before{inner}"
        )

    # --- the operator -----------------------------------------------------------------------------------

    def bound(self, index: Tensor) -> list[Any]:
        """The leaves that the branch gives."""
        has_effects = any(end.body.has_effects for end in self.ends)
        if not self.chosen and not has_effects:
            return []
        captured = {id(x): x for end in self.ends for x in end.body.captured}
        captured |= {id(x): x for row in self.chosen for x in row[:2] if not isinstance(x, int) and x is not None}
        bodies = tuple([self._body(which, [*captured], has_effects) for which in range(2)])
        given = [Tensor(self.stack, x) for x in captured.values()]
        if not has_effects:
            return [*self.stack.bind(branch, index, *given, bodies=bodies)]

        def after(token: Tensor) -> tuple[list[Tensor], Tensor]:
            *found, last = self.stack.bind(branch, index, token, *given, bodies=bodies)
            return found, last

        return list(ordered(self.stack, "a branch with effects", [index, *given], after))

    def _body(self, which: int, captured: list[int], has_effects: bool) -> Body:
        """One of the two with the same operands and results as the other."""
        end, builder = self.ends[which].body, BodyBuilder()
        end = end.carrying(token=True) if has_effects else end
        tokens = builder.parameters(int(has_effects))
        outer = dict(zip(captured, builder.parameters(len(captured)), strict=True))
        values = builder.include(end.body, [*tokens, *(outer[id(x)] for x in end.captured)])
        results = []
        for row in self.chosen:
            at, aval = row[which], row[2]
            if at is None or type(at) is bool:
                results.append(builder.apply(full, shape=aval.shape, value=at or 0, dtype=aval.dtype))
                continue
            found = values[end.body.results[at]] if type(at) is int else outer[id(at)]
            dtype = end.avals[at].dtype if type(at) is int else aval_of(self.stack, at).dtype
            results.append(found if dtype == aval.dtype else builder.apply(cast, found, dtype=aval.dtype))
        results += [values[n] for n in end.body.results[-1:] if has_effects]
        return builder.built(results)


def _once(build: Build) -> Build:
    """The same value each time."""
    made: list[Any] = []

    def found(given: Sequence[Any]) -> Any:
        if not made:
            made.append(build(given))
        return made[0]

    return found


def _shape(parts: Any) -> Any:
    """What the parts of a container are called."""
    return {*parts} if isinstance(parts, dict) else len(parts)


def _maker(like: Any, keys: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """What makes a container of its parts."""
    kind = type(like)
    if kind is list:
        return lambda parts: parts
    if kind is dict:
        return lambda parts: dict(zip(keys, parts, strict=True))
    if kind is Rows:
        return lambda parts: Rows(like.stack, parts, like.open)
    if isinstance(like, tuple):
        return lambda parts: kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return flatten(like)[1].build
