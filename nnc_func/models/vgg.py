"""VGG: Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015.

Configurations D (16 layers with weights, 138,357,544 parameters) and E (19 layers, 143,667,240).
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.models.convolution import of_depth

CONVOLUTIONS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}  # of each stage, before its pool


def vgg(classes: int = 1000, depth: int = 16, width: int = 64, units: int = 4096) -> Any:
    """Stages of 3 × 3 convolutions and max-pools, then three dense layers with dropout between them.

    Parameters
    ----------
    depth
        16 or 19.
    width
        Channels of the first stage; each later one has twice as many, eight times the first at most.
    units
        Of the dense layers.

    Examples
    --------
    >>> nn.count(vgg(depth=19).init(None, (None, 224, 224, 3)))
    143667240
    """
    layers: list[Any] = []
    for stage, count in enumerate(of_depth(depth, CONVOLUTIONS)):
        for _ in range(count):
            channels = width * 2 ** min(stage, 3)
            layers += [nn.Conv2D(channels, 3, padding="SAME", initialiser=nn.he_normal), nn.relu]
        layers.append(nn.MaxPool2D(2))
    for _ in range(2):
        layers += [nn.Dense(units, initialiser=nn.he_normal), nn.relu, nn.Dropout(0.5)]
    flat = len(layers) - 6
    return nn.Sequential(*layers[:flat], nn.Flatten(), *layers[flat:], nn.Dense(classes))
