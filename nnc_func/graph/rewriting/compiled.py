"""Rules made ready to be tried: which nodes they may match, and a function that tries them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from attrs import frozen

from nnc_func.errors import UnknownOperatorError
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rewriting.matchers import Match, Users, is_number, swaps, written
from nnc_func.graph.rewriting.operator_index import TWICE
from nnc_func.graph.rules.conditions import Condition
from nnc_func.graph.rules.pattern import Apply, Constant, Full, Scalar, depth, inside
from nnc_func.graph.rules.rule import Rewriter, Rule
from nnc_func.op import Op

__all__ = ["Builder", "Compiled", "Match", "compiled"]

Attempt = Callable[[Node, Users], Value | None]
Explained = Callable[[Node, Users], tuple[Value | None, Condition | None]]


@frozen(eq=False)
class Facts:
    """Which nodes a rule may match: what follows from the rule alone, and is found once for all stacks.

    Attributes
    ----------
    wants
        ``wants(op, operand_ops)``: whether it can match a node of that operator on operands of those.
    depth
        How many applications within each other it looks at.
    twice
        It matches only nodes of two operands that are one value.
    numbers
        Of each operand the number that it must be, or None; nothing where it need be none. In either order if `swaps`.
    inside
        The operators that it knows below the node, and how far below.
    """

    wants: Callable[[Op, tuple[Op, ...]], bool]
    depth: int
    twice: bool = False
    numbers: tuple[Any, ...] = ()
    swaps: bool = False
    inside: Mapping[Op, int] = MappingProxyType({})

    def takes(self, numbers: tuple[Any, ...]) -> bool:
        """Whether it can match a node on operands that are these numbers, None standing for what is none."""
        orders = (self.numbers, self.numbers[::-1]) if self.swaps else (self.numbers,)
        return not self.numbers or any(
            all(wanted is None or is_number(n, wanted, True) for n, wanted in zip(numbers, order, strict=True))
            for order in orders
        )


@lru_cache(maxsize=1 << 12)
def facts_of(rule: Rule | Rewriter) -> Facts:
    """The facts of a rule."""
    if isinstance(rule, Rewriter):
        return Facts(rule.wants, rule.looks)
    lhs = rule.lhs
    wanted = tuple([a.value if isinstance(a, Full) else None for a in lhs.args])
    return Facts(
        _filter(lhs),
        depth(lhs),
        len(lhs.args) == 2 and lhs.args[0] is lhs.args[1],
        wanted if any(n is not None for n in wanted) else (),
        swaps(lhs),
        inside(lhs),
    )


class Rooted(dict[tuple[Any, ...], tuple[int, ...]]):
    """Of the rules for nodes of an operator, by their facts: the positions of those that can match, by the operands.

    Its keys are operators of operands, behind them `TWICE` where both are one value.

    Attributes
    ----------
    depth
        How many applications within each other they look at.
    inside
        The operators that they know below the node, and how far below.
    """

    __slots__ = ("_facts", "_op", "depth", "inside")

    def __init__(self, op: Op, facts: tuple[Facts, ...]) -> None:
        self._op, self._facts = op, facts
        self.depth = max([each.depth for each in facts], default=0)
        self.inside: dict[Op, int] = {}
        for each in facts:
            for below, distance in each.inside.items():
                self.inside[below] = max(self.inside.get(below, 0), distance)

    def __missing__(self, operands: tuple[Any, ...]) -> tuple[int, ...]:
        twice = bool(operands) and operands[-1] is TWICE
        below = operands[:-1] if twice else operands
        able = [each.wants(self._op, below) and (twice or not each.twice) for each in self._facts]
        found = self[operands] = tuple([at for at, is_able in enumerate(able) if is_able])
        return found


class Compiled:
    """A rule as a function of a node.

    Attributes
    ----------
    rule, name
        The rule, and the name under which it is counted.
    facts
        Which nodes it may match.
    attempt
        ``attempt(node, users)``: the replacement, or None.
    explained
        ``explained(node, users)``: the replacement, and where there is none the last condition that did not hold.
    """

    __slots__ = ("attempt", "explained", "facts", "name", "rule")

    def __init__(self, rule: Any, attempt: Any, explained: Any = None) -> None:
        self.rule = rule
        self.name: str = rule.name
        self.facts = facts_of(rule)
        self.attempt: Attempt = attempt
        self.explained: Explained = explained or (lambda node, users: (attempt(node, users), None))


class Numbered:
    """Rules for one combination of operators, of which some want operands that are certain numbers."""

    __slots__ = ("_of", "_places", "_size", "_wanted", "rules")

    def __init__(self, rules: tuple[Compiled, ...], operands: tuple[Op, ...]) -> None:
        self.rules = rules
        self._places = [i for i, op in enumerate(operands) if is_numeral(op)]
        self._size = len(operands)
        self._wanted = {n for each in rules for n in each.facts.numbers if n is not None}
        self._of: dict[tuple[Any, ...], tuple[Compiled, ...]] = {}

    def of(self, node: Node, number_of: Callable[[Value], Any]) -> tuple[Compiled, ...]:
        """Those that may match a node of that combination."""
        numbers: list[Any] = [None] * self._size
        for i in self._places:
            number = number_of(node.args[i])
            if number in self._wanted:
                numbers[i] = number
        key = tuple(numbers)
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = tuple(each for each in self.rules if each.facts.takes(key))
        return found


def compiled(rule: Any, builder: Builder) -> Compiled:
    """The rule, or the rewriter, as a function of a node; a rule is compiled when it first meets one."""
    if isinstance(rule, Rewriter):
        function = rule.function

        def tried(node: Node, users: Users) -> Value | None:
            try:
                return function(node, builder)  # type: ignore[no-any-return]
            except UnknownOperatorError:  # what it would give, this stack's catalogue lacks
                return None

        return Compiled(rule, tried)
    assert isinstance(rule, Rule), rule

    def attempt(node: Node, users: Users) -> Value | None:  # few of all rules meet a node that they may match
        found.attempt, found.explained = _attempting(rule, builder)
        return found.attempt(node, users)

    def explained(node: Node, users: Users) -> tuple[Value | None, Condition | None]:
        found.attempt, found.explained = _attempting(rule, builder)
        return found.explained(node, users)

    found = Compiled(rule, attempt, explained)
    return found


def _attempting(rule: Rule, builder: Builder) -> tuple[Attempt, Explained]:
    """The rule as a function of a node, and as one that tells what stands against it."""
    function = written(rule).function(builder)

    def explained(node: Node, users: Users) -> tuple[Value | None, Condition | None]:
        why: list[Condition] = []
        found = function(node, users, why)
        return found, (why[-1] if why and found is None else None)

    return function, explained


# --- what is known from the operators alone ------------------------------------------------------------


def _filter(lhs: Apply) -> Callable[[Op, tuple[Op, ...]], bool]:
    tests = [_head(a) for a in lhs.args]
    either = swaps(lhs)

    def wants(op: Op, operands: tuple[Op, ...]) -> bool:
        if op is not lhs.op or len(operands) != len(tests):
            return False
        if all(t(o) for t, o in zip(tests, operands, strict=True)):
            return True
        return either and all(t(o) for t, o in zip(tests, reversed(operands), strict=True))

    return wants


def _head(part: Any) -> Callable[[Op], bool]:
    if isinstance(part, Apply):
        return lambda op: op is part.op
    if isinstance(part, (Full, Scalar, Constant)):
        return is_numeral
    return lambda op: True


def is_numeral(op: Op) -> bool:
    """Whether its applications may be one number everywhere, and known to be."""
    return op is CONSTANT or op.name == "full"
