"""Layered drawing of directed graphs: layers, order within them, places. Numbers only: no nodes, no pictures.

After Sugiyama: long edges pass through points of their own, crossings are reduced by barycenters, and places are
the least squares fit to those of the neighbours that keeps order and distance.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise

from attrs import define, field, frozen

SWEEPS = 8
MOST_POINTS = 6000  # of long edges; where there would be more, the longest edges are not routed


@frozen
class Layout:
    """Where everything is.

    Attributes
    ----------
    x
        The middle of each vertex.
    layer
        Its layer, from the top.
    trunks
        For each vertex the points, as (x, layer), through which its long edges run together, from layer to layer.
    cut
        Edges that are not routed, for they are too long.
    width
        Of it all.
    """

    x: tuple[float, ...]
    layer: tuple[int, ...]
    trunks: Mapping[int, tuple[tuple[float, int], ...]]
    cut: frozenset[tuple[int, int]]
    width: float


def layered(layer: Sequence[int], edges: Sequence[tuple[int, int]], widths: Sequence[float], gap: float) -> Layout:
    """Places for vertices whose layers are known; each edge leads from a layer to a later one.

    Examples
    --------
    >>> layered([0, 1, 2], [(0, 1), (1, 2), (0, 2)], [10.0, 10.0, 10.0], 5.0).trunks[0]
    ((17.0, 1),)
    """
    distinct = list(dict.fromkeys(edges))
    longest = _longest(layer, distinct)
    cut = frozenset(e for e in distinct if layer[e[1]] - layer[e[0]] > longest)
    work = _Work(list(layer), [float(w) for w in widths], gap)
    work.connect([e for e in distinct if e not in cut])
    work.order()
    work.place()
    trunks = {u: tuple((work.x[p], work.layer[p]) for p in points) for u, points in work.trunks.items()}
    right = max((x + w / 2 for x, w in zip(work.x, work.widths, strict=True)), default=0.0)
    return Layout(tuple(work.x[: len(layer)]), tuple(layer), trunks, cut, right)


def _longest(layer: Sequence[int], edges: Sequence[tuple[int, int]]) -> int:
    """How many layers an edge may cross, so that there are not too many points."""
    for longest in (1 << 30, 64, 32, 16, 8, 4, 2):
        reach: dict[int, int] = {}
        for u, v in edges:
            if layer[v] - layer[u] <= longest:
                reach[u] = max(reach.get(u, 0), layer[v] - layer[u] - 1)
        if sum(reach.values()) <= MOST_POINTS:
            return longest
    return 1


@define
class _Work:
    """Vertices, then points; each has neighbours in the layers above and below."""

    layer: list[int]
    widths: list[float]
    gap: float
    trunks: dict[int, list[int]] = field(factory=dict)
    above: list[list[int]] = field(factory=list)
    below: list[list[int]] = field(factory=list)
    rows: list[list[int]] = field(factory=list)
    x: list[float] = field(factory=list)
    real: int = 0

    def connect(self, edges: Sequence[tuple[int, int]]) -> None:
        """Points where edges cross layers: one a source and layer, so that edges of one source run together."""
        self.real = len(self.layer)
        steps: list[tuple[int, int]] = []
        for u, v in sorted(edges, key=lambda e: self.layer[e[1]]):
            trunk = self.trunks.setdefault(u, [])
            between = self.layer[v] - self.layer[u] - 1
            while len(trunk) < between:
                steps.append((trunk[-1] if trunk else u, len(self.layer)))
                trunk.append(len(self.layer))
                self.layer.append(self.layer[u] + len(trunk))
                self.widths.append(4.0)
            steps.append((trunk[between - 1] if between else u, v))
        self.above = [[] for _ in self.layer]
        self.below = [[] for _ in self.layer]
        for a, b in steps:
            self.below[a].append(b)
            self.above[b].append(a)
        self.rows = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for vertex, level in enumerate(self.layer):
            self.rows[level].append(vertex)

    def order(self) -> None:
        """Sweep down and up, each row by the mean position of its neighbours; keep the best."""
        best = [list(row) for row in self.rows]
        fewest = self.crossings()
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            levels = range(1, len(self.rows)) if down else range(len(self.rows) - 2, -1, -1)
            for level in levels:
                self._sort(level, self.above if down else self.below, self.rows[level - 1 if down else level + 1])
            found = self.crossings()
            if found < fewest:
                fewest, best = found, [list(row) for row in self.rows]
            if not fewest:
                break
        self.rows = best

    def _sort(self, level: int, beside: list[list[int]], fixed: list[int]) -> None:
        place = {vertex: i for i, vertex in enumerate(fixed)}
        row = self.rows[level]
        scale = max(len(fixed), 1) / max(len(row), 1)
        wanted = {
            vertex: sum(place[n] for n in beside[vertex]) / len(beside[vertex]) if beside[vertex] else i * scale
            for i, vertex in enumerate(row)
        }
        row.sort(key=lambda vertex: wanted[vertex])

    def crossings(self) -> int:
        """How many pairs of edges cross."""
        total = 0
        for upper, lower in pairwise(self.rows):
            place = {vertex: i for i, vertex in enumerate(lower)}
            seen: list[int] = []
            for vertex in upper:
                ends = sorted(place[n] for n in self.below[vertex])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    def place(self) -> None:
        """Each row next to its neighbours, as near as order and distance allow."""
        self.x = [0.0] * len(self.layer)
        for row in self.rows:
            at = 0.0
            for vertex in row:
                self.x[vertex] = at + self.widths[vertex] / 2
                at += self.widths[vertex] + self.gap
            for vertex in row:
                self.x[vertex] -= at / 2
        above, below = self._alike(self.above), self._alike(self.below)
        both = [a + b for a, b in zip(above, below, strict=True)]
        for _ in range(SWEEPS // 2):
            for row in self.rows[1:]:
                self._settle(row, above, both)
            for row in reversed(self.rows[:-1]):
                self._settle(row, below, both)
        for row in self.rows:
            self._settle(row, both, both)
        straight = [[n for n in near if n >= self.real] for near in self.above]
        nothing: list[list[int]] = [[]] * len(both)
        for _ in range(2):  # then boxes keep their places, and long edges become straight where they can
            for row in self.rows[1:]:
                self._settle(row, straight, nothing, kept=4.0)
        left = min((x - w / 2 for x, w in zip(self.x, self.widths, strict=True)), default=0.0)
        self.x = [x - left for x in self.x]

    def _alike(self, beside: list[list[int]]) -> list[list[int]]:
        """Boxes go by boxes and points by points, where there are any: else a long edge drags a chain aside."""
        return [
            [n for n in near if (n < self.real) == (vertex < self.real)] or near for vertex, near in enumerate(beside)
        ]

    def _settle(self, row: list[int], beside: list[list[int]], both: list[list[int]], kept: float = 0.05) -> None:
        wanted, weights, distances = [], [], []
        for i, vertex in enumerate(row):
            near = beside[vertex] or both[vertex]
            wanted.append(sum(self.x[n] for n in near) / len(near) if near else self.x[vertex])
            weights.append(8.0 if vertex >= self.real else 1.0 if near else kept)  # long edges want to be straight
            if i:
                before = row[i - 1]
                distances.append((self.widths[before] + self.widths[vertex]) / 2 + self.gap)
        for vertex, x in zip(row, spread(wanted, weights, distances), strict=True):
            self.x[vertex] = x


def spread(wanted: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Places in the same order, at least so far apart, that are nearest to those wanted by weighted least squares.

    Pools of neighbours that touch move together: the pool adjacent violators of isotonic regression.

    Examples
    --------
    >>> spread([5.0, 5.0], [1.0, 1.0], [4.0])
    [3.0, 7.0]
    """
    shift = [0.0]
    for distance in distances:
        shift.append(shift[-1] + distance)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, offset in zip(wanted, weights, shift, strict=False):
        mean, total, count = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, heavy, many = pools.pop()
            mean = (mean * total + other * heavy) / (total + heavy)
            total, count = total + heavy, count + many
        pools.append((mean, total, count))
    places = [mean for mean, _, count in pools for _ in range(count)]
    return [place + offset for place, offset in zip(places, shift, strict=False)]
