"""Whether buffers have room in a capacity: branch and bound over the buffer that comes next, from below.

At each node one buffer is chosen that nobody without a place fits under, and
either it lies as low as those with a place let it, or somebody is put under it first. The inference is minimalloc's
(Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine learning", ASPLOS 2023): a
section of time is left as soon as its least offset and all that is still to come have no room; parts of time that no
buffer connects are searched one by one. The choice is of the section that leaves least: one in which a single buffer
can come next, else the one with the fewest bytes to waste. That a buffer which was not put somewhere stays away from
there until something is put under it takes the place of minimalloc's canonical order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact.ranking import MOST_COUNTED, TOP, Ranking
from nnc_func.engine.allocators.placement.descents import PLACED
from nnc_func.engine.allocators.problems.conversion import Integers

OFTEN = 4  # turns between two looks at the clock
PACKED = 256  # places of a table of sections from which on it is made anew where half of its buffers have a place
FAR = 1 << 30  # crossings of what is never cut
Keys = NDArray[Any]
Choose = Callable[[Keys, Keys, Keys], int]


def least_slack(candidates: Keys, slack: Keys, floor: Keys) -> int:
    """The section where one buffer can come next, else that with the least to waste; the lowest of these."""
    alone = (candidates == 1).nonzero()[0]
    return _first(alone if len(alone) else _lowest(slack), floor)


def lowest_floor(candidates: Keys, slack: Keys, floor: Keys) -> int:
    """The lowest section, of those where one buffer can come next, else of all; that with the fewest candidates."""
    alone = (candidates == 1).nonzero()[0]
    return _first(alone, floor) if len(alone) else _first(_lowest(floor), candidates)


def fewest_candidates(candidates: Keys, slack: Keys, floor: Keys) -> int:
    """The section with the fewest candidates; that with the least to waste, and the lowest, of these."""
    among = _lowest(candidates - 1)  # none is the most: there are no bytes below none
    return _first(among[_lowest(slack[among])], floor)


def _lowest(key: Keys) -> Integers:
    found: Integers = (key == key[key.argmin()]).nonzero()[0]
    return found


def _first(among: Integers, key: Keys) -> int:
    """The first with the least key."""
    return among.item(key[among].argmin() if len(among) > 1 else 0)


@define(eq=False)
class Scope:
    """Sections ``begin`` to ``end`` that no buffer without a place connects with others.

    Attributes
    ----------
    count
        Buffers without a place when it was cut off.
    sections, table
        Of a `Ranking`.
    packed
        How many without a place are in the table; zero: it is too small to be made anew.
    depth
        Of the node whose placement cut it off, and which is wrong if they have no room; None: of the last node.
    """

    begin: int
    end: int
    count: int
    sections: Integers
    table: NDArray[np.intp]
    packed: int
    depth: int | None = None


@define(eq=False)
class Node:
    """What has a place, and what was ruled out."""

    least: Keys  # the least possible offset of each that has no place
    marked: NDArray[np.bool_] | None  # not there, unless something comes under it
    highest: Keys  # where the next one of each section may lie at most
    crossing: Keys  # how many of those without a place cross the start of each section
    left: int  # without a place in the scope
    scope: Scope
    is_cut: bool  # perhaps nobody crosses from one section to the next somewhere
    waiting: tuple[Scope, ...] = ()
    depth: int | None = None  # as of the scope, in its first node
    chosen: int = -1
    offset: int = 0


@define(eq=False)
class Search:
    """One depth-first search for offsets within a capacity, in units.

    Attributes
    ----------
    ranking
        Of the buffers, with the capacity.
    choose
        The section in which the next one is placed: given how many can come next in each, what each has to waste, and
        its least offset. A section in which all have a place has none who can come next, and the rest is the greatest.
    nodes
        Buffers that were placed.
    deepest
        The most that had a place at one time, where somebody else had none.
    rest
        Seconds for each buffer without a place that are left at the deadline.
    """

    ranking: Ranking
    choose: Choose
    rest: float = 0.0
    nodes: int = 0
    deepest: int = 0
    stack: list[Node] = field(factory=list)

    def run(self, limit: int, deadline: Deadline) -> Integers | bool | None:
        """Offsets, in units; False: there are none; None: not known after `limit` nodes, or at the deadline."""
        self.stack.clear()
        done, turn = self._enter(self._root()), 0
        while done is None:
            if not self.stack:
                return False
            turn += 1
            if self.nodes >= limit or (turn % OFTEN == 0 and self._is_over(deadline)):
                return None
            node = self.stack[-1]
            if self._chosen(node):
                self.nodes += 1
                done = self._enter(self._place(node))
            else:
                self._back()
        return done

    def _is_over(self, deadline: Deadline) -> bool:
        return deadline.left <= self.rest * (len(self.ranking) + 1 - len(self.stack))

    def places(self) -> tuple[Integers, Integers]:
        """Of a search without an answer, a number for each of the conflicts: where it is, and where it may be.

        That is the offset of one that has a place, 0 of others; and the least that each of these may have, `PLACED`
        of the first.
        """
        r, node = self.ranking, self.stack[-1]
        offsets, least = np.zeros(len(r), np.int64), np.empty(len(r), np.int64)
        least[r.order] = np.where(node.least == r.never, PLACED, node.least.astype(np.int64) - r.zero)[:-1]
        placed = self.stack[:-1]
        offsets[r.order[[each.chosen for each in placed]]] = [each.offset - r.zero for each in placed]
        return offsets, least

    def _root(self) -> Node:
        r, c = self.ranking, self.ranking.conflicts
        crossing = np.zeros(len(c.alive) + 1, np.int32)
        np.add.at(crossing, r.first + 1, 1)
        np.subtract.at(crossing, r.last + 1, 1)
        crossing = np.cumsum(crossing, dtype=np.int32) if c.separable else np.full_like(crossing, FAR)
        least = r.starts()
        scope = Scope(0, len(c.alive), len(r), *r.table(0, len(c.alive), least != r.never), len(r))
        return Node(least, None, (TOP - c.loads).astype(r.dtype), crossing, len(r), scope, True)

    def _enter(self, node: Node) -> Integers | None:
        """Go on with this node in the next scope; the offsets where there is none."""
        if node.left and not node.is_cut and 2 * node.left > node.scope.packed:  # as most often: in the same scope
            self.stack.append(node)
            return None
        scopes = self._parts(node) + node.waiting
        if not scopes:
            return self._offsets()
        scope = scopes[0]
        node.depth = None if scope is node.scope else scope.depth
        if scope is not node.scope:
            node.left = scope.count
        node.scope, node.waiting = scope, scopes[1:]
        self.stack.append(node)
        return None

    def _offsets(self) -> Integers:
        """Of all, by their numbers among the conflicts."""
        r = self.ranking
        found = np.zeros(len(r), np.int64)
        found[r.order[[node.chosen for node in self.stack]]] = [node.offset - r.zero for node in self.stack]
        return found

    def _parts(self, node: Node) -> tuple[Scope, ...]:
        """What is still to be placed in the scope of a node, cut where nobody crosses: the most buffers first."""
        if not node.left:
            return ()
        scope = node.scope
        begin, end = scope.begin, scope.end
        if node.is_cut:
            some = (node.highest[begin:end] != TOP).nonzero()[0]  # sections in which somebody has no place
            begin, end = begin + some.item(0), begin + some.item(-1) + 1
            cuts = (node.crossing[begin + 1 : end] == 0).nonzero()[0]
            if len(cuts):
                edges = [begin, *(cuts + begin + 1).tolist(), end]
                return self._cut(node, edges)
        if 2 * node.left > scope.packed:
            return (scope,)
        return (self._scope(node, begin, end, node.left, None),)

    def _cut(self, node: Node, edges: list[int]) -> tuple[Scope, ...]:
        """What is still to be placed between some edges, the most buffers first."""
        first = self.ranking.first[(node.least[:-1] != self.ranking.never).nonzero()[0]]
        counts = np.bincount(np.searchsorted(edges, first, side="right"), minlength=len(edges) + 1)[1:-1].tolist()
        found = sorted((-n, b, e) for n, (b, e) in zip(counts, pairwise(edges), strict=True) if n)
        return tuple(self._scope(node, b, e, -n, len(self.stack) - 1) for n, b, e in found)

    def _scope(self, node: Node, begin: int, end: int, count: int, depth: int | None) -> Scope:
        """Some sections of the scope of a node."""
        before = node.scope
        first, last = before.sections.searchsorted((begin, end)).tolist()
        if len(before.table) * (last - first) < PACKED:
            table = np.ascontiguousarray(before.table[:, first:last])
            return Scope(begin, end, count, before.sections[first:last], table, 0, depth)
        made = self.ranking.table(begin, end, node.least != self.ranking.never)
        return Scope(begin, end, count, *made, count, depth)

    def _back(self) -> None:
        """Leave the last node, which has no answer, for the one to blame: its chosen buffer lies elsewhere."""
        r = self.ranking
        self.deepest = max(self.deepest, len(self.stack))
        while True:
            depth = self.stack[-1].depth
            del self.stack[len(self.stack) - 1 if depth is None else depth + 1 :]
            if not self.stack:
                return
            node = self.stack[-1]
            free = node.least != r.never
            if r.pinned[node.chosen] or not (r.conflicting[node.chosen] & free).any():
                continue  # nothing else can be chosen there
            ruled_out = free & (r.twins == r.twins[node.chosen])
            node.marked = ruled_out if node.marked is None else node.marked | ruled_out
            return

    def _chosen(self, node: Node) -> bool:
        """Choose a buffer to place, and whether there is one: nobody without a place fits under it."""
        r, scope = self.ranking, node.scope
        least = node.least if node.marked is None else self._least_offsets(node, node.marked)
        if least is None:
            return False
        tops = least + r.sizes  # of who has a place below all others, by wrapping around
        if tops[tops.argmax()] > TOP:
            return False
        table = scope.table
        offsets = least.take(table, mode="wrap")  # the fastest: none is outside
        floor = np.minimum.reduce(offsets, axis=0)
        highest = node.highest.take(scope.sections)
        slack = highest - floor
        if slack[slack.argmin()] < 0:
            return False
        can = (offsets <= highest).view(np.uint8)
        candidates = np.add.reduce(can, axis=0, dtype=np.uint8 if len(table) <= MOST_COUNTED else np.uint32)
        section = self.choose(candidates, slack, floor)
        chosen = self._under(table.item(offsets[:, section].argmin(), section), least)
        node.chosen, node.offset = chosen, least.item(chosen)
        return True

    def _under(self, chosen: int, least: Keys) -> int:
        """The buffer, or one that fits under it, or under that one, and so on: nobody fits under the last."""
        r = self.ranking
        while (offset := least.item(chosen)) > r.zero:
            fits = least <= offset - r.sizes
            fits &= r.conflicting[chosen]
            if not fits[fits.argmax()]:
                return chosen
            under = fits.nonzero()[0]
            chosen = under.item(least[under].argmin())
        return chosen

    def _least_offsets(self, node: Node, marked: NDArray[np.bool_]) -> Keys | None:
        """The least offset that each buffer without a place can have, `never` for those with one; None: no room.

        A marked buffer lies on top of another one that has no place yet: the shortest way there from those that may
        lie where they are.
        """
        r, some = self.ranking, marked.nonzero()[0]
        least = node.least.copy()
        least[some] = r.never
        conflicting, tops = r.conflicting[some], np.minimum(least, r.roof) + r.sizes
        under = np.minimum.reduce(np.where(conflicting, tops, r.never), axis=1)
        at = self._aligned(under, some)
        while len(some) > 1:
            tops = np.minimum(at, r.roof[some]) + r.sizes[some]
            lower = np.minimum(under, np.minimum.reduce(np.where(conflicting[:, some], tops, r.never), axis=1))
            if (lower == under).all():
                break
            under = lower
            at = self._aligned(under, some)
        if at[at.argmax()] == r.never:
            return None
        least[some] = at
        return least

    def _aligned(self, offsets: Keys, of: Integers) -> Keys:
        r = self.ranking
        if r.conflicts.is_plain:
            return offsets
        steps = r.steps[of]
        found = -(-(np.minimum(offsets, TOP) - r.zero) // steps) * steps + r.zero
        return np.where(offsets > TOP, offsets, found).astype(r.dtype)

    def _place(self, node: Node) -> Node:
        """The chosen buffer has its place, and the others that conflict with it lie above."""
        r, i = self.ranking, node.chosen
        top = node.offset + r.sizes.item(i)
        if r.conflicts.is_plain:
            least = r.rise(i) + top
            np.maximum(least, node.least, out=least)
        else:
            least = node.least.copy()
            above = r.conflicting[i].nonzero()[0]
            raised = self._aligned(np.full(len(above), top, r.dtype), above)
            hurt = least[above] < raised
            above = above[hurt]
            least[above] = np.where(r.pinned[above], TOP + 1, raised[hurt])
        least[i] = r.never
        marked = node.marked
        if marked is not None:
            marked = marked & (least == node.least)
            if not marked.any():
                marked = None
        crossing, is_cut = node.crossing, False
        begin, end = r.first.item(i) + 1, r.last.item(i) + 1
        if begin < end:
            crossing = crossing.copy()
            crossed = crossing[begin:end]
            crossed -= 1
            is_cut = not crossed[crossed.argmin()]
        return Node(least, marked, node.highest + r.load(i), crossing, node.left - 1, node.scope, is_cut, node.waiting)
