"""Branches whose bodies are planned: each body goes once or not at all, in memory that all of them share.

A result lies in the memory of an operand that some body passes on, where nothing else wants that any more: then to pass
it on is to do nothing, and the other bodies write over it, in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.engine.loop_instruction import Address, Loop
from nnc_func.engine.plan_rows import VARIABLE
from nnc_func.engine.planning.loops import Nodes, Planned, Plans, kernel_of
from nnc_func.engine.planning.request import Request
from nnc_func.graph.node import Node


def may_be_planned(node: Node) -> bool:
    """Whether a branch lies in one place, the first one, with all that it gives."""
    return bool(node.avals) and all(a.aval.place is None for a in node.args)


def planned_branch(request: Request, node: Node, plan: Plans) -> Planned:
    """The plan of each body of a branch, and where its values lie.

    Raises
    ------
    PlanError
        A body lies in several places.
    """
    bodies: tuple[Body, ...] = node.params["bodies"]
    avals = [a.aval.having(layout=None) for a in node.args[1:]]
    homes = _homes(bodies, avals, node.avals)
    loops = tuple([_once(request, node, body, avals, homes, plan) for body in bodies])
    arena = max(sum(each.plan.arenas.values()) for each in loops)
    over = tuple([
        (1 + homes[r],) if r in homes and all(_may_lie(*each, r, homes[r]) for each in zip(loops, bodies, strict=True))
        else () for r in range(len(node.avals))
    ])  # fmt: skip
    return Planned(loops, kernel_of([Aval((arena,), "uint8")] if arena else [], over))


def _homes(bodies: Sequence[Body], avals: Sequence[Aval], results: Sequence[Aval]) -> dict[int, int]:
    """For results the operands, by parameter, in whose memory they are to lie: each one once."""
    found: dict[int, int] = {}
    passed = [[body.results[r] for body in bodies if body.results[r] < len(avals)] for r in range(len(results))]
    for r, each in enumerate(passed):
        free = [k for k in each if k not in found.values()]
        if free:
            found[r] = max(free, key=free.count)
    for r, aval in enumerate(results):
        if r not in found:
            free = [k for k, a in enumerate(avals) if a == aval and k not in found.values()]
            if free:
                found[r] = free[0]
    return found


def _once(
    request: Request, node: Node, body: Body, avals: Sequence[Aval], homes: dict[int, int], plan: Plans
) -> Loop:  # fmt: skip
    """A body as what goes once, and writes what it does not pass on."""
    nodes, first = Nodes.of(request, node, body, avals), len(node.args)
    made = [r for r, value in enumerate(body.results) if value >= len(avals)]
    gives = [r for r in made if r not in homes]
    updated = sorted((homes[r], r) for r in made if r in homes)
    inner, literals = nodes.planned(
        request, [nodes.results[r] for r in gives], [(k, nodes.results[r]) for k, r in updated], plan
    )
    return Loop(
        plan=inner,
        count=1,
        carried=tuple([k for k, _ in updated]),
        gives=tuple(gives),
        reads=tuple([Address((1 + k,)) for k in range(len(avals))]),
        writes=tuple([Address((first + r,)) for r in (*gives, *(r for _, r in updated))]),
        copies=tuple([(r, 1 + k, None) for r, k in enumerate(body.results) if k < len(avals)]),
        literals=literals,
    )


def _may_lie(loop: Loop, body: Body, r: int, k: int) -> bool:
    """Whether a result of a body may lie over an operand of it, the parameter `k`."""
    if body.results[r] == k:
        return True
    if k in body.results:
        return False
    plan = loop.plan
    slots = {carried: slot for carried, (_, slot) in zip(loop.carried, plan.updates, strict=True)}
    in_place = k in slots and plan.buffers[plan.slots[slots[k]].buffer].kind == VARIABLE
    return in_place or all(k not in each.operands for each in body.applications)
