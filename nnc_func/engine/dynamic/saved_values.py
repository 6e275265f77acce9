"""Saved values within a limit: what no tensor holds and gradients may need is a cache, from which values are evicted.

What is evicted is computed again where it is read: by the program that gradients flow through, as part of it. The
policy is that of M. Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, made deterministic: the stalest go
first, and of equals those with the least estimated time of computing them again, with all evicted ones next to them,
for their bytes. Estimates are the operators' own costs, and staleness is counted in backward passes: that a value is
read by one is what is waited for, and a second time what keeps it. So equal steps evict the same values, whether or not
what the one before has left is there still.

On a chain of equal operators that keeps every second value, then every fourth, and so on: the evenly spaced states of
binomial checkpointing of a chain whose length is not known. Within what lies between them the engine's planner decides.

A view has the memory of what it shows: these are saved, and evicted, together, once no tensor holds any of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any
from weakref import ref

import numpy as np
from attrs import frozen

from nnc_func.body import is_pure
from nnc_func.engine.dynamic.records import PART, Record
from nnc_func.engine.dynamic.vacancies import Region, Vacancy, computed_again, vacancy
from nnc_func.facets.machine import Machine
from nnc_func.graph.rules.cost import seconds_of

PART_FREED = 32  # a limit that is met is met by a part of it more, so that candidates are not looked at each time
MEMO_LIMIT = 4096  # estimates remembered


@frozen
class CacheStatistics:
    """What a limit of saved values has done.

    Attributes
    ----------
    limit
        Bytes that saved values may take.
    bytes, most
        What they take, and the most that they took at a time, once what could be was evicted. A view takes nothing; nor
        does what a variable, a constant or a tensor holds.
    evicted, evicted_bytes
        How many values are evicted and may be needed still; their bytes.
    evictions
        How many there were.
    recomputations
        How many evicted values were computed again.
    """

    limit: int
    bytes: int
    most: int
    evicted: int
    evicted_bytes: int
    evictions: int
    recomputations: int


class Weak(ref[Record]):
    """A weak reference to a record, which knows its serial when that is gone."""

    __slots__ = ("serial",)
    serial: int


class Saving:
    """A saved value with the memory of its own, and what shows it.

    Attributes
    ----------
    record
        A weak reference to its record.
    nbytes, cost
        What it takes; estimated seconds to compute it, once they are asked for.
    since, reads
        How many backward passes there had been when it was saved, or when the last but the first of them read it; how
        many have read it.
    region
        Once it is evicted, what it is part of.
    """

    __slots__ = ("cost", "nbytes", "reads", "record", "region", "since")

    def __init__(self, record: Weak, nbytes: int, since: int) -> None:
        self.record, self.nbytes, self.since, self.reads = record, nbytes, since, 0
        self.cost: float | None = None
        self.region: Region | None = None


class SavedValues:
    """The cache of one recording. Its methods are called by the recording, which sees to it that one runs at a time.

    Attributes
    ----------
    limit
        Bytes.
    compute
        ``compute(op, arrays, params)``, as the engine computes.
    """

    def __init__(
        self, limit: int, aval: Callable[[Any], Any], machine: Machine, compute: Callable[..., Any]
    ) -> None:  # fmt: skip
        self.limit, self.compute = limit, compute
        self._aval, self._machine = aval, machine
        self._threshold = limit  # at which candidates are looked at
        self._savings: dict[int, Saving] = {}  # by serial
        self._candidates: dict[int, Saving] = {}
        self._heap: list[tuple[int, float, int]] = []  # of candidates: since, loss as it was, serial
        self._gone: deque[Weak] = deque()
        self._costs: dict[Any, float] = {}
        self._bytes = self._most = self._passes = 0
        self._evicted = self._evicted_bytes = self._evictions = self._recomputations = 0

    # --- what is read -------------------------------------------------------------------------------------

    def array(self, record: Record) -> Any:
        """The array of a record, or its arrays; computed again if it is evicted, and not kept then."""
        found = record.array
        if vacancy(found) is None:
            return found
        self._recomputations += 1
        return computed_again(record, self.compute)

    def note_pass(self, records: Iterable[Record], recomputed: int) -> None:
        """Count a backward pass that read records, and computed some values again."""
        self._passes += 1
        self._recomputations += recomputed
        for record in records:
            saving = self._savings.get(record.serial)
            if saving is not None:
                saving.reads += 1
                if saving.reads > 1:
                    saving.since = self._passes

    def statistics(self) -> CacheStatistics:
        """What there is, and was."""
        return CacheStatistics(
            self.limit, self._bytes, self._most, self._evicted, self._evicted_bytes, self._evictions,
            self._recomputations,
        )  # fmt: skip

    # --- what is saved ------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """A value that no tensor holds any more, and that reaches: saved with what has its memory.

        If none of it is held, and something else was made of it: else it is about to go.
        """
        if self._gone:
            self.settle()
        owner = _owner(record)
        if owner is not None and owner.application is not None:
            members = _showing(owner)
            if not any(each.held for each in members) and _is_needed(members):
                self._save(owner)
        if self._bytes > self._threshold:
            self._shrink()
        self._most = max(self._most, self._bytes)

    def _save(self, owner: Record) -> None:
        serial = owner.serial
        if serial in self._savings or vacancy(owner.array) is not None:
            return
        nbytes = sum([self._taken(each) for each in _arrays(owner.array)])
        weak = Weak(owner, self._gone.append)  # not a function of Python's, which an interrupt may end
        weak.serial = serial
        saving = Saving(weak, nbytes, self._passes)
        op, _, params = owner.application  # type: ignore[misc]
        is_candidate = nbytes > 0 and is_pure(op, op.canonical(params) if params or op.params else ())
        if is_candidate:
            heappush(self._heap, (saving.since, 0.0, serial))  # what it loses is asked once something is to be evicted
        self._savings[serial] = saving  # from here on no interrupt comes
        self._bytes += nbytes
        if is_candidate:
            self._candidates[serial] = saving

    def _taken(self, array: Any) -> int:
        if type(array) is np.ndarray:
            return array.nbytes
        aval = self._aval(array)
        return int(aval.size) * int(aval.dtype.itemsize)

    def settle(self) -> None:
        """Take account of what is gone."""
        while self._gone:
            serial = self._gone[0].serial  # until it is done with
            saving = self._savings.get(serial)
            if saving is not None:
                self._candidates.pop(serial, None)
                region = None if saving.region is None else saving.region.root
                del self._savings[serial]  # from here on no interrupt comes before it is accounted for
                if region is None:
                    self._bytes -= saving.nbytes
                else:
                    region.cost -= saving.cost or 0.0
                    self._evicted -= 1
                    self._evicted_bytes -= saving.nbytes
            self._gone.popleft()
        heap = self._heap
        if len(heap) > 2 * len(self._candidates) + 64:  # also where nothing is ever evicted
            heap[:] = [each for each in heap if each[2] in self._candidates]
            heapify(heap)
        self._threshold = max(self.limit, min(self._threshold, self._bytes + self.limit // PART_FREED))

    # --- what is evicted ----------------------------------------------------------------------------------

    def _shrink(self) -> None:
        """Evict the values of the least loss until the rest is within the limit, or nothing can be."""
        wanted, stalest, heap = self.limit - self.limit // PART_FREED, None, self._heap
        while self._bytes > wanted and heap:
            since, loss, serial = heap[0]
            saving = self._candidates.get(serial)
            now = None if saving is None else self._loss(serial, saving)
            if saving is None or now is None:
                heappop(heap)
            elif (saving.since, now) > (since, loss):  # it was read, or something next to it was evicted
                heapreplace(heap, (saving.since, now, serial))
            elif stalest not in (None, since) and self._bytes <= self.limit:
                break  # the stale ones were enough
            else:
                stalest = since
                self._evict(serial, saving)
                heappop(heap)
        self.settle()
        self._threshold = max(self.limit, self._bytes + self.limit // PART_FREED if self._bytes > self.limit else 0)

    def _loss(self, serial: int, saving: Saving) -> float | None:
        """Seconds to compute it again with the evicted ones next to it, a byte; None: it stays."""
        record = saving.record()
        if record is None or record.application is None:  # what it was made of is forgotten: for good
            self._candidates.pop(serial, None)
            return None
        if saving.cost is None:
            saving.cost = self._cost(record)
        regions = {region.root for region in _next_to(_showing(record))}
        cost = saving.cost + sum([region.cost for region in regions])
        return cost / saving.nbytes

    def _evict(self, serial: int, saving: Saving) -> None:
        record = saving.record()
        members = [] if record is None else _showing(record)
        applications = [each.application for each in members]
        if not members or None in applications:
            return
        region = Region(saving.cost or 0.0)
        for neighbour in _next_to(members):
            region.join(neighbour)
        for each, application in zip(members, applications, strict=True):
            each.array = self._vacated(each.array, application, region)
        saving.region = region  # from here on no interrupt comes before it is accounted for
        del self._candidates[serial]
        self._bytes -= saving.nbytes
        self._evicted_bytes += saving.nbytes
        self._evicted += 1
        self._evictions += 1

    def _vacated(self, array: Any, application: Any, region: Region) -> Any:
        if type(array) is tuple:
            return tuple([self._vacated(each, application, region) for each in array])
        if type(array) is Vacancy:  # an interrupt came amid this once
            return array
        return Vacancy(array, self._aval(array), application, region)

    def _cost(self, record: Record) -> float:
        """Estimated seconds of its application."""
        op, operands, params = record.application  # type: ignore[misc]
        items = op.canonical(params) if params or op.params else ()
        arrays = [x.array if type(x) is Record else x for x in operands]
        key = op, op.key(items), tuple([(a.shape, a.dtype) if hasattr(a, "dtype") else type(a) for a in arrays])
        found = self._costs.get(key)
        if found is None:
            args = tuple(map(self._aval_of, arrays))
            results = tuple([self._aval_of(each) for each in _arrays(record.array)])
            cost = op.cost(args, results, **dict(items))
            moved = sum([a.nbytes for a in (*args, *results)]) + cost.extra_bytes
            if len(self._costs) >= MEMO_LIMIT:
                self._costs.clear()
            found = self._costs[key] = seconds_of(cost, moved, self._machine)
        return found

    def _aval_of(self, array: Any) -> Any:
        if type(array) is Vacancy:
            return array.aval
        return self._aval(array if hasattr(array, "dtype") else np.asarray(array))


# --- memory -----------------------------------------------------------------------------------------------


def _arrays(array: Any) -> tuple[Any, ...]:
    return array if type(array) is tuple else (array,)


def _memory(array: Any) -> Any:
    """The array that has the memory."""
    while (base := getattr(array, "base", None)) is not None and type(base) is type(array):
        array = base
    return array


def _shows(op: Any, array: Any, operand: Any) -> bool:
    """Whether what an operator gave is in the memory of an operand."""
    if op is PART:
        return True
    if type(array) is not tuple and type(operand) is not tuple:
        return _is_in(op, array, operand)
    return any(_is_in(op, one, other) for one in _arrays(array) for other in _arrays(operand))


def _is_in(op: Any, array: Any, operand: Any) -> bool:
    if array is operand:
        return True
    base = getattr(array, "base", operand)
    if base is None:
        return False
    if base is operand and not hasattr(array, "base"):  # arrays that do not tell
        return op is not None and op.view is not None
    return _memory(array) is _memory(operand)


def _owner(record: Record) -> Record | None:
    """The record of what a value shows; itself if that is nothing else; None of what shows a constant."""
    while (application := record.application) is not None:
        op, operands, _ = application
        shown = None
        for x in operands:
            if type(x) is Record:
                if shown is None and _shows(op, record.array, x.array):
                    shown = x
            elif hasattr(x, "dtype") and _shows(None, record.array, x):
                return None
        if shown is None:
            return record
        record = shown
    return record


def _users(record: Record) -> list[Record]:
    return [user for each in list(record.users or ()) if (user := each()) is not None]


def _is_needed(members: list[Record]) -> bool:
    """Whether something else was made of one of them that keeps what it was made of."""
    for each in members:
        for user in _users(each):
            if (user.application is not None or vacancy(user.array) is not None) and user not in members:
                return True
    return False


def _showing(owner: Record) -> list[Record]:
    """The record, and those of what shows it."""
    found = [owner]
    for each in found:
        for user in _users(each):
            op = None if user.application is None else user.application[0]
            if user not in found and _shows(op, user.array, each.array):
                found.append(user)
    return found


def _next_to(members: list[Record]) -> Iterator[Region]:
    """The regions of what some were made of, and of what was made of them."""
    for each in members:
        operands = () if each.application is None else each.application[1]
        for x in (*operands, *_users(each)):
            gone = vacancy(x.array) if type(x) is Record else None
            if gone is not None:
                yield gone.region
