"""Rewrite rules, by purpose, and the language in which they are written."""

from __future__ import annotations

from nnc_func.graph.rules import (
    algebra,
    centred,
    chains,
    channels,
    combine,
    fold,
    fuse,
    fuse_attention,
    fuse_conv,
    gathering,
    images,
    integers,
    joined_products,
    joining,
    logic,
    logsums,
    matrix_chains,
    memory,
    move,
    parts,
    powers,
    products,
    pushing,
    recognise,
    reducing,
    signs,
    slicing,
    train,
    weights,
)
from nnc_func.graph.rules.phases import Phase, rules_in
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
    "PHASES",
    "REASSOCIATION",
    "ROUNDING",
    "RULES",
    "SIGNED_ZERO",
    "AnyRule",
    "Family",
    "Numerics",
    "Pass",
    "Phase",
    "Rewriter",
    "Rule",
    "for_each",
    "for_law",
    "rewrite",
    "rewriter",
    "rule",
    "whole_graph",
]


# A module's rules are tried in the order in which they stand there. What hides structure comes after what looks for it.
PHASES = (
    Phase(
        "simplify",
        rules_in(
            *(fold, algebra, signs, powers, logic, chains),
            *(move, reducing, products, pushing, slicing, images, memory),
            *(integers, parts, joining, gathering, matrix_chains, joined_products),
        ),
    ),
    Phase("recognise", rules_in(recognise, train, weights)),
    Phase("layout", rules_in(centred, logsums, channels)),
    Phase("fuse", rules_in(fuse_conv, fuse_attention, fuse)),
    Phase("combine", rules_in(combine)),
)
RULES = tuple(each for phase in PHASES for each in phase.rules)
