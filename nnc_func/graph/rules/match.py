"""Rules made ready to be tried: which nodes they may match, and a function that tries them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.building import Builder
from nnc_func.graph.rules.conditions import Condition
from nnc_func.graph.rules.pattern import Apply, Constant, Full, Scalar, depth, inside
from nnc_func.graph.rules.rule import Rewriter, Rule
from nnc_func.graph.rules.writing import Match, Users, swaps, written
from nnc_func.op import Op

__all__ = ["Builder", "Compiled", "Match", "compiled"]

Attempt = Callable[[Node, Users], Value | None]
Explained = Callable[[Node, Users], tuple[Value | None, Condition | None]]


class Compiled:
    """A rule as a function of a node.

    Attributes
    ----------
    rule, name
        The rule, and the name under which it is counted.
    wants
        ``wants(op, operand_ops)``: whether it can match a node of that operator on operands of those.
    twice
        It matches only nodes of two operands that are one value.
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

    __slots__ = ("attempt", "depth", "explained", "inside", "name", "roots", "rule", "twice", "wants")

    def __init__(self, rule: Any, wants: Any, roots: Any, attempt: Any, depth: int, explained: Any = None) -> None:
        self.rule = rule
        self.name: str = rule.name
        self.wants: Callable[[Op, tuple[Op, ...]], bool] = wants
        self.twice = isinstance(rule, Rule) and len(rule.lhs.args) == 2 and rule.lhs.args[0] is rule.lhs.args[1]
        self.roots: frozenset[Op] | None = roots
        self.attempt: Attempt = attempt
        self.depth = depth
        self.inside: dict[Op, int] = inside(rule.lhs) if isinstance(rule, Rule) else {}
        self.explained: Explained = explained or (lambda node, users: (attempt(node, users), None))


def compiled(rule: Any, builder: Builder) -> Compiled:
    """The rule, or the rewriter, as a function of a node; a rule is compiled when it first meets one."""
    if isinstance(rule, Rewriter):
        function = rule.function
        return Compiled(rule, rule.wants, rule.roots, lambda node, users: function(node, builder), rule.looks)
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
        return lambda op: op is CONSTANT or op.name == "full"
    return lambda op: True
