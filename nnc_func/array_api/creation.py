"""Creation functions of the array API."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets.dtypes import as_dtype, kind_of
from nnc_func.graph.tensors.tensor import Tensor

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace

FLOAT = np.dtype("float64")
KINDS = {bool: np.dtype("bool"), int: np.dtype("int64"), float: FLOAT, complex: np.dtype("complex128")}


def asarray(xp: ArrayNamespace, obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor of numbers, nested sequences, arrays of NumPy, buffers, tensors, or what has ``__dlpack__``.

    A tensor is returned itself, unless a copy is asked for: a handle of its own, so that writing into one of the two
    does not change the other. Arrays of others are copied; `from_dlpack` does not.

    Raises
    ------
    ValueError
        ``copy=False``, and it cannot be had without.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.asarray([1, 2.5]).numpy()
    array([1. , 2.5])
    """
    if isinstance(obj, Tensor) and (obj.stack is xp.owner or obj.stack == xp.owner):
        if dtype is not None and as_dtype(dtype) != obj.dtype:
            if copy is False:
                raise ValueError(f"asarray: {obj.dtype} to {as_dtype(dtype)} needs a copy, and copy=False was given")
            return xp.to_device(xp.astype(obj, dtype), device)
        return xp.to_device(+obj if copy else obj, device)
    if copy is False:
        if hasattr(obj, "__dlpack__") and dtype in (None, getattr(obj, "dtype", None)):
            return xp.from_dlpack(obj, device=device, copy=False)
        raise ValueError(f"asarray: a {type(obj).__name__} is copied, and copy=False was given; use from_dlpack")
    if isinstance(obj, (list, tuple)) and _has_tensor(obj):
        stacked = xp.ops.stack(*[asarray(xp, each, device=device) for each in obj], axis=0)
        return stacked if dtype is None else xp.astype(stacked, dtype)
    value = obj if isinstance(obj, np.ndarray) else _array(obj, dtype)
    return xp.owner.asarray(value, dtype, place=xp.place(device))


def _array(obj: Any, dtype: Any) -> Any:
    """Of buffers, sequences and numbers."""
    try:
        return np.asarray(obj, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        wanted = "" if dtype is None else f" of dtype {dtype}"
        raise DTypeError(f"asarray: a {type(obj).__name__} makes no tensor{wanted}: {error}") from None


def _has_tensor(nested: Any) -> bool:
    return any(isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and _has_tensor(v)) for v in nested)


