"""What Hypothesis is told when it starts: strategies for the library's types, so that ``st.from_type(Aval)`` works.

It is an entry point: Hypothesis calls `register` wherever this library is installed. Nothing is imported for that; a
type is registered once the module that defines it has been imported.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

from nnc_func.arrivals import on_arrival

STRATEGIES = {  # a type, by module and name: the member of `strategies` that draws it
    ("nnc_func.aval", "Aval"): "avals",
    ("nnc_func.op", "Op"): "operators",
    ("nnc_func.stack", "Stack"): "stacks",
    ("nnc_func.testing.program", "Program"): "programs",
}


def register() -> None:
    """Register a strategy for each type, when its module is imported.

    Examples
    --------
    >>> from hypothesis import find
    >>> from hypothesis import strategies as st
    >>> from nnc_func import Aval
    >>> register()
    >>> find(st.from_type(Aval), lambda aval: aval.ndim == 1)
    float64[0]
    """
    for (module, name), strategy in STRATEGIES.items():
        on_arrival(module, partial(_registered, name, strategy))


def _registered(name: str, strategy: str, module: ModuleType) -> None:
    from hypothesis.strategies import register_type_strategy

    def draws(_: Any) -> Any:
        from nnc_func.testing import strategies

        return getattr(strategies, strategy)()

    register_type_strategy(getattr(module, name), draws)
