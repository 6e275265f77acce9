"""Rematerialisation: what is computed again instead of kept. One strategy a file, one registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from nnc_func.engine.rematerialising.problem import (
    RematerialisationProblem,
    Simulation,
    Strategy,
    answered,
    best,
    name_of,
    simulated,
)


class Registry(Mapping[str, Strategy]):
    """Strategies by name, each of the module of that name, imported when it is asked for.

    Examples
    --------
    >>> STRATEGIES["square_root"].__name__
    'square_root'
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Strategy:
        if name not in self._names:
            raise KeyError(name)
        found: Strategy = getattr(import_module(f"{__name__}.{name}"), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


STRATEGIES: Mapping[str, Strategy] = Registry(("square_root", "binomial", "greedy", "optimal"))

__all__ = [
    "STRATEGIES", "RematerialisationProblem", "Simulation", "Strategy", "answered", "best", "name_of",
    "simulated",
]  # fmt: skip
