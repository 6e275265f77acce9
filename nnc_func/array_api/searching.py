"""Searching functions of the array API."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.errors import ShapeError

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def argmax(xp: ArrayNamespace, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Position of the first largest element along an axis, or among all.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.argmax([1, 5, 2]).item()
    1
    """
    return xp.ops.argmax(x, axis=axis, keepdims=keepdims)


def argmin(xp: ArrayNamespace, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Position of the first smallest element along an axis, or among all.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.argmin([4, 1, 2]).item()
    1
    """
    return xp.ops.argmin(x, axis=axis, keepdims=keepdims)


def count_nonzero(xp: ArrayNamespace, x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements are not zero, along axes.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.count_nonzero([0, 5, -1]).item()
    2
    """
    return xp.ops.count_nonzero(x, axis=axis, keepdims=keepdims)


def nonzero(xp: ArrayNamespace, x: Any, /) -> tuple[Any, ...]:
    """Positions of the elements that are not zero, in row-major order: a vector of indices for each axis.

    Raises
    ------
    ExtentError
        The elements are not known: they decide the shape.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> [i.numpy().tolist() for i in nnc.eager().array_api.nonzero([[0, 5], [1, 0]])]
    [[0, 1], [1, 0]]
    """
    return tuple(xp.ops.nonzero(x))


def searchsorted(xp: ArrayNamespace, x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where elements would be inserted into a sorted vector; ``sorter`` has the numbers that sort one that is not.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.searchsorted([1, 3, 5], [3, 4]).numpy()
    array([1, 2])
    """
    if sorter is not None and (order := xp.asarray(sorter)).shape != xp.asarray(x1).shape:
        raise ShapeError(f"searchsorted: a sorter has a number for each element, given {order.shape}")
    ordered = x1 if sorter is None else xp.take(x1, sorter, axis=0)
    return xp.ops.searchsorted(ordered, x2, side=side)


def where(xp: ArrayNamespace, condition: Any, x1: Any, x2: Any, /) -> Any:
    """Elements of the first where the condition holds, and of the second elsewhere.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.where([True, False], [1, 2], 0).numpy()
    array([1, 0])
    """
    return xp.ops.where(condition, x1, x2)
