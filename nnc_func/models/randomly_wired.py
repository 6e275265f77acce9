"""Randomly wired: Xie, Kirillov, Girshick and He, "Exploring randomly wired neural networks", ICCV 2019.

Three Watts-Strogatz graphs WS(4, 0.75) of 32 nodes with 78, 156 and 312 channels: the paper's small regime, about 5.6
million parameters and 580 million multiplications. No two schedules of such a graph take the same memory.
"""

from __future__ import annotations

import random
from typing import Any

from nnc_func import nn
from nnc_func.errors import OperatorError
from nnc_func.models.convolution import convolution
from nnc_func.nn.initialise import zeros
from nnc_func.nn.modules import Context, Module, module, parameter, static

Edges = tuple[tuple[int, int], ...]


def watts_strogatz(nodes: int, neighbours: int, probability: float, seed: int) -> Edges:
    """Edges from lower to higher nodes of a small world: a ring, each edge of which has moved with that probability.

    Watts and Strogatz, Nature 1998. Equal seeds give equal graphs.

    Raises
    ------
    OperatorError
        There are not more nodes than neighbours.

    Examples
    --------
    >>> watts_strogatz(5, 2, 0.0, seed=0)
    ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    """
    if nodes <= neighbours:
        raise OperatorError(f"a ring where each node has {neighbours} neighbours has more nodes, given {nodes}")
    draw = random.Random(seed).random  # its bits are the same in every version of Python
    edges = {tuple(sorted((i, (i + k) % nodes))) for i in range(nodes) for k in range(1, neighbours // 2 + 1)}
    for k in range(1, neighbours // 2 + 1):
        for i in range(nodes):
            old = tuple(sorted((i, (i + k) % nodes)))
            free = [j for j in range(nodes) if j != i and tuple(sorted((i, j))) not in edges]
            if draw() < probability and old in edges and free:
                edges.remove(old)
                edges.add(tuple(sorted((i, free[int(draw() * len(free))]))))
    return tuple(sorted((a, b) for a, b in edges))


@module
class Wired(Module):
    """A node: its inputs' sum, weighted by sigmoids, then relu, a separable 3 × 3 convolution, batch normalisation.

    Examples
    --------
    >>> node = Wired(8, inputs=2).init(0, (None, 6, 6, 4))
    >>> node.weights
    array([0., 0.], dtype=float32)
    """

    channels: int = static()
    inputs: int = static()
    stride: int = static(default=1)
    layers: Module | None = None
    weights: Any = parameter(default=None)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """A weight for each input, and the layers."""
        first, _ = convolution(aval.shape[-1], 3, self.stride, groups=aval.shape[-1])
        layers = nn.Sequential(nn.relu, first, *convolution(self.channels, 1))
        return {"weights": zeros(key, (self.inputs,), aval.dtype), "layers": layers}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The node of a tensor, or of a tuple of as many as it has inputs."""
        each = x if isinstance(x, tuple) else (x,)
        if len(each) > 1:
            shares = each[0].stack.ops.sigmoid(self.weights)
            total = each[0] * shares[0]
            for i, y in enumerate(each[1:], 1):
                total = total + y * shares[i]
        else:
            total = each[0]
        assert self.layers is not None
        return self.layers(total, context)


@module
class Stage(Module):
    """A random graph of nodes: those without inputs halve the stage's, those without users are averaged."""

    nodes: tuple[Module, ...]
    edges: Edges = static()

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The mean of the last nodes."""
        found: list[Any] = []
        for i, node in enumerate(self.nodes):
            inputs = tuple(found[a] for a, b in self.edges if b == i) or (x,)
            me = node if context is None else context.entered(node, inputs[0])
            found.append(me.forward(inputs, context))
        used = {a for a, _ in self.edges}
        last = [y for i, y in enumerate(found) if i not in used]
        total = last[0]
        for y in last[1:]:
            total = total + y
        return total * (1.0 / len(last))


def stage(channels: int, nodes: int, seed: int) -> Stage:
    """A stage of that many nodes, wired by a seed."""
    edges = watts_strogatz(nodes, 4, 0.75, seed)
    inputs = [sum(b == i for _, b in edges) for i in range(nodes)]
    return Stage(tuple(Wired(channels, max(n, 1), 1 if n else 2) for n in inputs), edges)


def randomly_wired(classes: int = 1000, channels: int = 78, nodes: int = 32, last: int = 1280, wiring: int = 0) -> Any:
    """Two convolutions, three random graphs, a classifier.

    Parameters
    ----------
    channels
        Of the first graph; each later one has twice as many.
    nodes
        Of each graph.
    last
        Channels before the classifier.
    wiring
        The seed of the graphs.

    Examples
    --------
    >>> round(nn.count(randomly_wired().init(None, (None, 224, 224, 3))) / 1e6, 1)
    5.6
    """
    stages = [stage(channels * 2**i, nodes, 3 * wiring + i) for i in range(3)]
    return nn.Sequential(
        *convolution(channels // 2, 3, 2), nn.relu, *convolution(channels, 3, 2), *stages,
        nn.relu, *convolution(last, 1), nn.relu, nn.GlobalAveragePool(), nn.Dense(classes),
    )  # fmt: skip
