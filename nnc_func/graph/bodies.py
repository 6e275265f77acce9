"""Bodies made of nodes: what some of them compute from others, as a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnc_func.body import Application, Body
from nnc_func.graph.node import Node, Value


def enclosed(parameters: Sequence[Value], members: Iterable[Node], results: Iterable[Value]) -> Body:
    """The body that computes some values from others.

    Parameters
    ----------
    parameters
        Values that become the body's parameters, in their order: all that the members read and do not make.
    members
        The nodes that it computes, each after those whose results it reads.
    results
        Values that it gives.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x, y = (lazy.input(name, (3,), "float32") for name in "xy")
    >>> z = lazy.ops.tanh(x + y)
    >>> enclosed((x.value, y.value), [z.value.node.args[0].node, z.value.node], (z.value,))
    (%0, %1) { %2 = add(%0, %1); %3 = tanh(%2); return %3 }
    """
    number = {value: i for i, value in enumerate(parameters)}
    applications = []
    for node in members:
        applications.append(Application(node.op, tuple([number[a] for a in node.args]), node.items, len(node.avals)))
        for value in node.results:
            number[value] = len(number)
    return Body(len(parameters), applications, [number[value] for value in results])
