"""Indexing: slices with normalised bounds, gathers by integer indices, and the scatters that are their adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve

from nnc_func.device.kernels import index as kernels
from nnc_func.device.kernels.move import NUMPY
from nnc_func.errors import DTypeError
from nnc_func.facets import domains, dtypes, lowering, movement
from nnc_func.facets.derivatives import Constant, Linear
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.laws import keeps_nonnegative, odd
from nnc_func.facets.onnx import indexing as onnx_indexing
from nnc_func.facets.onnx import movement as onnx_movement
from nnc_func.facets.samples import ANY, EXACT, NUMBERS, Samples, Tolerance
from nnc_func.facets.views import Cost, View, free
from nnc_func.graph.ops.families import DType, Extent, Sizes, Tensor
from nnc_func.op import operator

ADDED = Tolerance(64.0)  # indices that repeat are added up in the device's order


# --- dtype rules ------------------------------------------------------------------------------------------


def indexed(x: dtypes.DType, indices: dtypes.DType, **_: Any) -> dtypes.DType:
    """That of the tensor; indices are integers."""
    if indices.kind not in "iu":
        raise DTypeError(f"indices are integers, given {indices.name}; cast them to int64")
    return x


def put(x: dtypes.DType, value: dtypes.DType, **_: Any) -> dtypes.DType:
    """That of the tensor, into which the value fits."""
    if dtypes.promote(x, value) != x:
        raise DTypeError(f"{value.name} elements do not fit into a tensor of {x.name}; cast one of the two")
    return x


def added(x: dtypes.DType, indices: dtypes.DType, updates: dtypes.DType, **_: Any) -> dtypes.DType:
    """That of the tensor, to which updates are added at indices."""
    return dtypes.numeric(put(indexed(x, indices), updates))


def per_update(args: tuple[Any, ...], results: tuple[Any, ...], **_: Any) -> Cost:
    """One operation for each element of the updates."""
    return Cost(args[2].size)


def _at(into: Any, scratch: Any = None) -> tuple[Kernel, Kernel]:
    """On NumPy for every dtype, with scratch memory, on CuPy for those that a GPU adds atomically."""
    host = Kernel(
        "add.at",
        compute=kernels.first_copied(into),
        into=into,
        overwrites=(0,),
        namespaces=frozenset({"numpy"}),
        strided=True,
        scratch=scratch,
    )
    on_gpu = frozenset({"cupy"})
    return host, evolve(host, name="atomic add", accepts=kernels.atomic, namespaces=on_gpu, scratch=None)


def _unchecked(avals: Any, *, checked: bool, **_: Any) -> bool:
    return not checked


def _counted(indices: dtypes.DType, *, depth: int, dtype: Any, checked: bool) -> dtypes.DType:
    indexed(indices, indices)
    return dtypes.given(dtype=dtype)


# --- slices -----------------------------------------------------------------------------------------------


def _zeros_like(o: Any, x: Any) -> Any:
    return o.full(shape=x.shape, value=0, dtype=o.dtype(x))


def _some_bounds(shapes_: Any, draw: Any) -> dict[str, Any]:
    bounds = [draw(_bounds_within(n)) for n in shapes_[0]]
    starts, stops, steps = zip(*bounds, strict=True) if bounds else ((), (), ())
    return {"starts": starts, "stops": stops, "steps": steps}


def _bounds_within(n: int) -> list[tuple[int, int, int]]:
    every = [(0, n, 1), (n - 1, -1, -1), (0, n, 2), (n - 1, -1, -2), (0, 0, 1), (n, n, 1)]
    return every + ([(1, n, 1), (n - 1, 0, -1), (0, n - 1, 1), (-1, -1, -1)] if n else [])


@operator(
    data_movement=True,
    shape=movement.sliced,
    dtype=dtypes.first,
    kernels=Kernel("view", compute=kernels.slice_view, infallible=True),
    derivative=Linear(
        lambda o, g, x, *, starts, stops, steps: o.assemble(g, shape=x.shape, offsets=(starts,), strides=(steps,))
    ),
    view=View(),
    cost=free,
    onnx=onnx_movement.slice_,
    tolerance=EXACT,
    samples=Samples(dtypes=ANY, params=_some_bounds),
    laws=(odd, keeps_nonnegative),
    lowering=lowering.IndexMap(lowering.sliced),
)
def slice_(x: Tensor, /, *, starts: Sizes, stops: Sizes, steps: Sizes) -> Tensor:
    """A strided part, as a view: one start, stop and step for each axis, counted from the front, never clipped.

    A negative step goes from `start` down to, but without, `stop`; a stop (or start) of -1 then stands before
    the first element. These are the numbers that Python's ``slice(...).indices(extent)`` gives.
    """


def _set_cases() -> Any:
    shapes_ = (
        ((), (), ((), (), ())),
        ((4,), (2,), ((1,), (3,), (1,))),
        ((4,), (), ((3,), (-1,), (-1,))),
        ((3, 4), (3, 2), ((0, 3), (3, -1), (1, -2))),
        ((3, 4), (1, 2), ((0, 0), (3, 4), (1, 2))),
        ((0, 2), (0, 2), ((0, 0), (0, 2), (1, 1))),
        ((2, 3), (0, 3), ((1, 0), (1, 3), (1, 1))),
    )
    for x, value, (starts, stops, steps) in shapes_:
        for dtype in ANY:
            yield ((x, dtype), (value, dtype)), {"starts": starts, "stops": stops, "steps": steps}


@operator(
    shape=movement.updated,
    dtype=put,
    kernels=(
        Kernel(
            "copy, then assign",
            compute=kernels.first_copied(kernels.set_slice_into),
            into=kernels.set_slice_into,
            overwrites=(0,),
            namespaces=NUMPY,
            infallible=True,
            strided=True,
        ),
        reference(kernels.set_slice, infallible=True),
    ),
    derivative=Linear(
        lambda o, g, x, value, *, starts, stops, steps: (
            lambda: o.set_slice(g, 0, starts=starts, stops=stops, steps=steps),
            lambda: o.sum_to(o.slice(g, starts=starts, stops=stops, steps=steps), value.shape),
        )
    ),
    cost=free,
    onnx=onnx_movement.set_slice,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=_set_cases()),
    data_movement=True,
)
def set_slice(x: Tensor, value: Tensor, /, *, starts: Sizes, stops: Sizes, steps: Sizes) -> Tensor:
    """A new tensor: `x` with `value`, broadcast, in the part that `slice` would show; `x` is left as it is."""


# --- along one axis ---------------------------------------------------------------------------------------


def index_cases(scattered: bool, along: bool) -> Any:
    """Argument lists; indices are drawn from a range that suits the axis, repeated and negative ones among them."""
    rows = (
        ((3,), (), 0),
        ((3,), (4,), 0),
        ((2, 3), (2, 2), 1),
        ((2, 3), (0,), -1),
        ((3, 0), (2,), 0),
        ((0,), (0,), 0),
        ((2, 3, 2), (2, 1), 1),
        ((1,), (3,), -1),
    )
    aligned = (
        ((3,), (4,), 0),
        ((2, 3), (2, 2), 1),
        ((2, 3), (0, 3), 0),
        ((2, 3, 2), (2, 1, 2), -2),
        ((0, 2), (0, 3), 1),
    )
    for x, indices, axis in aligned if along else rows:
        shape = movement.taken_along(x, indices, axis=axis) if along else movement.taken(x, indices, axis=axis)
        extent = x[axis]
        for dtype in NUMBERS:
            for integer in ("int32", "int64"):
                found = [(x, dtype), (indices, integer, (-extent, max(extent - 1, -extent)))]
                yield (tuple(found + [(shape, dtype)] * scattered), {"axis": axis})


def _gather(transpose: str) -> Linear:
    def back(o: Any, g: Any, x: Any, indices: Any, *, axis: int) -> Any:
        return getattr(o, transpose)(_zeros_like(o, x), indices, g, axis=axis)

    def accumulate(o: Any, total: Any, g: Any, x: Any, indices: Any, *, axis: int) -> Any:
        return getattr(o, transpose)(total, indices, g, axis=axis)

    return Linear(back, arguments=(0,), accumulate=accumulate)


def _scatter(transpose: str) -> Linear:
    def back(o: Any, g: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> tuple[Any, Any]:
        return g, lambda: getattr(o, transpose)(g, indices, axis=axis)

    return Linear(back, arguments=(0, 2))


HOT = ("float32", "float32", "float64", "int32", "int64", "bool", "complex64")


@operator(
    shape=movement.taken,
    dtype=indexed,
    derivative=_gather("scatter_add"),
    kernels=(
        Kernel("take", compute=kernels.take_numpy, into=kernels.take_into, namespaces=NUMPY, strided=True),
        reference(kernels.take),
    ),
    cost=free,
    onnx=onnx_indexing.take,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=index_cases(False, False)),
    data_movement=True,
    lowering=lowering.IndexMap(lowering.taken),
    takes_all=domains.something,
)
def take(x: Tensor, indices: Tensor, /, *, axis: int = 0) -> Tensor:
    """Elements of one axis by integer indices of any shape, negative ones from the end; others raise IndexError."""


@operator(
    shape=movement.taken_along,
    dtype=indexed,
    derivative=_gather("put_along_axis_add"),
    kernels=reference(kernels.take_along_axis, private=kernels.take_along_axis_private),
    cost=free,
    onnx=onnx_indexing.take_along_axis,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=index_cases(False, True)),
    data_movement=True,
    lowering=lowering.IndexMap(lowering.taken_along),
    takes_all=domains.something,
)
def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int) -> Tensor:
    """For each index the element at its own place, but for `axis`, where the index counts: as sorting gives it."""


@operator(
    shape=movement.scattered,
    dtype=added,
    derivative=_scatter("take"),
    kernels=(*_at(kernels.scatter_add_into, kernels.scatter_add_scratch), reference(kernels.scatter_add)),
    cost=per_update,
    onnx=onnx_indexing.scatter("add"),
    tolerance=ADDED,
    samples=Samples(relation="cases", cases=index_cases(True, False)),
    takes_all=domains.something,
)
def scatter_add(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new tensor: `x` with each update added at its index along an axis; where indices repeat, all are added."""


