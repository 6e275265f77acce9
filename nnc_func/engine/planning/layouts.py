"""One graph laid out in several arrangements: what its instructions are, and where values live, is found once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.engine.plan_rows import NEXT
from nnc_func.engine.planning.committing import Arrangement, Kernels
from nnc_func.engine.planning.sharing import (
    TOLERATED,
    busiest,
    least_at,
    lifetimes,
    overwritable,
    peak,
    unfinished,
    unfinished_peak,
)
from nnc_func.engine.planning.storages import Storages
from nnc_func.engine.planning.windows import NO_WINDOWS, Windows, windows
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node

DEARER = 1.25  # parts are copied after all where computing them in place would raise the peak by more than this
TRIES = 3  # times that wholes are looked for whose parts are copied after all


class Layouts:
    """One graph laid out in several arrangements: what they have in common is found once.

    Parameters
    ----------
    graph, kernels
        What is laid out, and by which kernels it is computed.
    storages
        Makes the storages of a planning, given its windows.
    alignment, retain
        As of `arranged`.
    shared
        Chooses the order of arranged storages, and finds who takes over whose memory.
    """

    def __init__(
        self, graph: ComputationGraph, kernels: Kernels, storages: Callable[[Windows], Storages], alignment: int,
        retain: str | None, shared: Callable[[Storages], None],
    ) -> None:  # fmt: skip
        self.graph, self.kernels = graph, kernels
        self.storages, self.alignment, self.retain, self.shared = storages, alignment, retain, shared
        self.defined: dict[Any, Storages] = {}  # by what is put together of copies, and what lies without gaps
        self.found: dict[int, Storages] = {}  # arrangements that were asked for

    def laid(self, arranged: Arrangement) -> Storages:
        """Everything of the arrangement but offsets."""
        if id(arranged) not in self.found:
            self.found[id(arranged)] = self._best(arranged)
        return self.found[id(arranged)]

    def _best(self, arranged: Arrangement) -> Storages:
        """With the parts of wholes computed in place, but where that is dear."""
        apart: frozenset[Node] = frozenset()  # what is put together of copies
        work = self._laid(arranged, apart)
        for _ in range(TRIES if work.windows.of else 0):  # a whole's memory is taken from its first part on
            most = peak(work)
            dear = unfinished(work) if most > DEARER * (most - unfinished_peak(work)) else set()
            if not dear:
                break
            other = self._laid(arranged, apart | dear)
            if most <= DEARER * peak(other):
                break
            work, apart = other, apart | dear
        return work

    def _laid(self, arranged: Arrangement, apart: frozenset[Node]) -> Storages:
        work = self._defined(arranged, apart).arranged(arranged.sequence, arranged.early)
        self.shared(work)
        return work

    def _defined(self, arranged: Arrangement, apart: frozenset[Node]) -> Storages:
        """Instructions and storages, whatever their order: of another arrangement where they are the same."""
        found = self.defined.get((apart, frozenset()))
        of = {} if found is None else found.windows.of
        if found is None or not all(value not in of or of[value].contiguous for value in arranged.contiguous):
            found = self.defined.get((apart, arranged.contiguous))
        if found is None:
            found = self._define(arranged, apart)
            self.defined[apart, arranged.contiguous] = found
        return found

    def _define(self, arranged: Arrangement, apart: frozenset[Node]) -> Storages:
        sequence, parts = arranged.sequence, NO_WINDOWS  # a value that is kept lies alone
        if self.retain is None:
            parts = windows(self.graph, sequence, self.kernels, apart, arranged.contiguous)
        work = self.storages(parts)
        work.alignment = self.alignment
        work.define_all(sequence)
        if self.retain is None:
            work.finish_outputs()
        else:
            work.show_outputs()
        work.look_up()
        work.overwritable = overwritable(work)
        return work

    def bounds(self, arranged: Arrangement) -> tuple[int, int]:
        """Bytes of next values that cannot be written over their variables, and what the arena takes at the least.

        That is found out where the first may make the arrangement too dear; else it is 0.
        """
        work = self._defined(arranged, frozenset()).arranged(arranged.sequence, arranged.early)
        early = {work.storage[slot] for row in work.instructions[: work.commit] for slot in row[3]}
        fresh = sum(work.nbytes[s] for s in early if work.kind[s] == NEXT)
        if not fresh:
            return 0, 0
        lifetimes(work)
        most, at = busiest(work)
        return fresh, least_at(work, at) if fresh > (TOLERATED - 1) * most else 0
