"""Comparing what operators give."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from nnc_func.op import Op


def equal(found: Any, wanted: Any, ulps: float = 0.0, what: str = "") -> None:
    """Raise AssertionError unless two arrays have one shape, one dtype, and values so many ulps from each other.

    Parameters
    ----------
    ulps
        Units in the last place, of the largest magnitude that occurs; 0 wants equal numbers. NaN equals NaN.

    Examples
    --------
    >>> equal(np.float32([1, 2]), np.float32([1, 2 + 2**-22]), ulps=1.0)
    """
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise AssertionError(f"{what}: {found.dtype}{list(found.shape)}, wanted {wanted.dtype}{list(wanted.shape)}")
    if found.dtype.kind not in "fc":
        if not np.array_equal(found, wanted):
            raise AssertionError(f"{what}: {found!r}, wanted {wanted!r}")
        return
    finite = np.abs(wanted[np.isfinite(wanted)])
    allowed = ulps * float(np.finfo(wanted.dtype).eps) * (float(finite.max()) if finite.size else 0.0)
    with np.errstate(all="ignore"):
        near = (found == wanted) | (np.isnan(found) & np.isnan(wanted)) | (np.abs(found - wanted) <= allowed)
    if not near.all():
        raise AssertionError(f"{what}: {found!r}, wanted {wanted!r} to {ulps:g} ulps")


def results(op: Op, found: Any) -> tuple[Any, ...]:
    """What `bind` gave, as a tuple."""
    return tuple(found) if op.multi_result else (found,)


@lru_cache(maxsize=8)
def at_once(stack: Any) -> Any:
    """The eager stack of the device and the catalogue of another one."""
    from nnc_func.stacks import eager

    return eager(stack.device).swap(type=stack.type)
