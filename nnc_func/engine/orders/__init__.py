"""Orders: one registry. Each maps a problem to a sequence of its tasks and knows nothing else.

``ORDERS`` has them by name; a module is imported when its order is asked for. ``DEFAULT`` are those that an
engine tries: two that take microseconds a buffer, and minimum cuts where these leave the peak above what is proven.
``SEARCHES`` names those that take time of their own: `Exact`, `LocalSearch`, `MinimumCut` and `Portfolio`; their
budgets are attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnc_func.deferred import Registry, deferred
from nnc_func.engine.orders.base import Order, OrderProblem, loads, simulated_peak
from nnc_func.engine.orders.quick import QUICK

DEFAULT = ("depth_first", "list_scheduling", "minimum_cut")  # what an engine tries
SEARCHES = ("exact", "local_search", "minimum_cut", "portfolio")
_CLASSES = {"exact": "Exact", "local_search": "LocalSearch", "minimum_cut": "MinimumCut", "portfolio": "Portfolio"}

ORDERS: Mapping[str, Order] = Registry(__name__, _CLASSES, QUICK)


def unsearched(orders: Sequence[Order | str]) -> list[Order | str]:
    """Those that are not known by name to take time of their own.

    Examples
    --------
    >>> unsearched(DEFAULT)
    ['depth_first', 'list_scheduling']
    """
    return [order for order in orders if order not in SEARCHES]


if TYPE_CHECKING:
    from nnc_func.engine.orders.bounds import bound_at, lower_bound
    from nnc_func.engine.orders.exact import Exact
    from nnc_func.engine.orders.local_search import LocalSearch
    from nnc_func.engine.orders.minimum_cut import MinimumCut, cut_bound
    from nnc_func.engine.orders.portfolio import Portfolio
    from nnc_func.engine.orders.solution import Solution
else:
    _shown = {each: f"{__name__}.{module}" for module, each in _CLASSES.items()}
    __getattr__, __dir__ = deferred(
        __name__,
        _shown
        | {"Solution": f"{__name__}.solution", "cut_bound": f"{__name__}.minimum_cut"}
        | dict.fromkeys(("bound_at", "lower_bound"), f"{__name__}.bounds"),
    )

__all__ = [
    "DEFAULT", "ORDERS", "SEARCHES", "Exact", "LocalSearch", "MinimumCut", "Order", "OrderProblem", "Portfolio",
    "Solution", "bound_at", "cut_bound", "loads", "lower_bound", "simulated_peak", "unsearched",
]  # fmt: skip
