"""Extents that depend on elements: how many are true, how large the largest is. They must be known when one builds."""

from __future__ import annotations

import operator as python
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from nnc_func.errors import DeviceError, ExtentError, TracingError, UnboundError
from nnc_func.facets.dims import Dim

_late: ContextVar[list[tuple[Dim, Any]] | None] = ContextVar("late", default=None)


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


@contextmanager
def late_extents() -> Iterator[list[tuple[Dim, Any]]]:
    """Within it extents may depend on elements that are not known yet: a list of unknown extents, and what tells them.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.composites.extents import late_extents
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (3,), "float64")
    >>> with late_extents() as told:
    ...     rows = x[x > 0]
    >>> rows.shape == (told[0][0],), told[0][1].shape
    (True, ())
    """
    told: list[tuple[Dim, Any]] = []
    token = _late.set(told)
    try:
        yield told
    finally:
        _late.reset(token)


def late_extent(count: Any, error: Exception) -> Dim | None:
    """A new unknown extent, told by a number that depends on an input; None where there may be none.

    Parameters
    ----------
    error
        Why the number is not known.
    """
    told, cause = _late.get(), error
    if told is None or not isinstance(cause if isinstance(cause, UnboundError) else cause.__context__, UnboundError):
        return None
    found = Dim.fresh()
    told.append((found, count))
    return found
