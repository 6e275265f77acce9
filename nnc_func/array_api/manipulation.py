"""Manipulation functions of the array API: the same elements in another shape or order."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nnc_func.declaration import sizes
from nnc_func.errors import ShapeError
from nnc_func.facets.shapes import broadcast

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace

Axes = int | Sequence[int]


def broadcast_shapes(xp: ArrayNamespace, *shapes: Any) -> tuple[Any, ...]:
    """The shape that these broadcast to.

    Raises
    ------
    ShapeError
        They do not.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return tuple(broadcast(*map(sizes, shapes)))


def broadcast_to(xp: ArrayNamespace, x: Any, /, shape: Any) -> Any:
    """Repeated along axes of extent 1 and new leading ones, to that shape.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.broadcast_to([1, 2], (2, 2)).numpy()
    array([[1, 2],
           [1, 2]])
    """
    return xp.ops.broadcast_to(x, shape=shape)


def broadcast_arrays(xp: ArrayNamespace, *arrays: Any) -> list[Any] | tuple[Any, ...]:
    """All of them in the shape that they broadcast to: a list, a tuple from version 2025.12 of the standard on.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> [a.shape for a in nnc.eager().array_api.broadcast_arrays([[1], [2]], [3, 4, 5])]
    [(2, 3), (2, 3)]
    """
    return xp.several(xp.ops.broadcast_arrays(*arrays))


def concat(xp: ArrayNamespace, arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Joined along an axis; flattened first if that is None.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.concat([[1, 2], [3]]).numpy()
    array([1, 2, 3])
    """
    found = [xp.asarray(a) for a in arrays]
    if axis is None:
        return xp.ops.concat(*[xp.ops.reshape(a, shape=(-1,)) if a.ndim != 1 else a for a in found], axis=0)
    return xp.ops.concat(*found, axis=axis)


def stack(xp: ArrayNamespace, arrays: Any, /, *, axis: int = 0) -> Any:
    """Joined along a new axis.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.stack([[1, 2], [3, 4]], axis=1).numpy()
    array([[1, 3],
           [2, 4]])
    """
    return xp.ops.stack(*arrays, axis=axis)


def unstack(xp: ArrayNamespace, x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Its slices along an axis.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> [a.item() for a in nnc.eager().array_api.unstack([1, 2])]
    [1, 2]
    """
    return tuple(xp.ops.unstack(x, axis=axis))


def expand_dims(xp: ArrayNamespace, x: Any, /, axis: Axes = 0) -> Any:
    """With a new axis of extent 1.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.expand_dims([1, 2], axis=-1).shape
    (2, 1)
    """
    try:
        return xp.ops.expand_dims(x, axis=axis)
    except ShapeError as error:
        raise IndexError(str(error)) from None


def squeeze(xp: ArrayNamespace, x: Any, /, axis: Axes) -> Any:
    """Without axes of extent 1.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.squeeze([[1, 2]], 0).shape
    (2,)
    """
    return xp.ops.squeeze(x, axis=axis)


def flip(xp: ArrayNamespace, x: Any, /, *, axis: Axes | None = None) -> Any:
    """In reverse order along axes; all of them if None.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.flip([1, 2]).numpy()
    array([2, 1])
    """
    return xp.ops.flip(x, axis=axis)


def roll(xp: ArrayNamespace, x: Any, /, shift: Any, *, axis: Axes | None = None) -> Any:
    """Shifted along axes, what leaves at the end comes in at the front; flattened for it if the axis is None.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.roll([1, 2, 3], 1).numpy()
    array([3, 1, 2])
    """
    return xp.ops.roll(x, shift=shift, axis=axis)


def moveaxis(xp: ArrayNamespace, x: Any, source: Axes, destination: Axes, /) -> Any:
    """With axes in other positions; the rest keep their order.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.moveaxis(xp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return xp.ops.moveaxis(x, source=source, destination=destination)


def permute_dims(xp: ArrayNamespace, x: Any, /, axes: Sequence[int]) -> Any:
    """With its axes in another order.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.permute_dims([[1, 2, 3]], (1, 0)).shape
    (3, 1)
    """
    return xp.ops.permute_dims(x, axes=tuple(axes))


def reshape(xp: ArrayNamespace, x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """The same elements in another shape; one extent may be -1. Whether memory is shared is not seen: values stay.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.reshape([1, 2], (2, 1)).shape
    (2, 1)
    """
    return xp.ops.reshape(x, shape=shape)


def repeat(xp: ArrayNamespace, x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element so many times, along an axis, or of the flattened tensor; a tensor says how often one by one.

    Raises
    ------
    ExtentError
        ``repeats`` is a tensor whose elements are not known: they decide the shape.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.repeat([1, 2], 2).numpy()
    array([1, 1, 2, 2])
    """
    if isinstance(repeats, int):
        return xp.ops.repeat(x, repeats=repeats, axis=axis)
    counts = xp.asarray(repeats)
    if counts.ndim == 0:
        return xp.ops.repeat(x, repeats=int(counts), axis=axis)
    return xp.ops.repeat(x, counts, axis=axis)


def tile(xp: ArrayNamespace, x: Any, repetitions: int | Sequence[int], /) -> Any:
    """The whole so many times along each axis; what is shorter, shape or repetitions, is filled up with ones in front.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.tile([1, 2], (2,)).numpy()
    array([1, 2, 1, 2])
    """
    found = xp.asarray(x)
    times = (repetitions,) if isinstance(repetitions, int) else tuple(repetitions)
    if len(times) > found.ndim:
        found = xp.ops.reshape(found, shape=(*(1,) * (len(times) - found.ndim), *found.shape))
    return xp.ops.tile(found, repetitions=(*(1,) * (found.ndim - len(times)), *times))


def matrix_transpose(xp: ArrayNamespace, x: Any, /) -> Any:
    """Matrices with rows and columns exchanged, in a tensor whose last two axes they are.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.matrix_transpose([[1, 2]]).shape
    (2, 1)
    """
    return xp.ops.matrix_transpose(x)
