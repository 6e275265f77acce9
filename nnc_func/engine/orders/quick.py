"""The orders that take microseconds a buffer, by name: what is tried before anything is searched."""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.deferred import Registry
from nnc_func.engine.orders.base import Order

QUICK: Mapping[str, Order] = Registry(
    "nnc_func.engine.orders",
    {
        name: name
        for name in (
            "depth_first",
            "as_written",
            "breadth_first",
            "by_predecessors",
            "by_size",
            "by_users",
            "post_order",
            "sethi_ullman",
            "list_scheduling",
            "least_peak",
        )
    },
)
