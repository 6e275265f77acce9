"""Constants computed while a graph is rewritten, by the device that will run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import NncError
from nnc_func.facets.dims import known, mentions_unknown
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value, topological

FOLD_LIMIT = 1 << 16  # bytes that a folded result may always have


def folding(builder: Any) -> Any:
    """How the device computes constants: one that has no elements does it on the host."""
    device = builder.operator.device
    return getattr(device, "fold_constant", device.bind)


def elements(builder: Any, value: Value) -> Any:
    """The elements of a constant: of the host where they are there without work, else of the device."""
    found = builder.symbol.host_of(value)
    return value.node.data if found is None else found


def folded(value: Value, builder: Any, as_large: bool = True) -> Value | None:
    """The constant that a pure expression of constants and fills is; None where it is to be left to a run.

    That is where a result on the way is larger than `FOLD_LIMIT` (where `as_large` also than the constants together),
    depends on an unknown extent, is not finite, is laid out or placed otherwise than constants are, or cannot be
    computed.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.rewriting.building import Builder
    >>> lazy = nnc.lazy()
    >>> two, three = (lazy.operator.lift(float(n)) for n in (2, 3))
    >>> folded(lazy.operator.bind(lazy.type.ops["add"], two, three), Builder(lazy.operator)).data
    array(5.)
    """
    order = topological([value])
    limit = max(FOLD_LIMIT, sum(n.aval.nbytes for n in order if n.op is CONSTANT)) if as_large else FOLD_LIMIT
    if value.node.op.multi_result or not all(n.op is CONSTANT or _computable(n, limit) for n in order):
        return None
    fold = folding(builder)
    made: dict[Node, Sequence[Any]] = {}
    try:
        with np.errstate(all="ignore"):
            for node in order:
                found = (
                    elements(builder, node)
                    if node.op is CONSTANT
                    else fold(node.op, *(made[a.node][a.index] for a in node.args), **node.params)
                )
                made[node] = found if node.op.multi_result else (found,)
    except NncError:
        return None  # it fails when the program runs, and says where
    (found,) = made[value.node]
    if isinstance(found, np.ndarray) and kind_of(found.dtype) in "fc" and not np.isfinite(found).all():
        return None  # where NaN is looked for, the operator that makes it is to be named
    if isinstance(found, np.ndarray):
        found = np.asarray(found, order="C")  # or kernels copy it row by row, each time
    return builder.symbol.constant(found)  # type: ignore[no-any-return]


def _computable(node: Node, limit: int) -> bool:
    op = node.op
    if op.holds_body or not op.pure or op.name.startswith("random") or (not node.args and op.name != "full"):
        return False
    if any(mentions_unknown(v) for _, v in node.items):
        return False
    plain = all(a.layout is None and a.place is None for a in node.avals)  # as constants lie
    return plain and all(known(a.nbytes) and a.nbytes <= limit for a in node.avals)
