"""Sorting functions of the array API."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def sort(xp: ArrayNamespace, x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """In order along an axis; sorting is always stable.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.sort([3, 1, 2], descending=True).numpy()
    array([3, 2, 1])
    """
    return xp.ops.sort(x, axis=axis, descending=descending)


def argsort(xp: ArrayNamespace, x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The positions of the elements in their order along an axis; equal ones stay in theirs.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.argsort([3, 1, 2]).numpy()
    array([1, 2, 0])
    """
    return xp.ops.argsort(x, axis=axis, descending=descending)
