"""Names and what stands for them; where nodes stand; which nodes are needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from nnc_func.errors import OnnxError

DEEPEST = 64
"""Functions and inner graphs nested deeper than this are refused: they call themselves."""


class Unresolved(OnnxError):  # noqa: N818 - more is asked for; it is no failure yet
    """Elements that decide a shape are not known while the model is traced.

    Attributes
    ----------
    inputs
        Names of the model's inputs that they depend on; none where it is symbolic extents alone.
    """

    def __init__(self, message: str, inputs: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.inputs = frozenset(inputs)


class Scope:
    """Values by name: those of a graph or a function, and those of the graphs around it.

    Attributes
    ----------
    asked
        Names that are read; None where that is not known.
    """

    __slots__ = ("asked", "outer", "values")

    def __init__(self, values: dict[str, Any], outer: Scope | None = None) -> None:
        self.values = values
        self.asked: set[str] | None = None
        self.outer = outer

    def find(self, name: str) -> Any:
        """The value of that name.

        Raises
        ------
        OnnxError
            There is none.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise OnnxError(f"it reads {name!r}, which is no input, no initialiser, and no result of a node before it")


@frozen
class Frame:
    """Where nodes stand: the operator sets, the attributes of the function around them, and the way there."""

    opsets: Mapping[str, int]
    attributes: Mapping[str, Any]
    path: str = ""
    depth: int = 0

    def inner(self, node: Any, **facts: Any) -> Frame:
        """That of a body of a node.

        Raises
        ------
        OnnxError
            It is nested too deeply.
        """
        if self.depth >= DEEPEST:
            raise OnnxError(f"functions are nested deeper than {DEEPEST}: one calls itself")
        told = {"opsets": self.opsets, "attributes": self.attributes, **facts}
        return Frame(path=f"{self.path}{node.name or node.op_type}/", depth=self.depth + 1, **told)


def needed(nodes: Sequence[Any], wanted: Iterable[str], scope: Scope) -> list[Any]:
    """Those nodes that a result depends on, in their order; the scope is told which names are read."""
    asked = scope.asked = set(wanted)
    found = []
    for node in reversed(nodes):
        if asked.isdisjoint(node.output):
            continue
        found.append(node)
        asked.update(node.input)
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                asked |= captured(body)
    return found[::-1]


def captured(graph: Any) -> set[str]:
    """Names that an inner graph may read from around it."""
    found = {o.name for o in graph.output}
    waiting = [graph]
    while waiting:
        for node in waiting.pop().node:
            found.update(node.input)
            for attribute in node.attribute:
                inner = (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)
                waiting += inner
                found.update(o.name for body in inner for o in body.output)
    return found
