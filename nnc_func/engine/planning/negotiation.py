"""Workspace is negotiated: where most bytes are alive, kernels that want less scratch are taken for little more time.

Each turn takes, for the instruction with the highest load, the variant that saves most bytes for its cost. Many others
may have nearly as high a load; so turns go on as long as there is time to spend, and what is kept in the end is as many
of them as save most of the peak for their part of the time.
"""

from __future__ import annotations

import math

from nnc_func.engine.orders import SEARCHES
from nnc_func.engine.orders.base import named
from nnc_func.engine.plan_rows import NEXT, OUTPUT
from nnc_func.engine.planning import ordering
from nnc_func.engine.planning.draft import Draft, Row
from nnc_func.engine.planning.liveness import least_at, peak
from nnc_func.engine.planning.variants import Variant, seconds_by, variants
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.node import Node

TURNS = 64  # variants that are taken at most
LEAST = 1 << 20  # bytes of a peak, from which it is worth any time
WORTH = 0.01  # of the peak: what saves less is left, for another problem may take allocators longer
SLOWER = 0.1  # of the estimated time of all instructions: what they may cost in sum, unless a budget asks for more
Taken = tuple[tuple[int, str], ...]
"""Instructions before they have an order, and the names of their variants."""


def negotiate(draft: Draft) -> None:
    """Take variants with less scratch at the peak, where that lowers it.

    By themselves they are taken where they save a larger part of the peak than they cost of the time, and while all
    together cost no more than a tenth of that. Where the peak is below a mebibyte, or they save less than a hundredth
    of it, none is. Within a budget of memory (`Request.memory`) they are taken at any cost, until the arena and what is
    fresh keep to it.
    """
    if any(draft.scratch.values()):
        taken = _Negotiation(draft).result()
        if taken:
            draft.run_by({t: (each.kernel, each.wanted) for t, each in taken.items()})


def is_order_open(draft: Draft) -> bool:
    """Whether variants were taken, and another order may need less by more than 1 / `ordering.WORTH` with them.

    An order was chosen for the scratch memory that kernels took before: where that was at the peak, none was better.
    So it is where a search found the order, or was not asked, since there was nothing to find.
    """
    if not draft.negotiated or draft.chosen is None or draft.request.retain is not None:
        return False
    searches = {order for order in draft.request.orders if isinstance(order, str) and order in SEARCHES}
    if draft.order not in searches and searches <= {named(each.order) for each in draft.answers}:
        return False
    most = peak(draft)
    return most * ordering.WORTH > (ordering.WORTH + 1) * least_at(draft, draft.loads.index(most))


def follow(draft: Draft, other: Draft) -> Taken:
    """Take the variants of another draft of the same instructions before the order is chosen; by which it is known.

    Where there is a commit section only those that may stand in it: the order decides what does.
    """
    taken = {row.node: row for row in other.instructions if row.node in other.negotiated}
    changes = {}
    for t, row in enumerate(draft.instructions):
        found = taken.get(row.node)
        if found is not None and found.kernel is not None and _may_be_anywhere(draft, row, found.kernel):
            changes[t] = found.kernel, [aval for aval, _ in found.scratch]
    draft.run_by(changes)
    return tuple([(t, kernel.name) for t, (kernel, _) in changes.items()])


