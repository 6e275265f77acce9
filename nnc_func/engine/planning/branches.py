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
    beneath = [_beneath(*each, homes) for each in zip(loops, bodies, strict=True)]
    lying = set(homes).intersection(*beneath)
    over = tuple([(1 + homes[r],) if r in lying else () for r in range(len(node.avals))])
    return Planned(loops, kernel_of([Aval((arena,), "uint8")] if arena else [], over))


def _homes(bodies: Sequence[Body], avals: Sequence[Aval], results: Sequence[Aval]) -> dict[int, int]:
    """For results the operands, by parameter, in whose memory they are to lie: each one once."""
    found: dict[int, int] = {}
    taken: set[int] = set()
    passed = [[body.results[r] for body in bodies if body.results[r] < len(avals)] for r in range(len(results))]
    for r, each in enumerate(passed):
        free = [k for k in each if k not in taken]
        if free:
            found[r] = max(free, key=free.count)
            taken.add(found[r])
    rest: dict[Aval, list[int]] = {}
    for k in reversed(range(len(avals))):
        if k not in taken:
            rest.setdefault(avals[k], []).append(k)
    for r, aval in enumerate(results):
        if r not in found and rest.get(aval):
            found[r] = rest[aval].pop()
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


def _beneath(loop: Loop, body: Body, homes: dict[int, int]) -> set[int]:
    """The results of a body that may lie over the operands that are their homes."""
    plan, passed = loop.plan, {*body.results}
    slots = {carried: slot for carried, (_, slot) in zip(loop.carried, plan.updates, strict=True)}
    read = {value for each in body.applications for value in each.operands}

    def may_lie(r: int, k: int) -> bool:
        if body.results[r] == k:
            return True
        if k in passed:
            return False
        in_place = k in slots and plan.buffers[plan.slots[slots[k]].buffer].kind == VARIABLE
        return in_place or k not in read

    return {r for r, k in homes.items() if may_lie(r, k)}
