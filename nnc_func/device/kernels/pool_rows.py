"""Means of neighbours along the rows of images that lie innermost in memory: of channels, whatever the axes are called.

All rows are added to themselves, shifted, as one run of memory. What comes from the row before or behind is wrong, so
that elements near the ends of rows are added up once more, each from its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels.linalg import Arrays
from nnc_func.device.kernels.pool_reference import pooled, windows_in
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC

BLOCK = 1 << 16  # elements that are added up at a time: they stay in cache
ROWS_INNERMOST = (0, 2, 3, 1)  # of images of the format NHWC


def _accepts(avals: Arrays, *, window: Any, stride: Any, data_format: str, **params: Any) -> bool:
    """Whether windows are of one column, and there is one around each element."""
    x = avals[0]
    if data_format != NHWC or x.dtype.kind not in "fc" or 0 in x.shape:
        return False
    over = windows_in(x.shape, window=window, stride=stride, data_format=data_format, **params)
    return over.size[1] == 1 and over.stride == (1, 1) and over.inputs == over.outputs


def _into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, count_padding: bool = False, **params: Any
) -> None:
    (x,), (out,) = arrays, outs
    over, extent = windows_in(x.shape, **params), x.shape[1]
    shifts = [k * over.dilation[0] - over.before[0] for k in range(over.size[0])]
    shifts = [s for s in shifts if abs(s) < extent]
    here = range(extent)
    ends = [j for j in here if not all(0 <= j + s < extent for s in shifts)]
    rows, sums = (a.transpose(ROWS_INNERMOST).reshape(-1, extent) for a in (x, out))
    counts: Any = over.size[0]
    if not count_padding:
        counts = np.array([sum(0 <= j + s < extent for s in shifts) for j in here], out.dtype)
    step = max(1, BLOCK // extent)
    for start in range(0, len(rows), step):
        given, found = rows[start : start + step], sums[start : start + step]
        _added(given.reshape(-1), found.reshape(-1), shifts)
        for j in ends:
            target = found[:, j]
            target.fill(0)
            for s in shifts:
                if 0 <= j + s < extent:
                    np.add(target, given[:, j + s], out=target)
        np.divide(found, counts, out=found)


def _added(x: Any, out: Any, shifts: list[int]) -> None:
    """A run of elements, added to itself as often as there are shifts."""
    out.fill(0)
    for s in shifts:
        target, given = (out[: len(x) - s], x[s:]) if s >= 0 else (out[-s:], x[:s])
        np.add(target, given, out=target)


def _compute(xp: Any, x: Any, **params: Any) -> Any:
    n, rows, columns, channels = pooled(x, **params)
    out = np.empty((n, columns, channels, rows), x.dtype).transpose(0, 3, 1, 2)
    _into(xp, (x,), (out,), (), **params)
    return out


AVERAGE_ALONG_ROWS = Kernel(
    "along rows", compute=_compute, into=_into, scratch=lambda avals, **_: (), accepts=_accepts, layouts=("NWCH",),
    namespaces=frozenset({"numpy"}),
)  # fmt: skip
