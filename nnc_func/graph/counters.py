"""How many operator applications are asked for while a graph is built: also those that are one node with others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Asked:
    """What was asked for so far, or until the block ended.

    Attributes
    ----------
    stack
        Of whom.
    """

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self._table = stack.symbol.table
        self._start: int = self._table.asked
        self._end: int | None = None

    @property
    def applications(self) -> int:
        """Operators applied to values, by users and by the library for them, leaves not counted."""
        return (self._table.asked if self._end is None else self._end) - self._start

    def ended(self) -> None:
        """Count no further."""
        self._end = self._table.asked

    def __repr__(self) -> str:
        return f"<{self.applications} applications asked for>"


@contextmanager
def counted(stack: Any) -> Iterator[Asked]:
    """Count the operator applications that are asked for meanwhile, of a stack or one of an equal Symbol layer.

    Each is counted that anyone binds, in any thread: also what interning makes one with an earlier node. Nodes that
    are built anew of others, by rewriting, substitution or moving, are not. Meanwhile it is recorded where else nodes
    were asked for that were there already: a graph's `history` tells that.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> with nnc.counted(lazy) as asked:
    ...     y = (x + 1) * (x + 1)
    >>> asked.applications, lazy.graph.close([x.value], [y.value]).statistics["applications"]
    (3, 2)
    """
    asked, table = Asked(stack), stack.symbol.table
    table.recording += 1
    try:
        yield asked
    finally:
        table.recording -= 1
        asked.ended()