class _Negotiation:
    """The loads of a draft, and the variants that are taken, by instruction."""

    def __init__(self, draft: Draft) -> None:
        self.most = peak(draft)
        self.draft = draft
        self.loads = [*draft.loads]
        self.taken: dict[int, Variant] = {}
        self.spent = 0.0  # seconds more than without
        self.offers: dict[int, tuple[Variant, ...]] = {}
        self.seconds: float | None = None
        memory = draft.request.memory
        fresh = sum([s.nbytes for s in draft.storages if s.kind in (OUTPUT, NEXT)])
        self.target = None if memory is None else max(0, memory - fresh)

    def result(self) -> dict[int, Variant]:
        """What is taken in the end: within a budget that was not kept all that keeps it, else what is worth it."""
        best: dict[int, Variant] = {}
        worth, least = 0.0, self.most
        asked = self.target is not None and self.most > self.target
        for _ in range(TURNS if asked or self._is_open_to_it() else 0):
            high = max(self.loads)
            if not high or (asked and high <= (self.target or 0)) or not self._turn(self.loads.index(high), asked):
                break
            high = max(self.loads)
            if asked:
                if high < least:
                    least, best = high, {**self.taken}
                continue
            saved = 1 - high / self.most
            if saved >= WORTH and saved - self._part() > worth:
                worth, best = saved - self._part(), {**self.taken}
        return best

    def _is_open_to_it(self) -> bool:
        """Whether anything can be worth it: there is much, and scratch has its part of it."""
        scratch = self.draft.instructions[self.loads.index(self.most)].scratch if self.most >= LEAST else ()
        return bool(sum([aval.nbytes for aval, _ in scratch]) >= WORTH * self.most)

    def _turn(self, t: int, asked: bool) -> bool:
        """Take the variant that saves most bytes for its cost; whether there is one that can be paid."""
        best, rate = None, (-math.inf, 0, 0.0)
        found = self._offers(t) if self.draft.instructions[t].scratch else ()
        now = self._now(t).seconds if found else 0.0
        for each in found:
            saved, cost = self._saved(t, each), each.seconds - now
            if saved <= 0 or cost == math.inf or not (asked or cost <= 0 or self._part(cost) <= SLOWER):
                continue
            worth = (math.inf if cost <= 0 else saved / cost, saved, -cost)
            if worth > rate:
                best, rate = each, worth
        if best is None:
            return False
        self.loads[t] -= rate[1]
        self.taken[t] = best
        self.spent -= rate[2]
        return True

    def _part(self, more: float = 0.0) -> float:
        """The part of the time of all instructions that is spent, with so many seconds more; no less than it is."""
        if self.spent + more <= 0:
            return 0.0
        if self.seconds is None:
            self.seconds = self._total()
        return (self.spent + more) / self.seconds if self.seconds else math.inf

    def _total(self) -> float:
        """Estimated seconds of the instructions whose kernels say what they cost: the others take more time still."""
        draft, known = self.draft, self.draft.seconds
        seconds = 0.0
        for row in draft.instructions:
            if row.kernel is not None and row.kernel.cost is not None and type(row.node) is Node:
                first = draft.alike.get(row.node, row.node)
                if first not in known:
                    known[first] = seconds_by(row.kernel, first, draft.request.machine)
                seconds += known[first]
        return seconds

    def _now(self, t: int) -> Variant:
        """What runs an instruction at the moment."""
        if t in self.taken:
            return self.taken[t]
        kernel = self.draft.instructions[t].kernel
        return next(each for each in every(self.draft, t) if each.kernel is kernel)

    def _saved(self, t: int, other: Variant) -> int:
        """Bytes that another variant does without."""
        taken = self.taken.get(t)
        scratch = self.draft.instructions[t].scratch
        wanted = [aval for aval, _ in scratch] if taken is None else taken.wanted
        aligned = self.draft.aligned
        return sum([aligned(a.nbytes) for a in wanted]) - sum([aligned(a.nbytes) for a in other.wanted])

    def _offers(self, t: int) -> tuple[Variant, ...]:
        """The variants that may stand in the place of what runs an instruction."""
        if t not in self.offers:
            self.offers[t] = offers(self.draft, t)
        return self.offers[t]


def offers(draft: Draft, t: int) -> tuple[Variant, ...]:
    """The variants that may stand in the place of what runs an instruction, itself among them."""
    row = draft.instructions[t]
    found = every(draft, t) if _is_open(draft, row) else ()
    if not any(each.kernel is row.kernel for each in found):  # nothing is known of what it costs now
        found = ()
    return tuple([each for each in found if _may_replace(draft, t, row, each.kernel)])


def every(draft: Draft, t: int) -> tuple[Variant, ...]:
    """All variants of an instruction; those that are alike are asked about once."""
    node = draft.instructions[t].node
    first = draft.alike.get(node, node)
    if first not in draft.variants:
        draft.variants[first] = variants(draft.request.device, first, draft.request.machine)
    return draft.variants[first]


def _is_open(draft: Draft, row: Row) -> bool:
    """Whether its kernel is no one else's choice."""
    return type(row.node) is Node and row.node not in draft.recorded and row.node not in draft.loops


def _may_replace(draft: Draft, t: int, row: Row, other: Kernel) -> bool:
    """Whether a kernel does all that was relied on: what it writes over, into gaps, and that it cannot fail."""
    kernel = row.kernel
    assert kernel is not None
    over = not draft.overwritable[t] or other.overwrites == kernel.overwrites
    gaps = other.writes_strided or all(draft.slots[slot].strides is None for slot in row.results)
    return over and gaps and (t < draft.commit or _may_be_anywhere(draft, row, other)) and not other.is_call


def _may_be_anywhere(draft: Draft, row: Row, other: Kernel) -> bool:
    """Whether a kernel may stand wherever what runs an instruction may: in a commit section none that can fail."""
    kernel = row.kernel
    assert kernel is not None
    certain = other.certain >= kernel.certain and other.copies_strided <= kernel.copies_strided
    return certain or not draft.request.commits
