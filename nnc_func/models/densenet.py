"""DenseNet: Huang, Liu, van der Maaten and Weinberger, "Densely connected convolutional networks", CVPR 2017.

DenseNet-121 has 7,978,856 parameters. Each layer sees what all before it in its block have given, so that 58
concatenations share most of their bytes: a touchstone of planners that place parts in the whole.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.models.convolution import convolution, of_depth

BLOCKS = {121: (6, 12, 24, 16)}  # layers of each block


def _plain(channels: int, window: int) -> Any:
    return nn.Conv2D(channels, window, padding="SAME", biased=False, initialiser=nn.he_normal)


def layer(growth: int) -> Any:
    """A bottleneck of a 1 × 1 and a 3 × 3 convolution, whose channels are put beside the input."""
    inner = nn.Sequential(
        nn.BatchNorm(), nn.relu, _plain(4 * growth, 1), nn.BatchNorm(), nn.relu, _plain(growth, 3)
    )  # fmt: skip
    return nn.Concatenate(None, inner)


def densenet(classes: int = 1000, depth: int = 121, growth: int = 32, blocks: Any = None) -> Any:
    """A DenseNet with bottlenecks that halves its channels between blocks.

    Parameters
    ----------
    depth
        Layers with weights: 121.
    growth
        Channels that a layer adds.
    blocks
        Layers of each block, in place of the depth's.

    Examples
    --------
    >>> nn.count(densenet().init(None, (None, 224, 224, 3)))
    7978856
    """
    channels = 2 * growth
    layers: list[Any] = [
        *convolution(channels, 7, 2), nn.relu, nn.MaxPool2D(3, stride=2, padding=((1, 1), (1, 1)))
    ]  # fmt: skip
    for i, count in enumerate(blocks or of_depth(depth, BLOCKS)):
        if i:
            channels //= 2
            layers += [nn.BatchNorm(), nn.relu, _plain(channels, 1), nn.AveragePool2D(2)]
        layers += [layer(growth) for _ in range(count)]
        channels += count * growth
    return nn.Sequential(*layers, nn.BatchNorm(), nn.relu, nn.GlobalAveragePool(), nn.Dense(classes))
