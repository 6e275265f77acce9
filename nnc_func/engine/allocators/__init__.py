"""Allocators: one heuristic a file, or a row of `greedy`. Each maps a problem to offsets and knows nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.deferred import Registry
from nnc_func.engine.allocators.base import (
    FREE,
    Allocator,
    Gap,
    Problem,
    Uses,
    answered,
    arena_size,
    max_load,
)
from nnc_func.engine.allocators.best_fit import BestFit
from nnc_func.engine.allocators.greedy import GreedyBySize
from nnc_func.engine.allocators.no_reuse import NoReuse
from nnc_func.engine.naming import unknown
from nnc_func.errors import PlanError

ALLOCATORS: Mapping[str, Allocator] = Registry(
    __name__,  # modules of this package -> their classes; or names -> rows of a module
    {
        "best_fit": "BestFit",
        "block_reuse": "BlockReuse",
        "boxing": "Boxing",
        "branch_and_bound": "BranchAndBound",
        "busiest_first": "greedy.BUSIEST_FIRST",
        "caching": "Caching",
        "decreasing": "greedy.DECREASING",
        "execution_order": "ExecutionOrder",
        "flow_graph": "FlowGraph",
        "flow_graph_article": "FlowGraphArticle",
        "greedy_by_breadth": "greedy.GREEDY_BY_BREADTH",
        "greedy_by_size": "greedy.GREEDY_BY_SIZE",
        "hill_climb": "HillClimb",
        "local_search": "LocalSearch",
        "lowest_first": "LowestFirst",
        "no_reuse": "NoReuse",
        "outward_fit": "OutwardFit",
        "parent_reuse": "ParentReuse",
        "peak_shaving": "PeakShaving",
        "pool_tree": "PoolTree",
        "portfolio": "Portfolio",
        "segregated_fit": "SegregatedFit",
    },
)

OPTIONAL: Mapping[str, Allocator] = Registry(
    __name__,  # those that need a package: pip install nnc_func[exact]
    {
        "cp_sat": "CpSat",
        "omnimalloc": "OmniMalloc",
    },
)


def by_name(name: str) -> Allocator:
    """The allocator of a name, of `ALLOCATORS` or of `OPTIONAL`.

    Raises
    ------
    PlanError
        There is none.

    Examples
    --------
    >>> by_name("best_fit")
    BestFit()
    """
    for registry in (ALLOCATORS, OPTIONAL):
        if name in registry:
            return registry[name]
    raise PlanError(unknown(name, "allocator", (*ALLOCATORS, *OPTIONAL)))


__all__ = [
    "ALLOCATORS",
    "FREE",
    "OPTIONAL",
    "Allocator",
    "BestFit",
    "Gap",
    "GreedyBySize",
    "NoReuse",
    "Problem",
    "Uses",
    "answered",
    "arena_size",
    "by_name",
    "max_load",
]
