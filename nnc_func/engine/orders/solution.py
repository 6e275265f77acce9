"""What searches for orders begin with, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from nnc_func.engine.orders.base import OrderProblem
from nnc_func.engine.orders.depth_first import depth_first, sethi_ullman
from nnc_func.engine.orders.ready_list import least_peak, list_scheduling

FIRST: tuple[Callable[[OrderProblem], Sequence[int]], ...] = (depth_first, sethi_ullman, list_scheduling, least_peak)


@frozen
class Solution:
    """An order, and what is known of it.

    Attributes
    ----------
    order
        The numbers of the tasks.
    peak
        Bytes.
    bound
        Bytes; it is proven that no order has a lower peak.
    states
        Sets of tasks that were looked at.
    """

    order: list[int]
    peak: int
    bound: int
    states: int

    @property
    def is_optimal(self) -> bool:
        """Whether no order has a lower peak."""
        return self.peak == self.bound
