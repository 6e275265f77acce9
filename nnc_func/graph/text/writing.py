"""Graphs as text: one line a node, numbered in topological order, the same text for the same graph.

What is written is read back by `parsed`; nothing is evaluated. Files with the arrays beside the text are `files`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from nnc_func.errors import NncError
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, VARIABLE
from nnc_func.graph.node import Node, Value
from nnc_func.graph.origin import describe
from nnc_func.graph.text.literals import Names, array_text, quoted
from nnc_func.graph.text.nesting import nested_text
from nnc_func.graph.text.parsing import parsed

IN_FULL = 256  # bytes: larger constants are written as the hash of their bytes
Numbers = dict[tuple[Node, int], int]

__all__ = ["digest", "host_arrays", "large_constants", "numbered", "parameters", "parsed", "printed"]


def printed(graph: Any, origins: bool = False) -> str:
    """The graph as text: equal graphs, equal text.

    Parameters
    ----------
    origins
        Add the user's line that built a node as a comment. Without, the text does not depend on where it was built.

    Raises
    ------
    GraphError
        A parameter that has no written form.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", ("n", 784), "float32")
    >>> print(printed(lazy.graph.close([x.value], [(x * 2).value], name="twice")))
    graph "twice"(%0 "x" : float32[n, 784])
    %1 = constant 2.0 : float32[]
    %2 = multiply(%0, %1) : float32[n, 784]
    return %2
    """
    names, numbers = Names(), numbered(graph)
    written = [
        f"%{numbers[n, 0]} {_string(n.data)} : {names.aval(n.aval)}" + (", " if n is not graph.inputs[-1] else "")
        for n in graph.inputs
    ]
    lines = [f"graph {_string(graph.name)}({''.join(written)})"]
    for node in graph.nodes:
        if node.op is not INPUT:
            where = describe(node.origin) if origins else ""
            lines.append(_line(graph, node, numbers, names) + (f"  # {where}" if where else ""))
    for variable, value in graph.updates:
        lines.append(f"update {_string(variable.data.name)} <- {_reference(value, numbers)}")
    if graph.effects:
        lines.append(f"effects {', '.join(_reference(t, numbers) for t in graph.effects)}")
    outputs = [_reference(o, numbers) for o in graph.outputs]
    lines.append(f"return {nested_text(graph.structure, outputs, names)}")
    return "\n".join(lines)


def numbered(graph: Any) -> Numbers:
    """The number of each value, by node and index: the inputs in their order, then the rest, operands first."""
    numbers: Numbers = {}
    for node in (*graph.inputs, *graph.nodes):
        for index in range(len(node.avals)):
            numbers.setdefault((node, index), len(numbers))
    return numbers


def large_constants(graph: Any) -> dict[str, Any]:
    """The constants that the text names by the hash of their bytes, as host arrays, by that hash."""
    found = (
        array for n in graph.nodes if n.op in (CONSTANT, HELD) for array in host_arrays(graph, n) if array is not None
    )
    return {digest(a): a for a in found if a.nbytes > IN_FULL}


def digest(array: Any) -> str:
    """The SHA-256 of the elements, row by row, as the text names it."""
    return f"sha256:{hashlib.sha256(np.asarray(array, order='C').tobytes()).hexdigest()}"


# --- lines ------------------------------------------------------------------------------------------------


def _line(graph: Any, node: Node, numbers: Numbers, names: Names) -> str:
    results = ", ".join(f"%{numbers[node, i]}" for i in range(len(node.avals)))
    if node.op is VARIABLE:
        right = f"variable {_string(node.data.name)}"
    elif node.op in (CONSTANT, HELD):
        right = f"{node.op.name} {', '.join(map(_constant, host_arrays(graph, node)))}"
    else:
        operands = [_reference(a, numbers) for a in node.args]
        right = f"{quoted(node.op.name)}({', '.join([*operands, *parameters(node, names)])})"
    return f"{results} = {right} : {', '.join(map(names.aval, node.avals))}"


def parameters(applied: Any, names: Names) -> list[str]:
    """The parameters of an application, a node or an instruction: ``axis=0``.

    Raises
    ------
    GraphError
        One that has no written form; names the operator and the user's line.
    """
    return names.parameters(applied.op, applied.items, lambda: describe(applied.origin))


def _reference(value: Value, numbers: Numbers) -> str:
    return f"%{numbers[value.node, value.index]}"


def host_arrays(graph: Any, node: Node) -> list[Any]:
    """The host arrays of a constant; None where the device has no elements to show."""
    if node in node.table.literals:
        return [node.table.literals[node]]
    found: list[Any] = []
    for array in node.data if node.op is HELD else (node.data,):
        try:
            found.append(np.asarray(graph.layer.device.to_numpy(array)))
        except (AttributeError, NncError):
            found.append(None)
    return found


def _constant(array: Any) -> str:
    if array is None:
        return "unknown"  # a device without elements: it can be printed, and not be read back
    return digest(array) if array.nbytes > IN_FULL else array_text(array)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
