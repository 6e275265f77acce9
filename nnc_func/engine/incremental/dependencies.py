"""What must run again after some leaves changed: data and sets only, the same for planned and interpreted programs.

A program keeps some of its values from run to run, as its `retain` policy says. Everything else is gone when a run
ends, whether its memory was used again or not: so nothing is ever read that could be stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from nnc_func.errors import OperatorError
from nnc_func.graph.tensors.tensor import Tensor

NONE, FRONTIER, ALL = "none", "frontier", "all"
ROOTS = "roots"  # outputs, updates and what was named: how a list of tensors is told to the planner
POLICIES = (NONE, FRONTIER, ALL)


@frozen
class Step:
    """One application: values by number.

    Attributes
    ----------
    operands, results
        What it reads, what it makes.
    base
        The value whose memory the result shows; None where something is computed.
    """

    operands: tuple[int, ...]
    results: tuple[int, ...]
    base: int | None = None


class Dependencies:
    """Which leaves each value depends on.

    Attributes
    ----------
    steps
        In the order in which they run.
    maker
        Value to the position of the step that makes it; leaves have none.
    masks
        Value to the leaves that it depends on, one bit each; constants have none.
    """

    def __init__(self, steps: Sequence[Step], leaves: Sequence[int]) -> None:
        self.steps = steps
        self.maker = {v: t for t, step in enumerate(steps) for v in step.results}
        self.masks = {v: 1 << i for i, v in enumerate(leaves)}
        for step in steps:
            mask = 0
            for v in step.operands:
                mask |= self.masks.get(v, 0)
            for v in step.results:
                self.masks[v] = mask

    def mask(self, value: int) -> int:
        """The leaves that a value depends on."""
        return self.masks.get(value, 0)

    def base(self, value: int) -> int:
        """The value whose memory this one shows, at the root; itself where it has its own."""
        while (at := self.maker.get(value)) is not None and (base := self.steps[at].base) is not None:
            value = base
        return value

    @property
    def kernels(self) -> int:
        """Steps that compute something."""
        return sum(step.base is None for step in self.steps)

    def cone(self, changed: int) -> int:
        """How many kernels depend on one of these leaves."""
        return sum(step.base is None and bool(self.mask(step.results[0]) & changed) for step in self.steps)

    def kept(self, policy: str, roots: Iterable[int], updates: Iterable[tuple[int, int]]) -> frozenset[int]:
        """The values that outlive a run.

        Roots always do. With ``"all"`` whatever is computed does. With ``"frontier"`` so does each value with a
        reader that depends on more leaves than it does: another reader never runs again without it. Pairs of
        `updates` (leaf, mask of its new value) name leaves that change by the run itself: what depends on one that
        changes in every run would never be found clean.
        """
        maker = self.maker
        found = {b for b in map(self.base, roots) if b in maker}
        if policy == ALL:
            found |= {v for step in self.steps if step.base is None for v in step.results}
        elif policy == FRONTIER:
            restless = _restless(updates)
            for step in self.steps:
                if step.base is None:
                    mask = self.mask(step.results[0])
                    bases = map(self.base, step.operands)
                    found |= {b for b in bases if b in maker and not (m := self.mask(b)) & restless and m != mask}
        return frozenset(found)

    def section(self, kept: frozenset[int], missing: Iterable[int]) -> list[int]:
        """Positions of the steps that make the missing values, of what is kept and of leaves alone, in order."""
        pending = [self.maker[v] for v in missing]
        chosen: set[int] = set()
        while pending:
            at = pending.pop()
            if at not in chosen:
                chosen.add(at)
                pending += [self.maker[v] for v in self.steps[at].operands if v in self.maker and v not in kept]
        return sorted(chosen)


def _restless(updates: Iterable[tuple[int, int]]) -> int:
    """Leaves whose update depends on what they were, or on another such leaf."""
    pairs = [(1 << leaf, mask) for leaf, mask in updates]
    found, before = 0, -1
    while found != before:
        before = found
        for bit, mask in pairs:
            if mask & (bit | found):
                found |= bit
    return found


@frozen
class Evaluation:
    """What the last evaluation of an incremental program did, and what the program holds.

    Attributes
    ----------
    kernels
        How many ran.
    cone
        How many depend on what has changed since the last evaluation that succeeded: the dirty cone.
    total
        How many the program has.
    retained_bytes
        Of values kept from run to run, and of the copies of assigned inputs.
    arena_bytes
        Of the memory that is planned, kept values among them; 0 on a device without memory.

    Examples
    --------
    >>> print(Evaluation(kernels=3, cone=2, total=12, retained_bytes=640, arena_bytes=1024))
    3 of 12 kernels ran, 2 in the dirty cone and 1 whose value was gone; 640 bytes retained, arena of 1024 bytes
    """

    kernels: int
    cone: int
    total: int
    retained_bytes: int
    arena_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.kernels} of {self.total} kernels ran, {self.cone} in the dirty cone and "
            f"{self.kernels - self.cone} whose value was gone; {self.retained_bytes} bytes retained, "
            f"arena of {self.arena_bytes} bytes"
        )


def checked_policy(retain: Any) -> str:
    """The policy that `retain=` stands for.

    Raises
    ------
    OperatorError
        It is none of the policies, and no list of tensors.
    """
    if isinstance(retain, str):
        if retain in POLICIES:
            return retain
    elif isinstance(retain, (list, tuple)) and all(isinstance(each, Tensor) for each in retain):
        return ROOTS
    raise OperatorError(f"retain= wants {', '.join(map(repr, POLICIES))} or a list of tensors, given {retain!r}")
