"""Lowest offset first in all parts of time at once: one descent of very many buffers, in whole arrays.

A buffer whose key, its least offset and then its rank, is smaller than those of all others that it may meet is placed
there by the descent, whatever happens elsewhere: keys of others only grow. So all such buffers are placed in one round.
Time is cut into cells. A buffer may meet those of its cells, and is placed when it comes first in each of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.problems.conversion import Integers

WIDE = 3.0  # buffers of a cell, as a multiple of those that are alive at one time
FEW = 16  # alive at one time, at least, for that
FULL = 0.85  # of a table of cells, below which it is made smaller
PATIENCE = 4  # rounds between two looks at whether it is
NEVER = int(np.iinfo(np.int64).max)
Times = NDArray[np.int32]


def descent(sizes: Integers, lower: Integers, upper: Integers, rank: Integers) -> Integers:
    """The offsets of a descent from lowest offsets, ties by rank, in the unit of the sizes.

    The rounds are as many as the longest chain of buffers that wait for each other, some ten times those alive at once.

    Examples
    --------
    >>> descent(np.array([1, 2, 1]), np.array([0, 1, 2]), np.array([2, 3, 4]), np.array([1, 0, 2]))
    array([2, 0, 2])
    """
    if not len(sizes):
        return np.zeros(0, np.int64)
    by_time = np.argsort(lower, kind="stable")
    times = np.unique(lower)  # whoever is alive together is so when one of them starts
    first, stop = (np.searchsorted(times, time[by_time]).astype(np.int32) for time in (lower, upper))
    found = np.empty(len(sizes), np.int64)
    found[by_time] = _Cells(sizes[by_time], first, stop, rank[by_time]).placed()
    return found


def alive(lower: Integers | Times, upper: Integers | Times) -> Integers:
    """For each buffer in the order of time how many that start before it are alive when it starts.

    Examples
    --------
    >>> alive(np.array([0, 1, 2]), np.array([2, 3, 4]))
    array([0, 1, 1])
    """
    return np.arange(len(lower)) - np.searchsorted(np.sort(upper), np.sort(lower), side="right")


class _Cells:
    """Who is in each cell, in the order of time; keys of buffers, and the first buffer of each cell."""

    def __init__(self, sizes: Integers, first: Times, stop: Times, rank: Integers) -> None:
        self.sizes, self.first, self.stop = sizes, first, stop
        self.count = count = len(sizes)  # the number of nobody as well
        edges = _edges(first, alive(first, stop))
        self.begin = np.searchsorted(edges, first, side="right") - 1
        self.spans = np.append(np.searchsorted(edges, stop, side="left") - self.begin, 0)
        self.waiting = int(self.spans.sum())
        cell = _ranges(self.begin, self.spans[:-1])
        order = np.argsort(cell, kind="stable")
        self._pack(np.repeat(np.arange(count), self.spans[:-1])[order], np.bincount(cell, minlength=len(edges)))
        self.bits = max(1, count - 1).bit_length()
        self.rank = np.append(rank, 0).astype(np.int64)
        self.keys = np.append(rank, NEVER).astype(np.int64)
        self.best = np.full(len(edges), count)
        self.leads = np.zeros(count + 1, np.int64)  # of how many cells each is the first
        self.leads[count] = len(edges)

    def placed(self) -> Integers:
        """The offsets of all."""
        offsets, left, rounds = np.zeros(self.count, np.int64), self.count, 0
        raised = np.zeros(self.count + 1, np.bool_)
        cells = np.arange(len(self.best))
        while left:
            ready = self._ready(cells)
            offsets[ready] = self.keys[ready] >> self.bits
            left -= len(ready)
            spans = self.spans[ready]
            cells = _ranges(self.begin[ready], spans)  # nobody else is placed in one of these
            moved = self._raise(ready, np.repeat(np.arange(len(ready)), spans), cells)
            raised[moved] = True
            stale = raised[self.best]
            stale[cells] = True
            raised[moved] = False
            self.waiting -= len(cells)
            rounds += 1
            if rounds % PATIENCE == 0 and self.waiting < FULL * self.members.size:
                self._shrink()
            cells = stale.nonzero()[0]
        return offsets

    def _ready(self, cells: Integers) -> Integers:
        """Look anew for the first buffer of some cells; those that are the first in all of their cells."""
        members = self.members if len(cells) == len(self.members) else self.members[cells]
        keys = self.keys.take(members)
        at = keys.argmin(axis=1) + np.arange(len(cells)) * members.shape[1]
        new = np.where(keys.ravel().take(at) == NEVER, self.count, members.ravel().take(at))
        np.subtract.at(self.leads, self.best[cells], 1)
        np.add.at(self.leads, new, 1)
        self.best[cells] = new
        ready: Integers = np.sort(new[(self.leads.take(new) == self.spans.take(new)) & (new < self.count)])
        once: Integers = ready[np.append(True, ready[1:] != ready[:-1])[: len(ready)]]
        return once

    def _raise(self, ready: Integers, of: Integers, cells: Integers) -> Integers:
        """Place those that are ready, `of` which there is one in each of the cells: whose keys that made greater."""
        tops = ((self.keys[ready] >> self.bits) + self.sizes[ready]) << self.bits
        self.keys[ready] = NEVER
        hurt = self.starts[cells] < self.stop[ready][of][:, None]
        hurt &= self.stops[cells] > self.first[ready][of][:, None]
        flat, width = hurt.ravel().nonzero()[0], self.members.shape[1]
        row = flat // width
        who = self.members.ravel().take(flat + ((cells - np.arange(len(cells))) * width).take(row))
        keys = tops.take(of.take(row)) + self.rank.take(who)
        lower = (self.keys.take(who) < keys).nonzero()[0]
        who, keys = who.take(lower), keys.take(lower)
        hit: Integers = who
        some = hit
        while len(some):  # who is hurt twice has the greater key
            self.keys[some] = keys
            again = self.keys.take(some) < keys
            some, keys = some[again], keys[again]
        return hit

    def _shrink(self) -> None:
        """Leave out who has a place, if the table becomes narrower."""
        there = self.keys.take(self.members) != NEVER
        counts = there.sum(axis=1)
        if counts.max() < self.members.shape[1] * 0.9:
            self._pack(self.members[there], counts)

    def _pack(self, members: Integers, counts: Integers) -> None:
        """A table with a row a cell, given who is in each, one cell after another; nobody fills it up."""
        width = max(1, int(counts.max()))
        self.members = np.full((len(counts), width), self.count)
        self.members.ravel()[_ranges(np.arange(len(counts)) * width, counts)] = members
        self.starts = np.append(self.first, np.iinfo(np.int32).max).astype(np.int32)[self.members]
        self.stops = np.append(self.stop, -1).astype(np.int32)[self.members]


def _edges(first: Times, before: Integers) -> Times:
    """When cells begin, so that about as many buffers are in each, given how many are alive before each."""
    most = int(WIDE * max(FEW, float(before.mean())))
    begin, count, found = 0, before.tolist(), []
    while begin < len(count):
        found.append(begin)
        begin += max(most - count[begin], most // 4)
    return np.unique(first[found])


def _ranges(begins: Integers, lengths: Integers) -> Integers:
    """The numbers from each begin on, as many as its length, one range after another."""
    ends = np.cumsum(lengths)
    found: Integers = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - (ends - lengths), lengths)
    return found
