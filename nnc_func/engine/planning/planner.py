"""From a graph to a plan: kernels, order, streams, views, in-place, lifetimes, offsets. It computes nothing.

Variables are written in a commit section at the end, made of what cannot fail, so that a program that fails
leaves every variable as it was; an update that cannot be written in place gets a fresh array and is swapped in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from nnc_func.device.description import machine_of
from nnc_func.engine.allocators.base import Allocator
from nnc_func.engine.orders.base import Order, named
from nnc_func.engine.plan import DONATED, LENT, Plan
from nnc_func.engine.planning.committing import Arrangement, Kernels, long, short
from nnc_func.engine.planning.kernel_table import NO_TABLE, KernelTable, kernels_of
from nnc_func.engine.planning.layouts import Layouts
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
    reuse,
    share,
)
from nnc_func.engine.planning.storages import Storages
from nnc_func.engine.planning.streams import scheduled
from nnc_func.facets.machine import Machine
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, topological


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
    kernels, recorded, alike = kernels_of(graph, device, table)
    shared = partial(
        _shared, orders=() if sequence is not None else orders, scheduler=scheduler, streams=streams, retain=retain,
        machine=machine_of(device),
    )  # fmt: skip
    storages = partial(Storages, graph, kernels, recorded=recorded, donated=donated, alike=alike)
    layouts = Layouts(graph, kernels, storages, alignment, retain, shared)
    nodes = [n for n in (topological(graph.roots) if sequence is None else sequence) if n in kernels]
    if checked or careless or retain is not None:
        return layouts.laid(Arrangement(nodes, 0 if careless else len(nodes)))
    return _committing(layouts, kernels, nodes)


def _committing(layouts: Layouts, kernels: Kernels, sequence: list[Node]) -> Storages:
    """With the shortest commit section; or with a longer one, where that spares more than a tenth of the bytes.

    What cannot be as good is not laid out: an update that is done before the section takes a fresh array.
    """
    brief = short(layouts.graph, kernels, sequence)
    if not layouts.graph.updates:
        return layouts.laid(brief)
    fresh, floor = layouts.bounds(brief)
    longer = long(kernels, sequence) if floor else []
    work = layouts.laid(longer[0]) if longer else None
    enough = 0.0
    if work is None or fresh + floor <= TOLERATED * footprint(work):
        work = layouts.laid(brief)
        enough = TOLERATED * least(work)
        longer = longer or (long(kernels, sequence) if footprint(work) > enough else [])
    for arranged in longer:
        best = footprint(work)
        if best <= enough or best <= TOLERATED * max(floor, best - arranged.spares):
            break
        other = layouts.laid(arranged)
        if best > TOLERATED * footprint(other):
            work = other
    begin(work)
    return work


def _shared(
    work: Storages, orders: Sequence[Order | str], scheduler: Scheduler, streams: int, retain: str | None,
    machine: Machine,
) -> None:  # fmt: skip
    """The order, streams, lifetimes, and who takes over whose memory."""
    if retain is not None:  # on one stream: what runs is another part of the plan each time
        arrange(work, orders)
        lifetimes(work)
        pin(work, retain)
        share(work)
        return
    arrange(work, orders)
    work.streams = scheduled(work, scheduler, streams, machine)
    lifetimes(work)
    share(work)
    lend(work)
    reuse(work)
