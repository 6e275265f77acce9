"""Whether products of bfloat16 are the processor's own: it has instructions for them, which give what they should."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nnc_func.device.onednn.handles import BFLOAT16
from nnc_func.device.onednn.library import Library
from nnc_func.device.onednn.primitives import After, Product, product
from nnc_func.errors import DeviceError, DTypeError
from nnc_func.facets.dtypes import as_dtype

NATIVE = ("bfloat16", "AMX")  # in what the library says of the processor
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, -104.0, 3e38, -3e38, 2.0**-60, -(2.0**-60))


@lru_cache
def is_native(library: Library) -> bool:
    """Whether this processor multiplies bfloat16, sums in float32, and keeps NaN and infinities, rectified too."""
    from nnc_func.device.onednn.bound import bound

    if not any(each in library.instructions for each in NATIVE):
        return False
    try:
        dtype = as_dtype("bfloat16")
    except DTypeError:  # ml_dtypes is not installed: there are no arrays of it
        return False
    inner, columns = 64, 32
    left = np.arange(len(SPECIAL) * inner, dtype=np.float32).reshape(len(SPECIAL), inner) % 7 - 3
    left[:, 0] = SPECIAL
    right = np.arange(inner * columns, dtype=np.float32).reshape(inner, columns) % 5 - 2
    right[0] = 2.0**-60
    bias = np.arange(columns, dtype=np.float32).reshape(1, columns)
    sums = left @ right + bias
    wanted = np.maximum(sums, 0).astype(dtype)
    given = [x.astype(dtype) for x in (left, right, bias)]
    after = After("add", "channels"), After("relu")
    try:
        made = product(Product(left.shape, right.shape, False, False, BFLOAT16), (), after)
        scratch = np.empty(made.room, np.uint8) if made.scratch else None
        found = np.empty(wanted.shape, dtype)
        bound(made, scratch, (np.asarray,) * 3)(*given, found)
    except DeviceError:
        return False
    return np.array_equal(found.astype(np.float32), wanted.astype(np.float32), equal_nan=True)
