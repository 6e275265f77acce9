"""What is not pickled, and says how it is kept instead."""

from __future__ import annotations

from typing import Any, ClassVar

from nnc_func.errors import GraphError


class Unpickled:
    """Base of what belongs to a stack's nodes or memory, or remembers lines of code: it is neither pickled nor copied.

    Attributes
    ----------
    kept_by
        How it is kept.
    """

    __slots__ = ()
    kept_by: ClassVar[str] = "graph.save(path) keeps a graph, and x.numpy() is a value"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise GraphError(f"a {type(self).__name__} is not pickled or copied: {self.kept_by}")
