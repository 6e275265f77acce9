"""Kernels of oneDNN that are called one by one, not from a program: bound once for all calls that are alike.

A thread has the latest 1,024 of them, and one run of scratch memory for all. So the second convolution of the same
shapes makes nothing, and takes no memory but for its result.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.facets.kernels import Operand

KEPT = 1024  # calls that are not alike, remembered by each thread
MOST = 1 << 26  # bytes of scratch memory beyond which a call is bound for itself
ALIGNMENT = 64


class _Known(threading.local):
    """What a thread remembers: functions of arrays by what they were bound for, and scratch memory."""

    def __init__(self) -> None:
        self.calls: OrderedDict[Any, Callable[..., None]] = OrderedDict()
        self.scratch = np.empty(0, np.uint8)
        self.is_busy = False  # a finaliser may call amid a call

    def memory(self, wanted: Any) -> tuple[Any, ...]:
        """Arrays of these shapes and dtypes, one behind the other.

        Where there is too little memory it is doubled at least: what was bound to the smaller one keeps that, all of
        them together less than the largest.
        """
        starts, count = [], ALIGNMENT
        for shape, dtype in wanted:
            starts.append(count)
            count += -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
        if count > self.scratch.nbytes:
            self.scratch = np.empty(max(count, 2 * self.scratch.nbytes), np.uint8)
        first = -self.scratch.__array_interface__["data"][0] % ALIGNMENT - ALIGNMENT
        return tuple(
            np.ndarray(shape, dtype, self.scratch, first + start)
            for start, (shape, dtype) in zip(starts, wanted, strict=True)
        )


_known = _Known()


def call(
    bound_of: Any, scratch_of: Any, setting: Any, arrays: tuple[Any, ...], params: dict[str, Any], results: int = 1
) -> None:
    """Compute the last ones of the arrays, so many results, of the others.

    Parameters
    ----------
    bound_of, scratch_of
        A kernel's `bound` and `scratch`.
    setting
        What it is bound for beside shapes and parameters.
    """
    key = bound_of, setting, tuple([(a.shape, a.dtype) for a in arrays]), tuple(params.items())
    known = _known
    found = known.calls.get(key)
    if found is None or known.is_busy:
        found = _made(known, key, bound_of, scratch_of, arrays, params, results)
    else:
        known.calls.move_to_end(key)
    busy, known.is_busy = known.is_busy, True
    try:
        found(*arrays)
    finally:
        known.is_busy = busy


def _made(
    known: _Known, key: Any, bound_of: Any, scratch_of: Any, arrays: tuple[Any, ...], params: dict[str, Any],
    results: int,
) -> Callable[..., None]:  # fmt: skip
    avals = tuple([Operand(a.shape, a.dtype) for a in arrays])  # no array is kept
    wanted = scratch_of(avals[:-results], **params)
    of = bound_of(avals, **params)
    if known.is_busy or sum(math.prod(shape) * dtype.itemsize for shape, dtype in wanted) > MOST:
        return of(*[np.empty(shape, dtype) for shape, dtype in wanted])  # type: ignore[no-any-return]
    found: Callable[..., None] = of(*known.memory(wanted))
    known.calls[key] = found
    if len(known.calls) > KEPT:
        known.calls.popitem(last=False)
    return found
