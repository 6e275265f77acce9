"""NumPy arrays that are variables of blocks: what writes into one is given a copy of it, and which may be one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import ControlFlowError

if TYPE_CHECKING:
    from nnc_func.control_flow.conversion.loop_state import LoopState, Slot


class Arrays:
    """Those among some variables.

    Parameters
    ----------
    before
        What the variables have, as a tuple that alone has it besides them.
    where
        The statement, for messages.
    """

    def __init__(self, before: Sequence[Any], names: Sequence[str], where: Any) -> None:
        self.before, self.names, self.where = before, names, where
        self.alone = [sys.getrefcount(before[n]) <= 3 and not _shows_others(before[n]) for n in range(len(before))]
        self.copies: dict[int, tuple[Any, int]] = {}

    def copied(self) -> list[Any]:
        """The variables with copies of arrays."""
        found = [each.copy() if type(each) is np.ndarray else each for each in self.before]
        self.copies = {id(each): (each, n) for n, each in enumerate(found) if type(each) is np.ndarray}
        return found

    def unchanged(self, after: Sequence[Any]) -> list[Any]:
        """The variables at the end: what is a copy that was not written into is what it is a copy of.

        Raises
        ------
        ControlFlowError
            An array was written into that has another name, too.
        """
        for each, n in self.copies.values():
            if each.tobytes() != self.before[n].tobytes():
                self.check(n)
        return [self._original(each) for each in after]

    def check(self, n: int) -> None:
        """Raise ControlFlowError where an array has another name."""
        if not self.alone[n]:
            raise ControlFlowError(
                f"a block of the statement at {self.where}, which a tensor decides, writes into the array of NumPy "
                f"{self.names[n]}, which something else has, too; make it a tensor, stack.asarray({self.names[n]})"
            )

    def _original(self, each: Any) -> Any:
        found = self.copies.get(id(each))
        if found is None or found[0] is not each:
            return each
        original = self.before[found[1]]
        return original if each.tobytes() == original.tobytes() else each


def is_written(value: Any) -> bool:
    """Whether something is an array that may be written into."""
    return type(value) is np.ndarray and value.flags.writeable


def possible_arrays(state: LoopState, slot: Slot, i: int) -> list[Any]:
    """Arrays of which a leaf that a loop carries may be one after it."""
    leaves = {(*each.key, n): each.held.leaves[n] for each in state.slots for n in each.moving}
    arrays = {key: leaf for key, leaf in leaves.items() if is_written(leaf)}
    key, end = (*slot.key, i), slot.end.leaves[i]
    if key in state.kept:
        return []
    if any(end is state.phis[each] for each in arrays):
        return [*arrays.values()]
    if is_written(end):
        return [end]
    return [arrays[key]] if key in arrays and not state.goes else []


def _shows_others(value: Any) -> bool:
    """Whether an array is a view of something that somebody else has, too."""
    return type(value) is np.ndarray and value.base is not None and sys.getrefcount(value.base) > 2
