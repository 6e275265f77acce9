"""Whose threads compute the products of a program that has loops: those of a library beside NumPy, or BLAS's.

A library's threads sleep a moment after a call, so that others have the cores, and to wake them takes as long as half
of a product of 13 MFLOP. Between the products of a loop's body other kernels take longer than that moment. BLAS's
threads look for work for 20 ms. So where the library has nothing else to compute in several threads, BLAS has the
products, and what is small is computed by the library in one thread (`workers.libraries_in_one_thread`).

Measured in docs/adr/0300.
"""

from __future__ import annotations

from typing import Any

from nnc_func.device.shared.bfloat16_emulation import kernel_named
from nnc_func.device.shared.workers import library_threads
from nnc_func.engine.plan import Plan
from nnc_func.engine.planning.kernel_table import kernels_of
from nnc_func.engine.planning.loops import form
from nnc_func.engine.planning.request import Request
from nnc_func.facets.kernels import Kernel


def sleeps(request: Request) -> bool:
    """Whether a library's threads would sleep between products in a body, which BLAS can compute as well.

    Parameters
    ----------
    request
        With the plans of the bodies of its loops and branches.
    """
    if request.is_body or request.by_blas or not request.loops or request.streams != 1:
        return False
    if not getattr(request.device, "libraries", ()) or library_threads() == 1:
        return False
    graph = request.graph
    bodies = [body.plan for n in graph.nodes if form(n) in request.loops for body in request.loops[form(n)].loops]
    found = {whose for plan in bodies for whose in _of_plan(plan)}
    if found != {True}:
        return False
    kernels, _, _ = kernels_of(graph, request.device, request.table)
    return all(_is_product(kernel, node.avals) is not False for node, kernel in kernels.items())


def _of_plan(plan: Plan) -> set[bool]:
    """Whether what a library computes in several threads are products (True), or something else (False), or both."""
    found: set[bool] = set()
    for i in plan.instructions:
        for each in i.loops:
            found |= _of_plan(each.plan)
        kernel = None if i.view or i.loops else kernel_named(i.op, i.kernel)
        is_product = None if kernel is None else _is_product(kernel, [plan.slots[n].aval for n in i.results])
        if is_product is not None:
            found.add(is_product)
    return found


def _is_product(kernel: Kernel, results: Any) -> bool | None:
    """Whether BLAS has the same; None of what no library computes, or one thread of it."""
    if kernel.library is None or all(aval.size < kernel.alone_below for aval in results):
        return None
    return bool(kernel.blas)
