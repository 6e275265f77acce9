"""The library's rules as they are judged: those that can be drawn from, and on which stack each one is."""

from __future__ import annotations

from typing import Any

from nnc_func.device.cpu import NumPy
from nnc_func.device.places import Places
from nnc_func.graph.rules import RULES, Pass
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.graph.rules.rule import AnyRule

SMALL = {fuse_elementwise.name: fuse_elementwise.from_size(0)}  # of large values drawing and computing them is all


def drawn_rules() -> list[AnyRule]:
    """The shipped rules of which graphs can be drawn; fusion of values of any size.

    Examples
    --------
    >>> "drop_transfer" in [rule.name for rule in drawn_rules()]
    True
    """
    return [SMALL.get(r.name, r) for r in RULES if not isinstance(r, Pass) or r.samples]


def stack_for(rule: AnyRule, stack: Any) -> Any:
    """The stack on which a shipped rule is judged: with two places, where the rule moves values between places.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> named = {rule.name: rule for rule in drawn_rules()}
    >>> stack_for(named["drop_transfer"], nnc.lazy()).device.places
    ('one', 'two')
    >>> stack_for(named["drop_unit"], nnc.lazy()).device
    NumPy()
    """
    return stack.swap(device=Places(one=NumPy(), two=NumPy())) if "transfer" in rule.name else stack
