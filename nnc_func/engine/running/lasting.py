"""Variables that kernels of a library put into an order of their own once for each value, not in each run."""

from __future__ import annotations

from typing import Any

from nnc_func.device.shared.narrow_emulation import kernel_named
from nnc_func.engine.plan import Plan
from nnc_func.graph.leaves import Variable
from nnc_func.op import Op


def lasting_slots(plan: Plan) -> set[int]:
    """The slots of a plan's variables that are such operands (`Kernel.lasting`)."""
    if not plan.machine:  # no kernel of a library
        return set()
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
    return found.intersection(plan.variables)


class Lasting:
    """Such a variable, and the version of it that the device was told last.

    Before a run that reads it the device is told of another one: what was put into order of what was there before is
    made anew. Versions count whatever writes a variable: assignments, commit sections, those that failed half way.
    """

    __slots__ = ("_device", "variable", "version")

    def __init__(self, device: Any, variable: Variable) -> None:
        self._device, self.variable, self.version = device, variable, -1

    def tell(self) -> None:
        """Tell the device of the version that there is now, unless it knows."""
        version = self.variable.version
        if version != self.version:
            self._device.note_version(self.variable.array, self.variable.serial, version)
            self.version = version
