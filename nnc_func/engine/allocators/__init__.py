"""Allocators: one heuristic a file, one registry. Each maps a problem to offsets and knows nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.engine.allocators.base import Allocator, Problem, Uses, arena_size, max_load
from nnc_func.engine.allocators.best_fit import BestFit
from nnc_func.engine.allocators.greedy_by_size import GreedyBySize
from nnc_func.engine.allocators.no_reuse import NoReuse

ALLOCATORS: Mapping[str, Allocator] = {
    "best_fit": BestFit(),
    "greedy_by_size": GreedyBySize(),
    "no_reuse": NoReuse(),
}

__all__ = ["ALLOCATORS", "Allocator", "BestFit", "GreedyBySize", "NoReuse", "Problem", "Uses", "arena_size", "max_load"]
