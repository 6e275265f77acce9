"""Statistical functions of the array API, and functions of truth along axes."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import ShapeError

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace

Axes = int | Sequence[int]


def reduction(name: str) -> Callable[..., Any]:
    """The reduction of that name, as a method of one tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.max([[1, 5], [2, 3]], axis=0).numpy()
    array([2, 5])
    """

    def function(xp: ArrayNamespace, x: Any, /, *, axis: Axes | None = None, keepdims: bool = False) -> Any:
        return getattr(xp.ops, name)(x, axis=axis, keepdims=keepdims)

    function.__name__, function.__qualname__ = name, f"ArrayNamespace.{name}"
    function.__doc__ = f"Reduction `{name}` over axes; all of them if None. See docs/operators.md."
    return function


def accumulation(name: str) -> Callable[..., Any]:
    """The reduction of that name with a dtype to compute in, as a method of one tensor.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.sum(np.int8([100, 100])).item()
    200
    """

    def function(
        xp: ArrayNamespace, x: Any, /, *, axis: Axes | None = None, dtype: Any = None, keepdims: bool = False
    ) -> Any:
        return _of_dtype(xp, getattr(xp.ops, name)(_of_dtype(xp, x, dtype), axis=axis, keepdims=keepdims), dtype)

    function.__name__, function.__qualname__ = name, f"ArrayNamespace.{name}"
    function.__doc__ = f"Reduction `{name}` over axes; small integers widen to 64 bits unless a dtype is given."
    return function


def spread(name: str) -> Callable[..., Any]:
    """Variance or standard deviation, as a method of one tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.std([1.0, 3.0], correction=1).item()
    1.4142135623730951
    """

    def function(
        xp: ArrayNamespace, x: Any, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False
    ) -> Any:
        return getattr(xp.ops, name)(x, axis=axis, correction=correction, keepdims=keepdims)

    function.__name__, function.__qualname__ = name, f"ArrayNamespace.{name}"
    function.__doc__ = f"`{name}` over axes; `correction` degrees of freedom are taken off the number of elements."
    return function


def running(name: str) -> Callable[..., Any]:
    """A cumulative sum or product, as a method of one tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.cumulative_sum([1, 2, 3], include_initial=True).numpy()
    array([0, 1, 3, 6])
    """
    first = {"cumulative_sum": 0, "cumulative_prod": 1}[name]

    def function(
        xp: ArrayNamespace,
        x: Any,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        include_initial: bool = False,
    ) -> Any:
        given = _of_dtype(xp, x, dtype)
        if axis is None and given.ndim != 1:
            raise ShapeError(f"{name} wants an axis of a tensor of rank {given.ndim}, shape {given.shape}")
        at = 0 if axis is None else axis
        found = getattr(xp.ops, name)(given, axis=at)
        if include_initial:
            shape = list(found.shape)
            shape[at] = 1
            found = xp.ops.concat(xp.ops.full(shape=tuple(shape), value=first, dtype=found.dtype), found, axis=at)
        return _of_dtype(xp, found, dtype)

    function.__name__, function.__qualname__ = name, f"ArrayNamespace.{name}"
    function.__doc__ = f"`{name}` along an axis, which may be left out of a vector; with {first} in front if asked for."
    return function


def _of_dtype(xp: ArrayNamespace, x: Any, dtype: Any) -> Any:
    given = xp.asarray(x)
    return given if dtype is None else xp.ops.cast(given, dtype=np.dtype(dtype))


def diff(xp: ArrayNamespace, x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, ``n`` times over, with tensors put in front and behind first.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.diff([1, 4, 9]).numpy()
    array([3, 5])
    """
    given = [None if a is None else xp.asarray(a) for a in (x, prepend, append)]
    return xp.ops.diff(*given, axis=axis, n=n)
