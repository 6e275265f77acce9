"""Resampling along an axis: where each element of the result lies among those that there are, and what it weighs.

The rules are those of ONNX's operator Resize: they cover those of PyTorch, TensorFlow and OpenCV.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import OperatorError
from nnc_func.facets.dims import known

Array = Any
METHODS = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@frozen
class Resampling:
    """How an axis is resampled, whatever its extent.

    Attributes
    ----------
    method
        ``"nearest"``, ``"linear"`` or ``"cubic"``.
    coordinates
        How positions of the result become positions in the axis: one of `COORDINATES`.
    rounding
        Which element is the nearest: one of `ROUNDINGS`.
    coefficient
        Of the cubic convolution: -0.75 (PyTorch, OpenCV) or -0.5 (TensorFlow, Keys).
    antialias
        Where there are fewer elements than before, each weighs as many as it stands for.
    exclude_outside
        Neighbours beyond the ends weigh nothing, and the others more; else the outermost element stands for them.

    Raises
    ------
    OperatorError
        A name that is none of these.
    """

    method: str = "linear"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    coefficient: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def __attrs_post_init__(self) -> None:
        for name, options in (("method", METHODS), ("coordinates", COORDINATES), ("rounding", tuple(ROUNDINGS))):
            if getattr(self, name) not in options:
                raise OperatorError(f"{name} is one of {', '.join(options)}, given {getattr(self, name)!r}")

    def positions(self, n: int, m: int, scale: float, region: tuple[float, float]) -> Array:
        """Where m elements lie on an axis of n: 0 is the middle of the first one.

        Examples
        --------
        >>> Resampling().positions(2, 4, 2.0, (0.0, 1.0))
        array([-0.25,  0.25,  0.75,  1.25])
        """
        at, length = np.arange(m, dtype=np.float64), scale * n
        if self.coordinates == "align_corners":
            return at * ((n - 1) / (length - 1)) if length != 1 else at * 0
        if self.coordinates == "asymmetric":
            return at / scale
        if self.coordinates == "tf_crop_and_resize":
            start, end = region
            span = (end - start) * (n - 1)
            return start * (n - 1) + (at * (span / (length - 1)) if length != 1 else at + span / 2)
        if self.coordinates == "pytorch_half_pixel" and length == 1:
            return at * 0
        found = (at + 0.5) / scale - 0.5
        return found + n / 2 * (1 - m / length) if self.coordinates == "half_pixel_symmetric" else found

    def nearest(self, positions: Array, n: int) -> Array:
        """The element nearest to each position: int64.

        Positions are fractions that were rounded: one beside a whole or a half number is that number.

        Examples
        --------
        >>> Resampling(rounding="ceil").nearest(np.array([-0.25, 0.25, 0.75, 1.25]), 2)
        array([0, 1, 1, 1])
        """
        halves = np.rint(2 * positions) / 2
        exact = np.where(np.abs(positions - halves) < 1e-9, halves, positions)
        return np.clip(ROUNDINGS[self.rounding](exact), 0, n - 1).astype(np.int64)

    def copies(self, scale: float) -> int:
        """How many times each element is taken, side by side, where that is all there is to do; else 0.

        Examples
        --------
        >>> Resampling("nearest").copies(2.0), Resampling("nearest").copies(1.5), Resampling("linear").copies(2.0)
        (2, 0, 0)
        """
        times = int(scale)
        if self.method != "nearest" or self.coordinates in ("align_corners", "tf_crop_and_resize") or times != scale:
            return 0
        few = min(times, 4)  # more are as four are
        found = self.nearest(self.positions(4, 4 * few, few, (0.0, 1.0)), 4) if few else None
        return times if found is not None and np.array_equal(found, np.arange(4 * few) // few) else 0

    def neighbours(self, positions: Array, n: int, scale: float) -> tuple[Array, Array]:
        """Which of n elements each position takes, and what they weigh: a row for each position.

        Examples
        --------
        >>> places, weights = Resampling().neighbours(np.array([-0.25, 0.25]), 2, 2.0)
        >>> places.tolist(), weights.tolist()
        ([[0, 0], [0, 1]], [[0.25, 0.75], [0.75, 0.25]])
        """
        reach = 2 if self.method == "cubic" else 1
        narrow = min(scale, 1.0) if self.antialias else 1.0
        taps = math.ceil(reach / narrow)
        first = np.floor(positions).astype(np.int64)
        places = first[:, None] + np.arange(1 - taps, taps + 1)
        found = self._kernel(np.abs(places - positions[:, None]) * narrow)
        if self.exclude_outside:
            found = np.where((places < 0) | (places >= n), 0.0, found)
        total = found.sum(axis=1, keepdims=True)
        return np.clip(places, 0, n - 1), found / np.where(total == 0, 1.0, total)

    def weights(self, positions: Array, n: int, scale: float) -> Array:
        """What each position weighs each of n elements by: a matrix whose rows add up to one.

        Examples
        --------
        >>> Resampling().weights(np.array([-0.25, 0.25]), 2, 2.0)
        array([[1.  , 0.  ],
               [0.75, 0.25]])
        """
        places, found = self.neighbours(positions, n, scale)
        matrix = np.zeros((len(positions), n))
        np.add.at(matrix, (np.arange(len(positions))[:, None], places), found)
        return matrix

    def _kernel(self, far: Array) -> Array:
        if self.method == "linear":
            return np.maximum(1 - far, 0)
        a = self.coefficient  # R. G. Keys, Cubic convolution interpolation for digital image processing, 1981
        near = ((a + 2) * far - (a + 3)) * far * far + 1
        beyond = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
        return np.where(far <= 1, near, np.where(far < 2, beyond, 0.0))


def resampled_extents(
    extents: tuple[Any, ...], size: tuple[int, ...] | None, scale: tuple[float, ...] | None, aspect: str
) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """The extents after resampling, and the scales: either is given; unknown extents are scaled by whole numbers.

    Examples
    --------
    >>> resampled_extents((4, 6), (8, 6), None, "not_larger")
    ((4, 6), (1.0, 1.0))
    >>> resampled_extents((4, 6), None, (0.6, 2.0), "stretch")
    ((2, 12), (0.6, 2.0))
    """
    if aspect not in ("stretch", "not_larger", "not_smaller"):
        raise OperatorError(f"aspect is 'stretch', 'not_larger' or 'not_smaller', given {aspect!r}")
    if scale is not None:
        pairs = zip(extents, scale, strict=True)
        return tuple(math.floor(n * s) if known(n) else n * int(s) for n, s in pairs), scale
    assert size is not None
    scales = tuple(m / n for n, m in zip(extents, size, strict=True))
    if aspect == "stretch":
        return size, scales
    common = min(scales) if aspect == "not_larger" else max(scales)
    return tuple(math.floor(n * common + 0.5) for n in extents), (common,) * len(extents)
