"""Rematerialisation: what is computed again instead of kept. One strategy a file, one registry."""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.deferred import Registry
from nnc_func.engine.rematerialising.problem import (
    RematerialisationProblem,
    Simulation,
    Strategy,
    answered,
    best,
    simulated,
)

STRATEGIES: Mapping[str, Strategy] = Registry(
    __name__, {name: name for name in ("square_root", "binomial", "greedy", "optimal")}
)

__all__ = [
    "STRATEGIES", "RematerialisationProblem", "Simulation", "Strategy", "answered", "best", "simulated",
]  # fmt: skip
