"""From a graph to a plan: kernels, order, streams, views, in-place, lifetimes, offsets. It computes nothing.

Variables are written in a commit section at the end, made of what cannot fail, so that a program that fails
leaves every variable as it was; an update that cannot be written in place gets a fresh array and is swapped in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from nnc_func.engine.allocators.base import Allocator
from nnc_func.engine.orders.base import Order, named
from nnc_func.engine.plan import DONATED, LENT, Plan
from nnc_func.engine.planning.committing import Arrangement, Kernels, long, short
from nnc_func.engine.planning.kernel_table import NO_TABLE, KernelTable, kernels_of
from nnc_func.engine.planning.ordering import arrange
from nnc_func.engine.planning.placing import placed
from nnc_func.engine.planning.retaining import pin
from nnc_func.engine.planning.schedule import Scheduler, serial
from nnc_func.engine.planning.sharing import (
    TOLERATED,
    begin,
    footprint,
    least,
    lend,
    lifetimes,
    overwritable,
    peak,
    reuse,
    share,
    unfinished,
    unfinished_peak,
)
from nnc_func.engine.planning.storages import Storages
from nnc_func.engine.planning.streams import scheduled
from nnc_func.engine.planning.windows import NO_WINDOWS, Windows, windows
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, topological

DEARER = 1.25  # parts are copied after all where computing them in place would raise the peak by more than this
TRIES = 3  # times that wholes are looked for whose parts are copied after all


def planned(
    graph: ComputationGraph,
    device: Any,
    allocator: Allocator,
    orders: Sequence[Order | str],
    *settings: Any,
    **more: Any,
) -> tuple[Plan, dict[Node, int], list[Any]]:
    """The plan of a graph whose shapes are known, the buffer of each node's first result, and the constants' arrays.

    Parameters and errors are those of `arranged`, and the allocator.
    """
    return offset(arranged(graph, device, orders, *settings, **more), allocator)


def offset(work: Storages, allocator: Allocator) -> tuple[Plan, dict[Node, int], list[Any]]:
    """As `planned`, of what is arranged."""
    plan, blocks = placed(work, allocator, work.alignment)
    return plan, blocks, work.constant_values


def smallest(
    arrange: Callable[[Sequence[Order | str]], Storages], orders: Sequence[Order | str], allocator: Allocator
) -> tuple[Plan, dict[Node, int], list[Any]]:
    """As `offset`, of the best of the orders; of the first one where that takes less after all.

    It may: where the best one leaves gaps between buffers, or values find less room in what outputs and inputs have.
    """
    work = arrange(orders)
    found = offset(work, allocator)
    plan = found[0]
    if work.order == named(orders[0]) or (
        sum(plan.arenas.values()) <= work.usual_peak and not any(b.kind in (LENT, DONATED) for b in plan.buffers)
    ):
        return found
    return min(found, offset(arrange(orders[:1]), allocator), key=lambda each: sum(each[0].arenas.values()))


def arranged(
    graph: ComputationGraph,
    device: Any,
    orders: Sequence[Order | str],
    alignment: int = 64,
    checked: bool = False,
    table: KernelTable = NO_TABLE,
    streams: int = 1,
    scheduler: Scheduler = serial,
    retain: str | None = None,
    donated: Collection[int] = (),
    careless: bool = False,
    sequence: Sequence[Node] | None = None,
) -> Storages:
    """Everything of a plan but offsets: instructions in their order, storages, who takes over whose memory.

    With `checked` every kernel may be found to have failed, so that none writes over a variable. The table names
    kernels; what it does not name is the device's choice. With a `retain` policy, as `incremental` names them, values
    outlive a run, and nothing writes over a variable either. Inputs that are
    `donated`, by position, may be written over. A `careless` plan writes over variables as soon as it can: what one
    costs that does not, is measured against it. A `sequence` of all nodes is kept, and no order is chosen.

    Raises
    ------
    DeviceError
        An operator has no kernel on the device.
    """
    kernels, recorded = kernels_of(graph, device, table)
    is_fixed = sequence is not None
    sequence = [n for n in (topological(graph.roots) if sequence is None else sequence) if n in kernels]

    def laid_out(arranged: Arrangement, parts: Windows) -> Storages:
        work = Storages(graph, kernels, parts, recorded, donated)
        work.alignment = alignment
        work.define_leaves()
        for node in arranged.sequence[: arranged.early]:
            work.define(node)
        work.commit = len(work.instructions)
        for node in arranged.sequence[arranged.early :]:
            work.define(node)
        _shared(work, () if is_fixed else orders, scheduler, streams, retain)
        return work

    def laid(arranged: Arrangement) -> Storages:
        if retain is not None:  # a value that is kept lies alone
            return laid_out(arranged, NO_WINDOWS)
        apart: set[Node] = set()  # what is put together of copies
        parts = windows(graph, arranged.sequence, kernels, apart, arranged.contiguous)
        work = laid_out(arranged, parts)
        for _ in range(TRIES if parts.of else 0):  # a whole's memory is taken from its first part on
            most = peak(work)
            dear = unfinished(work) if most > DEARER * (most - unfinished_peak(work)) else set()
            if not dear:
                break
            other = laid_out(arranged, windows(graph, arranged.sequence, kernels, apart | dear, arranged.contiguous))
            if most <= DEARER * peak(other):
                break
            work, apart = other, apart | dear
        return work

    if checked or careless or retain is not None:
        work = laid(Arrangement(sequence, 0 if careless else len(sequence)))
    else:
        work = _committing(laid, graph, kernels, sequence)
    return work


def _committing(
    laid: Callable[[Arrangement], Storages], graph: ComputationGraph, kernels: Kernels, sequence: list[Node]
) -> Storages:
    """With the shortest commit section; or with a longer one, where that spares more than a tenth of the bytes."""
    work = laid(short(graph, kernels, sequence))
    if not graph.updates:
        return work
    best = footprint(work)
    enough = TOLERATED * least(work)
    for arranged in long(kernels, sequence) if best > enough else ():
        longer = laid(arranged)
        most = footprint(longer)
        if best > TOLERATED * most:
            best, work = most, longer
        if best <= enough:
            break
    begin(work)
    return work


def _shared(
    work: Storages, orders: Sequence[Order | str], scheduler: Scheduler, streams: int, retain: str | None
) -> None:
    """Outputs, the order, streams, lifetimes, and who takes over whose memory."""
    if retain is not None:  # on one stream: what runs is another part of the plan each time
        work.show_outputs()
        work.overwritable = overwritable(work)
        arrange(work, orders)
        lifetimes(work)
        pin(work, retain)
        share(work)
        return
    work.finish_outputs()
    work.overwritable = overwritable(work)
    arrange(work, orders)
    work.streams = scheduled(work, scheduler, streams)
    lifetimes(work)
    share(work)
    lend(work)
    reuse(work)
