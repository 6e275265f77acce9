"""NumPy's indices in full, to read and to write: a few operators for any mixture of slices, numbers and arrays.

Indices of arrays count from the end where they are negative. One that is out of range raises: where the index is known
at once, when one indexes (ShapeError); else when the values are computed (RunError, with the operator and the line).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.declaration import plain
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import product
from nnc_func.facets.dtypes import kind_of, weak
from nnc_func.facets.indexing import ARRAY, Reading, read
from nnc_func.facets.movement import sliced
from nnc_func.facets.samples import Samples, Tolerance
from nnc_func.graph.composite import composite
from nnc_func.graph.composites.entries import is_basic, separated
from nnc_func.graph.ops.families import Key, Tensor
from nnc_func.graph.ops.index import put

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

ADDED = Tolerance(64.0)  # indices that repeat are added up in the device's order
MODES: dict[str, tuple[str | None, str]] = {
    "set": (None, "scatter_set"),
    "add": ("add", "scatter_add"),
    "multiply": ("multiply", "scatter_multiply"),
    "min": ("minimum", "scatter_min"),
    "max": ("maximum", "scatter_max"),
}


# --- reading ------------------------------------------------------------------------------------------------


def _is_whole(reading: Reading, shape: Any) -> bool:
    bounds = zip(reading.starts, reading.stops, reading.steps, shape, strict=True)
    return all(start == 0 and stop == n and step == 1 for start, stop, step, n in bounds)


def _part(o: Ops[Any], x: Any, reading: Reading) -> Any:
    """What slices and numbers leave, with new axes."""
    if not _is_whole(reading, x.shape):
        x = o.slice(x, starts=reading.starts, stops=reading.stops, steps=reading.steps)
    return x if tuple(x.shape) == reading.shape else o.reshape(x, shape=reading.shape)


def _gathered(o: Ops[Any], x: Any, reading: Reading) -> Any:
    """With the axes of arrays as one axis, where theirs stand in the result."""
    order, at, count = reading.order, reading.at, len(reading.axes)
    if order != tuple(range(len(order))):
        x = o.permute_dims(x, axes=order)
    if count == 1:
        return x
    extent = product(tuple(x.shape[at : at + count]))
    return o.reshape(x, shape=(*x.shape[:at], extent, *x.shape[at + count :]))


def _flat(o: Ops[Any], reading: Reading, indices: Any) -> Any:
    """The indices of arrays as one, in that axis."""
    if len(indices) == 1:
        return indices[0]
    return o.ravel_multi_index(*indices, shape=tuple(reading.shape[a] for a in reading.axes))


def _apart(o: Ops[Any], x: Any, indices: tuple[Any, ...], key: Any) -> tuple[Any, tuple[Any, ...], Any]:
    """The tensor, indices and key, where arrays stand in the key itself."""
    entries = key if isinstance(key, tuple) else (key,)
    if indices or all(map(is_basic, entries)):
        return x, indices, key
    x, entries, arrays = separated(o, x, entries)
    return x, tuple(arrays), entries


def _read(x: Any, indices: Any, key: Any) -> Reading:
    found = read(key if isinstance(key, tuple) else (key,), tuple(x.shape))
    if len(found.axes) != len(indices):
        raise OperatorError(f"the key {key} has {len(found.axes)} arrays, given {len(indices)}: one tensor for each")
    return found


EVERY = slice(None)
BACK = slice(None, None, -1)
KEYS: tuple[tuple[Any, Any, Any], ...] = (  # shape, key, the arrays' shapes and extents
    ((3,), (), ()),
    ((3, 4), (1, slice(None, None, -2)), ()),
    ((3, 4), (..., None, -1), ()),
    ((2, 3, 2), (slice(5, None), None, ...), ()),
    ((), (None, ...), ()),
    ((3,), (ARRAY,), (((2, 2), 3),)),
    ((2, 3, 4), (ARRAY, EVERY, ARRAY), (((3,), 2), ((2, 1), 4))),
    ((2, 3, 4), (EVERY, ARRAY, ARRAY), (((3, 1), 3), ((2,), 4))),
    ((2, 3, 4), (0, EVERY, ARRAY), (((3,), 4),)),
    ((2, 3, 4), (EVERY, 1, ARRAY), (((0,), 4),)),
    ((2, 3, 4), (ARRAY, None, ARRAY, slice(3, 0, -2)), (((2,), 2), ((), 3))),
    ((2, 3, 4), (..., ARRAY, BACK), (((2,), 3),)),
    ((2, 0, 3), (ARRAY, EVERY, ARRAY), (((2,), 2), ((2,), 3))),
    ((2, 3), (ARRAY, ARRAY), (((0,), 2), ((1,), 3))),
)


def _cases(updating: bool) -> Any:
    for shape, key, arrays in KEYS:
        for mode in MODES if updating else ("",):
            found = [(each, "int64", (-n, max(n - 1, -n))) for each, n in arrays]
            if not updating:
                yield (shape, *found), {"key": key}
                continue
            for values in ((), (1,)):
                yield (shape, values, *found), {"key": key, "mode": mode}


@composite(samples=Samples(relation="cases", cases=_cases(False)))
def index(o: Ops[Any], x: Tensor, /, *indices: Tensor, key: Key) -> Tensor:
    """NumPy's ``x[key]``: whole numbers, slices of any step, None, ``...``, and integer tensors in any mixture.

    In `key` the word ``"array"`` stands for each of `indices`, which broadcast against each other. Their axes stand
    where the first of them stood, or in front if slices, None or ``...`` keep them apart; a number beside arrays
    counts as one of them. Slices are clipped, as Python's are; an index out of range raises. Arrays, of booleans too,
    may stand in `key` themselves, where no indices are given beside it.
    """
    x, indices, key = _apart(o, x, indices, key)
    reading = _read(x, indices, key)
    found = _part(o, x, reading)
    if not indices:
        return found
    return o.take(_gathered(o, found, reading), _flat(o, reading, indices), axis=reading.at)


# --- writing ------------------------------------------------------------------------------------------------


def chosen(mode: str) -> tuple[str | None, str]:
    """The operator that combines a value with what is there, None for none, and the one that scatters.

    Raises
    ------
    OperatorError
        There is no such mode.
    """
    if mode not in MODES:
        raise OperatorError(f"mode={mode!r} is none of {', '.join(map(repr, MODES))}")
    return MODES[mode]


def taking(o: Ops[Any], values: Any, x: Any) -> Any:
    """The values in the dtype of the tensor that takes their place.

    Raises
    ------
    DTypeError
        They do not fit into it.
    """
    wanted = put(o.dtype(x), o.dtype(values))
    return values if o.dtype(values) == wanted else o.cast(values, dtype=wanted)


def _fitting(o: Ops[Any], values: Any, x: Any, shape: Any) -> Any:
    """The values in the shape of what is written over; a number takes the dtype of the tensor."""
    if not hasattr(values, "shape"):  # of a class of the user's
        values = o.full(shape=(), value=values, dtype=weak(plain(values), [o.dtype(x)]))
    if (
        values.shape == ()
        and o.dtype(values) != o.dtype(x)
        and "biufc".find(kind_of(o.dtype(values))) <= "biufc".find(kind_of(o.dtype(x)))
    ):
        values = o.cast(values, dtype=o.dtype(x))
    extra = len(values.shape) - len(shape)
    if extra > 0 and all(n == 1 for n in values.shape[:extra]):
        values = o.squeeze(values, axis=tuple(range(extra)))
    return values if tuple(values.shape) == tuple(shape) else o.broadcast_to(values, shape=shape)


def _scattered(o: Ops[Any], part: Any, values: Any, indices: Any, reading: Reading, name: str) -> Any:
    """The part with values written at the indices of arrays."""
    core, at, order = _gathered(o, part, reading), reading.at, reading.order
    flat = _flat(o, reading, indices)
    values = _fitting(o, values, part, (*core.shape[:at], *flat.shape, *core.shape[at + 1 :]))
    core = getattr(o, name)(core, flat, values, axis=at)
    turned = tuple(part.shape[a] for a in order)
    core = core if tuple(core.shape) == turned else o.reshape(core, shape=turned)
    back = tuple(order.index(a) for a in range(len(order)))
    return core if back == order == tuple(range(len(order))) else o.permute_dims(core, axes=back)


@composite(samples=Samples(relation="cases", cases=_cases(True), distinct=True), tolerance=ADDED)
def index_update(o: Ops[Any], x: Tensor, values: Tensor, /, *indices: Tensor, key: Key, mode: str = "set") -> Tensor:
    """A new tensor: `x` with `values`, broadcast, where `index` would read, written, added, multiplied, or compared.

    `mode` is ``"set"``, ``"add"``, ``"multiply"``, ``"min"`` or ``"max"``. Where indices repeat, the last of the
    values is set, and all of them are added, multiplied or compared. Values must fit into the dtype of `x`; a number
    takes it. `x` is left as it is.
    """
    combine, scatter = chosen(mode)
    whole = tuple(x.shape)
    x, indices, key = _apart(o, x, indices, key)
    reading = _read(x, indices, key)
    if indices:
        found = _scattered(o, _part(o, x, reading), values, indices, reading, scatter)
    else:
        found = _fitting(o, values, x, reading.shape)
        if combine is not None:
            found = getattr(o, combine)(_part(o, x, reading), found)
    bounds: dict[str, Any] = {"starts": reading.starts, "stops": reading.stops, "steps": reading.steps}
    shape = sliced(tuple(x.shape), **bounds)
    found = found if tuple(found.shape) == tuple(shape) else o.reshape(found, shape=shape)
    found = taking(o, found, x) if _is_whole(reading, x.shape) else o.set_slice(x, found, **bounds)
    return found if tuple(found.shape) == whole else o.reshape(found, shape=whole)


# --- tensors of indices -------------------------------------------------------------------------------------


def _columns(o: Ops[Any], indices: Any, rank: int) -> list[Any]:
    depth = indices.shape[-1] if indices.shape else None
    if not isinstance(depth, int) or depth > rank:
        raise ShapeError(
            f"the last axis of indices counts in the first axes of a tensor of rank {rank}: its extent is known and at "
            f"most {rank}, given shape {tuple(indices.shape)}"
        )
    if depth == 0:
        return []
    return [o.squeeze(c, axis=-1) for c in o.split(indices, sections=depth, axis=-1)]


ND = tuple(
    (shape, (indices, "int64", (-least, least - 1)), result)
    for shape, indices, least, result in (
        ((3, 4), (2, 2), 3, (2,)),
        ((3, 4), (2, 1), 3, (2, 4)),
        ((2, 3, 2), (2,), 2, (2,)),
        ((3,), (0, 1), 3, (0,)),
        ((2,), (2, 2, 1), 2, (2, 2)),
    )
)


@composite(
    samples=Samples(relation="cases", cases=tuple(((x, i), {}) for x, i, _ in ND)),
)
def gather_nd(o: Ops[Any], x: Tensor, indices: Tensor, /) -> Tensor:
    """Elements or slices by whole indices: the last axis of `indices` has a number for each of the first axes of `x`.

    Of `x` with shape (n₁ … nᵣ) and `indices` with shape (…, k) the result has shape (…, nₖ₊₁ … nᵣ), as in ONNX.
    """
    columns = _columns(o, indices, len(x.shape))
    if not columns:
        return o.broadcast_to(x, shape=(*indices.shape[:-1], *x.shape))
    return index.over(o, x, *columns, key=(ARRAY,) * len(columns))


@composite(
    samples=Samples(
        relation="cases",
        cases=tuple(((x, i, u), {"mode": mode}) for x, i, u in ND for mode in MODES),
        distinct=True,
    ),
    tolerance=ADDED,
)
def scatter_nd(o: Ops[Any], x: Tensor, indices: Tensor, updates: Tensor, /, *, mode: str = "set") -> Tensor:
    """A new tensor: `x` with `updates` where `gather_nd` would read; for `mode` see `index_update`."""
    columns = _columns(o, indices, len(x.shape))
    if not columns:
        raise ShapeError("indices of no axis name the whole tensor again and again: give one axis at least")
    return index_update.over(o, x, updates, *columns, key=(ARRAY,) * len(columns), mode=mode)


ALONG = (((3,), (4,), 0, 3), ((2, 3), (2, 2), 1, 3), ((2, 3), (0, 3), 0, 2), ((2, 3, 2), (2, 1, 2), -2, 3))


@composite(
    samples=Samples(
        relation="cases",
        cases=tuple(
            ((x, (i, "int64", (-n, n - 1)), i), {"axis": axis, "mode": mode})
            for x, i, axis, n in ALONG
            for mode in MODES
        ),
        distinct=True,
    ),
    tolerance=ADDED,
)
def put_along_axis(
    o: Ops[Any], x: Tensor, indices: Tensor, values: Tensor, /, *, axis: int, mode: str = "set"
) -> Tensor:
    """A new tensor: `x` with `values`, broadcast, where `take_along_axis` would read; for `mode` see `index_update`."""
    rank = len(x.shape)
    at = axis % rank if rank else 0
    if len(indices.shape) != rank or not -rank <= axis < rank:
        raise ShapeError(
            f"indices {tuple(indices.shape)} must have the rank of {tuple(x.shape)}, and {axis} be an axis"
        )
    grid = [
        indices if i == at else o.reshape(
            o.arange(start=0, stop=n, dtype="int64"), shape=(*(1,) * i, n, *(1,) * (rank - i - 1))
        )
        for i, n in enumerate(indices.shape)
    ]  # fmt: skip
    return index_update.over(o, x, values, *grid, key=(ARRAY,) * rank, mode=mode)
