"""Inception v3: Szegedy et al., "Rethinking the Inception architecture for computer vision", CVPR 2016.

23,834,568 parameters; 27,161,264 with the auxiliary classifier, which is used in training only.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.models.convolution import convolution
from nnc_func.nn.modules import Context, Module, module

Layers = list[Any]


class _Network:
    """The blocks, whose channels are those of the paper divided by one number."""

    def __init__(self, thinner: int, blocks: tuple[int, int, int]) -> None:
        self.thinner = thinner
        self.blocks = blocks

    def conv(self, channels: int, window: Any, stride: int = 1, valid: bool = False) -> Layers:
        return [*convolution(channels // self.thinner, window, stride, valid=valid, epsilon=1e-3), nn.relu]

    def convs(self, *each: Any) -> Any:
        """Convolutions (channels, window), one after the other."""
        return nn.Sequential(*[layer for args in each for layer in self.conv(*args)])

    def pooled(self, channels: int) -> Any:
        return nn.Sequential(nn.AveragePool2D(3, stride=1, padding="SAME"), *self.conv(channels, 1))

    def small(self, channels: int) -> Any:
        """Branches of 3 × 3 and 5 × 5 convolutions: figure 5 of the paper."""
        return nn.Concatenate(
            self.convs((64, 1)), self.convs((48, 1), (64, 5)), self.convs((64, 1), (96, 3), (96, 3)),
            self.pooled(channels),
        )  # fmt: skip

    def seven(self, channels: int) -> Any:
        """Branches of 1 × 7 and 7 × 1 convolutions: figure 6."""
        c = channels
        return nn.Concatenate(
            self.convs((192, 1)), self.convs((c, 1), (c, (1, 7)), (192, (7, 1))),
            self.convs((c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))), self.pooled(192),
        )  # fmt: skip

    def wide(self) -> Any:
        """Branches that end in two convolutions side by side: figure 7."""

        def both() -> Any:
            return nn.Concatenate(self.convs((384, (1, 3))), self.convs((384, (3, 1))))

        return nn.Concatenate(
            self.convs((320, 1)), nn.Sequential(self.convs((384, 1)), both()),
            nn.Sequential(self.convs((448, 1), (384, 3)), both()), self.pooled(192),
        )  # fmt: skip

    def halved(self, *branches: Any) -> Any:
        """Convolutions of stride 2 beside a pool: figure 10."""
        return nn.Concatenate(*branches, nn.MaxPool2D(3, stride=2))

    def body(self) -> Any:
        small, seven, _ = self.blocks
        return nn.Sequential(
            *self.conv(32, 3, 2, True), *self.conv(32, 3, 1, True), *self.conv(64, 3), nn.MaxPool2D(3, stride=2),
            *self.conv(80, 1), *self.conv(192, 3, 1, True), nn.MaxPool2D(3, stride=2),
            *(self.small(channels) for channels in (32, 64, 64)[:small]),
            self.halved(self.convs((384, 3, 2, True)), self.convs((64, 1), (96, 3), (96, 3, 2, True))),
            *(self.seven(channels) for channels in (128, 160, 160, 192)[:seven]),
        )  # fmt: skip

    def tail(self, classes: int) -> Any:
        return nn.Sequential(
            self.halved(
                self.convs((192, 1), (320, 3, 2, True)),
                self.convs((192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, True)),
            ),
            *(self.wide() for _ in range(self.blocks[2])), nn.GlobalAveragePool(), nn.Dropout(0.5), nn.Dense(classes),
        )  # fmt: skip

    def auxiliary(self, classes: int, window: int) -> Any:
        return nn.Sequential(
            nn.AveragePool2D(5, stride=3), *self.conv(128, 1), *self.conv(768, window, 1, True),
            nn.GlobalAveragePool(), nn.Dense(classes),
        )  # fmt: skip


@module
class Inception(Module):
    """The network; with an auxiliary classifier it gives two scores in training.

    Examples
    --------
    >>> nn.count(inception(auxiliary=True).init(None, (None, 299, 299, 3)))
    27161264
    """

    body: Module
    tail: Module
    auxiliary: Module | None = None

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """Scores; where it trains, or its tensors are made, those of the auxiliary classifier too."""
        x = self.body(x, context)
        scores = self.tail(x, context)
        if self.auxiliary is None or context is None:
            return scores
        return scores, self.auxiliary(x, context)


def inception(
    classes: int = 1000, auxiliary: bool = False, thinner: int = 1, window: int = 5,
    blocks: tuple[int, int, int] = (3, 4, 2),
) -> Inception:  # fmt: skip
    """Inception v3 for images of 299 × 299 pixels.

    Parameters
    ----------
    auxiliary
        Whether there is a classifier in the middle, which keeps gradients large.
    thinner
        What all numbers of channels are divided by.
    window
        Of the auxiliary classifier's last convolution: all that is left of an image of the size it is made for.
    blocks
        How many there are of those of figures 5, 6 and 7.
    """
    made = _Network(thinner, blocks)
    return Inception(made.body(), made.tail(classes), made.auxiliary(classes, window) if auxiliary else None)
