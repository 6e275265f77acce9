"""Branch and bound: the smallest plan that a budget of steps finds, and often a proof that there is none smaller.

Source: Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine learning", ASPLOS 2023,
for the inference; what is chosen at each node is said in `search`.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from nnc_func.engine.allocators.base import Problem
from nnc_func.engine.allocators.exact.conflicts import MOST_BUFFERS
from nnc_func.engine.allocators.exact.decision import minimise, without_windows
from nnc_func.engine.allocators.placement.fits import first_fit
from nnc_func.errors import PlanError


@frozen
class BranchAndBound:
    """Search for the smallest plan from the lower bound on; where the budget ends, the smallest that was found.

    Deterministic, unless it is given seconds. More buffers than the search takes are put first fit, the largest first.

    Attributes
    ----------
    steps
        How many buffers may be placed in all searches together.
    seconds
        Of processor time at most; None: as long as the steps take.

    Raises
    ------
    PlanError
        A budget of less than one step.

    Examples
    --------
    >>> BranchAndBound()(Problem([64, 128, 64], [0, 1, 2], [2, 3, 4]))
    (128, 0, 128)
    """

    steps: int = 1_000
    seconds: float | None = None
    handles: ClassVar[frozenset[str]] = frozenset({"uses", "pins", "gaps", "alignments"})

    def __attrs_post_init__(self) -> None:
        if self.steps < 1:
            raise PlanError(f"wanted a budget of one step or more, given {self.steps}")

    def __call__(self, problem: Problem) -> tuple[int, ...]:
        """The offsets, in bytes."""
        if len(problem) > MOST_BUFFERS:
            sizes = problem.sizes.tolist()
            return tuple(first_fit(problem, sorted(range(len(problem)), key=lambda i: (-sizes[i], i))))
        return minimise(without_windows(problem), steps=self.steps, seconds=self.seconds).offsets
