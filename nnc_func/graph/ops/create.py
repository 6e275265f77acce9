"""Creation: tensors made from parameters alone. They have no tensor argument, so a stack's `ops` binds them."""

from __future__ import annotations

from typing import Any

from nnc_func.device.kernels import move as kernels
from nnc_func.device.kernels.move import NUMPY
from nnc_func.errors import DTypeError
from nnc_func.facets import dtypes, lowering, movement, shapes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import EXACT, Samples
from nnc_func.facets.views import free
from nnc_func.graph.ops.families import DType, Sizes, Tensor, holding, number
from nnc_func.op import operator

FILLED = tuple(
    ((), {"shape": shape, "value": value, "dtype": dtype})
    for shape in ((), (2, 3), (0, 2))
    for value, dtype in ((0, "float32"), (-1.5, "float64"), (7, "int32"), (True, "bool"), (1, "int64"))
)
RANGES = tuple(
    ((), {"start": start, "stop": stop, "step": step, "dtype": dtype})
    for start, stop, step, dtype in (
        (0, 5, 1, "int64"),
        (5, 0, -2, "int32"),
        (3, 3, 1, "int64"),
        (4, 1, 1, "float32"),
        (0.5, 2, 0.25, "float64"),
        (0, 1, 0.1, "float32"),
        (0, 4, 1, "float32"),
    )
)


@operator(
    shape=shapes.given,
    dtype=lambda *, shape, value, dtype: holding(dtype, value, "value"),
    kernels=(
        Kernel("fill", compute=kernels.full, into=kernels.full_into, namespaces=NUMPY, infallible=True, strided=True),
        reference(kernels.full, infallible=True),
    ),
    derivative=Constant("it depends on no tensor"),
    cost=free,
    onnx=onnx_elementwise.full,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=FILLED),
    lowering=lowering.IndexMap(lowering.filled),
)
def full(*, shape: Sizes, value: number, dtype: DType) -> Tensor:
    """A tensor that holds one number everywhere; the number must exist in the dtype."""


def _range(*, start: Any, stop: Any, step: Any, dtype: dtypes.DType) -> dtypes.DType:
    if kind_of(dtype) not in "iuf":
        raise DTypeError(f"a range has integers or floats, not {dtype.name}")
    holding(dtype, step, "step")
    return holding(dtype, start, "start")


@operator(
    shape=movement.counted,
    dtype=_range,
    kernels=reference(kernels.arange, infallible=True),
    derivative=Constant("it depends on no tensor"),
    cost=free,
    onnx=onnx_elementwise.arange,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=RANGES),
)
def arange(*, start: number, stop: number, step: number = 1, dtype: DType = "int64") -> Tensor:
    """Numbers from `start` by `step`, `stop` not included; int64 unless said otherwise."""
