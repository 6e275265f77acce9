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

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact.conflicts import Conflicts
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.fields import FREE

FAR = 1 << 62  # above all offsets; no overflow with a size added
Choose = Callable[[Integers, Integers, Integers], int]


def least_slack(candidates: Integers, slack: Integers, floor: Integers) -> int:
    """The section where one buffer can come next, else that with the least to waste; the lowest of these."""
    return _least(np.where(candidates == 1, -1, slack), floor)


def lowest_floor(candidates: Integers, slack: Integers, floor: Integers) -> int:
    """The lowest section, of those where one buffer can come next, else of all; that with the fewest candidates."""
    return _least(candidates != 1, floor, candidates)


def fewest_candidates(candidates: Integers, slack: Integers, floor: Integers) -> int:
    """The section with the fewest candidates; that with the least to waste, and the lowest, of these."""
    return _least(candidates, slack, floor)


def _least(*keys: NDArray[np.bool_] | Integers) -> int:
    among = (keys[0] == keys[0].min()).nonzero()[0]
    for key in keys[1:]:
        if len(among) > 1:
            values = key[among]
            among = among[values == values.min()]
    return int(among[0])


def ranks(conflicts: Conflicts, order: str) -> Integers:
    """Ranks by a static order: letters of T load of the fullest section, W width in sections, A area, Z size."""
    width = conflicts.alive.sum(axis=0)
    fullest = np.where(conflicts.alive, conflicts.loads[:, None], 0).max(axis=0)
    keys = {"T": fullest, "W": width, "A": width * conflicts.sizes.astype(np.float64), "Z": conflicts.sizes}
    by = np.lexsort([-keys[letter] for letter in reversed(order)])  # stable: ties go by number
    found = np.empty(len(by), np.int64)
    found[by] = np.arange(len(by))
    return found


@frozen
class Scope:
    """Sections ``begin`` to ``end`` that no buffer without a place connects with others.

    Attributes
    ----------
    depth
        Of the node whose placement cut them off, and which is wrong if they have no room; None: of the last node.
    """

    begin: int
    end: int
    depth: int | None = None


@define(eq=False)
class Node:
    """What has a place, and what was ruled out."""

    offsets: Integers  # the place, or the least possible one
    free: NDArray[np.bool_]  # without a place
    marked: NDArray[np.bool_]  # not there, unless something comes under it
    loads: Integers  # of those without a place
    crossing: Integers  # how many of those without a place cross the start of each section
    scope: Scope
    waiting: tuple[Scope, ...] = ()
    chosen: int = -1
    alone: bool = False  # nothing else can be chosen here

    def placed(self) -> Node:
        """A copy to place the next buffer in."""
        return Node(
            self.offsets.copy(),
            self.free.copy(),
            self.marked.copy(),
            self.loads.copy(),
            self.crossing.copy(),
            self.scope,
            self.waiting,
        )


