"""Wide nodes, whose operands are replaced one at a time: each costs what it changes, not all that the node has."""

from __future__ import annotations

from typing import Any

from nnc_func.graph.node import Node, Value

WIDE = 16  # operands: a node with more is given new ones once for many replacements


class Operands:
    """The operands that a node is to have.

    Parameters
    ----------
    args
        Those that it has.

    Attributes
    ----------
    values
        As they are after the replacements so far.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x, y = (lazy.input(name, (), "float32").value for name in "xy")
    >>> operands = Operands((x, y, x))
    >>> operands.turn(x, y)
    >>> operands.values == [y, y, y]
    True
    """

    __slots__ = ("_at", "values")

    def __init__(self, args: tuple[Value, ...]) -> None:
        self.values: list[Any] = list(args)
        self._at: dict[Node, list[int]] = {}
        for i, a in enumerate(args):
            self._at.setdefault(a.node, []).append(i)

    def turn(self, old: Node, new: Value) -> None:
        """Have a value wherever there is a node."""
        at = self._at.pop(old, None)
        if at is None:
            return
        for i in at:
            self.values[i] = instead(self.values[i], old, new)
        into = self._at.setdefault(new.node, at)
        if into is not at:
            into += at


def instead(value: Value, old: Node, new: Value) -> Value:
    """What stands for a value of a node that is replaced: of several results, the one of that number."""
    return new.node.result(value.index) if old.op.multi_result else new
