"""Rewrite rules, by purpose, and the language in which they are written."""

from __future__ import annotations

from types import ModuleType

from nnc_func.graph.rules import algebra, channels, fold, fuse, fuse_conv, memory, move, parts, train
from nnc_func.graph.rules.rule import (
    EXACT,
    REASSOCIATION,
    ROUNDING,
    SIGNED_ZERO,
    AnyRule,
    Family,
    Numerics,
    Pass,
    Rewriter,
    Rule,
    for_each,
    for_law,
    rewrite,
    rewriter,
    rule,
    whole_graph,
)

__all__ = [
    "EXACT",
    "REASSOCIATION",
    "ROUNDING",
    "RULES",
    "SIGNED_ZERO",
    "AnyRule",
    "Family",
    "Numerics",
    "Pass",
    "Rewriter",
    "Rule",
    "for_each",
    "for_law",
    "rewrite",
    "rewriter",
    "rule",
    "whole_graph",
]


def rules_in(*modules: ModuleType) -> tuple[AnyRule, ...]:
    """All rules that these modules define, in their order: the order in which they are tried."""
    return tuple(
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, AnyRule) and found.module == module.__name__
    )


RULES = rules_in(fold, algebra, move, memory, parts, train, channels, fuse_conv, fuse)
