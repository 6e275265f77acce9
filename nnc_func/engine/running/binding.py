"""Inputs of a call: brought to the device, held against what is wanted, and what they tell of unknown extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.engine.running.inputs import of_input
from nnc_func.errors import DTypeError, OperatorError, PlaceError, ShapeError
from nnc_func.facets.dims import Extent, known, substitute
from nnc_func.facets.equations import Equations
from nnc_func.facets.places import ADVICE, named
from nnc_func.graph.leaves import brought
from nnc_func.graph.node import Node
from nnc_func.graph.refinement import built_at


def accepted(device: Any, name: str, inputs: Sequence[Node], given: Sequence[Any]) -> tuple[list[Any], dict[str, int]]:
    """The inputs as arrays of the device, and the unknown extents that they tell.

    Raises
    ------
    OperatorError
        Too many inputs, or too few.
    ShapeError, DTypeError
        Another rank, another extent, another dtype; extents that contradict each other.
    """
    if len(given) != len(inputs):
        names = f" ({', '.join(repr(n.data) for n in inputs)})" if inputs else ""
        raise OperatorError(f"the program {name!r} takes {len(inputs)} inputs{names}, given {len(given)}")
    arrays = [_array(device, node, x) for node, x in zip(inputs, given, strict=True)]
    found = Equations()
    for node, array in zip(inputs, arrays, strict=True):
        _learn(found, node, device.aval(array))
    for node, array in zip(inputs, arrays, strict=True):
        _check(node, device.aval(array), found.values)
    return arrays, {s: n for s, n in found.values.items() if known(n)}


def _array(device: Any, node: Node, given: Any) -> Any:
    with of_input(repr(node.data)):
        array = brought(device, given, place=node.aval.place)
    if isinstance(given, (bool, int, float, list, tuple)):  # Python's numbers have no dtype of their own
        wanted = node.aval.dtype
        if np.can_cast(device.aval(array).dtype, wanted, "same_kind"):
            return brought(device, given, wanted, node.aval.place)
    return array


def extents_of(inputs: Sequence[Node], given: Sequence[Aval]) -> dict[str, int]:
    """The unknown extents that inputs of these avals tell.

    Raises
    ------
    ShapeError
        Another rank or extent, or extents that contradict each other.
    """
    found = Equations()
    for node, aval in zip(inputs, given, strict=True):
        _learn(found, node, aval)
    return {s: n for s, n in found.values.items() if known(n)}


def _learn(found: Equations, node: Node, given: Aval) -> None:
    """What the extents of one array tell."""
    shape = node.aval.shape
    if len(shape) != len(given.shape):
        raise ShapeError(f"input {node.data!r} wants shape {shape}, given {given.shape}")
    for extent, n in zip(shape, given.shape, strict=True):
        if known(extent):
            continue
        try:
            found.add(extent, n)
        except ShapeError as error:
            wanted = substitute(shape, found.values)
            why = "" if all(map(known, wanted)) else f": {error}{built_at(node)}"
            raise ShapeError(f"input {node.data!r} wants shape {wanted}, given {given.shape}{why}") from None


def _check(node: Node, given: Aval, values: Mapping[str, Extent]) -> None:
    aval = node.aval
    wanted = substitute(aval.shape, values) if values else aval.shape
    if wanted != given.shape and all(map(known, wanted)):
        raise ShapeError(f"input {node.data!r} wants shape {wanted}, given {given.shape}")
    if given.place != aval.place:
        its = named(given.place)
        raise PlaceError(f"input {node.data!r} is wanted in {named(aval.place)}, given in {its}; {ADVICE}")
    if given.dtype != aval.dtype:
        raise DTypeError(f"input {node.data!r} wants {aval.dtype}, given {given.dtype}; cast it before the call")


def every(graph: Any, dims: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Each unknown extent of a graph's inputs and what it is, by name.

    Raises
    ------
    ShapeError
        Some are not told.
    """
    missing = sorted(graph.symbols - dims.keys())
    if missing:
        raise ShapeError(
            f"the inputs do not tell the extents {', '.join(missing)} of "
            + " and ".join(f"{n.data!r}, {n.aval!r}{built_at(n)}" for n in graph.inputs if n.aval.symbols & {*missing})
        )
    return tuple(sorted(dims.items()))
