"""Maxima and means of windows over images whose channels are innermost in memory."""

from __future__ import annotations

import math
from functools import lru_cache

from attrs import frozen

from nnc_func.device.onednn.handles import Handle, attributes, sizes, strided
from nnc_func.device.onednn.library import Library, present, threads
from nnc_func.device.onednn.primitives import (
    ALIKE,
    INFERENCE,
    RESULT,
    SOURCE,
    Primitive,
    assemble,
    for_threads,
    images,
)

KINDS = {"maximum": 0x1FF, "mean": 0x3FF, "mean with padding": 0x2FF}  # ``dnnl_alg_kind_t``
WEIGHT = 5  # an element of a window takes as long as so many FLOPs of a convolution


@frozen
class Pooling:
    """Windows over images, channels innermost.

    Attributes
    ----------
    images
        Shape of float32: (images, height, width, channels).
    kind
        ``"maximum"``, which does not see NaN; ``"mean"``, of the elements that are there; ``"mean with padding"``, of
        all, where padding counts as zeros.
    outputs
        Height and width of the result.
    size, stride, dilation, before, after
        Of each of the two axes; dilation 1 has no gaps.
    """

    kind: str
    images: tuple[int, ...]
    outputs: tuple[int, int]
    size: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]


@lru_cache(ALIKE)
def _pooling(of: Pooling, count: int) -> Primitive:
    result = (of.images[0], *of.outputs, of.images[3])

    def make(library: Library) -> Primitive:
        x, y = (strided(library, *images(shape)) for shape in (of.images, result))
        made = library.made(
            "pooling_forward_primitive_desc_create", library.engine, INFERENCE, KINDS[of.kind], x, y, sizes(of.stride),
            sizes(of.size), sizes([d - 1 for d in of.dilation]), sizes(of.before), sizes(of.after), attributes(library),
        )  # fmt: skip
        return assemble(library, Handle(library, "primitive_desc", made), [(SOURCE, x), (RESULT, y)])

    return for_threads(WEIGHT * math.prod(result) * math.prod(of.size), make)


def pooling(of: Pooling) -> Primitive:
    """The primitive of maxima or means of windows; its arrays are images and result.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _pooling(of, threads(present()))
