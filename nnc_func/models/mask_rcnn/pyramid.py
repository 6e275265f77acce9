"""The feature pyramid: Lin et al., "Feature pyramid networks for object detection", CVPR 2017."""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.nn.modules import Context, Module, module

STRIDES = (4, 8, 16, 32, 64)  # of the levels P2 to P6, in pixels of the image


@module
class Pyramid(Module):
    """Maps of one number of channels: each of a backbone's, with what the smaller ones know added; and one more.

    Examples
    --------
    >>> from nnc_func.models.resnet import backbone
    >>> levels = pyramid(backbone(18, width=4), 8).init(0, (None, 64, 64, 3))
    >>> [y.shape[1:] for y in levels(nn.abstract.Abstract().tensor((1, 64, 64, 3), "float32"))]
    [(16, 16, 8), (8, 8, 8), (4, 4, 8), (2, 2, 8), (1, 1, 8)]
    """

    backbone: Module
    across: tuple[Module, ...]
    smooth: tuple[Module, ...]

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The levels P2 to P6, the largest first."""
        maps = self.backbone(x, context)
        double = nn.Resize(scale=2)
        merged: list[Any] = []
        for each, across in reversed(list(zip(maps, self.across, strict=True))):
            y = across(each, context)
            merged.append(y + double(merged[-1], context) if merged else y)
        levels = [smooth(y, context) for y, smooth in zip(reversed(merged), self.smooth, strict=True)]
        return (*levels, nn.MaxPool2D(1, stride=2)(levels[-1], context))


def pyramid(backbone: Module, features: int = 256) -> Pyramid:
    """A pyramid over the four maps of a backbone."""
    return Pyramid(
        backbone,
        tuple(nn.Conv2D(features, 1) for _ in range(4)),
        tuple(nn.Conv2D(features, 3, padding="SAME") for _ in range(4)),
    )
