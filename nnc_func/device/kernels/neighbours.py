"""Neighbours of floating numbers by their bits: CuPy's flush what is smaller than normal numbers to zero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import evolve

from nnc_func.device.kernels.move import Arrays, converted
from nnc_func.facets.dtypes import DType, floating
from nnc_func.facets.kernels import Kernel


def next_after(xp: Any, a: Any, b: Any) -> Any:
    """The number next to `a` on the way to `b`; `b` itself where they are equal; NaN beside a NaN.

    Read as integers, floating numbers of one sign are in order; those below zero are turned round.

    Examples
    --------
    >>> next_after(np, np.float32([0, 1, -0.0]), np.float32([-1, 1, 0]))
    array([-1.e-45,  1.e+00,  0.e+00], dtype=float32)
    """
    dtype = floating(a.dtype, b.dtype)
    a, b = xp.broadcast_arrays(converted(xp, a, dtype), converted(xp, b, dtype))
    whole = _integers(dtype)
    lowest = whole.type(np.iinfo(whole).min)  # the sign alone
    bits, aims = a.view(whole), b.view(whole)
    here, there = (xp.where(each >= 0, each, lowest - each) for each in (bits, aims))
    moved = here + (there > here).astype(whole) - (there < here).astype(whole)
    found = xp.where(moved > 0, moved, xp.where(moved < 0, lowest - moved, bits & lowest))
    found = xp.where(here == there, aims, found).view(dtype)
    return xp.where(xp.isnan(a) | xp.isnan(b), dtype.type(math.nan), found)


def _integers(dtype: DType) -> DType:
    return np.dtype(f"int{8 * dtype.itemsize}")


def _into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    outs[0][...] = next_after(xp, *arrays)


def neighbours(plain: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """The kernels of `nextafter`: those of NumPy, that of CuPy, and the reference, which is the last of `plain`."""
    host = [evolve(each, namespaces=frozenset({"numpy"})) for each in plain[:-1]]
    gpu = Kernel("by bits", compute=next_after, into=_into, infallible=True, namespaces=frozenset({"cupy"}))
    return (*host, gpu, plain[-1])
