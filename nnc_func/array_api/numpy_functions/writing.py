"""NumPy's functions that write into an argument: a tensor's handle gets another value, as by ``t[i] = v``."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_functions.shapes import flat
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.graph.tensors.tensor import Tensor

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _written(name: str, into: str, write: Callable[..., None]) -> Callable[..., None]:
    """The function; where what is written into is NumPy's own, that is written into, with values of tensors."""

    def written(xp: ArrayNamespace, /, **params: Any) -> None:
        if isinstance(params[into], Tensor):
            return write(xp, **params)
        given = {k: np.asarray(v) if isinstance(v, Tensor) else v for k, v in params.items()}
        positional = [given.pop(k) for k in (into, *given) if k in given and k not in ("casting", "where", "mode")]
        getattr(np, name)(*positional, **given)
        return None

    return written


def _copyto(xp: ArrayNamespace, /, *, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    source = xp.asarray(src)
    if not np.can_cast(source.dtype, dst.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"copyto: {source.dtype} is not cast to {dst.dtype} by the rule {casting!r}")
    dst[...] = source if where is True else xp.where(where, xp.astype(source, dst.dtype), dst)


def _cycled(xp: ArrayNamespace, values: Any, count: Any, dtype: Any) -> Any:
    """So many of the values, which begin again where there are not as many."""
    given = xp.astype(flat(xp, values), dtype)
    if count and not given.shape[0]:
        raise ShapeError("there are no values to write")
    return given[:0] if not count else xp.tile(given, (-(-count // given.shape[0]),))[:count]


def _put(xp: ArrayNamespace, /, *, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    if mode != "raise":
        raise OperatorError(f"numpy.put with mode={mode!r} does not work on tensors")
    numbers = flat(xp, ind)
    x = flat(xp, a)
    x = x + 0 if x is a else x
    x[numbers] = _cycled(xp, v, numbers.shape[0], a.dtype)
    a[...] = xp.reshape(x, a.shape)


def _place(xp: ArrayNamespace, /, *, arr: Any, mask: Any, vals: Any) -> None:
    _put(xp, a=arr, ind=xp.nonzero(flat(xp, mask))[0], v=vals)


def _putmask(xp: ArrayNamespace, /, *, a: Any, mask: Any, values: Any) -> None:
    values = xp.reshape(_cycled(xp, values, a.size, a.dtype), a.shape)
    a[...] = xp.where(xp.not_equal(xp.asarray(mask), 0), values, a)


def _put_along_axis(xp: ArrayNamespace, /, *, arr: Any, indices: Any, values: Any, axis: int | None = None) -> None:
    x = flat(xp, arr) if axis is None else arr
    values = xp.astype(xp.asarray(values), x.dtype)
    found = xp.ops.put_along_axis(x, xp.asarray(indices), values, axis=0 if axis is None else axis)
    arr[...] = xp.reshape(found, arr.shape)


def _fill_diagonal(xp: ArrayNamespace, /, *, a: Any, val: Any, wrap: bool = False) -> None:
    x = np.arange(a.size).reshape(a.shape)
    where = np.zeros(a.shape, bool)
    np.fill_diagonal(where, True, wrap)
    _put(xp, a=a, ind=x[where], v=val)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "copyto": _written("copyto", "dst", _copyto), "put": _written("put", "a", _put),
    "place": _written("place", "arr", _place), "putmask": _written("putmask", "a", _putmask),
    "put_along_axis": _written("put_along_axis", "arr", _put_along_axis),
    "fill_diagonal": _written("fill_diagonal", "a", _fill_diagonal),
}  # fmt: skip
