"""Variants of an application: the kernels that may compute it, what scratch each wants, and what it costs."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.errors import PlanError
from nnc_func.facets.dims import known
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.machine import Machine
from nnc_func.graph.node import Node
from nnc_func.graph.rules.cost import seconds_of


@frozen(eq=False)
class Variant:
    """One kernel for an application.

    Attributes
    ----------
    name
        Of the kernel, as plans and tables have it.
    scratch
        Bytes that it wants besides operands and results.
    seconds
        Estimated time.
    kernel, wanted
        The kernel itself, and the avals of its scratch.
    """

    name: str
    scratch: int
    seconds: float
    kernel: Kernel
    wanted: tuple[Aval, ...]


def variants(device: Any, node: Node, machine: Machine) -> tuple[Variant, ...]:
    """The kernels of a device for an application that say what they cost, its default one first where it does.

    Of extents that are not known there are none.

    Raises
    ------
    PlanError
        A kernel says that it costs what is no number of operations, bytes and launches.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy(nnc.Null())
    >>> x, w = lazy.input("x", (1, 300, 300, 8), "float32"), lazy.input("w", (3, 3, 8, 8), "float32")
    >>> for each in variants(lazy.device, lazy.ops.conv2d(x, w).value.node, lazy.device.machine):
    ...     print(each.name, each.scratch)
    rows of windows 2403072
    few rows of windows 514944
    columns on numpy 6436800
    columns of 512 KiB 600768
    shifted products 8640000
    """
    args, results, params = tuple([a.aval for a in node.args]), node.avals, node.params
    if not hasattr(device, "candidates") or not all(known(a.nbytes) for a in (*args, *results)):
        return ()
    found = []
    for kernel in device.candidates(node.op, args, node.items):
        if kernel.cost is not None:
            wanted = kernel.scratch(args, **params) if kernel.scratch is not None else ()
            avals = tuple([Aval(shape, dtype, None, results[0].place) for shape, dtype in wanted])
            seconds = seconds_by(kernel, node, machine)
            found.append(Variant(kernel.name, sum([a.nbytes for a in avals]), seconds, kernel, avals))
    return tuple(found)


def seconds_by(kernel: Kernel, node: Node, machine: Machine) -> float:
    """Estimated seconds that a kernel says to take for an application whose extents are known.

    Raises
    ------
    PlanError
        As `variants`.
    """
    assert kernel.cost is not None, kernel
    args, results = tuple([a.aval for a in node.args]), node.avals
    cost = kernel.cost(args, results, **node.params)
    _check(node.op.name, kernel, cost)
    return seconds_of(cost, sum([a.nbytes for a in (*args, *results)]) + cost.extra_bytes, machine)


def _check(name: str, kernel: Kernel, cost: Any) -> None:
    """Refuse what is no cost; what is infinite is one, which nobody pays."""
    try:
        good = cost.flops >= 0 and cost.extra_bytes >= 0 and cost.launches >= 0  # which NaN is not
    except (AttributeError, TypeError):
        good = False
    if not good:
        raise PlanError(f"the kernel {kernel.name!r} of {name} says that it costs {cost!r}; wanted a Cost from 0 on")
