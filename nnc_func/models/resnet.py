"""ResNet: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016.

Of 18 layers (11,689,512 parameters), 50 (25,557,032) and 101 (44,549,160), with the stride of a bottleneck in its
3 × 3 convolution, as it is trained most often; or in the first one, as in the paper.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.models.convolution import convolution, of_depth
from nnc_func.nn.modules import Context, Module, module

BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}  # of each stage


def block(
    channels: int, stride: int, deep: bool, changes: bool, early: bool, share: float, more: dict[str, Any]
) -> list[Any]:  # fmt: skip
    """A residual block and the relu after it: a bottleneck of three convolutions if `deep`, else two of them.

    Where it changes the shape its shortcut is a 1 × 1 convolution. `early` puts the stride in the first convolution.
    `share` is what the last normalisation multiplies by at first.
    """
    if deep:
        first, second = (stride, 1) if early else (1, stride)
        inner = [
            *convolution(channels, 1, first, **more), nn.relu, *convolution(channels, 3, second, **more), nn.relu,
            *convolution(4 * channels, 1, scale=share, **more),
        ]  # fmt: skip
    else:
        inner = [
            *convolution(channels, 3, stride, **more), nn.relu, *convolution(channels, 3, scale=share, **more)
        ]  # fmt: skip
    outputs = channels * (4 if deep else 1)
    shortcut = nn.Sequential(*convolution(outputs, 1, stride, **more)) if changes else None
    return [nn.Residual(nn.Sequential(*inner), shortcut), nn.relu]


@module
class Backbone(Module):
    """What a ResNet computes before it classifies: the maps of its four stages, each half as large as the last.

    Examples
    --------
    >>> maps = backbone(depth=18, width=4).init(0, (None, 64, 64, 3))
    >>> [m.shape[1:] for m in maps(nn.abstract.Abstract().tensor((1, 64, 64, 3), "float32"))]
    [(16, 16, 4), (8, 8, 8), (4, 4, 16), (2, 2, 32)]
    """

    stem: Module
    stages: tuple[Module, ...]

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The maps, the largest first."""
        maps = []
        x = self.stem(x, context)
        for stage in self.stages:
            x = stage(x, context)
            maps.append(x)
        return tuple(maps)


def backbone(depth: int = 50, width: int = 64, blocks: Any = None, early: bool = False, **more: Any) -> Backbone:
    """The stem and the stages of a ResNet.

    Each block adds to the variance at first as if there were no others: its last normalisation multiplies by one over
    the root of their number (De and Smith, NeurIPS 2020), else signals of untrained deep networks know no bounds.

    Parameters
    ----------
    depth
        Layers with weights: 18, 50 or 101.
    width
        Channels of the stem.
    blocks
        Of each stage, in place of the depth's.
    early
        The stride of a bottleneck is in its first convolution.
    more
        Of each convolution and the normalisation after it: `biased`, `epsilon`.
    """
    deep, counts = depth >= 50, blocks or of_depth(depth, BLOCKS)
    share = sum(counts) ** -0.5
    stages = []
    for i, count in enumerate(counts):
        layers: list[Any] = []
        for j in range(count):
            layers += block(width * 2**i, 2 if i and not j else 1, deep, not j and bool(i or deep), early, share, more)
        stages.append(nn.Sequential(*layers))
    stem = nn.Sequential(
        *convolution(width, 7, 2, **more), nn.relu, nn.MaxPool2D(3, stride=2, padding=((1, 1), (1, 1)))
    )
    return Backbone(stem, tuple(stages))


@module
class Classifier(Module):
    """Scores from the last of a backbone's maps.

    Examples
    --------
    >>> nn.count(resnet(depth=18).init(None, (None, 224, 224, 3)))
    11689512
    """

    maps: Module
    head: Module

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The scores."""
        return self.head(self.maps(x, context)[-1], context)


def resnet(classes: int = 1000, depth: int = 50, **more: Any) -> Classifier:
    """A ResNet for images: the backbone, the mean of each of its last channels, a dense layer."""
    return Classifier(backbone(depth, **more), nn.Sequential(nn.GlobalAveragePool(), nn.Dense(classes)))
