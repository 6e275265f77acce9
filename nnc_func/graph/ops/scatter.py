"""Writing at indices along one axis, in four ways beside `scatter_add`; and several indices counted as one."""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import scatter as kernels
from nnc_func.device.kernels.index import first_copied
from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets import domains, dtypes, movement, shapes
from nnc_func.facets.derivatives import Constant, Custom, Derivative, Linear
from nnc_func.facets.dims import known, product
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.onnx import indexing as onnx_indexing
from nnc_func.facets.samples import EXACT, Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import free
from nnc_func.graph.ops.families import Decorator, Sizes, Tensor
from nnc_func.graph.ops.index import added, index_cases, indexed, per_update, put
from nnc_func.graph.ops.move import part
from nnc_func.op import operator

HOST = frozenset({"numpy"})
MULTIPLIED = Tolerance(64.0)  # rounding of a product of several


def _written(x: dtypes.DType, indices: dtypes.DType, updates: dtypes.DType, **_: Any) -> dtypes.DType:
    return put(indexed(x, indices), updates)


def _compared(x: dtypes.DType, indices: dtypes.DType, updates: dtypes.DType, **_: Any) -> dtypes.DType:
    if x.kind == "c":
        raise DTypeError("complex numbers have no order; compare their magnitudes")
    return added(x, indices, updates)


def scattering(derivative: Derivative, *, into: Any, combine: str | None, dtype: Any, **facets: Any) -> Decorator:
    """An operator that writes updates at indices along an axis."""
    host = Kernel(
        "assigned" if combine is None else f"{combine}.at",
        compute=first_copied(into),
        into=into,
        overwrites=(0,),
        namespaces=HOST,
        strided=True,
    )
    gpu = (Kernel("last written", compute=kernels.set_on_gpu, namespaces=frozenset({"cupy"})),)
    return operator(
        shape=movement.scattered,
        dtype=dtype,
        derivative=derivative,
        kernels=(host, *(gpu if combine is None else ()), reference(kernels.one_by_one(combine))),
        takes_all=domains.something,
        **facets,
    )


# --- for derivatives ----------------------------------------------------------------------------------------


def _beside_rows(o: Any, flags: Any, x: Any, indices: Any, axis: int) -> Any:
    """Something of each index, in a shape that broadcasts against the updates."""
    behind = len(x.shape) - shapes.normalise_axis(axis, len(x.shape)) - 1
    return o.reshape(flags, shape=(*indices.shape, *(1,) * behind))


def _last(o: Any, x: Any, indices: Any, axis: int) -> Any:
    """Of each index, whether no later one is equal: its update is the one that is written."""
    extent, count = x.shape[axis], product(indices.shape)
    own = o.reshape(o.arange(start=0, stop=count, dtype=dtypes.INT64), shape=indices.shape)
    written = o.scatter_set(o.full(shape=(extent,), value=0, dtype=dtypes.INT64), indices, own, axis=0)
    return _beside_rows(o, o.equal(o.take(written, indices, axis=0), own), x, indices, axis)


