"""Sorting and searching. All orders are stable, and NaN counts as the largest number."""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import sorting as kernels
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import dtypes, movement
from nnc_func.facets.derivatives import Constant, Custom
from nnc_func.facets.dims import known
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.onnx import indexing as onnx_indexing
from nnc_func.facets.samples import ANY, EXACT, NUMBERS, REALS, Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost, free, per_input_element
from nnc_func.graph.ops.families import Extent, Tensor
from nnc_func.op import operator

COMPARISONS = 8  # for each element, about: the logarithm of an extent


# --- rules ------------------------------------------------------------------------------------------------


def _searched(x: dtypes.DType, values: dtypes.DType, **_: Any) -> dtypes.DType:
    if dtypes.promote(x, values).kind == "c":
        raise DTypeError("complex numbers are not searched for; search for their magnitudes, or for real parts")
    return dtypes.INT64


def _found(x: ShapeT, values: ShapeT, *, side: str) -> ShapeT:
    """That of the values, which are looked up in a vector."""
    if side not in ("left", "right"):
        raise OperatorError(f"side is 'left' or 'right', given {side!r}")
    if len(x) != 1:
        raise ShapeError(f"searchsorted looks in a sorted vector (rank 1), given shape {x}; use reshape, or a loop")
    return values


def _first_few(x: ShapeT, *, size: Extent, **_: Any) -> ShapeT:
    """A vector of the extent that is asked for."""
    if known(size) and size < 0:
        raise ShapeError(f"a size is not negative, given {size}")
    return (size,)


def _is_real(avals: Any, **_: Any) -> bool:
    return bool(avals[0].dtype.kind in "iuf")


def _axis(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    return {"axis": draw(range(-rank, rank)), "descending": draw((False, True))}


def _any_dtype(x: dtypes.DType, **_: Any) -> dtypes.DType:
    return dtypes.INT64


# --- sorting ----------------------------------------------------------------------------------------------


def _sort_vjp(o: Any, g: Any, y: Any, x: Any, *, axis: int, descending: bool) -> Any:
    order = o.argsort(x, axis=axis, descending=descending)
    return o.put_along_axis_add(o.zeros_like(g), order, g, axis=axis)


@operator(
    shape=movement.along,
    dtype=dtypes.first,
    kernels=(
        Kernel(
            "in place",
            compute=kernels.sort_numpy,
            into=kernels.sort_into,
            overwrites=(0,),
            namespaces=frozenset({"numpy"}),
            infallible=True,
            strided=True,
        ),
        reference(kernels.sort, infallible=True),
    ),
    derivative=Custom(
        lambda o, ts, y, x, *, axis, descending: o.take_along_axis(
            ts[0], o.argsort(x, axis=axis, descending=descending), axis=axis
        ),
        (_sort_vjp,),
    ),
    cost=per_input_element(COMPARISONS),
    onnx=onnx_indexing.sort,
    tolerance=EXACT,
    samples=Samples(dtypes=NUMBERS, params=_axis, min_rank=1, distinct=True),
)
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False) -> Tensor:
    """Elements in order along an axis, equal ones in the order in which they stood.

    NaN is last; in descending order first. Complex numbers are ordered by their real parts, then by the imaginary ones,
    those with a NaN behind the others. The derivative moves with the elements, as `argsort` says.
    """


@operator(
    shape=movement.along,
    dtype=dtypes.index,
    kernels=reference(kernels.sorting_order, private=kernels.order_private, infallible=True),
    derivative=Constant("positions are integers"),
    cost=per_input_element(COMPARISONS),
    onnx=onnx_indexing.argsort,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=_axis, min_rank=1),
)
def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False) -> Tensor:
    """Positions that put an axis in order: ``take_along_axis(x, argsort(x))`` is sorted; equal elements keep theirs."""


def _some_first(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    axis = draw(range(-rank, rank))
    return {"k": draw(range(shapes_[0][axis] + 1)), "axis": axis, "largest": draw((True, False))}


@operator(
    shape=movement.first_along,
    dtype=dtypes.index,
    kernels=(
        Kernel(
            "by partition",
            compute=kernels.first_order_numpy,
            private=kernels.first_order_private,
            namespaces=frozenset({"numpy"}),
            accepts=_is_real,
        ),
        reference(kernels.first_order),
    ),
    derivative=Constant("positions are integers"),
    cost=per_input_element(COMPARISONS),
    onnx=onnx_indexing.argtop_k,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=_some_first, min_rank=1),
)
def argtop_k(x: Tensor, /, *, k: int, axis: int = -1, largest: bool = True) -> Tensor:
    """Where the `k` largest elements along an axis stand, in descending order; or the smallest, ascending.

    It is the beginning of `argsort`, and takes time in proportion to the axis where `k` is small: the k-th element is
    found by selection, and only what comes before it is sorted.
    """


