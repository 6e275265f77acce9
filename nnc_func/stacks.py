"""The usual stacks: a page of plain calls that compose layers."""

from __future__ import annotations

from typing import Any

from nnc_func.autodiff import Autodiff
from nnc_func.device import NumPy
from nnc_func.engine import Dynamic, Eager, Lazy
from nnc_func.graph.graph import Graph
from nnc_func.graph.operator import Operator
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.shape import Shape
from nnc_func.graph.symbol import Symbol
from nnc_func.graph.type import Type
from nnc_func.nn import NN
from nnc_func.stack import Stack


def graph_layers(device: Any) -> Graph[Any]:
    """Layers 1 to 7 on a device: Owl's ``Graph.Make (Optimiser.Make (… (Device)))``."""
    return Graph(Optimiser(Operator(Symbol(Shape(Type(device))))))


def eager(device: Any = None) -> Stack:
    """The stack that computes at once.

    Examples
    --------
    >>> eager().ops.add([1.0, 2.0], 1).numpy()
    array([2., 3.])
    """
    return Stack(NN(Autodiff(Eager(graph_layers(NumPy() if device is None else device)))))


def lazy(device: Any = None) -> Stack:
    """The stack that records, optimises, plans memory, and runs.

    Examples
    --------
    >>> lazy().ops.add([1.0, 2.0], 1).numpy()
    array([2., 3.])
    """
    return Stack(NN(Autodiff(Lazy(graph_layers(NumPy() if device is None else device)))))


def dynamic(
    device: Any = None,
    *,
    budget: int | str | None = None,
    memoise: int | str | bool | None = None,
    memory_limit: int | str | None = None,
    replay_after: int | None = None,
    asynchronous: bool = False,
) -> Stack:
    """The stack that computes at once, and records what gradients may flow through; see `Stack.gradients`.

    Parameters
    ----------
    device
        Where it computes: on the host by NumPy, if nothing is said.
    budget
        Bytes that each program of the stack may take (jitted functions, gradients), or ``"500MB"``; see
        `Lazy.with_memory_budget`.
    memoise
        The most bytes of results that are kept, to be given again where equal operators meet equal operands; see
        `Stack.memoisation`. True: 256 MiB.
    memory_limit
        Bytes that values may take which only gradients need; beyond it they are evicted, and computed again.
    replay_after
        How often operators come one after another before they are replayed as a program; see `Stack.replays`.
    asynchronous
        Whether operators that take long are formed ahead, and computed beside Python until somebody looks at them.

    Raises
    ------
    PlanError
        A setting is none that there is, or does not go with another one.

    Examples
    --------
    >>> dynamic().ops.add(1.0, 2).item()
    3.0
    """
    layers = graph_layers(NumPy() if device is None else device)
    engine = Dynamic(
        layers, memoise=memoise, memory_limit=memory_limit, replay_after=replay_after, asynchronous=asynchronous
    )
    return Stack(NN(Autodiff(engine if budget is None else engine.with_memory_budget(budget))))
