"""The entries of a key: what NumPy takes between brackets, with its arrays apart."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.device.shared.host import shortened
from nnc_func.errors import DTypeError, ExtentError, IndexingError
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.indexing import ARRAY
from nnc_func.graph.composites.extents import value_of
from nnc_func.graph.composites.searching import nonzero

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
PLAIN = (int, slice, type(None), type(Ellipsis), np.integer)
MASKED = "read a mask by where(mask, x, 0), write by one with index_update, say how many with flatnonzero(…, size=n)"


def is_basic(entry: Any) -> bool:
    """Whether an entry is no array and stands for none: `read` takes it as it is, the word ``"array"`` among them."""
    return type(entry) in BASIC or (type(entry) is str and entry == ARRAY)


def is_tensor(entry: Any) -> bool:
    """Whether it is an array of any kind, or a graph value."""
    return hasattr(entry, "shape") and hasattr(entry, "dtype") and not isinstance(entry, np.generic)


def separated(o: Ops[Any], x: Any, key: Any) -> tuple[Any, tuple[Any, ...], list[Any]]:
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
                nothing = shows_nothing(entry, x.shape, axis)
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


def _entry(o: Ops[Any], entry: Any) -> tuple[Any, str, int]:
    """Of a key: itself, or the array that a list stands for; the kind of an array; how many axes it takes."""
    if type(entry) in BASIC:
        return entry, "", int(entry is not None and entry is not Ellipsis)
    if isinstance(entry, (bool, np.bool_, list, tuple, range)):
        try:
            entry = np.asarray(entry)
        except ValueError:
            raise IndexingError(f"a list as an index has rows of one length, given {shortened(entry)}") from None
        entry = entry.astype(np.int64) if entry.size == 0 and entry.dtype.kind != "b" else entry
    elif isinstance(entry, np.ndarray) and entry.dtype.kind != "b":
        entry = entry.copy()  # its owner may write into it, and gradients read it
    if is_tensor(entry):
        kind = o.dtype(entry).kind
        return entry, kind, len(entry.shape) if kind == "b" else 1
    if isinstance(entry, PLAIN) or not known(entry):
        return entry, "", 1
    raise DTypeError(
        f"an index is made of whole numbers, slices, None, ... and integer or boolean tensors, given {entry!r}"
    )


def _positions(o: Ops[Any], mask: Any) -> list[Any]:
    """Of the true elements, one array an axis."""
    if isinstance(mask, np.ndarray):
        return [*np.nonzero(mask)]
    try:
        return [*nonzero.over(o, mask)]
    except ExtentError as error:
        raise ExtentError(f"a boolean index has as many elements as are true: {MASKED}; {error}") from None


def shows_nothing(mask: Any, shape: Any, axis: int) -> bool:
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
