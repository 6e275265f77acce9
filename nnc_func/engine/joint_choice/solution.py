"""What a search for a joint choice found, and what is proven of it."""

from __future__ import annotations

from attrs import frozen

from nnc_func.engine.joint_choice.choice import Choice


@frozen
class Solution:
    """The best choice that was found.

    Attributes
    ----------
    choice
        Itself; None where a search ended before it had one.
    nbytes
        Bytes of the arena; without a choice those below which it was to be.
    bound
        Bytes; it is proven that no choice takes less.
    steps
        States and placements that were looked at; of CP-SAT branches.
    """

    choice: Choice | None
    nbytes: int
    bound: int
    steps: int

    @property
    def is_proven(self) -> bool:
        """Whether no choice takes less."""
        return self.nbytes <= self.bound

    @property
    def gap(self) -> float:
        """The part of the bound by which the choice is above it."""
        return self.nbytes / self.bound - 1 if self.bound else float(self.nbytes > 0)

    def __str__(self) -> str:
        known = "proven" if self.is_proven else f"found, at least {self.bound}, gap {self.gap:.1%}"
        return f"{self.nbytes} bytes, {known}, {self.steps} steps"
