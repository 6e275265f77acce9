"""A maximum flow, and the least cut that proves it: whole numbers, flat arrays, and nothing but Python.

Source: Dinitz, "Algorithm for solution of a problem of maximum flow in a network with power estimation", Soviet
Mathematics Doklady 11, 1970. Flow goes along shortest paths only, phase by phase, until none is left. Networks of
orders are sparse and their paths are short, so that there are few phases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from nnc_func.errors import PlanError

SOURCE, SINK = 0, 1  # as nodes of a network of which these are the first


@frozen
class Cut:
    """What a flow is, and what separates its source from its sink.

    Attributes
    ----------
    flow
        How much flows from the source to the sink.
    before
        For each node whether it is on the source's side: of all least cuts the one with the fewest nodes there, which
        is the same for each maximum flow.
    steps
        Arcs that were looked at.
    is_least
        Whether the flow is a maximum one. Else a limit ended the search, and `before` says nothing.
    """

    flow: int
    before: bytearray
    steps: int
    is_least: bool


def maximum_flow(
    count: int,
    arcs: Sequence[tuple[int, int, int]],
    source: int,
    sink: int,
    enough: float = math.inf,
    most: float = math.inf,
) -> Cut:
    """The most that flows from one of `count` nodes to another. Deterministic, and exact for integers of any size.

    Parameters
    ----------
    arcs
        Tails, heads, capacities. There may be several between two nodes.
    enough
        A flow from which on it is not searched for more.
    most
        Arcs after which no phase is begun any more.

    Raises
    ------
    PlanError
        A capacity is negative, an arc is of a node that there is not, or source and sink are the same.

    Examples
    --------
    >>> found = maximum_flow(4, [(0, 1, 3), (0, 2, 2), (1, 3, 1), (2, 3, 9)], 0, 3)
    >>> found.flow, [*found.before]
    (3, [1, 1, 0, 0])
    """
    if source == sink:
        raise PlanError(f"node {source} is the source and the sink of a flow; wanted two")
    out: list[list[int]] = [[] for _ in range(count)]  # by node, its arcs; arc `e ^ 1` leads back along arc `e`
    head: list[int] = []
    rest: list[int] = []  # of each arc, how much may still flow along it
    for tail, to, capacity in arcs:
        if capacity < 0 or not (0 <= tail < count and 0 <= to < count):
            raise PlanError(f"an arc of capacity {capacity} from node {tail} to node {to}, of {count} nodes")
        out[tail].append(len(head))
        out[to].append(len(head) + 1)
        head += (to, tail)
        rest += (capacity, 0)
    flow = steps = 0
    while True:
        level, looked = _levels(out, head, rest, source, sink)
        steps += looked
        if level[sink] < 0:
            return Cut(flow, bytearray(one >= 0 for one in level), steps, True)
        if steps >= most or flow >= enough:
            return Cut(flow, bytearray(count), steps, False)
        pushed, looked = _blocking(out, head, rest, source, sink, level)
        flow += pushed
        steps += looked


def _levels(out: list[list[int]], head: list[int], rest: list[int], source: int, sink: int) -> tuple[list[int], int]:
    """For each node how far it is from the source, -1 where it is not reached; and how many arcs were looked at.

    What is as far away as the sink, or farther, need not be known where the sink is reached.
    """
    level = [-1] * len(out)
    level[source] = 0
    now, at, looked = [source], 0, 0
    while now and level[sink] < 0:
        at += 1
        following = []
        for node in now:
            looked += len(out[node])
            for arc in out[node]:
                to = head[arc]
                if level[to] < 0 and rest[arc]:
                    level[to] = at
                    following.append(to)
        now = following
    return level, looked


def _blocking(
    out: list[list[int]], head: list[int], rest: list[int], source: int, sink: int, level: list[int]
) -> tuple[int, int]:
    """Fill shortest paths until each has a full arc: how much that is, and how many arcs were looked at."""
    following = [0] * len(out)  # by node: the first of its arcs that may still lead on
    pushed = looked = 0
    path: list[int] = []
    node = source
    while True:
        if node == sink:
            least = min([rest[arc] for arc in path])
            pushed += least
            looked += len(path)
            keep = -1
            for i, arc in enumerate(path):
                rest[arc] -= least
                rest[arc ^ 1] += least
                if keep < 0 and not rest[arc]:
                    keep = i
            node = head[path[keep] ^ 1]
            del path[keep:]
            continue
        arcs, at, further = out[node], following[node], level[node] + 1
        begun = at
        while at < len(arcs) and not (rest[arcs[at]] and level[head[arcs[at]]] == further):
            at += 1
        looked += at - begun + 1
        following[node] = at
        if at < len(arcs):
            path.append(arcs[at])
            node = head[arcs[at]]
        elif path:
            node = head[path.pop() ^ 1]
            following[node] += 1
        else:
            return pushed, looked
