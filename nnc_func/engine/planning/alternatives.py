"""Alternatives of a planning: the same passes go through several drafts, and the one with the fewest bytes stays.

Commit sections of several lengths, parts of wholes that are computed in place or copied, and orders are alternatives.
What they have in common is found once; what cannot be the best is not made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import evolve

from nnc_func.engine.orders import unsearched
from nnc_func.engine.plan_rows import DONATED, LENT, NEXT
from nnc_func.engine.planning import negotiation
from nnc_func.engine.planning.committing import Arrangement, loose, short
from nnc_func.engine.planning.draft import Draft, Known
from nnc_func.engine.planning.liveness import (
    TOLERATED,
    busiest,
    footprint,
    least_at,
    peak,
    unfinished,
    unfinished_peak,
)
from nnc_func.engine.planning.ordering import WORTH
from nnc_func.engine.planning.passes import through
from nnc_func.engine.planning.readers_first import readers_first
from nnc_func.engine.planning.request import Request
from nnc_func.graph.node import Node

A = TypeVar("A", bound=Arrangement | None)

DEARER = 1.25  # parts are copied after all where computing them in place would raise the peak by more than this
NEARLY = 1.05  # so much of what a longer section must spare is enough to search for its order
SEARCHED = 500  # nodes, up to which orders are searched for with every section; beyond it where they begin as well
TRIES = 3  # times that wholes are looked for whose parts are copied after all


class Alternatives:
    """The drafts of one request.

    Parameters
    ----------
    request
        What is planned.

    Raises
    ------
    DeviceError
        An operator has no kernel on the device.
    """

    def __init__(self, request: Request) -> None:
        self.request, self.passes = request, request.passes
        self.root = through(self.passes.choose, Draft(request))
        nodes = request.graph.nodes if request.sequence is None else request.sequence
        self.sequence = [n for n in nodes if n in self.root.kernels]
        if request.is_body and request.graph.updates:
            self.sequence = readers_first(self.sequence, self.root.kernels, request.graph)
        self.arrangements: dict[str, Arrangement | None] = {}  # those that were asked for
        self.aliased: dict[object, Draft] = {}  # by what is put together of copies, and what lies without gaps
        self.made: dict[object, dict[int, Draft]] = {}  # by orders and memory, and the arrangement that was asked for
        self.known: dict[object, Known] = {}  # by the arrangement, and what is put together of copies
        self.untouched: dict[int, Draft] = {}  # by the arrangement: in its order, and gone through no pass after that

    def best(self) -> Draft:
        """The draft with the fewest bytes, without offsets.

        Its commit section is the shortest one; or a longer one, where that spares more than a tenth of the bytes. What
        cannot be as good is not made: an update that is done before the section takes a fresh array.
        """
        request, sequence = self.request, self.sequence
        if request.checked or request.careless or request.retain is not None:
            early = 0 if request.careless and request.graph.updates else len(sequence)
            best = self.draft(self._once("whole", lambda: Arrangement(sequence, early)))
        else:
            brief = self._once("short", lambda: short(request.graph, self.root.kernels, sequence))
            best = self._committing(brief) if request.graph.updates else self.draft(brief)
        return through(self.passes.commit, best)

    def as_written(self) -> Draft:
        """The draft of the graph in its own order, with the kernels that are taken by default, and lifetimes."""
        brief = self._once("short", lambda: short(self.request.graph, self.root.kernels, self.sequence))
        return through(self.passes.lifetimes, self._aliased(brief, frozenset()))

    def asking(self, **changes: Any) -> Alternatives:
        """The same of a request with other `orders` or `memory`: what does not depend on them is not found again."""
        made = object.__new__(Alternatives)
        made.__dict__.update(self.__dict__, request=evolve(self.request, **changes))
        return made

    @property
    def found(self) -> dict[int, Draft]:
        """The drafts that were made with these orders and this memory, by arrangement."""
        orders = tuple(order if isinstance(order, str) else id(order) for order in self.request.orders)
        return self.made.setdefault((orders, self.request.memory), {})

    def _once(self, name: str, make: Callable[[], A]) -> A:
        """One arrangement of a name, which stays: drafts are known by it."""
        if name not in self.arrangements:
            self.arrangements[name] = make()
        return self.arrangements[name]  # type: ignore[return-value]

    def _committing(self, brief: Arrangement) -> Draft:
        fresh, floor = self.bounds(brief)
        longer = self._once("loose", lambda: loose(self.root.kernels, self.sequence))
        if longer is not None and floor and fresh + floor > TOLERATED * footprint(self.draft(longer)):
            return self.draft(longer)
        best = self.draft(brief)
        enough, small = TOLERATED * least_at(best, busiest(best)[1]), len(self.sequence) <= SEARCHED
        if longer is not None and footprint(best) > enough and (small or self._begins_as_well(longer, best)):
            best = self._better(best, self.draft(longer))
        if small and footprint(best) > enough:
            free = self.draft(self._once("free", lambda: Arrangement(self.sequence, 0)))
            best = self._better(best, free) if self._cannot_fail(free) else best
        return best

    def _better(self, best: Draft, other: Draft) -> Draft:
        return other if footprint(best) > TOLERATED * footprint(other) else best

    def _begins_as_well(self, longer: Arrangement, best: Draft) -> bool:
        """Whether orders that take a moment need as much less with a longer section as makes up for it.

        What a search has gained with the shortest one it is taken to gain with the longer one as well.
        """
        if id(longer) in self.found:
            return True
        quick = unsearched([each.order for each in best.answers])
        peaks = [each.peak for each in best.answers if each.order in quick]
        gained = max(0, min(peaks) - best.chosen.peak) if best.chosen is not None and peaks else 0
        return footprint(best) + gained > NEARLY * footprint(self.unsearched().draft(longer))

    def _cannot_fail(self, draft: Draft) -> bool:
        """Whether nothing from the first write to a variable on can fail or needs memory (`verifying.endings`)."""
        for node, kernel, operands, results, *_ in through(self.passes.commit, draft).instructions[draft.commit :]:
            if kernel is None:
                continue
            used = map(draft.slots.__getitem__, (*operands, *results) if kernel.copies_strided else ())
            if node in draft.loops or not kernel.certain or not all(s.is_plain and not s.aval.layout for s in used):
                return False
        return True

    def unsearched(self) -> Alternatives:
        """The same with those orders that start from none, where there are such: they take a moment."""
        orders, quick = self.request.orders, unsearched(self.request.orders)
        return self if not quick or len(quick) == len(orders) else self.asking(orders=quick)

    def draft(self, arrangement: Arrangement) -> Draft:
        """The draft of an arrangement, with the parts of wholes computed in place, but where that is dear."""
        found = self.found
        if id(arrangement) not in found:
            found[id(arrangement)] = self._cheapest(arrangement)
        return found[id(arrangement)]

    def _cheapest(self, arrangement: Arrangement) -> Draft:
        apart: frozenset[Node] = frozenset()  # what is put together of copies
        draft = self._through(arrangement, apart)
        for _ in range(TRIES if draft.sub_buffers.of else 0):  # a whole's memory is taken from its first part on
            most = peak(draft)
            dear = unfinished(draft) if most > DEARER * (most - unfinished_peak(draft)) else set()
            if not dear:
                break
            other = self._through(arrangement, apart | dear)
            if most <= DEARER * peak(other):
                break
            draft, apart = other, apart | dear
        return draft

    def _through(self, arrangement: Arrangement, apart: frozenset[Node]) -> Draft:
        draft = self._aliased(arrangement, apart)
        draft.known = self.known.setdefault((id(arrangement), apart), Known())
        draft = through(self.passes.negotiate, self._ordered(draft))
        return self._ordered_again(draft, arrangement, apart) if negotiation.is_order_open(draft) else draft

    def _ordered(self, draft: Draft) -> Draft:
        draft.request, passes = self.request, self.passes
        for each in (passes.order, passes.streams, passes.lifetimes, passes.in_place, passes.lend):
            draft = through(each, draft)
        return draft

    def _ordered_again(self, draft: Draft, arrangement: Arrangement, apart: frozenset[Node]) -> Draft:
        """The same kernels in the order that is best with their scratch memory, where less is alive in it."""
        other = self._aliased(arrangement, apart)
        taken = negotiation.follow(other, draft)
        other.known = self.known.setdefault((id(arrangement), apart, taken), Known())
        other = self._ordered(other)
        return other if peak(other) < peak(draft) else draft

    def _aliased(self, arrangement: Arrangement, apart: frozenset[Node]) -> Draft:
        """A draft of its own; its instructions are those of another arrangement where they are the same."""
        if not apart and id(arrangement) in self.untouched:
            return self.untouched.pop(id(arrangement))
        found = self.aliased.get((apart, frozenset()))
        of = {} if found is None else found.sub_buffers.of
        if found is None or not all(value not in of or of[value].contiguous for value in arrangement.contiguous):
            found = self.aliased.get((apart, arrangement.contiguous))
        if found is None:
            found = through(self.passes.alias, self.root.of(arrangement, apart))
            self.aliased[apart, arrangement.contiguous] = found
        return found.arranged(arrangement)

    def bounds(self, arrangement: Arrangement) -> tuple[int, int]:
        """Bytes of next values that cannot be written over their variables, and what the arena takes at the least.

        That is found out where the first may make the arrangement too dear; else it is 0.
        """
        draft = self._aliased(arrangement, frozenset())
        early = {draft.slots[slot].storage for row in draft.instructions[: draft.commit] for slot in row.results}
        fresh = sum(s.nbytes for s in map(draft.storages.__getitem__, early) if s.kind == NEXT)
        if not fresh:
            self.untouched[id(arrangement)] = draft
            return 0, 0
        draft = through(self.passes.lifetimes, draft)
        most, at = busiest(draft)
        return fresh, least_at(draft, at) if fresh > (TOLERATED - 1) * most else 0


def smallest(alternatives: Alternatives) -> Draft:
    """The draft of the best of the orders, with offsets; of another one where that takes less after all.

    It may: where the best one leaves gaps between buffers, or values find less room in what outputs and inputs have.
    Those are tried whose simulated peak is below what the best one takes, the least first, a search's only where it is
    by 1 / `WORTH`; and the first one of all, where there is such room, or loops write over rows that they have read: no
    order knows of either.
    """
    request = alternatives.request
    best = found = through(request.passes.allocate, alternatives.best())
    simulated = min([each.arena for each in found.answers], default=0)
    houses = any(s.kind in (LENT, DONATED) and s.merged == i for i, s in enumerate(found.storages))
    unknown = houses or sum(found.arenas.values()) < simulated
    used = None if found.chosen is None else [*found.chosen.sequence]
    others = [(each.arena, i) for i, each in enumerate(found.answers) if used != [*each.sequence]]
    for most, i in sorted(others):
        order = found.answers[i].order
        worth = most // WORTH if not unsearched([order]) else 0
        if most + worth < sum(best.arenas.values()) or (unknown and not i):
            other = through(request.passes.allocate, alternatives.asking(orders=[order]).best())
            best = min(best, other, key=lambda draft: sum(draft.arenas.values()))
    return best