@operator(
    shape=movement.scattered_along,
    dtype=added,
    derivative=_scatter("take_along_axis"),
    kernels=(*_at(kernels.put_along_axis_add_into), reference(kernels.put_along_axis_add)),
    cost=per_update,
    onnx=onnx_indexing.put_along_axis_add,
    tolerance=ADDED,
    samples=Samples(relation="cases", cases=index_cases(True, True)),
    takes_all=domains.something,
)
def put_along_axis_add(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int) -> Tensor:
    """A new tensor: `x` with each update added where `take_along_axis` would read; repeated indices accumulate."""


@operator(
    shape=movement.with_depth,
    dtype=_counted,
    derivative=Constant("indices are integers"),
    kernels=(
        Kernel(
            "compared",
            compute=kernels.one_hot,
            into=kernels.one_hot_into,
            namespaces=NUMPY,
            accepts=_unchecked,
            infallible=True,
            strided=True,
        ),
        Kernel(
            "checked and compared",
            compute=kernels.one_hot,
            into=kernels.one_hot_into,
            namespaces=NUMPY,
            strided=True,
        ),
        reference(kernels.one_hot),
    ),
    cost=free,
    onnx=onnx_indexing.one_hot,
    tolerance=EXACT,
    samples=Samples(
        dtypes=("int32", "int64"),
        params=lambda shapes_, draw: {
            "depth": draw((0, 1, 3)),
            "dtype": np.dtype(draw(HOT)),
            "checked": False,
        },
    ),
    takes_all=domains.unless_checked,
)
def one_hot(indices: Tensor, /, *, depth: Extent, dtype: DType = "float32", checked: bool = False) -> Tensor:
    """One at the index along a new last axis and zero elsewhere.

    An index out of range, negative too, gives zeros; or, where it is `checked`, raises IndexError.
    """
