"""Indexing functions of the array API."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.errors import ShapeError

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def take(xp: ArrayNamespace, x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Slices along an axis, by their numbers; the axis may be left out of a vector.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.take([5, 6, 7], [2, 0]).numpy()
    array([7, 5])
    """
    found = xp.asarray(x)
    if axis is None:
        if found.ndim != 1:
            raise ShapeError(f"take wants an axis of a tensor of rank {found.ndim}, shape {found.shape}")
        axis = 0
    return xp.ops.take(found, xp.asarray(indices), axis=axis)


def take_along_axis(xp: ArrayNamespace, x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Elements along an axis, one number for each; the other axes broadcast.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.take_along_axis([[5, 6, 7]], [[2, 0]]).numpy()
    array([[7, 5]])
    """
    found, numbers = xp.asarray(x), xp.asarray(indices)
    n = found.ndim
    if numbers.ndim == n and -n <= axis < n:
        at = axis % n
        shape = xp.broadcast_shapes(*[(*a.shape[:at], *a.shape[at + 1 :]) for a in (found, numbers)])
        found, numbers = (
            xp.ops.broadcast_to(a, shape=(*shape[:at], a.shape[at], *shape[at:])) for a in (found, numbers)
        )
    return xp.ops.take_along_axis(found, numbers, axis=axis)
