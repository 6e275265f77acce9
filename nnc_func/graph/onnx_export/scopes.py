"""ONNX nodes in the making: plain records, in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from attrs import define, field, frozen

from nnc_func.errors import OnnxError


@frozen(eq=False)
class Written:
    """A value of a model in the making: its name there, its dtype, and its shape where somebody has said it."""

    name: str
    dtype: np.dtype[Any]
    known_shape: tuple[Any, ...] | None = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """Its extents, known or symbolic.

        Raises
        ------
        OnnxError
            Nobody has said them: it came from an ONNX operator.
        """
        if self.known_shape is None:
            raise OnnxError(f"the shape of {self.name!r}, the result of an ONNX operator, has not been said")
        return self.known_shape


@define(eq=False)
class Record:
    """An ONNX node.

    Attributes
    ----------
    attributes
        Numbers, strings, tuples of these, arrays; a `Scope` is a sub-graph.
    description
        The operator of the graph that it was written for, and the user's line.
    """

    op_type: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    description: str = ""


@define(eq=False)
class Scope:
    """A graph in the making: the model's own, or the body of a loop, which sees the values of the one around it.

    Attributes
    ----------
    told
        Results whose shapes the graph writes down, beside those of its inputs and outputs.
    """

    around: Scope | None = None
    inputs: list[Written] = field(factory=list)
    outputs: list[Written] = field(factory=list)
    records: list[Record] = field(factory=list)
    known: dict[Any, Record] = field(factory=dict)  # what was applied to what
    extents: dict[Any, Written] = field(factory=dict)  # symbolic extents, as scalars
    told: list[Written] = field(factory=list)

    def enclosing(self) -> Iterator[Scope]:
        """This one and those around it, from the inside."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.around

    def pruned(self, wanted: Iterable[str]) -> set[str]:
        """Drop the records that nothing wanted depends on; the names that the rest reads, of outer scopes too."""
        needed = set(wanted)
        kept = []
        for record in reversed(self.records):
            if needed.intersection(record.outputs):
                needed.update(record.inputs)
                for body in _bodies(record):
                    needed |= body.pruned(o.name for o in body.outputs)
                kept.append(record)
        self.records = kept[::-1]
        return needed

    def renamed(self, names: dict[str, str]) -> None:
        """Give values other names, here and in the bodies of loops."""
        for record in self.records:
            record.inputs = [names.get(n, n) for n in record.inputs]
            record.outputs = [names.get(n, n) for n in record.outputs]
            for body in _bodies(record):
                body.renamed(names)


def _bodies(record: Record) -> list[Scope]:
    return [value for value in record.attributes.values() if isinstance(value, Scope)]
