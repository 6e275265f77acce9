"""Variables that kernels of a library put into an order of their own once for each value, not in each run."""

from __future__ import annotations

from collections.abc import Sequence

from nnc_func.device.shared.bfloat16_emulation import kernel_named
from nnc_func.engine.plan import Plan
from nnc_func.graph.leaves import Variable
from nnc_func.op import Op


def lasting(plan: Plan, variables: Sequence[Variable]) -> list[Variable]:
    """Those of a plan's variables that are such operands (`Kernel.lasting`).

    Before a run the device is told of which version each is: what was put into order of another one is made anew.
    Versions count whatever writes a variable: assignments, commit sections, those that failed half way.
    """
    if not plan.machine:  # no kernel of a library
        return []
    known: dict[tuple[Op, str], tuple[int, ...]] = {}
    found: set[int] = set()
    for i in plan.instructions:
        if i.view:
            continue
        key = i.op, i.kernel
        if key not in known:
            kernel = kernel_named(*key)
            known[key] = () if kernel is None else kernel.lasting
        found.update([i.operands[n] for n in known[key]])
    return [variable for slot, variable in zip(plan.variables, variables, strict=True) if slot in found]
