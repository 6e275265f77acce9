"""Rules compiled to closures: a matcher for the left side, a builder for the right.

A matcher is a chain of steps, each of which knows what comes after it, so that where operands may be exchanged
the other order is tried when anything later fails, conditions included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nnc_func.declaration import Items
from nnc_func.errors import OperatorError, RuleError
from nnc_func.facets.dims import known
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.folding import folded
from nnc_func.graph.rules.pattern import Apply, Computed, Constant, Folded, Full, Param, Scalar, Tensor, parts
from nnc_func.graph.rules.rule import Numerics, Rewriter, Rule
from nnc_func.op import Op

REAL = (bool, int, float)
Slots = list[Any]
Step = Callable[[Any, Slots], bool]
Then = Callable[[Slots], bool]
Users = Callable[[Value], int]


class Match:
    """What the parts of a left side stand for."""

    __slots__ = ("_places", "_slots", "users")

    def __init__(self, slots: Slots, places: dict[int, int], users: Users) -> None:
        self._slots = slots
        self._places = places
        self.users = users

    def __getitem__(self, part: Any) -> Any:
        """A graph value; of a `Scalar` its number, of a `Param` the parameter."""
        found = self._slots[self._places[id(part)]]
        return found[0] if type(part) is Scalar else found


class Builder:
    """Makes nodes for right sides: interned like any, but with the origin of what they replace.

    Attributes
    ----------
    where
        The origin of the node that is being rewritten.
    numbers
        Of constants, what `number_of` found; forgotten after each graph.
    """

    __slots__ = ("numbers", "operator", "shape", "symbol", "table", "where")

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.symbol = operator.symbol
        self.shape = operator.symbol.shape
        self.table = operator.symbol.table
        self.where: Any = ()
        self.numbers: dict[Node, Any] = {}

    def made(self, op: Op, args: tuple[Value, ...], items: Items, avals: tuple[Any, ...] | None) -> Node:
        """The node of that application, `avals` being what is known of its results already.

        It is `Symbol.apply` but for the origin, which would be a line of this library.
        """
        key = (op, args, op.key(items))
        node = self.table.nodes.get(key) if op.pure else None
        if node is None:
            if avals is None:
                found = self.shape.infer(op, tuple([a.aval for a in args]), items)
                avals = found if op.several else (found,)
            node = Node(self.table, op, args, items, avals, self.where)
            if op.pure:
                node = self.table.kept(key, node)
        return node

    def number_of(self, value: Value) -> Any:
        """The real number that every element of a constant is, whether it is stored or filled; else None."""
        node = value.node
        if node in self.numbers:
            return self.numbers[node]
        found = None
        if node.op is CONSTANT:
            found = self.symbol.scalar_of(value)
        elif node.op.name == "full" and not node.args:
            filled = node.params["value"]
            found = value.dtype.type(filled).item() if known(filled) else None
        number = self.numbers[node] = found if type(found) in REAL else None
        return number

    def apply(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The value of the application, or a tuple of values; numbers among the arguments are lifted."""
        for arg in args:
            if not isinstance(arg, Value):
                args = self.operator.lifted(op, args)
                break
        node = self.made(op, args, op.canonical(params), None)
        return node.results if op.several else node


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
    counts_users
        Some condition depends on numbers of users.
    """

    __slots__ = ("attempt", "counts_users", "name", "roots", "rule", "wants")

    def __init__(self, rule: Any, wants: Any, roots: Any, attempt: Any, counts_users: bool) -> None:
        self.rule = rule
        self.name: str = rule.name
        self.wants: Callable[[Op, tuple[Op, ...]], bool] = wants
        self.roots: frozenset[Op] | None = roots
        self.attempt: Callable[[Node, Users], Value | None] = attempt
        self.counts_users = counts_users


def compiled(rule: Any, builder: Builder) -> Compiled:
    """The rule, or the rewriter, as a function of a node; a rule is compiled when it first meets one."""
    if isinstance(rule, Rewriter):
        function = rule.function
        return Compiled(rule, rule.wants, rule.roots, lambda node, users: function(node, builder), False)
    assert isinstance(rule, Rule), rule

    def attempt(node: Node, users: Users) -> Value | None:  # few of all rules meet a node that they may match
        found.attempt = _attempting(rule, builder)
        return found.attempt(node, users)

    counts_users = any(c.counts_users for c in rule.conditions)
    found = Compiled(rule, _filter(rule.lhs), frozenset({rule.lhs.op}), attempt, counts_users)
    return found


def _attempting(rule: Rule, builder: Builder) -> Callable[[Node, Users], Value | None]:
    places = {id(part): i for i, part in enumerate(parts(rule.lhs))}
    build = _built(rule.rhs, places, builder)
    conditions = rule.conditions
    first = len(places)  # the slots after the parts: users, result

    def finish(slots: Slots) -> bool:
        match = Match(slots, places, slots[first])
        for condition in conditions:
            if not condition.holds(match):
                return False
        slots[first + 1] = build(slots)
        return True

    step = _Steps(places, builder, rule.numerics).step(rule.lhs, finish)
    size = 2 * first + 2  # and the operands of each application

    def attempt(node: Node, users: Users) -> Value | None:
        slots: Slots = [None] * size
        slots[first] = users
        return slots[first + 1] if step(node, slots) else None

    return attempt


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
        if isinstance(part, Tensor):
            return _bound(place, then)
        if isinstance(part, Constant):
            return _constant(place, then)
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
        waiting = place + len(self.places) + 2  # where the operands are kept, in the order that is being tried
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
            then = _operand(i, waiting, self.step(args[i], then, before[i]))
        return then


def _bound(place: int, then: Then) -> Step:
    def bind(value: Value, slots: Slots) -> bool:
        slots[place] = value
        return then(slots)

    return bind


def _constant(place: int, then: Then) -> Step:
    def constant(value: Value, slots: Slots) -> bool:
        op = value.node.op
        if op is not CONSTANT and op.name != "full":
            return False
        slots[place] = value
        return then(slots)

    return constant


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

Build = Callable[[Slots], Any]


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
    if isinstance(value, (Param, Scalar, Constant, Tensor, Apply, Full)):
        place = places[id(value)]
        return (lambda slots: slots[place][0]) if isinstance(value, Scalar) else (lambda slots: slots[place])
    return lambda slots: value


def _computing(part: Computed, places: dict[int, int]) -> Build:
    function, of = part.function, [_parameter(a, places) for a in part.of]
    return lambda slots: function(*[a(slots) for a in of])
