"""The orders that take microseconds a buffer, by name: what is tried before anything is searched."""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.deferred import Registry
from nnc_func.engine.orders.base import Order

QUICK: Mapping[str, Order] = Registry(
    "nnc_func.engine.orders",
    {
        "depth_first": "depth_first.depth_first",
        "as_written": "ready_list.as_written",
        "breadth_first": "ready_list.breadth_first",
        "by_predecessors": "ready_list.by_predecessors",
        "by_size": "depth_first.by_size",
        "by_users": "depth_first.by_users",
        "post_order": "depth_first.post_order",
        "sethi_ullman": "depth_first.sethi_ullman",
        "list_scheduling": "ready_list.list_scheduling",
        "least_peak": "ready_list.least_peak",
        "just_in_time": "just_in_time.just_in_time",
    },
)