@define(eq=False)
class Search:
    """One depth-first search for offsets within a capacity, in units.

    Attributes
    ----------
    outcome
        Offsets; False: there are none; None: not known within the limit.
    nodes
        Buffers that were placed.
    """

    conflicts: Conflicts
    capacity: int
    choose: Choose
    rank: Integers
    nodes: int = 0
    stack: list[Node] = field(factory=list)

    def run(self, limit: int, deadline: Deadline) -> Integers | bool | None:
        """Offsets, in units; False: there are none; None: not known after `limit` nodes, or at the deadline."""
        self.stack.clear()
        done = self._enter(self._root())
        while done is None:
            if not self.stack:
                return False
            if self.nodes >= limit or deadline.is_over:
                return None
            node = self.stack[-1]
            if self._chosen(node):
                self.nodes += 1
                done = self._enter(self._place(node))
            else:
                self._back()
        return done

    def _root(self) -> Node:
        c = self.conflicts
        first, last = c.spans
        crossing = np.zeros(len(c.alive) + 1, np.int64)
        np.add.at(crossing, first + 1, 1)
        np.subtract.at(crossing, last + 1, 1)
        starts = np.where(c.pins == FREE, 0, c.pins)
        free = np.ones(len(c), np.bool_)
        crossing = np.cumsum(crossing) if c.separable else np.full_like(crossing, FAR)
        return Node(starts, free, ~free, c.loads.copy(), crossing, Scope(0, len(c.alive)))

    def _enter(self, node: Node) -> Integers | None:
        """Go on with this node in the next scope; the offsets where there is none."""
        scopes = self._parts(node) + node.waiting
        if not scopes:
            return node.offsets
        node.scope, node.waiting = scopes[0], scopes[1:]
        self.stack.append(node)
        return None

    def _parts(self, node: Node) -> tuple[Scope, ...]:
        """What is still to be placed in the scope of a node, cut where nobody crosses: the most buffers first."""
        begin, end = node.scope.begin, node.scope.end
        if node.crossing[begin + 1 : end].all():  # as most often
            return (Scope(begin, end),) if node.loads[begin:end].any() else ()
        cuts = np.flatnonzero(node.crossing[begin + 1 : end] == 0) + begin + 1
        edges = [begin, *cuts.tolist(), end]
        found = [(b, e) for b, e in pairwise(edges) if node.loads[b:e].any()]
        if len(found) == 1:
            return (Scope(*found[0]),)
        first = self.conflicts.spans[0]
        inside = first[node.free]
        found.sort(key=lambda part: (-int(((inside >= part[0]) & (inside < part[1])).sum()), part))
        return tuple(Scope(b, e, len(self.stack) - 1) for b, e in found)

    def _back(self) -> None:
        """Leave the last node, which has no answer, for the one to blame: its chosen buffer lies elsewhere."""
        while True:
            depth = self.stack[-1].scope.depth
            del self.stack[len(self.stack) - 1 if depth is None else depth + 1 :]
            if not self.stack:
                return
            node = self.stack[-1]
            if not node.alone:
                node.marked |= node.free & (self.conflicts.twins == self.conflicts.twins[node.chosen])
                return

    def _chosen(self, node: Node) -> bool:
        """Choose a buffer to place, and whether there is one: nobody without a place fits under it."""
        least = self._least_offsets(node)
        if least is None:
            return False
        members, starts, lengths = self.conflicts.members
        begin, end = node.scope.begin, node.scope.end
        first = int(starts[begin])
        inside, edges = members[first : starts[end]], starts[begin:end] - first
        offsets = least.take(inside)
        floor = np.minimum.reduceat(offsets, edges)
        highest = self.capacity - node.loads[begin:end]  # where the next one of each section may lie
        some = (floor < FAR).nonzero()[0]
        slack = highest - floor
        if slack[some].min(initial=0) < 0:
            return False
        can = offsets <= highest.repeat(lengths[begin:end])
        candidates = np.add.reduceat(can, edges, dtype=np.int64)
        section = int(some[self.choose(candidates[some], slack[some], floor[some])])
        at = slice(int(edges[section]), int(edges[section]) + int(lengths[begin + section]))
        there = inside[at][can[at]]
        node.chosen = self._under(self._first(there, least), least)
        node.offsets[node.chosen] = least[node.chosen]
        pinned = self.conflicts.pins[node.chosen] != FREE
        node.alone = bool(pinned or not (self.conflicts.conflicting[node.chosen] & node.free).any())
        return True

    def _first(self, among: Integers, least: Integers) -> int:
        """The lowest, and of these the first by rank."""
        offsets = least[among]
        low = among[offsets == offsets.min()]
        return int(low[self.rank[low].argmin()]) if len(low) > 1 else int(low[0])

    def _under(self, chosen: int, least: Integers) -> int:
        """The buffer, or one that fits under it, or under that one, and so on: nobody fits under the last."""
        tops = least + self.conflicts.sizes
        while True:
            under = (self.conflicts.conflicting[chosen] & (tops <= least[chosen])).nonzero()[0]
            if not len(under):
                return chosen
            chosen = self._first(under, least)

    def _least_offsets(self, node: Node) -> Integers | None:
        """The least offset that each buffer without a place can have, `FAR` for those with one; None: no room.

        A marked buffer lies on top of another one that has no place yet: the shortest way there from those that may
        lie where they are.
        """
        c = self.conflicts
        least = np.where(node.free & ~node.marked, node.offsets, FAR)
        if node.marked.any():
            marked = np.flatnonzero(node.marked)
            tops = least + c.sizes
            under = np.where(c.conflicting[marked], np.minimum(tops, FAR), FAR).min(axis=1)
            among = c.conflicting[np.ix_(marked, marked)]
            while True:
                at = self._aligned(under, marked)
                lower = np.minimum(under, np.where(among, (at + c.sizes[marked]), FAR).min(axis=1))
                if (lower == under).all():
                    break
                under = lower
            least[marked] = at
        if ((least > self.capacity - c.sizes) & node.free).any():
            return None
        return least

    def _aligned(self, offsets: Integers, of: Integers | NDArray[np.bool_]) -> Integers:
        steps = self.conflicts.alignments[of]
        found: Integers = np.where(offsets >= FAR, FAR, -(-np.minimum(offsets, FAR) // steps) * steps)
        return found

    def _place(self, node: Node) -> Node:
        """The chosen buffer has its place, and the others that conflict with it lie above."""
        c, i, made = self.conflicts, node.chosen, node.placed()
        made.free[i] = False
        above, top = c.conflicting[i] & made.free, int(made.offsets[i] + c.sizes[i])
        if c.is_plain:
            above &= made.offsets < top
            made.offsets[above] = top
            made.marked[above] = False
        else:
            raised = self._aligned(np.full(int(above.sum()), top), above)
            lower = made.offsets[above] < raised
            hurt = np.flatnonzero(above)[lower]
            made.offsets[hurt] = np.where(c.pins[hurt] == FREE, raised[lower], FAR - 1)
            made.marked[hurt] = False
        made.loads -= c.sections[i] * c.sizes[i]
        first, last = c.spans
        made.crossing[first[i] + 1 : last[i] + 1] -= 1
        return made
