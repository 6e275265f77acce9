"""What is assigned to the inputs of an incremental program, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnc_func.engine.running.binding import accepted
from nnc_func.errors import OperatorError
from nnc_func.graph.graph import ComputationGraph


def assigned(
    device: Any, graph: ComputationGraph, values: Mapping[str, Any] | None, named: Mapping[str, Any]
) -> dict[str, Any]:
    """Arrays of the device by the names of the inputs; `values` and `named` are the arguments of ``assign``.

    Raises
    ------
    OperatorError
        There is no such input.
    ShapeError, DTypeError
        A value of another rank, another known extent or another dtype than the input's.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> assigned(lazy.device, lazy.compile([x], x + 1).graph, {"x": [1.0, 2.0]}, {})
    {'x': array([1., 2.], dtype=float32)}
    """
    inputs = {n.data: n for n in graph.inputs}
    given = {**(values or {}), **named}
    unknown = [name for name in given if name not in inputs]
    if unknown:
        raise OperatorError(
            f"the program {graph.name!r} has no input {', '.join(map(repr, unknown))}; "
            f"its inputs are {', '.join(map(repr, inputs)) or 'none'}"
        )
    return {name: accepted(device, graph.name, [inputs[name]], [value])[0][0] for name, value in given.items()}
