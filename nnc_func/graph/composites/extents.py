"""Extents that depend on elements: how many are true, how large the largest is. They must be known when one builds."""

from __future__ import annotations

import operator as python
from typing import Any

import numpy as np

from nnc_func.errors import DeviceError, ExtentError, TracingError, UnboundError
from nnc_func.facets.late_extents import late_extent


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
        raise ExtentError(f"a shape depends on the elements of {x!r}, which are not known: {why} ({error})") from None


def count_of(o: Any, x: Any, why: str) -> Any:
    """How many elements are not zero.

    Where they are not known, but are told by what is traced (see `late_extents`), that is a new unknown extent.

    Raises
    ------
    ExtentError
        They are not known.
    """
    if isinstance(x, np.ndarray):
        return int(np.count_nonzero(x))
    count = o.count_nonzero(x)
    try:
        return python.index(value_of(count, why).item())
    except ExtentError as error:
        found = late_extent(count, error)
        if found is None:
            raise
        return found
