"""Arrays whose elements are put into another order of axes in memory."""

from __future__ import annotations

import math
from functools import lru_cache

from nnc_func.device.onednn.handles import Handle, attributes, strided
from nnc_func.device.onednn.library import Library, present, threads
from nnc_func.device.onednn.primitives import ALIKE, RESULT, SOURCE, Primitive, assemble, for_threads

WEIGHT = 40  # an element takes as long as so many FLOPs of a convolution


@lru_cache(ALIKE)
def _reorder(shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], count: int) -> Primitive:
    def make(library: Library) -> Primitive:
        one, other = (strided(library, shape, strides) for strides in (source, target))
        engine = library.engine
        made = library.made("reorder_primitive_desc_create", one, engine, other, engine, attributes(library))
        return assemble(library, Handle(library, "primitive_desc", made), [(SOURCE, one), (RESULT, other)])

    return for_threads(WEIGHT * math.prod(shape), make)


def reorder(shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]) -> Primitive:
    """The primitive that copies float32 from some strides, in elements, to others; its arrays are these two.

    Raises
    ------
    DeviceError
        There is no oneDNN, or it has none for these.
    """
    return _reorder(shape, source, target, threads(present()))
