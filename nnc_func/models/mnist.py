"""The MNIST network of Owl's article on computation graphs: examples/lazy_mnist.ml; Wang and Zhao, 2018.

6,434,634 parameters. Its training step is the article's measure of what an optimiser takes out of a graph.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn


def mnist(classes: int = 10, units: int = 1024) -> Any:
    """A 5 × 5 convolution to 32 channels, 2 × 2 max-pooling, a dense layer of 1024 units, scores.

    Examples
    --------
    >>> nn.count(mnist().init(0, (None, 28, 28, 1)))
    6434634
    """
    return nn.Sequential(
        nn.Conv2D(32, 5, padding="SAME"), nn.relu, nn.MaxPool2D(2),
        nn.Flatten(), nn.Dense(units), nn.relu, nn.Dense(classes),
    )  # fmt: skip
