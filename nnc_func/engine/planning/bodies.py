"""Loops and branches in a graph that is planned: their bodies are planned first, and are their kernels."""

from __future__ import annotations

from attrs import evolve

from nnc_func.engine.planning.branches import may_be_planned, planned_branch
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.loops import Planned, Plans, form, planned_loop
from nnc_func.engine.planning.request import Request
from nnc_func.graph.node import Node
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.loop import loop


def with_bodies(request: Request, plan: Plans) -> Request:
    """The request with plans of the bodies of its loops and branches, as `plan` makes them; without those that a layer
    calls.
    """
    missing = {form(n): n for n in request.graph.nodes if _is_planned(n) and form(n) not in request.loops}
    made: dict[object, Planned] = {}
    for each, node in missing.items():
        if not request.device.choose(node.op, each[1], node.items).is_call:
            made[each] = (planned_loop if node.op is loop else planned_branch)(request, node, plan)
    return evolve(request, loops={**request.loops, **made}) if made else request


def choose_plans(draft: Draft) -> None:
    """Let the kernel of each loop and each branch whose bodies are planned be these plans."""
    planned = draft.request.loops
    for node in draft.graph.nodes if planned else ():
        found = planned.get(form(node)) if _is_planned(node) else None
        if found is not None:
            draft.kernels[node], draft.loops[node] = found.kernel, found.loops
            draft.recorded = draft.recorded - {node}


def _is_planned(node: Node) -> bool:
    return node.op is loop or (node.op is branch and may_be_planned(node))
