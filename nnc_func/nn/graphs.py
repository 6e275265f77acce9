"""Modules as closed graphs, neither optimised nor planned: what is shown, moved to another stack, exported, studied."""

from __future__ import annotations

from typing import Any

from nnc_func.engine.effects import recording
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.nn.inputs import from_shapes, input_name
from nnc_func.nn.modules import described
from nnc_func.tree import flatten


def unread(stack: Any, variable: Any) -> Any:
    """The node of a variable as a tensor: no stack, an eager one neither, computes with its value while it builds."""
    return Tensor(stack, stack.symbol.variable(variable.value))


def closed(stack: Any, inputs: Any, outputs: Any, updates: Any = (), name: str = "graph", effects: Any = ()) -> Any:
    """The closed graph from input tensors to a tree of output tensors, as `Stack.compile` would compile it."""
    leaves, structure = flatten(outputs, by_insertion=True)

    def lifted(tensors: Any) -> list[Any]:
        return [stack.carrier(t) for t in tensors]

    pairs = [(stack.carrier(v), stack.carrier(new)) for v, new in updates]
    return stack.graph.close(lifted(inputs), lifted(leaves), pairs, name, structure, lifted(effects))


def inference_graph(stack: Any, model: Any, shape: Any, dtype: Any = "float32", name: str = "inference") -> Any:
    """The graph of a model applied to an input ``"x"`` as in inference; its tensors are variables, named by place.

    Parameters
    ----------
    stack
        Whose nodes it is made of; ``stack.engine.compile(graph)`` makes a program of it.
    model
        A module with parameters.
    shape, dtype
        Of the input; of several, trees as `Module.init` takes them. An extent None is unknown, a string names it.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func import nn
    >>> graph = inference_graph(nnc.lazy(), nn.Dense(4).init(0, (None, 3)), ("n", 3))
    >>> [v.data.name for v in graph.variables], graph.outputs[0].aval
    (['weight', 'bias'], float32[n, 4])
    """
    leaves, structure = flatten(model)
    named = zip(described(model), leaves, strict=True)
    nodes = [unread(stack, stack.variable(place, leaf)) for (place, _), leaf in named]
    x = from_shapes(shape, dtype, lambda shape, dtype, path: stack.input(input_name("x", path), shape, dtype))
    with recording(stack) as scope:
        y = structure.build(nodes)(x)
    return closed(stack, flatten(x)[0], y, name=name, effects=scope.effects)
