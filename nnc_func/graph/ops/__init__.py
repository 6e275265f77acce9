"""The catalogue: every operator, one entry each, by family."""

from __future__ import annotations

from nnc_func.graph.ops import (
    binary,
    compare,
    control,
    conv,
    create,
    cumulative,
    decompositions,
    detection,
    effects,
    fused,
    index,
    linalg,
    losses,
    memory,
    move,
    pool,
    random,
    reduce,
    scatter,
    solvers,
    sorting,
    unary,
)
from nnc_func.op import members

CATALOGUE = members(
    unary,
    binary,
    compare,
    reduce,
    move,
    index,
    memory,
    create,
    linalg,
    decompositions,
    solvers,
    control,
    conv,
    pool,
    detection,
    losses,
    random,
    fused,
    effects,
    scatter,
    sorting,
    cumulative,
)
