"""Rules compiled to closures: a matcher for the left side, a builder for the right.

A matcher is a chain of steps, each of which knows what comes after it, so that where operands may be exchanged
the other order is tried when anything later fails, conditions included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nnc_func.errors import OperatorError, RuleError
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.building import Builder
from nnc_func.graph.rules.conditions import Condition
from nnc_func.graph.rules.folding import folded
from nnc_func.graph.rules.pattern import (
    Apply,
    Computed,
    Constant,
    Folded,
    Full,
    Nonnegative,
    Param,
    Scalar,
    Tensor,
    depth,
    inside,
    parts,
)
from nnc_func.graph.rules.ranges import is_constant, is_nonnegative
from nnc_func.graph.rules.rule import Numerics, Rewriter, Rule
from nnc_func.op import Op

__all__ = ["Builder", "Compiled", "Match", "compiled"]

AFTER_PARTS = 3  # slots
LOOK = 2  # applications within each other that a rewriter looks at
KNOWN = {Constant: is_constant, Nonnegative: is_nonnegative}  # kinds of variables that match some values only
Slots = list[Any]
Step = Callable[[Any, Slots], bool]
Then = Callable[[Slots], bool]
Build = Callable[[Slots], Any]
Users = Callable[[Value], int]
Attempt = Callable[[Node, Users], Value | None]
Explained = Callable[[Node, Users], tuple[Value | None, Condition | None]]


class Match:
    """What the parts of a left side stand for, and for conditions of the result what was made of them."""

    __slots__ = ("_places", "_slots", "users")

    def __init__(self, slots: Slots, places: dict[int, int], users: Users) -> None:
        self._slots = slots
        self._places = places
        self.users = users

    def __getitem__(self, part: Any) -> Any:
        """A graph value; of a `Scalar` its number, of a `Param` the parameter."""
        found = self._slots[self._places[id(part)]]
        return found[0] if type(part) is Scalar else found

    def nodes(self) -> set[Node]:
        """All nodes that the left side has met."""
        met = self._slots[: len(self._places)]
        numbers = (each[1] for each in met if type(each) is tuple and len(each) == 2)  # of a `Scalar`
        return {each.node for each in (*met, *numbers) if isinstance(each, Value)}


class Compiled:
    """A rule as a function of a node.

    Attributes
    ----------
    rule, name
        The rule, and the name under which it is counted.
    wants
        ``wants(op, operand_ops)``: whether it can match a node of that operator on operands of those.
    roots
        The operators of the nodes that it can match; None where only `wants` tells.
    attempt
        ``attempt(node, users)``: the replacement, or None.
    depth
        How many applications within each other it looks at.
    inside
        The operators that it knows below the node, and how far below.
    explained
        ``explained(node, users)``: the replacement, and where there is none the last condition that did not hold.
    """

    __slots__ = ("attempt", "depth", "explained", "inside", "name", "roots", "rule", "wants")

    def __init__(self, rule: Any, wants: Any, roots: Any, attempt: Any, depth: int, explained: Any = None) -> None:
        self.rule = rule
        self.name: str = rule.name
        self.wants: Callable[[Op, tuple[Op, ...]], bool] = wants
        self.roots: frozenset[Op] | None = roots
        self.attempt: Attempt = attempt
        self.depth = depth
        self.inside: dict[Op, int] = inside(rule.lhs) if isinstance(rule, Rule) else {}
        self.explained: Explained = explained or (lambda node, users: (attempt(node, users), None))


def compiled(rule: Any, builder: Builder) -> Compiled:
    """The rule, or the rewriter, as a function of a node; a rule is compiled when it first meets one."""
    if isinstance(rule, Rewriter):
        function = rule.function
        return Compiled(rule, rule.wants, rule.roots, lambda node, users: function(node, builder), LOOK)
    assert isinstance(rule, Rule), rule

    def attempt(node: Node, users: Users) -> Value | None:  # few of all rules meet a node that they may match
        found.attempt, found.explained = _attempting(rule, builder)
        return found.attempt(node, users)

    def explained(node: Node, users: Users) -> tuple[Value | None, Condition | None]:
        found.attempt, found.explained = _attempting(rule, builder)
        return found.explained(node, users)

    found = Compiled(rule, _filter(rule.lhs), frozenset({rule.lhs.op}), attempt, depth(rule.lhs), explained)
    return found


def _attempting(rule: Rule, builder: Builder) -> tuple[Attempt, Explained]:
    """The rule as a function of a node, and as one that tells what stands against it."""
    places = {id(part): i for i, part in enumerate(parts(rule.lhs))}
    first = len(places)  # the slots after the parts: users, result, the condition that did not hold
    finish = _finishing(rule, places, _built(rule.rhs, places, builder))
    step = _Steps(places, builder, rule.numerics).step(rule.lhs, finish)
    size = 2 * first + AFTER_PARTS  # and the operands of each application

    def attempt(node: Node, users: Users) -> Value | None:
        slots: Slots = [None] * size
        slots[first] = users
        return slots[first + 1] if step(node, slots) else None

    def explained(node: Node, users: Users) -> tuple[Value | None, Condition | None]:
        slots: Slots = [None] * size
        slots[first] = users
        return (slots[first + 1], None) if step(node, slots) else (None, slots[first + 2])

    return attempt, explained


def _finishing(rule: Rule, places: dict[int, int], build: Build) -> Then:
    """What comes after the left side: conditions of the match, the right side, conditions of what was made."""
    first = len(places)
    before = tuple(c for c in rule.conditions if not c.of_result)
    after = tuple(c for c in rule.conditions if c.of_result)
    with_result = {**places, id(rule.rhs): first + 1} if id(rule.rhs) not in places else places

    def hold(conditions: tuple[Condition, ...], match: Match, slots: Slots) -> bool:
        for condition in conditions:
            if not condition.holds(match):
                slots[first + 2] = condition
                return False
        return True

    def finish(slots: Slots) -> bool:
        if before and not hold(before, Match(slots, places, slots[first]), slots):
            return False
        slots[first + 1] = build(slots)
        return not after or hold(after, Match(slots, with_result, slots[first]), slots)

    return finish


# --- what is known from the operators alone ------------------------------------------------------------


def _filter(lhs: Apply) -> Callable[[Op, tuple[Op, ...]], bool]:
    tests = [_head(a) for a in lhs.args]
    swaps = _swaps(lhs)

    def wants(op: Op, operands: tuple[Op, ...]) -> bool:
        if op is not lhs.op or len(operands) != len(tests):
            return False
        if all(t(o) for t, o in zip(tests, operands, strict=True)):
            return True
        return swaps and all(t(o) for t, o in zip(tests, reversed(operands), strict=True))

    return wants


def _head(part: Any) -> Callable[[Op], bool]:
    if isinstance(part, Apply):
        return lambda op: op is part.op
    if isinstance(part, (Full, Scalar, Constant)):
        return lambda op: op is CONSTANT or op.name == "full"
    return lambda op: True


def _swaps(part: Apply) -> bool:
    return len(part.args) == 2 and part.args[0] is not part.args[1] and part.op.has("commutative") is not None


# --- the left side -------------------------------------------------------------------------------------


class _Steps:
    """Steps of a left side: the first time that a part is met it is bound, after that compared."""

    def __init__(self, places: dict[int, int], builder: Builder, numerics: Numerics) -> None:
        self.places = places
        self.number_of = builder.number_of
        self.either_zero = numerics >= Numerics.SIGNED_ZERO

    def step(self, part: Any, then: Then, met: frozenset[int] = frozenset()) -> Step:
        """Whether a value matches the part and what comes after does, `met` being bound already."""
        place = self.places[id(part)]
        if isinstance(part, Scalar):
            return self._scalar(place, then, id(part) in met)
        if id(part) in met:
            return lambda value, slots: slots[place] is value and then(slots)
        if type(part) in KNOWN:
            return _known(place, then, KNOWN[type(part)])
        if isinstance(part, Full):
            return self._full(part.value, place, then)
        if isinstance(part, Apply):
            return self._apply(part, place, then, met)
        raise RuleError(f"{part} cannot stand on the left side of a rule")

    def _scalar(self, place: int, then: Then, again: bool) -> Step:
        number_of = self.number_of

        def scalar(value: Value, slots: Slots) -> bool:
            number = number_of(value)
            if number is None or (again and repr(number) != repr(slots[place][0])):
                return False
            slots[place] = (number, value)
            return then(slots)

        return scalar

    def _full(self, wanted: Any, place: int, then: Then) -> Step:
        number_of, either = self.number_of, self.either_zero
        below = math.copysign(1.0, wanted) < 0

        def full(value: Value, slots: Slots) -> bool:
            number = number_of(value)
            if number is None or number != wanted:
                return False
            if number == 0 and not either and (math.copysign(1.0, number) < 0) != below:
                return False
            slots[place] = value
            return then(slots)

        return full

    def _apply(self, part: Apply, place: int, then: Then, met: frozenset[int]) -> Step:
        op, arity, swaps = part.op, len(part.args), _swaps(part)
        check = _params_check(part, self.places, met)
        met |= {id(value) for _, value in part.params}
        waiting = place + len(self.places) + AFTER_PARTS  # where the operands are, in the order that is being tried
        inner = self._operands(part.args, waiting, then, met)

        def application(value: Value, slots: Slots) -> bool:
            if type(value) is not Node or value.op is not op:
                return False
            operands = value.args
            if len(operands) != arity or (check is not None and not check(value.items, slots)):
                return False
            slots[place] = value
            slots[waiting] = operands
            if inner(slots):
                return True
            if swaps:
                slots[waiting] = operands[::-1]
                return inner(slots)
            return False

        return application

    def _operands(self, args: tuple[Any, ...], waiting: int, then: Then, met: frozenset[int]) -> Then:
        """All operands, in order; made from the last, since a step must know what comes after it."""
        before = [met]
        for arg in args[:-1]:
            before.append(before[-1] | {id(p) for p in parts(arg)})
        for i in reversed(range(len(args))):
            if isinstance(args[i], Tensor) and id(args[i]) not in before[i]:
                then = _bound(i, waiting, self.places[id(args[i])], then)
            else:
                then = _operand(i, waiting, self.step(args[i], then, before[i]))
        return then


def _bound(i: int, waiting: int, place: int, then: Then) -> Then:
    def bind(slots: Slots) -> bool:
        slots[place] = slots[waiting][i]
        return then(slots)

    return bind


def _known(place: int, then: Then, holds: Callable[[Value], bool]) -> Step:
    def bind(value: Value, slots: Slots) -> bool:
        if not holds(value):
            return False
        slots[place] = value
        return then(slots)

    return bind


def _operand(i: int, waiting: int, step: Step) -> Then:
    return lambda slots: step(slots[waiting][i], slots)


def _params_check(part: Apply, places: dict[int, int], met: frozenset[int]) -> Callable[[Any, Slots], bool] | None:
    """Whether parameters are as the pattern wants them, by type and bits; variables are bound on the way."""
    tests: list[tuple[int, Any, int, bool]] = []
    seen = set(met)
    for i, (_, wanted) in enumerate(part.params):
        place = places[id(wanted)] if isinstance(wanted, Param) else -1
        tests.append((i, wanted, place, id(wanted) in seen))
        seen.add(id(wanted))
    if not tests:
        return None

    def check(items: Any, slots: Slots) -> bool:
        for i, wanted, place, again in tests:
            value = items[i][1]
            if place >= 0 and not again:
                slots[place] = value
                continue
            expected = wanted if place < 0 else slots[place]
            if value != expected or type(value) is not type(expected):
                return False
            if type(value) is float and repr(value) != repr(expected):
                return False
        return True

    return check


# --- the right side ------------------------------------------------------------------------------------


def _built(part: Any, places: dict[int, int], builder: Builder) -> Build:
    """What makes the value that a part of the right side stands for; a number is lifted by whoever uses it."""
    if isinstance(part, Computed):
        return _computing(part, places)
    if isinstance(part, Full):
        number = part.value
        return lambda slots: number
    if isinstance(part, Folded):
        return _folding(part, _built(part.part, places, builder), builder)
    place = places.get(id(part))
    if place is not None:
        return _operand_of(place) if isinstance(part, Scalar) else lambda slots: slots[place]
    if not isinstance(part, Apply):
        raise RuleError(f"{part} cannot stand on the right side of a rule")
    op, apply = part.op, builder.apply
    args = [_built(a, places, builder) for a in part.args]
    params = [(name, _parameter(value, places)) for name, value in part.params]

    def build(slots: Slots) -> Any:
        return apply(op, tuple([a(slots) for a in args]), {name: value(slots) for name, value in params})

    return build


def _folding(part: Folded, build: Build, builder: Builder) -> Build:
    def fold(slots: Slots) -> Any:
        found = folded(build(slots), builder)
        if found is None:
            raise OperatorError(f"{part} is large, not finite, or depends on an unknown extent: it is not folded")
        return found

    return fold


def _operand_of(place: int) -> Build:
    return lambda slots: slots[place][1]


def _parameter(value: Any, places: dict[int, int]) -> Build:
    if isinstance(value, Computed):
        return _computing(value, places)
    if isinstance(value, (Param, Scalar, Constant, Nonnegative, Tensor, Apply, Full)):
        place = places[id(value)]
        return (lambda slots: slots[place][0]) if isinstance(value, Scalar) else (lambda slots: slots[place])
    return lambda slots: value


def _computing(part: Computed, places: dict[int, int]) -> Build:
    function, of = part.function, [_parameter(a, places) for a in part.of]
    return lambda slots: function(*[a(slots) for a in of])