def _set_transpose(o: Any, g: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> tuple[Any, Any]:
    nothing = o.full(shape=updates.shape, value=0, dtype=o.dtype(g))
    taken = o.take(g, indices, axis=axis)  # before `kept`, which may then lie where g lay
    kept = o.scatter_set(g, indices, nothing, axis=axis)
    count = product(indices.shape)
    if known(count) and count == 1:  # the only one is the last
        return kept, taken
    return kept, o.where(_last(o, x, indices, axis), taken, nothing)


def _shares(o: Any, y: Any, x: Any, indices: Any, updates: Any, axis: int) -> tuple[Any, Any]:
    """Of what is there and of each update, its share in the derivative: those that attain the extreme share equally."""
    there = o.cast(o.equal(x, y), dtype=o.dtype(y))
    new = o.cast(o.equal(updates, o.take(y, indices, axis=axis)), dtype=o.dtype(y))
    count = o.scatter_add(there, indices, new, axis=axis)
    return o.divide(there, count), o.divide(new, o.take(count, indices, axis=axis))


def _extreme_jvp(o: Any, ts: Any, y: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    there, new = _shares(o, y, x, indices, updates, axis)
    total = o.zeros_like(y) if ts[0] is None else o.multiply(there, ts[0])
    return total if ts[2] is None else o.scatter_add(total, indices, o.multiply(new, ts[2]), axis=axis)


EXTREME = Custom(
    _extreme_jvp,
    (
        lambda o, g, y, x, indices, updates, *, axis: o.multiply(g, _shares(o, y, x, indices, updates, axis)[0]),
        None,
        lambda o, g, y, x, indices, updates, *, axis: o.multiply(
            o.take(g, indices, axis=axis), _shares(o, y, x, indices, updates, axis)[1]
        ),
    ),
)


def _products_before(o: Any, rows: Any, same: Any, at: int) -> Any:
    """Of rows that are sorted by their index, the product of those before each that have the same one."""
    count = rows.shape[at]
    flags = o.broadcast_to(same, shape=(*rows.shape[:at], count - 1, *rows.shape[at + 1 :]))
    zero = o.full(shape=(*rows.shape[:at], 1, *rows.shape[at + 1 :]), value=0, dtype=o.dtype(rows))
    factors = o.concat(zero, o.where(flags, part(o, rows, at, 0, count - 1), 0), axis=at)
    starts = o.concat(o.add(zero, 1), o.cast(o.logical_not(flags), dtype=o.dtype(rows)), axis=at)
    return o.linear_recurrence(factors, starts, axis=at)


def _other_factors(o: Any, x: Any, indices: Any, updates: Any, axis: int) -> tuple[Any, Any]:
    """The product of all updates of each element; of each update the product of what is there and all other updates.

    Updates are sorted by their index, and multiplied from both ends, with no division: right where factors are zero.
    """
    at, rank = shapes.normalise_axis(axis, len(x.shape)), len(x.shape)
    count, behind = product(indices.shape), rank - at - 1
    ones = o.full(shape=x.shape, value=1, dtype=o.dtype(x))
    every = o.scatter_multiply(ones, indices, updates, axis=axis)
    if known(count) and count == 0:
        return every, updates
    flat = o.reshape(indices, shape=(count,))
    extent = o.full(shape=(), value=x.shape[at], dtype=dtypes.INT64)
    flat = o.where(o.less(flat, 0), o.add(flat, extent), flat)
    order = o.argsort(flat, axis=0)
    rows = o.take(o.reshape(updates, shape=(*x.shape[:at], count, *x.shape[at + 1 :])), order, axis=at)
    placed = o.take(flat, order, axis=0)
    same = o.equal(part(o, placed, 0, 1, count), part(o, placed, 0, 0, count - 1))
    same = o.reshape(same, shape=(count - 1, *(1,) * behind))
    before = _products_before(o, rows, same, at)
    after = o.flip(_products_before(o, o.flip(rows, axis=at), o.flip(same, axis=0), at), axis=at)
    others = o.take(o.multiply(before, after), o.argsort(order, axis=0), axis=at)
    return every, o.multiply(o.take(x, indices, axis=axis), o.reshape(others, shape=updates.shape))


def _multiply_jvp(o: Any, ts: Any, y: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    every, others = _other_factors(o, x, indices, updates, axis)
    total = o.zeros_like(y) if ts[0] is None else o.multiply(every, ts[0])
    return total if ts[2] is None else o.scatter_add(total, indices, o.multiply(others, ts[2]), axis=axis)


MULTIPLIES = Custom(
    _multiply_jvp,
    (
        lambda o, g, y, x, indices, updates, *, axis: o.multiply(g, _other_factors(o, x, indices, updates, axis)[0]),
        None,
        lambda o, g, y, x, indices, updates, *, axis: o.multiply(
            o.take(g, indices, axis=axis), _other_factors(o, x, indices, updates, axis)[1]
        ),
    ),
)

CASES: dict[str, Any] = {"relation": "cases", "cases": tuple(index_cases(True, False))}


# --- scatters -----------------------------------------------------------------------------------------------


@scattering(
    Linear(_set_transpose, arguments=(0, 2)),
    into=kernels.set_into,
    combine=None,
    dtype=_written,
    cost=free,
    onnx=onnx_indexing.scatter_set,
    tolerance=EXACT,
    samples=Samples(**CASES),
)
def scatter_set(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new tensor: `x` with each update written at its index along an axis; where indices repeat, the last one is.

    `updates` has the shape that ``take(x, indices, axis)`` gives. An index outside of the axis raises IndexError.
    """


@scattering(
    MULTIPLIES,
    into=kernels.combining_into("multiply"),
    combine="multiply",
    dtype=added,
    cost=per_update,
    onnx=onnx_indexing.scatter("mul"),
    tolerance=MULTIPLIED,
    samples=Samples(**CASES),
)
def scatter_multiply(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new tensor: `x` multiplied by each update at its index along an axis; where indices repeat, by all of them.

    Its derivative is right where factors are zero; it takes time and memory in the square of the number of indices.
    """


@scattering(
    EXTREME,
    into=kernels.combining_into("minimum"),
    combine="minimum",
    dtype=_compared,
    cost=per_update,
    onnx=onnx_indexing.scatter("min"),
    tolerance=EXACT,
    samples=Samples(**CASES, distinct=True),
)
def scatter_min(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new tensor: the least of `x` and of all updates at an index along an axis; equals share the derivative."""


@scattering(
    EXTREME,
    into=kernels.combining_into("maximum"),
    combine="maximum",
    dtype=_compared,
    cost=per_update,
    onnx=onnx_indexing.scatter("max"),
    tolerance=EXACT,
    samples=Samples(**CASES, distinct=True),
)
def scatter_max(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new tensor: the largest of `x` and of all updates at an index along an axis; equals share the derivative."""


# --- several indices as one ---------------------------------------------------------------------------------


def _raveled(*indices: ShapeT, shape: ShapeT, **_: Any) -> ShapeT:
    if len(indices) != len(shape):
        raise ShapeError(f"{len(indices)} indices for a shape of rank {len(shape)}, {shape}: one for each axis")
    return shapes.broadcast(*indices) if indices else ()


def _positions(*indices: dtypes.DType, **_: Any) -> dtypes.DType:
    for each in indices:
        indexed(dtypes.INT64, each)
    return dtypes.INT64


RAVELS = tuple(
    (tuple((index, dtype, (-n, n - 1)) for index, n in zip(indices, shape, strict=True)), {"shape": shape})
    for indices, shape in (
        (((2,), (2,)), (3, 4)),
        (((2, 1), (3,)), (2, 5)),
        (((), (2,), (1, 1)), (1, 2, 3)),
        (((3,),), (4,)),
        (((0,), (1,)), (2, 2)),
    )
    for dtype in ("int32", "int64")
)


@operator(
    shape=_raveled,
    dtype=_positions,
    kernels=reference(kernels.ravel_multi_index),
    derivative=Constant("positions are integers"),
    cost=free,
    onnx=onnx_indexing.ravel_multi_index,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=RAVELS),
    takes_all=domains.something,
)
def ravel_multi_index(*indices: Tensor, shape: Sizes) -> Tensor:
    """Positions, in C order, of elements of a tensor of that shape, by one index for each axis.

    Indices broadcast, and count from the end where they are negative; others raise IndexError.
    """
