"""LeNet-5: LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998.

61,706 parameters for ten classes. As it is taught: every map of the second convolution sees all of the first, pools
have no weights, and scores are those of a dense layer.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn


def lenet(classes: int = 10) -> Any:
    """Two convolutions with average-pools and three dense layers, for images of 28 × 28 pixels.

    Examples
    --------
    >>> nn.count(lenet().init(0, (None, 28, 28, 1)))
    61706
    """
    return nn.Sequential(
        nn.Conv2D(6, 5, padding="SAME"), nn.tanh, nn.AveragePool2D(2),
        nn.Conv2D(16, 5), nn.tanh, nn.AveragePool2D(2),
        nn.Flatten(), nn.Dense(120), nn.tanh, nn.Dense(84), nn.tanh, nn.Dense(classes),
    )  # fmt: skip
