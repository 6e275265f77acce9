"""Branches that are planned: whether each body gives all results, and reads nothing that is written over before.

Part of verification, and shares no code with what makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from nnc_func.body import Body
from nnc_func.engine.loop_instruction import PLANNED, Address, Loop
from nnc_func.engine.plan_rows import VARIABLE, Instruction
from nnc_func.engine.verifying.applications import check_results
from nnc_func.engine.verifying.columns import check_numbers
from nnc_func.engine.verifying.inner_plans import check_inner, check_values, integers
from nnc_func.engine.verifying.references import check_references
from nnc_func.engine.verifying.work import Work
from nnc_func.errors import PlanError
from nnc_func.graph.ops.branch import branch

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan

STEP = 4  # of the work, to look at one array


def check_branch(plan: Plan, i: Instruction, verify: Callable[[Plan], object], work: Work) -> None:
    """Raise PlanError unless each body of a branch gives what the operator says; see `bodies`."""
    _check_form(plan, i)
    for planned, body in zip(i.loops, dict(i.items)["bodies"], strict=True):
        verify(planned.plan)
        check_values(planned, body, _results(i, planned)[len(planned.gives) :])
        _check_memory(i, planned, body, work, {})


def may_lie_over(plan: Plan, i: Instruction, n: int, operand: int, work: Work) -> bool:
    """Whether nothing goes wrong where a result lies over an operand, both by position, whichever body goes.

    A branch that is wrong itself may be written over nothing.
    """
    try:
        _check_form(plan, i)
        for planned, body in zip(i.loops, dict(i.items)["bodies"], strict=True):
            _check_memory(i, planned, body, work, {len(i.operands) + n: operand})
    except PlanError:
        return False
    return True


def _check_form(plan: Plan, i: Instruction) -> None:
    """What numbers name is there, and of the right shape."""
    bodies: tuple[Body, ...] = dict(i.items)["bodies"] if i.op is branch else ()
    if i.kernel != PLANNED or i.view or len(i.loops) != len(bodies):
        raise PlanError(f"{i.op.name} by {i.kernel!r}, of {len(i.loops)} plans, is no branch that is planned")
    check_results(plan, i, "it")
    avals = [plan.slots[s].aval.having(layout=None) for s in i.operands[1:]]
    results = [plan.slots[s].aval for s in i.results]
    scratch = [plan.slots[s].aval for s in i.scratch]
    arena = 0
    for planned, body in zip(i.loops, bodies, strict=True):
        check_references(planned.plan, check_numbers(planned.plan))
        if (planned.count, planned.limit, planned.condition, planned.ends) != (1, None, None, ()):
            raise PlanError("the body of a branch goes once")
        integers(planned.carried, body.parameters, "parameters of the body")
        check_inner(plan, planned, body, avals)
        if planned.reads != tuple([Address((1 + k,)) for k in range(len(avals))]):
            raise PlanError(f"the body of a branch reads its operands, and not {planned.reads}")
        for r, slot in zip(_results(i, planned), planned.targets, strict=True):
            if planned.plan.slots[slot].aval != results[r]:
                raise PlanError(f"result {r} is {results[r]!r}, and a body gives {planned.plan.slots[slot].aval!r}")
        sizes = [nbytes for nbytes in planned.plan.arenas.values() if nbytes]
        if len(sizes) > 1:
            raise PlanError(f"its body lies in {len(sizes)} places")
        arena = max([arena, *sizes])
    wanted = [(np.dtype("uint8"), (arena,))] if arena else []
    if [(a.dtype, a.shape) for a in scratch] != wanted:
        raise PlanError(f"its bodies want an arena of {arena} bytes, given {scratch}")


def _results(i: Instruction, planned: Loop) -> list[int]:
    """The result that each output and each update of a body's plan is written to."""
    first, found = len(i.operands), []
    for address in planned.writes:
        integers(address.cycle, first + len(i.results), "operands and results")
        if address != Address(address.cycle[:1]) or address.cycle[0] < first:
            raise PlanError(f"{address} is no result of a branch")
        found.append(address.cycle[0] - first)
    if found[: len(planned.gives)] != [*planned.gives]:
        raise PlanError(f"results {planned.gives} of its body are written to {found}")
    return found


def _check_memory(i: Instruction, planned: Loop, body: Body, work: Work, same: Mapping[int, int]) -> None:
    """Each result is written once, or passed on; and what is read is there until then.

    Parameters
    ----------
    same
        Results that lie where operands do, by their numbers among the arrays of the instruction.
    """
    inner, first, results = planned.plan, len(i.operands), _results(i, planned)
    work.spend(STEP * (len(planned.reads) + len(planned.writes) + len(inner.instructions)))
    read = {s for each in inner.instructions for s in each.operands} | {*inner.outputs}
    readers = {1 + k: k for k, slot in enumerate(planned.slots) if slot in read}
    owners: list[int | None] = [None] * len(planned.gives)
    for at, slot in inner.updates:
        in_place = inner.buffers[inner.slots[slot].buffer].kind == VARIABLE
        owners.append(planned.carried[at] if in_place else None)
    written, done = set[int](), list[int]()
    for r, owner in zip(results, owners, strict=True):
        place = same.get(first + r, first + r)
        if place in readers and readers[place] != owner:
            raise PlanError(f"result {r} is written over operand {place}, which its body reads")
        written.add(place)
        done.append(r)
    for r, operand, row in planned.copies:
        integers([r], len(i.results), "results")
        integers([operand], first, "operands")
        if row is not None or body.results[r] != operand - 1:
            raise PlanError(f"operand {operand} is copied to result {r}, which its body does not say")
        if operand in written:
            raise PlanError(f"operand {operand} is copied to result {r}, and was written over before")
        if same.get(first + r, first + r) != operand:
            written.add(same.get(first + r, first + r))
        done.append(r)
    if sorted(done) != [*range(len(i.results))]:
        raise PlanError(f"a body of a branch gives each result once, and not {sorted(done)}")
