"""U-Net: Ronneberger, Fischer and Brox, "U-Net: convolutional networks for biomedical image segmentation", MICCAI 2015.

31,030,658 parameters for images of one channel and two classes. As in the paper convolutions take no padding: an image
of 572 × 572 pixels gives scores of its middle 388 × 388, and what skips the bottom is cropped.
"""

from __future__ import annotations

from typing import Any

from nnc_func import nn
from nnc_func.nn.modules import Context, Module, module


def double(channels: int, padding: str) -> Any:
    """Two 3 × 3 convolutions with relu."""
    return nn.Sequential(
        nn.Conv2D(channels, 3, padding=padding, initialiser=nn.he_normal), nn.relu,
        nn.Conv2D(channels, 3, padding=padding, initialiser=nn.he_normal), nn.relu,
    )  # fmt: skip


@module
class UNet(Module):
    """Down by pools and up by transposed convolutions; on each level, what went down joins what comes up.

    Examples
    --------
    >>> nn.count(unet(classes=2).init(None, (None, 572, 572, 1)))
    31030658
    """

    down: tuple[Module, ...]
    bottom: Module
    wider: tuple[Module, ...]
    up: tuple[Module, ...]
    scores: Module

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The scores of each pixel."""
        skipped, pool = [], nn.MaxPool2D(2)
        for each in self.down:
            x = each(x, context)
            skipped.append(x)
            x = pool(x, context)
        x = self.bottom(x, context)
        for wider, each in zip(self.wider, self.up, strict=True):
            x = wider(x, context)
            x = each(x.stack.ops.concat(cropped(skipped.pop(), x), x, axis=-1), context)
        return self.scores(x, context)


def cropped(x: Any, like: Any) -> Any:
    """The middle of images, as large as others."""
    height, width = ((x.shape[i] - like.shape[i]) // 2 for i in (1, 2))
    if not height and not width:
        return x
    return x[:, height : height + like.shape[1], width : width + like.shape[2]]


def unet(classes: int = 2, width: int = 64, levels: int = 4, padding: str = "VALID") -> UNet:
    """A U-Net.

    Parameters
    ----------
    width
        Channels of the first level; each one down has twice as many.
    levels
        How often it is pooled.
    padding
        ``"SAME"`` keeps the image's size, if it can be halved so often.
    """
    return UNet(
        tuple(double(width * 2**i, padding) for i in range(levels)),
        nn.Sequential(double(width * 2**levels, padding), nn.Dropout(0.5)),
        tuple(nn.ConvTranspose2D(width * 2**i, 2, stride=2) for i in reversed(range(levels))),
        tuple(double(width * 2**i, padding) for i in reversed(range(levels))),
        nn.Conv2D(classes, 1),
    )