def from_dlpack(xp: ArrayNamespace, x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that shows the memory of another library's array, not copied unless ``copy=True``.

    Whoever made the array must not write into it while the tensor is in use: tensors are values.

    Raises
    ------
    DTypeError
        It is no array that has ``__dlpack__``, or not of numbers.
    BufferError
        It cannot be had without a copy, and ``copy=False`` was given.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> x = np.ones(2)
    >>> np.shares_memory(x, np.from_dlpack(xp.from_dlpack(x)))
    True
    """
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack wants an array with __dlpack__, given a {type(x).__name__}; use asarray")
    own = getattr(xp.owner.device, "array_api", None) or getattr(xp.owner.device, "xp", None)
    if own is None:
        raise BufferError(f"{xp.owner.device!r} has no arrays that show foreign memory; use asarray")
    found = own.from_dlpack(x, **({} if copy is None else {"copy": copy}))
    if not isinstance(found, Tensor) and kind_of(xp.owner.device.aval(found).dtype) not in "biufc":
        raise DTypeError(f"tensors hold numbers and booleans, given dtype {found.dtype}")
    return xp.to_device(xp.owner.held(found), device)


def _number(given: Any) -> tuple[Any, Any]:
    """The Python number that fills a tensor, and the dtype of the tensor if none is asked for."""
    if isinstance(given, (np.generic, np.ndarray, Tensor)):
        if given.size != 1:
            raise ShapeError(f"full: a tensor is filled with one number, given shape {given.shape}; use broadcast_to")
        return given.item(), given.dtype
    for kind, dtype in KINDS.items():
        if isinstance(given, kind):
            return given, dtype
    raise DTypeError(f"full: a tensor is filled with a number, given a {type(given).__name__}")


def full(xp: ArrayNamespace, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of that shape, each element the same number; its kind, or its own dtype, decides the default dtype.

    Raises
    ------
    DTypeError
        ``fill_value`` is no number, or none of the dtype.
    ShapeError
        It is an array of several.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.full(2, 1.5).numpy()
    array([1.5, 1.5])
    """
    value, own = _number(fill_value)
    chosen = own if dtype is None else as_dtype(dtype)
    return xp.to_device(xp.ops.full(shape=shape, value=value, dtype=chosen), device)


def zeros(xp: ArrayNamespace, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros; float64 unless a dtype is given.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.zeros(2).numpy()
    array([0., 0.])
    """
    return full(xp, shape, 0, dtype=FLOAT if dtype is None else dtype, device=device)


def ones(xp: ArrayNamespace, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones; float64 unless a dtype is given.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.ones(2).numpy()
    array([1., 1.])
    """
    return full(xp, shape, 1, dtype=FLOAT if dtype is None else dtype, device=device)


def empty(xp: ArrayNamespace, shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros: a value has elements, so there is none that is not set.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.empty((0, 2)).shape
    (0, 2)
    """
    return zeros(xp, shape, dtype=dtype, device=device)


def full_like(xp: ArrayNamespace, x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """As `full`, with the shape, dtype and device of a tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.full_like(xp.asarray([1, 2]), 7).numpy()
    array([7, 7])
    """
    given = xp.asarray(x)
    return full(
        xp, given.shape, fill_value, dtype=dtype or given.dtype, device=given.device if device is None else device
    )


def zeros_like(xp: ArrayNamespace, x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros, with the shape, dtype and device of a tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.zeros_like(xp.asarray([1, 2])).numpy()
    array([0, 0])
    """
    return full_like(xp, x, 0, dtype=dtype, device=device)


def ones_like(xp: ArrayNamespace, x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones, with the shape, dtype and device of a tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.ones_like(xp.asarray([1, 2])).numpy()
    array([1, 1])
    """
    return full_like(xp, x, 1, dtype=dtype, device=device)


def empty_like(xp: ArrayNamespace, x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """As `zeros_like`; see `empty`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.eager().array_api
    >>> xp.empty_like(xp.asarray([1, 2])).dtype
    dtype('int64')
    """
    return zeros_like(xp, x, dtype=dtype, device=device)


def arange(
    xp: ArrayNamespace,
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Evenly spaced numbers from ``start`` to ``stop``, which is not among them; from 0 to ``start`` if it is alone.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.arange(1, 6, 2).numpy()
    array([1, 3, 5])
    """
    first, last = (0, start) if stop is None else (start, stop)
    if dtype is None:
        dtype = np.dtype("int64") if all(isinstance(v, (int, np.integer)) for v in (first, last, step)) else FLOAT
    return xp.to_device(xp.ops.arange(start=first, stop=last, step=step, dtype=dtype), device)


def linspace(
    xp: ArrayNamespace,
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which is the last of them unless it is left out.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.linspace(0, 1, 3).numpy()
    array([0. , 0.5, 1. ])
    """
    if dtype is None:
        dtype = KINDS[complex] if isinstance(start, complex) or isinstance(stop, complex) else FLOAT
    found = xp.ops.linspace(start=start, stop=stop, num=num, dtype=dtype, endpoint=endpoint)
    return xp.to_device(found, device)


def eye(
    xp: ArrayNamespace,
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """A matrix with ones on its ``k``-th diagonal and zeros elsewhere; float64 unless a dtype is given.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.eye(2).numpy()
    array([[1., 0.],
           [0., 1.]])
    """
    found = xp.ops.eye(n_rows=n_rows, n_cols=n_cols, k=k, dtype=FLOAT if dtype is None else dtype)
    return xp.to_device(found, device)


def tril(xp: ArrayNamespace, x: Any, /, *, k: int = 0) -> Any:
    """The lower triangles of matrices: zeros above the ``k``-th diagonal.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.tril([[1, 2], [3, 4]]).numpy()
    array([[1, 0],
           [3, 4]])
    """
    return xp.ops.tril(x, k=k)


def triu(xp: ArrayNamespace, x: Any, /, *, k: int = 0) -> Any:
    """The upper triangles of matrices: zeros below the ``k``-th diagonal.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.triu([[1, 2], [3, 4]]).numpy()
    array([[1, 2],
           [0, 4]])
    """
    return xp.ops.triu(x, k=k)


def meshgrid(xp: ArrayNamespace, *arrays: Any, indexing: str = "xy") -> list[Any] | tuple[Any, ...]:
    """Coordinate matrices of coordinate vectors, in Cartesian or in matrix order: a list, a tuple from 2025.12 on.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> [a.shape for a in nnc.eager().array_api.meshgrid([1, 2], [3, 4, 5])]
    [(3, 2), (3, 2)]
    """
    return xp.several(xp.ops.meshgrid(*arrays, indexing=indexing))
