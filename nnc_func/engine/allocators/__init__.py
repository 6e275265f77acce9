"""Allocators: one heuristic a file, one registry. Each maps a problem to offsets and knows nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

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
from nnc_func.engine.allocators.greedy_by_size import GreedyBySize
from nnc_func.engine.allocators.no_reuse import NoReuse


class Registry(Mapping[str, Allocator]):
    """Allocators by name, each of the module of that name, imported when it is asked for.

    Examples
    --------
    >>> ALLOCATORS["best_fit"]
    BestFit()
    """

    def __init__(self, classes: Mapping[str, str]) -> None:
        self._classes = dict(classes)

    def __getitem__(self, name: str) -> Allocator:
        kind = self._classes[name]
        found: Allocator = getattr(import_module(f"{__name__}.{name}"), kind)()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


ALLOCATORS: Mapping[str, Allocator] = Registry(  # module of this package -> its class
    {
        "best_fit": "BestFit",
        "block_reuse": "BlockReuse",
        "boxing": "Boxing",
        "branch_and_bound": "BranchAndBound",
        "busiest_first": "BusiestFirst",
        "decreasing": "Decreasing",
        "execution_order": "ExecutionOrder",
        "flow_graph": "FlowGraph",
        "flow_graph_article": "FlowGraphArticle",
        "greedy_by_breadth": "GreedyByBreadth",
        "greedy_by_size": "GreedyBySize",
        "hill_climb": "HillClimb",
        "local_search": "LocalSearch",
        "lowest_first": "LowestFirst",
        "no_reuse": "NoReuse",
        "parent_reuse": "ParentReuse",
        "peak_shaving": "PeakShaving",
        "pool_tree": "PoolTree",
        "portfolio": "Portfolio",
        "segregated_fit": "SegregatedFit",
    }
)

OPTIONAL: Mapping[str, Allocator] = Registry(  # those that need a package: pip install nnc_func[exact]
    {
        "cp_sat": "CpSat",
        "omnimalloc": "OmniMalloc",
    }
)

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
    "max_load",
]
