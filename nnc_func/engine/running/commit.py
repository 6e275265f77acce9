"""What becomes of variables when a run fails while it writes them: put back, or said which ones were written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.engine.plan import Plan
from nnc_func.engine.running import array_views
from nnc_func.engine.running.interrupts import held
from nnc_func.errors import CommitError


class Saved:
    """What variables were before a run wrote them: of those that it writes over, copies."""

    def __init__(self, device: Any, variables: Sequence[Any], overwritten: Sequence[Any]) -> None:
        self._were = [(v, v.array, v.version) for v in variables]
        self._copies = [(v.array, _copied(device, v)) for v in overwritten]

    def restore(self) -> None:
        """Put them back, whatever signals come meanwhile."""
        held(self._restore)

    def _restore(self) -> None:
        for array, copy in self._copies:
            array[...] = copy
        for variable, array, version in self._were:
            variable.array, variable.version, variable.recorded = array, version, None


def _copied(device: Any, variable: Any) -> Any:
    copy = array_views.empty(device, variable.aval)
    copy[...] = variable.array
    return copy


def torn(name: str, written: Sequence[Any], kept: Sequence[Any], error: BaseException) -> CommitError:
    """The error that says which variables a failed commit section has written; their versions count on."""
    for variable in written:
        variable.written()
    found = CommitError(
        f"{name!r} failed while it wrote its variables: {_names(written)} "
        f"{'has' if len(written) == 1 else 'have'} been written, wholly or in part"
        + (f", {_names(kept)} not" if kept else "")
        + "; assign them before going on. A kernel that is declared infallible must not raise: "
        f"{type(error).__name__}: {error}",
        tuple(v.name for v in written),
        tuple(v.name for v in kept),
    )
    found.instruction = getattr(error, "instruction", None)
    return found


def _names(variables: Sequence[Any]) -> str:
    return ", ".join(repr(v.name) for v in variables)


def in_place(plan: Plan) -> list[int]:
    """Slots that are written over a variable, which is in the commit section: their array is the variable's."""
    slots, made = plan.slots, [slot for i in plan.instructions[plan.commit :] for slot in i.results]
    variables = {slots[leaf].buffer for leaf in plan.variables}
    return sorted(slot for slot in made if slots[slot].buffer in variables and not slots[slot].is_view)


def first_writes(plan: Plan, over: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """(instruction, variable): from which instruction on a variable is written over."""
    first: dict[int, int] = {}
    wanted = {slot for slot, _ in over}
    for t in range(plan.commit, len(plan.instructions)) if over else ():
        for slot in wanted.intersection(plan.instructions[t].results):
            first.setdefault(slot, t)
    return [(first[slot], variable) for slot, variable in over]
