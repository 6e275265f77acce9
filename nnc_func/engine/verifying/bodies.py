"""Loops and branches that are planned: whether the plans of their bodies do what the operators say.

Part of verification, and shares no code with what makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nnc_func.engine.plan_rows import Instruction
from nnc_func.engine.verifying import branches, loops
from nnc_func.engine.verifying.references import named
from nnc_func.engine.verifying.work import Work
from nnc_func.errors import PlanError
from nnc_func.graph.ops.branch import branch

if TYPE_CHECKING:
    from nnc_func.engine.plan import Plan


def check_bodies(plan: Plan, verify: Callable[[Plan], object], work: Work) -> None:
    """Raise unless each loop and each branch of a plan goes as its bodies say; `verify` checks a body's plan, and
    `work` is what all of it may take.

    The operator takes its operands, as was checked before. Then, of each body:

    1. Its numbers are integers, and name what there is.
    2. Its plan is verified, with what it reads and writes as inputs, variables and outputs; nothing lives in an output
       before this is written. It computes the body: values are numbered as for a graph.
    3. Each time a parameter is read where its value is; nothing is written where something is read, but by what is
       computed in place; each row of what is stacked is written once, by its own time. At the end each carry, or each
       result of a branch, is in its result.

    Raises
    ------
    PlanError
        Names the instruction, and what is wrong there.
    """
    for t, i in enumerate(plan.instructions):
        if i.loops:
            try:
                if i.op is branch:
                    branches.check_branch(plan, i, verify, work)
                else:
                    loops.check_loop(plan, i, verify, work)
            except PlanError as error:
                raise PlanError(f"{named(plan, t)}, the {i.op.name} there: {error}") from None


def overwritten(plan: Plan, i: Instruction, work: Work) -> tuple[tuple[int, ...], ...]:
    """For each result of a loop or a branch the operands, by position, in whose memory it lies and may: nothing goes
    wrong then.
    """
    lies = branches.may_lie_over if i.op is branch else loops.may_lie_over
    homes = [plan.slots[s].buffer for s in i.operands]
    results = [plan.slots[s].buffer for s in i.results]
    return tuple([
        tuple([at for at, other in enumerate(homes) if other == home and lies(plan, i, n, at, work)])
        for n, home in enumerate(results)
    ])  # fmt: skip
