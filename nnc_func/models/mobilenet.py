"""MobileNetV2: Sandler, Howard, Zhu, Zhmoginov and Chen, "Inverted residuals and linear bottlenecks", CVPR 2018.

3,504,872 parameters and 300 million multiplications and additions at 224 × 224 pixels.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.models.convolution import convolution

STAGES = (  # expansion, channels, blocks, stride of the first: table 2 of the paper
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def block(inputs: int, outputs: int, expansion: int, stride: int) -> Any:
    """Wider by a 1 × 1 convolution, a 3 × 3 one channel by channel, narrower again; added to the input if it fits."""
    wide = inputs * expansion
    inner: list[Any] = [*convolution(wide, 1), nn.relu6] if expansion > 1 else []
    inner += [*convolution(wide, 3, stride, groups=wide), nn.relu6, *convolution(outputs, 1)]
    made = nn.Sequential(*inner)
    return nn.Residual(made) if stride == 1 and inputs == outputs else made


def mobilenet(classes: int = 1000, width: float = 1.0, stages: Any = STAGES) -> Any:
    """MobileNetV2.

    Parameters
    ----------
    width
        What numbers of channels are multiplied by, then rounded to multiples of 8.
    stages
        Expansion, channels, blocks and stride of each.

    Examples
    --------
    >>> nn.count(mobilenet().init(None, (None, 224, 224, 3)))
    3504872
    """
    channels = _rounded(32 * width)
    layers: list[Any] = [*convolution(channels, 3, 2), nn.relu6]
    for expansion, outputs, count, stride in stages:
        for i in range(count):
            layers.append(block(channels, _rounded(outputs * width), expansion, stride if i == 0 else 1))
            channels = _rounded(outputs * width)
    last = _rounded(1280 * max(1.0, width)) if width >= 1 else _rounded(1280 * width)
    layers += [*convolution(last, 1), nn.relu6, nn.GlobalAveragePool(), nn.Dropout(0.2), nn.Dense(classes)]
    return nn.Sequential(*layers)


def _rounded(channels: float) -> int:
    """The nearest multiple of 8, at least 8, and not less than nine tenths of what is wanted."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found if found >= 0.9 * channels else found + 8
