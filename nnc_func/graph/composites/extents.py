"""Extents that depend on elements: how many are true, how large the largest is. They must be known when one builds."""

from __future__ import annotations

import operator as python
from typing import Any

import numpy as np

from nnc_func.errors import DeviceError, ExtentError, TracingError, UnboundError
from nnc_func.facets.late_extents import late_extent, may_wait


def value_of(x: Any, why: str) -> Any:
    """The elements of a tensor or an array, on the host: computed now, on every stack.

    Parameters
    ----------
    why
        What they are wanted for, and what to do where they cannot be had: goes into the error.

    Raises
    ------
    ExtentError
        They are not known: the tensor depends on an input, is traced, or its device has no elements.

    Examples
    --------
    >>> value_of(np.array([1, 2]), "an example")
    array([1, 2])
    """
    if isinstance(x, np.ndarray):
        return x
    try:
        return x.numpy() if hasattr(x, "numpy") else np.asarray(x)
    except (UnboundError, TracingError, DeviceError, TypeError, ValueError) as error:
        raise ExtentError(
            f"a shape depends on the elements of {x!r}, which are not known: {why}, or {_elsewhere(x)} ({error})"
        ) from None


def _elsewhere(x: Any) -> str:
    """Where they would be known."""
    carrier = getattr(x, "value", x)
    while hasattr(carrier, "primal"):
        carrier = carrier.primal
        if hasattr(carrier, "whole"):
            return (
                "use stack.map in place of vmap, whose rows may have other numbers each: its function may wait for "
                "what is computed at once"
            )
    if may_wait():
        return (
            "use map, while_loop, foreach or cond in place of what it stands in: the functions of map(batch=), "
            "loop_until, fixed_point, associative_scan, checkpoint and of derivatives of one's own, and converted if, "
            "while and for, do not wait for what is computed at once"
        )
    return "jit with dynamic=True, or compute it outside of jit and compiled programs"


def extent_of(number: Any, why: str) -> Any:
    """A number as an extent.

    Where it is not known, but is told by what is traced (see `late_extents`), that is a new unknown extent.

    Raises
    ------
    ExtentError
        It is not known.
    """
    try:
        return python.index(value_of(number, why).item())
    except ExtentError as error:
        found = late_extent(number, error)
        if found is None:
            raise
        return found


def count_of(o: Any, x: Any, why: str) -> Any:
    """How many elements are not zero, as `extent_of` has it."""
    return int(np.count_nonzero(x)) if isinstance(x, np.ndarray) else extent_of(o.count_nonzero(x), why)
