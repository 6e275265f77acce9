"""What a planning is asked for: a graph, the device that runs it, and the settings of an engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from nnc_func.device.shared.queries import machine_of
from nnc_func.engine.allocators.base import Allocator
from nnc_func.engine.orders.base import Order
from nnc_func.engine.planning.kernel_table import NO_TABLE, KernelTable
from nnc_func.engine.planning.schedule import Scheduler, serial
from nnc_func.facets.machine import Machine
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node

if TYPE_CHECKING:
    from nnc_func.engine.planning.passes import Passes


@frozen(eq=False)
class Request:
    """What is planned, and how.

    Attributes
    ----------
    graph
        Its shapes are known.
    device
        Whose kernels compute it.
    passes
        What plans it.
    allocator
        Maps lifetimes to offsets.
    orders
        The orders that are tried, by name or as functions.
    alignment
        Offsets are multiples of it, in bytes.
    checked
        Every kernel may be found to have failed, so that none writes over a variable.
    table
        Names kernels; what it does not name is the device's choice.
    streams, scheduler
        How many kernels may run at the same time, and who deals them out.
    retain
        By this policy, as `incremental` names them, values outlive a run, and nothing writes over a variable. None: no
        value does.
    donated
        Inputs that may be written over, by position.
    careless
        Variables are written as soon as they can be, whatever may fail after that.
    is_body
        The graph is the body of a loop or a branch: its variables are carries, which may be left half written.
    lends
        Values may live in outputs that are not written yet.
    sequence
        All nodes, in an order that is kept; None: one is chosen.
    memory
        Bytes that the arena and fresh results may take: kernels with less scratch are taken at any cost until they do.
        None: such are taken for little more time only.
    loops
        Loops and branches whose bodies are planned already, by form: see `planning.bodies`.
    """

    graph: ComputationGraph
    device: Any
    passes: Passes
    allocator: Allocator
    orders: Sequence[Order | str]
    alignment: int = 64
    checked: bool = False
    table: KernelTable = NO_TABLE
    streams: int = 1
    scheduler: Scheduler = serial
    retain: str | None = None
    donated: Collection[int] = ()
    careless: bool = False
    is_body: bool = False
    lends: bool = True
    sequence: Sequence[Node] | None = None
    memory: int | None = None
    loops: Mapping[Any, Any] = field(factory=dict)

    @property
    def machine(self) -> Machine:
        """What the device is like, for estimates of time."""
        return machine_of(self.device)

    @property
    def commits(self) -> bool:
        """Whether variables are written in a commit section, over their old values where that can be done."""
        return bool(self.graph.updates) and not (self.checked or self.careless or self.retain is not None)
