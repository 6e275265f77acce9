"""How much a verification may take: what grows faster than the plan is counted, and ends in words. Part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

LEAST, EACH = 4_000_000, 50  # steps of some tenths of a microsecond: of any plan, and more for each row of it


def free(steps: int) -> None:
    """Count nothing: where nobody's plan is looked at."""


@define
class Work:
    """Steps that are left.

    Examples
    --------
    >>> work = Work(10)
    >>> work.spend(7)
    >>> work.spend(7)
    Traceback (most recent call last):
    nnc_func.errors.PlanError: the plan takes more than 10 steps to verify, which no plan of its size does: ...
    """

    most: int
    left: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.left = self.most

    @staticmethod
    def of(plan: Plan) -> Work:
        """What a plan of that size may take."""
        rows = len(plan.slots) + sum([len(i.operands) + len(i.results) + len(i.waits) + 1 for i in plan.instructions])
        return Work(LEAST + EACH * rows)

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises
        ------
        PlanError
            There are not so many left.
        """
        self.left -= steps
        if self.left < 0:
            raise PlanError(
                f"the plan takes more than {self.most} steps to verify, which no plan of its size does: plan the graph "
                "again"
            )
