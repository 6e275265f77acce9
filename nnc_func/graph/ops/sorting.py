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
from nnc_func.facets.samples import ANY, EXACT, REALS, Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost, free, per_input_element
from nnc_func.graph.ops.families import Extent, Tensor
from nnc_func.op import operator

COMPARISONS = 8  # for each element, about: the logarithm of an extent


# --- rules ------------------------------------------------------------------------------------------------


def _ordered(x: dtypes.DType, **_: Any) -> dtypes.DType:
    if x.kind == "c":
        raise DTypeError("complex numbers have no order; sort their magnitudes, or real and imaginary parts")
    return x


def _position(x: dtypes.DType, *_: Any, **params: Any) -> dtypes.DType:
    _ordered(x)
    return dtypes.INT64


def _searched(x: dtypes.DType, values: dtypes.DType, **_: Any) -> dtypes.DType:
    _ordered(dtypes.promote(x, values))
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
    dtype=_ordered,
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
    samples=Samples(dtypes=REALS, params=_axis, min_rank=1, distinct=True),
)
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False) -> Tensor:
    """Elements in order along an axis, equal ones in the order in which they stood.

    NaN is last; in descending order first. The derivative moves with the elements, as `argsort` says.
    """


@operator(
    shape=movement.along,
    dtype=_position,
    kernels=reference(kernels.sorting_order, infallible=True),
    derivative=Constant("positions are integers"),
    cost=per_input_element(COMPARISONS),
    onnx=onnx_indexing.argsort,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=_axis, min_rank=1),
)
def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False) -> Tensor:
    """Positions that put an axis in order: ``take_along_axis(x, argsort(x))`` is sorted; equal elements keep theirs."""


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
    kernels=reference(kernels.searchsorted, infallible=True),
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
    kernels=reference(kernels.flatnonzero, infallible=True),
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
