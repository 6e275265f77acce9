"""Rules of conversions in memory: of two in a row the last remains, and one that changes nothing is dropped."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import same_aval
from nnc_func.graph.rules.pattern import Param
from nnc_func.graph.rules.rule import rewrite, rule

relayout, transfer = OPS["relayout"], OPS["transfer"]


@rule
def drop_relayout(x, o: Param, f: Param):
    """A relayout to the layout that a tensor has is dropped."""
    laid = relayout(x, layout=o, data_format=f)
    return rewrite(laid).to(x).when(same_aval(x, laid))


@rule
def merge_relayouts(x, o: Param, f: Param, p: Param, g: Param):
    """Of two relayouts in a row the last remains."""
    twice = relayout(relayout(x, layout=o, data_format=f), layout=p, data_format=g)
    return rewrite(twice).to(relayout(x, layout=p, data_format=g))


@rule
def drop_transfer(x, p: Param):
    """A transfer to the place where a tensor is is dropped."""
    moved = transfer(x, place=p)
    return rewrite(moved).to(x).when(same_aval(x, moved))


@rule
def merge_transfers(x, p: Param, q: Param):
    """Of two transfers in a row the last remains."""
    return rewrite(transfer(transfer(x, place=p), place=q)).to(transfer(x, place=q))
