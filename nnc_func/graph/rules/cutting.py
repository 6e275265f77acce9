"""Groups that are computed at once, and would have much in memory for that, are cut into groups that follow each other.

Operators one after another let go of what they have read. A group has all that it reads, and all that it gives, in
memory together, so that a sum of sixteen products holds sixteen factors. It is cut where one value passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from nnc_func.facets.dims import known
from nnc_func.graph.node import Node
from nnc_func.graph.ops.bodies import is_reduction

HELD = 4  # large values that are computed for a group alone, and large results
READ = 2  # of the former, what a piece reads of a group that is cut


class Cutting:
    """A group to be cut.

    Parameters
    ----------
    members
        Its nodes, operands first.
    shape
        Of all that is computed together.
    users
        Node to the nodes that use it.
    asked
        Roots of the graph.
    least
        Bytes of a large value.
    several
        Whether a group may have several results, or one that is not its last.
    """

    def __init__(
        self, members: list[Node], shape: Any, users: Callable[[Node], Collection[Node]], asked: set[Node], least: int,
        several: bool,
    ) -> None:  # fmt: skip
        self.members, self.shape, self.users, self.multi_result = members, shape, users, several
        inside = set(members)
        self.asked, self.least = asked, least
        self.seen = {m for m in members if m in asked or not inside.issuperset(users(m))}
        self.alone = {
            a
            for a in dict.fromkeys(a.node for m in members for a in m.args)
            if a not in inside and a.args and self._is_large(a) and inside.issuperset(users(a))
        }
        self.given = {m for m in self.seen - asked if self._is_large(m)}

    def _is_large(self, node: Node) -> bool:
        return any(known(a.nbytes) and a.nbytes >= self.least for a in node.avals)

    def pieces(self) -> list[list[Node]]:
        """What is computed together then, in order; all of it where that holds little, or cannot be cut."""
        if len(self.alone) <= HELD and len(self.given) <= HELD:
            return [self.members]
        order = self._ordered()
        found: list[list[Node]] = []
        start = 0
        while start < len(order):
            end = self._end(order, start)
            found.append(order[start:end])
            start = end
        return found

    def needs(self, pieces: list[list[Node]]) -> dict[Node, int]:
        """For each member how many large values are in memory at once until its piece is there, at the least.

        As for registers of an expression (Sethi and Ullman, 1970): what needs most is computed first.
        """
        found: dict[Node, int] = {}
        for piece in pieces:
            read = {a.node for m in piece for a in m.args}.difference(piece)
            large = (node for node in read if node in self.alone or (node in found and self._is_large(node)))
            several = sorted((found.get(node, 1) for node in large), reverse=True)
            need = max((held + each for held, each in enumerate(several)), default=1)
            found.update(dict.fromkeys(piece, need))
        return found

    def _ordered(self) -> list[Node]:
        """Operands first, of these what broadcasts last: so it is made where it is read."""
        inside, done = set(self.members), dict.fromkeys(self.members[:0])
        stack = [m for m in reversed(self.members) if inside.isdisjoint(self.users(m))]
        while stack:
            node = stack[-1]
            missing = [a.node for a in reversed(node.args) if a.node in inside and a.node not in done]
            if node in done or not missing:
                done[stack.pop()] = None
            else:
                stack += sorted(missing, key=self._is_whole)
        return [*done]

    def _is_whole(self, node: Node) -> bool:
        return bool(node.aval.shape == self.shape)

    def _end(self, order: list[Node], start: int) -> int:
        """Where a piece ends that begins there. What many members read is there anyway."""
        best, before = 0, {m for m in order[:start] if len(self.users(m)) == 1}
        read: set[Node] = set()
        given = 0
        for at in range(start, len(order)):
            node = order[at]
            read.update(a.node for a in node.args if a.node in self.alone or a.node in before)
            given += node in self.given
            if best and (len(read) > READ or given > HELD):
                return best
            if self._may_end(order, start, at + 1):
                best = at + 1
        return len(order)

    def _may_end(self, order: list[Node], start: int, end: int) -> bool:
        """Whether what passes there to later members is one value of the group's shape, or there anyway."""
        later = set(order[end:])
        passing = [m for m in order[start:end] if m not in self.seen and not later.isdisjoint(self.users(m))]
        return len(passing) <= 1 and all(
            self._is_whole(m) and not is_reduction(m.op) and (self.multi_result or m is order[end - 1]) for m in passing
        )
