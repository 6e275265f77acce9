"""DARTS: Liu, Simonyan and Yang, "DARTS: differentiable architecture search", ICLR 2019.

The second-order cell for CIFAR-10, twenty of them with 36 channels at first: 3,349,342 parameters. Paths are not
dropped in training, and there is no auxiliary classifier.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.models.convolution import convolution
from nnc_func.nn.modules import Context, Module, module, static

SCALE = 0.4  # of a cell's inputs
# operation and source of each of the two edges into each of the four nodes; 0 and 1 are the two cells before
NORMAL = (
    ("separable", 0), ("separable", 1), ("separable", 0), ("separable", 1),
    ("separable", 1), ("skip", 0), ("skip", 0), ("dilated", 2),
)  # fmt: skip
REDUCTION = (
    ("pool", 0), ("pool", 1), ("skip", 2), ("pool", 1), ("pool", 0), ("skip", 2), ("skip", 2), ("pool", 1),
)  # fmt: skip


@module
class Halved(Module):
    """Half as large, by two 1 × 1 convolutions of every other pixel, one of them a pixel further.

    Examples
    --------
    >>> model = Halved(*(nn.Conv2D(4, 1, stride=2) for _ in range(2))).init(0, (None, 8, 8, 3))
    >>> model(nn.abstract.Abstract().tensor((1, 8, 8, 3), "float32")).shape
    (1, 4, 4, 8)
    """

    even: Module
    odd: Module

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """Both, side by side."""
        return x.stack.ops.concat(self.even(x, context), self.odd(x[:, 1:, 1:], context), axis=-1)


def halved(channels: int) -> Any:
    """Relu, `Halved`, batch normalisation."""
    each = [nn.Conv2D(channels // 2, 1, stride=2, biased=False, initialiser=nn.he_normal) for _ in range(2)]
    return nn.Sequential(nn.relu, Halved(*each), nn.BatchNorm(initialiser=nn.Constant(SCALE)))


def _depthwise(channels: int, stride: int, dilation: int = 1) -> list[Any]:
    """Relu, a 3 × 3 convolution channel by channel, a 1 × 1 one, batch normalisation."""
    first, _ = convolution(channels, 3, stride, dilation=dilation, groups=channels)
    return [nn.relu, first, *convolution(channels, 1)]


def operation(kind: str, channels: int, stride: int) -> Module | None:
    """What an edge does; None where it does nothing."""
    if kind == "separable":
        return nn.Sequential(*_depthwise(channels, stride), *_depthwise(channels, 1))
    if kind == "dilated":
        return nn.Sequential(*_depthwise(channels, stride, 2))
    if kind == "pool":
        return nn.MaxPool2D(3, stride=stride, padding=((1, 1), (1, 1)))
    return None if stride == 1 else halved(channels)


@module
class Cell(Module):
    """Four nodes, each the sum of two edges from the two inputs or nodes before; they are put side by side."""

    before: tuple[Module, Module]
    edges: tuple[Module | None, ...]
    sources: tuple[int, ...] = static()

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The nodes of a pair of inputs."""
        states = [each(y, context) for each, y in zip(self.before, x, strict=True)]
        ends = list(zip(self.edges, self.sources, strict=True))
        for pair in zip(ends[::2], ends[1::2], strict=True):
            a, b = (states[i] if edge is None else edge(states[i], context) for edge, i in pair)
            states.append(a + b)
        return states[0].stack.ops.concat(*states[2:], axis=-1)


@module
class Darts(Module):
    """A stem, cells that each see the two before, and a classifier.

    Examples
    --------
    >>> nn.count(darts().init(None, (None, 32, 32, 3)))
    3349342
    """

    stem: Module
    cells: tuple[Module, ...]
    head: Module

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The scores."""
        pair = (self.stem(x, context),) * 2
        for cell in self.cells:
            entered = cell if context is None else context.entered(cell, pair[1])
            pair = (pair[1], entered.forward(pair, context))
        return self.head(pair[1], context)


def cell(channels: int, reduction: bool, after_reduction: bool) -> Cell:
    """A cell; one after a reduction halves what the cell before that reduction gave.

    Nodes are sums of sums: inputs are scaled down at first, lest signals of an untrained network know no bounds.
    """
    first = halved(channels) if after_reduction else nn.Sequential(nn.relu, *convolution(channels, 1, scale=SCALE))
    genotype = REDUCTION if reduction else NORMAL
    edges = [operation(kind, channels, 2 if reduction and source < 2 else 1) for kind, source in genotype]
    before = (first, nn.Sequential(nn.relu, *convolution(channels, 1, scale=SCALE)))
    return Cell(before, tuple(edges), tuple(source for _, source in genotype))


def darts(classes: int = 10, channels: int = 36, cells: int = 20) -> Darts:
    """The network for CIFAR-10: reductions at a third and at two thirds of the cells, where channels double."""
    made, after = [], False
    stem = nn.Sequential(*convolution(3 * channels, 3))
    for i in range(cells):
        reduction = i in (cells // 3, 2 * cells // 3)
        channels *= 2 if reduction else 1
        made.append(cell(channels, reduction, after))
        after = reduction
    return Darts(stem, tuple(made), nn.Sequential(nn.GlobalAveragePool(), nn.Dense(classes)))
