"""A computation graph as nodes of ONNX: its inputs, variables, applications, outputs and updates."""

from __future__ import annotations

from functools import partial
from typing import Any

from nnc_func.errors import OnnxError
from nnc_func.facets.dims import Dim, known
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, VARIABLE
from nnc_func.graph.node import Node, Value
from nnc_func.graph.onnx_export.builder import INT64, REAL, Builder
from nnc_func.graph.onnx_export.model import Draft
from nnc_func.graph.onnx_export.scopes import Written
from nnc_func.graph.ops.silent_bodies import asked
from nnc_func.graph.origin import describe
from nnc_func.graph.text.writing import IN_FULL, digest, host_arrays
from nnc_func.tree import Structure, flatten

TOLD = 20  # so many refusals are told in full
NEXT = ".next"  # behind a variable's name: the output that is its next value


def drafted(graph: Any, opset: int) -> Draft:
    """The graph as a model in the making.

    Raises
    ------
    OnnxError
        Applications have no form in ONNX: names the operators, the user's lines and the reasons.
    """
    for node in graph.nodes:
        for function in asked(node.op, node.items):
            name = getattr(function, "__name__", repr(function))
            at = f" (at {where})" if (where := describe(node.origin)) else ""
            raise OnnxError(
                f"{graph.name!r} calls a function of the host{at}, {name}, and a model of ONNX has operators and "
                "nothing else: write it with operators of the stack"
            )
    if graph.effects:
        raise OnnxError(f"{graph.name!r} has effects, and a model of ONNX computes values and nothing else; drop them")
    writing = _Writing(graph, Builder(graph.layer, opset))
    for node in graph.nodes:
        writing.tried(node)
    if writing.refused:
        told = list(dict.fromkeys(filter(None, writing.refused.values())))
        more = f"; and {len(told) - TOLD} more" if len(told) > TOLD else ""
        raise OnnxError("; ".join(told[:TOLD]) + more)
    return writing.draft()


class _Writing:
    """A graph of which some nodes are written."""

    def __init__(self, graph: Any, builder: Builder) -> None:
        self.graph, self.builder = graph, builder
        self.values: dict[tuple[Node, int], Written] = {}
        self.inputs: list[Written] = []
        self.arrays: dict[str, dict[str, str]] = {"variables": {}, "constants": {}}  # what they are called
        self.updated = {variable for variable, _ in graph.updates}
        self.refused: dict[Node, str] = {}  # why nodes are not written; nothing of those that are made of such
        for node in graph.inputs:
            self._input(node, node.data)
        for axis_first in (True, False):
            for node in graph.inputs:
                self._symbols(node, axis_first)

    def _input(self, node: Node, name: str) -> Written:
        aval = node.aval
        found = self.values[node, 0] = Written(self.builder.fresh(name), aval.dtype, aval.shape)
        self.inputs.append(found)
        return found

    def _symbols(self, node: Node, alone: bool) -> None:
        """How unknown extents are computed from axes: those that stand alone first, then parts of a sum."""
        for axis, extent in enumerate(node.aval.shape):
            for name in () if known(extent) else extent.symbols:
                linear = _linear(extent, name)
                if linear is not None and (linear == (1, 0)) == alone and name not in self.builder.symbols:
                    self.builder.symbols[name] = partial(self._symbol, node, axis, name, linear)

    def _symbol(self, node: Node, axis: int, name: str, linear: tuple[int, int]) -> Written:
        g, (factor, offset) = self.builder, linear
        found = g.Gather(g.Shape(self.values[node, 0]), g.scalar(axis, INT64), axis=0)
        found = g.Sub(found, g.scalar(offset, INT64)) if offset else found
        return g.having(g.Div(found, g.scalar(factor, INT64)) if factor != 1 else found, ())

    def tried(self, node: Node) -> None:
        """Write a node, or remember why it cannot be written."""
        try:
            self.write(node)
        except OnnxError as error:
            follows = any(a.node in self.refused for a in node.args)
            self.refused[node] = "" if follows else str(error)
            for index, aval in enumerate(node.avals):
                self.values.setdefault((node, index), Written(self.builder.fresh("refused"), aval.dtype, aval.shape))

    def write(self, node: Node) -> None:
        """Write a node whose operands are written."""
        where = describe(node.origin)
        self.builder.description = f"{node.op.name}{f' (at {where})' if where else ''}"
        if any(a.dtype.kind == "c" for a in node.avals):
            self.builder.refuse(REAL)
        if node.op is INPUT:
            return
        if node.op is VARIABLE:
            self._variable(node)
        elif node.op in (CONSTANT, HELD):
            for index, array in enumerate(host_arrays(self.graph, node)):
                if array is None:
                    device = self.graph.layer.device
                    raise OnnxError(
                        f"{device!r} has no elements of constants to write; export the graph where they are"
                    )
                self._constant(node, index, array)
        else:
            self._application(node)

    def _constant(self, node: Node, index: int, array: Any) -> None:
        found = self.values[node, index] = self.builder.constant(array)
        if array.nbytes > IN_FULL:
            self.arrays["constants"][digest(array)] = found.name

    def _variable(self, node: Node) -> None:
        variable = node.data
        if node in self.updated:
            found = self._input(node, variable.name)
        else:
            name = self.builder.fresh(variable.name)
            found = self.values[node, 0] = Written(name, node.aval.dtype, node.aval.shape)
        self.builder.arrays[found.name] = variable.copied()
        self.arrays["variables"][variable.name] = found.name

    def _application(self, node: Node) -> None:
        args = [self.value(a) for a in node.args]
        made = self.builder.applied(node.op, args, dict(node.items), node.avals)
        for index, each in enumerate(made):
            self.values[node, index] = each

    def value(self, value: Value) -> Written:
        """What a value of the graph is in the model."""
        return self.values[value.node, value.index]

    def draft(self) -> Draft:
        """All that is written, with the outputs."""
        fresh = self.builder.fresh
        structure, values = self.graph.structure, self.graph.outputs
        if structure.size != len(values):  # nobody said how they are nested
            structure = flatten([*values])[1]
        names = map(fresh, output_names(structure))
        outputs = [*zip(map(self.value, values), names, strict=True)]
        outputs += [(self.value(u), fresh(f"{v.data.name}{NEXT}")) for v, u in self.graph.updates]
        return Draft(self.builder, self.inputs, outputs, self.graph.name, self.arrays)


def _linear(extent: Dim, name: str) -> tuple[int, int] | None:
    """Factor and offset of an extent ``factor * name + offset``; None where it is none."""
    offset = extent.terms.get((), 0)
    rest = {m: c for m, c in extent.terms.items() if m}
    return (rest[name,], offset) if set(rest) == {(name,)} else None


def output_names(structure: Structure) -> list[str]:
    """A name for each output: where it stands in what a call returns.

    Examples
    --------
    >>> from nnc_func.tree import flatten
    >>> output_names(flatten({"loss": 0, "scores": (1, 2)})[1]), output_names(flatten(0)[1])
    (['loss', 'scores.0', 'scores.1'], ['output'])
    """
    return [_dotted(path) for path in structure.paths]


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path if path and not path[0].isdecimal() else ("output", *path))