def _ranked(shapes_: Any, draw: Any) -> dict[str, Any]:
    rank = len(shapes_[0])
    axis = draw([a for a in range(-rank, rank) if shapes_[0][a]] or [0])
    n = max(shapes_[0][axis], 1)
    return {"k": draw(range(-n, n)), "axis": axis, "keepdims": draw((False, True))}


def _where_it_stands(o: Any, y: Any, x: Any, axis: int, keepdims: bool) -> Any:
    """The first position of the result in its axis, which is kept."""
    y = y if keepdims else o.expand_dims(y, axis=axis if axis >= 0 else len(x.shape) + axis)
    here = o.equal(x, y)
    if dtypes.kind_of(o.dtype(x)) in "fc":
        here = o.logical_or(here, o.logical_and(o.isnan(x), o.isnan(y)))
    return o.argmax(o.cast(here, dtype="int8"), axis=axis, keepdims=True)


def _kth_jvp(o: Any, ts: Any, y: Any, x: Any, *, k: int, axis: int, keepdims: bool) -> Any:
    found = o.take_along_axis(ts[0], _where_it_stands(o, y, x, axis, keepdims), axis=axis)
    return found if keepdims else o.squeeze(found, axis=axis)


def _kth_vjp(o: Any, g: Any, y: Any, x: Any, *, k: int, axis: int, keepdims: bool) -> Any:
    kept = g if keepdims else o.expand_dims(g, axis=axis if axis >= 0 else len(x.shape) + axis)
    return o.put_along_axis_add(o.zeros_like(x), _where_it_stands(o, y, x, axis, keepdims), kept, axis=axis)


@operator(
    shape=movement.ranked,
    dtype=dtypes.first,
    kernels=(
        Kernel(
            "by selection",
            compute=kernels.kth_numpy,
            private=kernels.kth_private,
            namespaces=frozenset({"numpy"}),
            accepts=_is_real,
        ),
        reference(kernels.kth),
    ),
    derivative=Custom(_kth_jvp, (_kth_vjp,)),
    cost=per_input_element(),
    onnx=onnx_indexing.kth_value,
    tolerance=EXACT,
    samples=Samples(dtypes=NUMBERS, params=_ranked, min_rank=1, distinct=True),
)
def kth_value(x: Tensor, /, *, k: int, axis: int = -1, keepdims: bool = False) -> Tensor:
    """The element at position `k` of an axis in ascending order; a negative `k` counts from the end.

    The order is that of `sort`; the first of equal elements has the derivative.
    """


# --- searching --------------------------------------------------------------------------------------------


def _per_value(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    return Cost(COMPARISONS * results[0].size)


SEARCHES = tuple(
    ((((n,), dtype, (low, low)), (shape, dtype)), {"side": side})
    for n, low, shape in ((0, 0, (2,)), (1, 1, (2, 3)), (3, 0, ()), (3, 1, (0, 2)), (4, 2, (5,)))
    for side in ("left", "right")
    for dtype in REALS
)


@operator(
    shape=_found,
    dtype=_searched,
    kernels=reference(kernels.searchsorted, private=kernels.searchsorted_private, infallible=True),
    derivative=Constant("positions are integers"),
    cost=_per_value,
    onnx=onnx_indexing.searchsorted,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=SEARCHES),
)
def searchsorted(x: Tensor, values: Tensor, /, *, side: str = "left") -> Tensor:
    """Where each value would stand in a sorted vector: before equal elements, or behind them with ``side="right"``.

    `x` has rank 1 and is in ascending order, which is not checked; the result has the shape of `values`.
    """


def _some_size(shapes_: Any, draw: Any) -> dict[str, Any]:
    return {"size": draw((0, 1, 3, 9)), "fill": draw((0, -1))}


@operator(
    shape=_first_few,
    dtype=_any_dtype,
    kernels=reference(kernels.flatnonzero, private=kernels.flatnonzero_private, infallible=True),
    derivative=Constant("positions are integers"),
    cost=free,
    onnx=onnx_indexing.flatnonzero,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=_some_size),
)
def flatnonzero(x: Tensor, /, *, size: Extent, fill: int = 0) -> Tensor:
    """The first `size` positions, in C order, of elements that are not zero; `fill` where there are not as many.

    A graph has shapes before it has values, so the extent is said. `nonzero` asks for the number of elements itself.
    """
