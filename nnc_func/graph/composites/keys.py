"""Python's keys, of whatever NumPy takes between brackets, as what `index` and `index_update` take.

Boolean tensors are positions of their true elements, so their number must be known when one indexes: of a tensor that
has a value it is computed at once, on every stack; of one without, an `ExtentError` says what to do instead.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from nnc_func.errors import DTypeError, ExtentError, IndexingError, ShapeError
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.dtypes import weak
from nnc_func.facets.indexing import ARRAY
from nnc_func.graph.composites.extents import value_of
from nnc_func.graph.composites.indexing import chosen, index, index_update, taking
from nnc_func.graph.composites.searching import nonzero
from nnc_func.graph.functions import Functions

SCALARS = (bool, int, float, complex)
BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
PLAIN = (int, slice, type(None), type(Ellipsis), np.integer)
MASKED = "read a mask by where(mask, x, 0), write by one with index_update, or say how many with flatnonzero(…, size=n)"


def indexed(o: Functions, x: Any, key: Any) -> Any:
    """``x[key]`` as NumPy has it.

    Parameters
    ----------
    o
        The operators of the layer in which `x` lives.
    key
        A whole number, a slice, None, ``...``, a boolean or integer tensor, array or list, or a tuple of them.

    Raises
    ------
    ShapeError
        Too many indices, a number or an array of the host out of range, a mask that does not fit.
    DTypeError
        An array of other than integers or booleans.
    ExtentError
        A boolean tensor without a value: how many elements there are is not known.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> x = stack.asarray(np.arange(6.0).reshape(2, 3))
    >>> indexed(Functions(stack.bind, stack.type.ops), x, (slice(None), [2, 0])).numpy()
    array([[2., 0.],
           [5., 3.]])
    """
    entries = key if isinstance(key, tuple) else (key,)
    arrays: list[Any] = []
    if not all(type(e) in BASIC for e in entries):
        x, entries, arrays = separated(o, x, entries)
    try:
        return index.define(o, x, *arrays, key=entries)
    except (ShapeError, DTypeError):
        return index.over(o, x, *arrays, key=entries)  # fails as well, and names what was given and where


def index_updated(o: Functions, x: Any, key: Any, values: Any, mode: str = "set") -> Any:
    """A new tensor: `x` with `values` where ``x[key]`` reads; see `index_update` for `mode`, and `indexed` for `key`.

    A boolean tensor over the first axes needs no value if `values` broadcast against what it masks.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> x = stack.asarray([1.0, -2.0, 3.0])
    >>> o = Functions(stack.bind, stack.type.ops)
    >>> index_updated(o, x, x < 0, 0.0).numpy(), index_updated(o, x, [0, 0], 1.0, "add").numpy()
    (array([1., 0., 3.]), array([ 3., -2.,  3.]))
    """
    if type(values) in SCALARS:
        values = o.full(shape=(), value=values, dtype=weak(values, [o.dtype(x)]))
    key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if _is_tensor(key) and o.dtype(key).kind == "b" and len(values.shape) <= len(x.shape) - len(key.shape):
        return _masked(o, x, key, values, mode)
    whole = tuple(x.shape)
    x, plain, arrays = separated(o, x, key)
    found = index_update.over(o, x, values, *arrays, key=plain, mode=mode)
    return found if tuple(found.shape) == whole else o.reshape(found, shape=whole)


def _masked(o: Functions, x: Any, mask: Any, values: Any, mode: str) -> Any:
    """By choice, so that nothing need be known of the mask."""
    if _check_mask(mask, x.shape, 0):
        return x
    behind = len(x.shape) - len(mask.shape)
    values = o.cast(values, dtype=o.dtype(x)) if values.shape == () else taking(o, values, x)
    found = o.broadcast_like(values, x)
    combine, _ = chosen(mode)
    if combine is not None:
        found = getattr(o, combine)(x, found)
    mask = o.reshape(mask, shape=(*mask.shape, *(1,) * behind)) if behind else mask
    return o.where(mask, found, x)


# --- the entries of a key -----------------------------------------------------------------------------------


def _is_tensor(entry: Any) -> bool:
    return hasattr(entry, "shape") and hasattr(entry, "dtype") and not isinstance(entry, np.generic)


def separated(o: Functions, x: Any, key: Any) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """The tensor, the key with the word ``"array"`` for each array, and those, all of integers.

    The tensor has new axes where the key has booleans of rank 0, as NumPy says.
    """
    entries = [_entry(o, e) for e in (key if isinstance(key, tuple) else (key,))]
    plain: list[Any] = []
    arrays: list[Any] = []
    added: list[int] = []
    axis, rank = 0, len(x.shape)
    for place, (entry, kind, count) in enumerate(entries):
        if entry is Ellipsis:
            axis = rank - sum(each for _, _, each in entries[place + 1 :])
        if not kind:
            plain.append(entry)
        elif kind == "b":
            if not entry.shape:
                added.append(axis + len(added))
                chosen = bool(value_of(entry, MASKED))
                found = [np.zeros(int(chosen), np.int64)]
            else:
                nothing = _check_mask(entry, x.shape, axis)
                found = [np.zeros(0, np.int64)] * count if nothing else _positions(o, entry)
            plain += [ARRAY] * len(found)
            arrays += found
        else:
            _check_known(entry, x.shape, axis)
            plain.append(ARRAY)
            arrays.append(entry)
        axis += count
    if added:
        x = o.expand_dims(x, axis=tuple(added))
    return x, tuple(plain), arrays


def _entry(o: Functions, entry: Any) -> tuple[Any, str, int]:
    """Of a key: itself, or the array that a list stands for; the kind of an array; how many axes it takes."""
    if type(entry) in BASIC:
        return entry, "", int(entry is not None and entry is not Ellipsis)
    if isinstance(entry, (bool, np.bool_, list, tuple, range)):
        entry = np.asarray(entry)
        entry = entry.astype(np.int64) if entry.size == 0 and entry.dtype.kind != "b" else entry
    if _is_tensor(entry):
        kind = o.dtype(entry).kind
        return entry, kind, len(entry.shape) if kind == "b" else 1
    if isinstance(entry, PLAIN) or not known(entry):
        return entry, "", 1
    raise DTypeError(
        f"an index is made of whole numbers, slices, None, ... and integer or boolean tensors, given {entry!r}"
    )


def _positions(o: Functions, mask: Any) -> list[Any]:
    """Of the true elements, one array an axis."""
    if isinstance(mask, np.ndarray):
        return [*np.nonzero(mask)]
    try:
        return [*nonzero.over(o, mask)]
    except ExtentError as error:
        raise ExtentError(f"a boolean index has as many elements as are true: {MASKED}; {error}") from None


def _check_mask(mask: Any, shape: Any, axis: int) -> bool:
    """Whether a mask has an extent 0, so that it shows nothing of any axis, as NumPy and the standard's suite have it.

    Raises
    ------
    IndexingError
        It has another shape than the axes that it masks.
    """
    masked = shape[axis : axis + len(mask.shape)]
    fits = [same_extent(m, n) for m, n in zip(mask.shape, masked, strict=False)]
    nothing = [known(m) and m == 0 for m in mask.shape]
    if len(masked) < len(mask.shape) or not all(map(operator.or_, fits, nothing)):
        raise IndexingError(
            f"a boolean index has the shape of the axes that it masks: given {tuple(mask.shape)} for axes {axis} to "
            f"{axis + len(mask.shape) - 1} of shape {tuple(shape)}"
        )
    return any(nothing)


def _check_known(entry: Any, shape: Any, axis: int) -> None:
    """Of an array of the host it is known at once whether it is in range."""
    if isinstance(entry, np.ndarray) and entry.size and entry.dtype.kind in "iu" and axis < len(shape):
        n = shape[axis]
        low, high = entry.min(), entry.max()
        if known(n) and (low < -n or high >= n):
            wrong = high if high >= n else low
            raise IndexingError(
                f"index {wrong} is outside of axis {axis} of shape {tuple(shape)}; wanted {-n} to {n - 1}"
            )
