"""Rules of gathers and scatters: what lies in regular steps is a slice; what is added goes where it lies."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.facets.dims import known
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import same_aval, that, used_once
from nnc_func.graph.rules.pattern import Constant, Param, apply
from nnc_func.graph.rules.rule import SIGNED_ZERO, rewrite, rewriter, rule
from nnc_func.op import Op

full, scatter_add = OPS["full"], OPS["scatter_add"]
take, slice_, reshape = OPS["take"], OPS["slice"], OPS["reshape"]


def _by_constant(op: Op, operands: tuple[Op, ...]) -> bool:
    return op is take and operands[1] is CONSTANT


def _by_some_constant(x, c: Constant):
    return take(x, c, axis=0)


def _progression(indices: Any, extent: int) -> tuple[int, int, int] | None:
    """Start, stop and step of a slice that shows those elements of an axis, in their order; None if none does."""
    places = np.where(indices < 0, indices + extent, indices).ravel()
    if not places.size or places.min() < 0 or places.max() >= extent:
        return None  # out of range: it fails when the program runs, and says where
    step = int(places[1] - places[0]) if places.size > 1 else 1
    if step == 0 or (np.diff(places) != step).any():
        return None
    return int(places[0]), int(places[-1]) + (1 if step > 0 else -1), step


@rewriter(_by_constant, of=(take,), samples=(_by_some_constant,))
def slice_instead_of_gathering(node: Node, builder: Any) -> Any:
    """A gather by constant indices in regular steps is a slice, which copies nothing."""
    x, indices = node.args
    at = normalise_axis(node.params["axis"], len(x.shape))
    listed = builder.symbol.host_of(indices)
    if listed is None or not known(x.shape[at]):
        return None
    found = _progression(np.asarray(listed, np.int64), x.shape[at])
    if found is None:
        return None
    bounds = [(0, n, 1) for n in x.shape]
    bounds[at] = found
    starts, stops, steps = zip(*bounds, strict=True)
    shown = builder.apply(slice_, (x,), {"starts": starts, "stops": stops, "steps": steps})
    return builder.apply(reshape, (shown,), {"shape": node.aval.shape})


def _is_one(i: Any) -> bool:
    size = i.aval.size
    return bool(known(size) and size == 1)


@rule
def scatter_where_it_is_added(x, i, u, s: Param, d: Param, a: Param):
    """What stands at one index among zeros, and is added to a tensor, is added to that at the index."""
    # so cotangents of what a loop reads by its counter are added up in place, in a time that does not grow with all
    scattered = scatter_add(apply(full, shape=s, value=0, dtype=d), i, u, axis=a)
    total = x + scattered
    return (
        rewrite(total)
        .to(scatter_add(x, i, u, axis=a))
        .when(
            same_aval(x, scattered),
            used_once(scattered),
            that(_is_one, i, says=f"{i} is one index"),
        )
        .up_to(SIGNED_ZERO)
    )
