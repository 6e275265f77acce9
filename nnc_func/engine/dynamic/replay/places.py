"""Places: what occurred one after another, as a tree whose branches are the sequences that there were."""

from __future__ import annotations

from typing import Any

from nnc_func.graph.origin import Origin


class Place:
    """What occurred after what is above it, and what came next.

    Attributes
    ----------
    op
        The operator; a `Gradients` where gradients of values were asked for. None of the root.
    operands
        Numbers from 0 on are those of results in the sequence, negative ones of what came from outside: -1 is the
        first. Python's numbers are tuples of the class and the number.
    items, key, params
        Parameters in canonical form, by what they are compared (`Op.key`), and as a dict.
    records
        Whether what it gives takes gradients, if it was made of what does: recording was on.
    where
        The user's line.
    first
        The number of its first result.
    avals, recorded
        For each result its aval, and whether it was recorded.
    count
        How often it occurred and was computed at once.
    ends
        How often a sequence ended here that was computed at once.
    nexts, likely
        What came next, by key; what was promised last, of what was there before.
    loops
        From the first gradients on, the operators and lines that were before them: where one of these comes again,
        a sequence begins anew. None before.
    fits
        By what is held when the sequence ends here: how often that was so, or the `Written` program for it.
    """

    __slots__ = (
        "avals", "count", "depth", "ends", "first", "fits", "inputs", "items", "key", "likely", "loops", "nexts",
        "op", "operands", "params", "recorded", "records", "site", "up", "where",
    )  # fmt: skip

    def __init__(self, up: Place | None, op: Any, site: Any) -> None:
        self.up, self.op, self.site = up, op, site
        self.operands: list[Any] = []
        self.items: Any = ()
        self.key: Any = ()
        self.likely: Place | None = None
        self.params: dict[str, Any] = {}
        self.records = True
        self.where: Origin = ()
        self.avals: tuple[Any, ...] = ()
        self.recorded: tuple[bool, ...] = ()
        self.count = self.ends = 0
        self.nexts: dict[Any, Place] = {}
        self.loops: frozenset[Any] | None = None if up is None else up.loops
        self.fits: dict[Any, Any] = {}
        self.first: int = 0 if up is None else up.first + len(up.avals)
        self.depth: int = 0 if up is None else up.depth + 1
        self.inputs: int = 0 if up is None else up.inputs

    def path(self) -> list[Place]:
        """All from the first on, this one the last."""
        found, at = list[Place](), self
        while at.up is not None:
            found.append(at)
            at = at.up
        return found[::-1]

    def forget(self) -> None:
        """Let go of what came next, of which each refers to what was before."""
        waiting = [self]
        while waiting:
            place = waiting.pop()
            waiting += place.nexts.values()
            place.nexts, place.likely, place.fits = {}, None, {}


class Gradients:
    """Stands for an operator where gradients were asked for: of so many ys, then of xs.

    Examples
    --------
    >>> Gradients(1) == Gradients(1), Gradients(1) == Gradients(2)
    (True, False)
    """

    __slots__ = ("ys",)
    multi_result = True

    def __init__(self, ys: int) -> None:
        self.ys = ys

    def __eq__(self, other: object) -> bool:
        return type(other) is Gradients and self.ys == other.ys

    def __hash__(self) -> int:
        return hash((Gradients, self.ys))
