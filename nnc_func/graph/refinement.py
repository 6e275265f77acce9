"""Shapes learned after a graph is built: what is assumed in it, and the same graph with more known extents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.errors import GraphError, NncError, ShapeError
from nnc_func.facets.dims import Dim, Extent, known, mentions_unknown, same_extent, substitute, symbols_of
from nnc_func.facets.equations import Equations
from nnc_func.graph.leaves import LEAVES
from nnc_func.graph.node import Node
from nnc_func.graph.origin import describe


@frozen
class Assumption:
    """Two extents that a node takes to be equal, which is not proved by the shapes of the inputs.

    Attributes
    ----------
    node
        Where they meet.
    left, right
        The extents.
    """

    node: Node
    left: Extent
    right: Extent

    def __repr__(self) -> str:
        return f"{self.left} = {self.right} in {_called(self.node)}{built_at(self.node)}"

    def check(self, values: Mapping[str, Extent]) -> None:
        """Raise ShapeError if it cannot hold where symbols have these values."""
        left, right = substitute(self.left, values), substitute(self.right, values)
        difference = left - right
        if known(difference) and difference:
            raise self.broken(f"{self.left} is {left} and {self.right} is {right}", values)

    def broken(self, why: str, values: Mapping[str, Extent]) -> ShapeError:
        """What is wrong where it does not hold."""
        said = ", ".join(f"{k} = {v}" for k, v in values.items())
        return ShapeError(
            f"{_called(self.node)}: {why}{f', for {said}' if said else ''}; unknown extents that meet must be equal"
            f"{built_at(self.node)}"
        )


def _called(node: Node) -> str:
    return f"{node.op.name}({', '.join(repr(a.aval) for a in node.args)})"


def built_at(node: Node) -> str:
    """The user's line, in brackets."""
    where = describe(node.origin)
    return f" (built at {where})" if where else ""


def elsewhere(node: Node, error: NncError) -> NncError:
    """What went wrong when a node was made anew, since an extent that was assumed is another: where it was built."""
    where = describe(node.origin)
    said = str(error).rpartition(" (at ")[0] or str(error)  # not where it is called
    return type(error)(said + (f" (built at {where})" if where else ""))


def as_assumed(node: Node, avals: tuple[Aval, ...], dims: Mapping[str, Any]) -> None:
    """Raise ShapeError unless a node has the shapes, its extents now known, that were inferred for unknown ones."""
    for was, now in zip(node.avals, avals, strict=True):
        wanted = substitute(was.shape, dims)
        if wanted != now.shape and not all(map(same_extent, wanted, now.shape)):
            where = describe(node.origin)
            raise ShapeError(
                f"{node.op.name}: its result of shape {was.shape} was inferred to be {wanted}, and is {now.shape}, "
                f"for {', '.join(f'{k} = {v}' for k, v in dims.items())}; unknown extents that meet must be equal"
                + (f" (built at {where})" if where else "")
            )


def assumed(nodes: Iterable[Node], shape: Any) -> Iterator[Assumption]:
    """What the nodes assume of unknown extents, as a Shape layer tells: each equation once, in their order."""
    told_of = getattr(shape, "assumptions", None)  # a layer of a user's own may tell nothing
    if told_of is None:
        return
    seen: set[Extent] = set()
    for node in nodes:
        if node.op in LEAVES or not _symbolic(node):
            continue
        for left, right in told_of(node.op, tuple(a.aval for a in node.args), node.items):
            difference = left - right
            if difference not in seen and -difference not in seen:
                seen.add(difference)
                yield Assumption(node, left, right)


def _symbolic(node: Node) -> bool:
    return any(type(n) is Dim for a in node.args for n in a.shape) or any(mentions_unknown(v) for _, v in node.items)


def undefined(nodes: Iterable[Node], symbols: frozenset[str]) -> Node | None:
    """A node whose parameters have an unknown extent that is not among these symbols; None where there is none."""
    sized = [node for node in nodes if node.op.is_sized]
    distinct = {id(node.items): node.items for node in sized}
    stray = {key for key, items in distinct.items() if not all(symbols_of(v) <= symbols for _, v in items)}
    return next((node for node in sized if id(node.items) in stray), None) if stray else None


def refined(graph: Any, shapes: Mapping[str, Any]) -> Any:
    """The graph with inputs of these shapes, and whatever follows from them; see `ComputationGraph.with_shapes`."""
    if not isinstance(shapes, Mapping):
        raise GraphError(f"with_shapes wants names of inputs to shapes, {{'x': (32, 4)}}, given {shapes!r}")
    equations = Equations()
    inputs = {n.data: n for n in graph.inputs}
    for name, shape in shapes.items():
        if name not in inputs:
            raise GraphError(f"the graph {graph.name!r} has no input {name!r}; it has {', '.join(inputs) or 'none'}")
        _learn(equations, inputs[name], shape)
    for each in graph.assumptions:
        try:
            equations.add(each.left, each.right)
        except ShapeError as error:
            raise each.broken(str(error), equations.values) from None
    return graph.substituted(equations.values)


def _learn(equations: Equations, node: Node, shape: Any) -> None:
    if not isinstance(shape, (tuple, list)):
        raise ShapeError(f"the shape of input {node.data!r} is a tuple, given {shape!r}")
    have, given = node.aval.shape, Aval(shape, node.aval.dtype).shape if None not in tuple(shape) else None
    wanted = tuple(shape) if given is None else given
    if len(wanted) != len(have):
        raise ShapeError(f"input {node.data!r} has {len(have)} axes, {node.aval!r}, given the shape {wanted}")
    for known_as, extent in zip(have, wanted, strict=True):
        if extent is None:
            continue
        try:
            equations.add(known_as, Aval((extent,), node.aval.dtype).shape[0])
        except ShapeError as error:
            raise ShapeError(
                f"input {node.data!r} has the shape {have}, which cannot be {wanted}: {error}{built_at(node)}"
            ) from None
