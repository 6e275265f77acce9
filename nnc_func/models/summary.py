"""What a network takes, counted on the device `Null`: nodes, parameters, arithmetic, bytes. Nothing is computed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import asdict, frozen

from nnc_func.models.model import Model, counted
from nnc_func.models.registry import get

PRODUCTS = frozenset({"conv2d", "conv2d_input_gradient", "conv2d_kernel_gradient", "matmul", "tensordot"})


@frozen
class Summary:
    """Counts of a network's graph, as it is built and as it is run.

    Attributes
    ----------
    name, batch, training
        Whose.
    parameters
        Trained elements.
    nodes, edges, applications
        Of the graph as it is built: all nodes, operands, and nodes that compute.
    optimised_nodes, optimised_edges
        After rewriting.
    flops
        Arithmetic of the graph as it is built, as the operators' cost facets tell.
    multiply_adds
        Of these, the multiplications of convolutions and matrix products, as the literature counts them.
    weight_bytes
        Of all variables.
    max_load_bytes, arena_bytes
        The most bytes that are alive at one time besides variables, inputs and outputs; what the plan takes for them.
    kernels
        Instructions of the plan that compute.
    """

    name: str
    batch: int
    training: bool
    parameters: int
    nodes: int
    edges: int
    applications: int
    optimised_nodes: int
    optimised_edges: int
    flops: int
    multiply_adds: int
    weight_bytes: int
    max_load_bytes: int
    arena_bytes: int
    kernels: int

    def as_dict(self) -> dict[str, Any]:
        """The counts by name."""
        return asdict(self)


def summary(model: str | Model, batch: int = 1, training: bool = False) -> Summary:
    """Counts of a network of the zoo, by its name or its record, from its plan on the device `Null`.

    Raises
    ------
    OperatorError
        There is no such network, or no training graph of it.
    ShapeError
        The batch is no number of examples.

    Examples
    --------
    >>> found = summary("lenet-5", batch=10)
    >>> found.parameters, found.multiply_adds
    (61706, 4165200)
    """
    from nnc_func.device import Null
    from nnc_func.stacks import lazy

    known, batch, stack = model if isinstance(model, Model) else get(model), counted(batch), lazy(Null())
    graph = known.make(stack, batch, training, seed=None)
    program = stack.engine.compile(graph)
    before, after = program.stats.before, program.stats.after
    work = arithmetic(graph)
    return Summary(
        known.name, batch, training, known.parameters, before["nodes"], before["edges"], before["applications"],
        after["nodes"], after["edges"], sum(work.values()), sum(work[each] for each in PRODUCTS) // 2,
        sum(v.aval.nbytes for v in graph.variables), program.plan.max_load, program.plan.arena_bytes,
        program.plan.kernels,
    )  # fmt: skip


def arithmetic(graph: Any) -> Counter[str]:
    """FLOPs of a graph without unknown extents, by the operators' names.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2, 3), "float32")
    >>> arithmetic(lazy.graph.close([x.value], [(x + x @ x.T @ x).value]))["matmul"]
    48
    """
    found: Counter[str] = Counter()
    for node in graph.nodes:
        found[node.op.name] += node.op.cost(tuple(a.aval for a in node.args), node.avals, **node.params).flops
    return found
