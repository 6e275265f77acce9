"""What most of the networks are made of: a convolution, then batch normalisation; and of how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnc_func import nn
from nnc_func.errors import OperatorError


def convolution(
    channels: int, window: Any, stride: int = 1, *, valid: bool = False, dilation: int = 1, groups: int = 1,
    biased: bool = False, epsilon: float = 1e-5, scale: float = 1.0,
) -> list[Any]:  # fmt: skip
    """Two layers: a convolution that keeps the size but for its stride, or takes no padding, and a normalisation.

    Weights are drawn for relu: He et al., ICCV 2015. `scale` is what the normalisation multiplies by at first.

    Examples
    --------
    >>> model = nn.Sequential(*convolution(8, (1, 3), stride=2)).init(0, (None, 9, 9, 3))
    >>> model(nn.abstract.Abstract().tensor((1, 9, 9, 3), "float32")).shape
    (1, 5, 5, 8)
    """
    sides = (window, window) if isinstance(window, int) else window
    edges = tuple((dilation * (side - 1) // 2,) * 2 for side in sides)
    conv = nn.Conv2D(
        channels, window, stride=stride, padding="VALID" if valid else edges, dilation=dilation, groups=groups,
        biased=biased, initialiser=nn.he_normal,
    )  # fmt: skip
    return [conv, nn.BatchNorm(epsilon=epsilon, initialiser=nn.Constant(scale))]


def of_depth(depth: int, known: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The layers or blocks of each stage of a network of that depth.

    Raises
    ------
    OperatorError
        There is no such depth.

    Examples
    --------
    >>> of_depth(18, {18: (2, 2, 2, 2)})
    (2, 2, 2, 2)
    """
    if depth not in known:
        raise OperatorError(f"the depth is one of {', '.join(map(str, known))}, given {depth!r}")
    return known[depth]
