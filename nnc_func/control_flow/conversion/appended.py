"""Tensors that a loop appends to lists: a list gets others in their place, so that writes into them would be lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnc_func.control_flow.conversion.identities import Identities
from nnc_func.control_flow.conversion.number_kinds import Kind, common_kind, kind_of, stands_for
from nnc_func.control_flow.conversion.values import Rows, leaves_that_move
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten

if TYPE_CHECKING:
    from nnc_func.control_flow.conversion.loop_state import LoopState, Slot


class Appended:
    """What one time of a loop has appended.

    Parameters
    ----------
    rows
        Lists with what was appended to them, by name.

    Raises
    ------
    ControlFlowError
        The loop writes into a tensor that it has appended at an earlier time.
    """

    def __init__(self, state: LoopState, rows: Mapping[str, Rows], known: Identities) -> None:
        self.where, self.start = state.where, state.start()  # the state itself has this: no circle
        self.names: dict[int, str] = {}
        self.tensors: dict[int, Tensor] = {}
        for name, each in rows.items():
            for leaf in leaves_that_move([each]):
                if isinstance(leaf, Tensor):
                    self.tensors[id(leaf)] = leaf
                    self.names[id(leaf)] = name
        self.outside: list[Tensor] = []
        self.shared: set[str] = set()  # lists with tensors that somebody else has, too
        for key, tensor in self.tensors.items():
            before = state.entered.get(key)
            if before is not None and tensor.value is not before:
                self._refuse(self.names[key])
            if key in state.entered or tensor in state.objects or key in state.outside:
                self.shared.add(self.names[key])
            if key in state.tensors or tensor in state.objects or key in state.outside:
                self.outside.append(tensor)
        for slot in state.slots:
            for i in slot.moving:
                listed = self._name(slot.end.leaves[i], known)
                if listed is None:
                    continue
                self.shared.add(listed)
                phi = state.phis[*slot.key, i]
                if isinstance(phi, Tensor) and phi.value is not state.entered[id(phi)]:
                    self._refuse(listed)

    def _name(self, leaf: Any, known: Identities) -> str | None:
        """The list to which a tensor was appended, or one that may be it."""
        if not isinstance(leaf, Tensor):
            return None
        around = (leaf, *(other for other, _ in known.partners(leaf)))
        return next((self.names[id(each)] for each in around if id(each) in self.names), None)

    def _refuse(self, name: str) -> None:
        raise ControlFlowError(
            f"{self.start} appends a tensor to {name} into which it writes at a later time, so that all of the "
            "list would change: append a copy, x + 0"
        )

    def _said(self, name: str) -> str:
        return f"the loop at {self.where} has appended to {name}"

    def left(self, slot: Slot, i: int, value: Any, known: Identities) -> None:
        """Note what a loop leaves in a variable that it has appended, too."""
        name = self._name(slot.end.leaves[i], known)
        if name is not None and isinstance(value, Tensor):
            known.append(value, self._said(name))

    def finished(self, known: Identities) -> None:
        """Note those from outside that it has appended."""
        for tensor in self.outside:
            known.append(tensor, self._said(self.names[id(tensor)]))

    def listed(self, name: str, rows: list[Any], known: Identities) -> None:
        """Note the tensors that a list has got."""
        if name in self.shared:
            for leaf in leaves_that_move(rows):
                if isinstance(leaf, Tensor):
                    known.append(leaf, self._said(name))


def kinds_of(rows: Rows) -> list[Kind | None]:
    """Of each leaf of a row, which kind of number it is."""
    found = [[*map(kind_of, flatten(tree)[0])] if kind == "one" else None for kind, tree in rows.segments]
    if None in found:
        return []
    return [*map(common_kind, zip(*found, strict=True))]


def marked(rows: list[Any], kinds: list[Kind | None]) -> None:
    """Say of the leaves of rows of which kind of number they are."""
    for row in rows if any(kinds) else ():
        for leaf, kind in zip(flatten(row)[0], kinds, strict=True):
            stands_for(leaf, kind)
