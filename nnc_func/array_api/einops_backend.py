"""What einops asks of a tensor, so that ``einops.rearrange(tensor, "b h w -> b (h w)")`` works on every stack."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from nnc_func.graph.tensors.tensor import Tensor


@cache
def backend_of(module: ModuleType) -> type:
    """The class that einops finds, made of its own abstract one in the module given; kept, or einops would lose it.

    Extents that are not known stay symbols: einops multiplies and divides them as numbers.

    Examples
    --------
    >>> import einops
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", ("n", 2, 3))
    >>> einops.rearrange(x, "n a b -> (n a) b").shape[0]
    2*n
    """

    class TensorBackend(module.AbstractBackend):  # type: ignore[name-defined, misc]
        framework_name = "nnc_func"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def to_numpy(self, x: Tensor) -> Any:
            return x.numpy()

        def reshape(self, x: Tensor, shape: Any) -> Any:
            return x.stack.ops.reshape(x, shape=tuple(shape))

        def transpose(self, x: Tensor, axes: Any) -> Any:
            return x.stack.ops.permute_dims(x, axes=tuple(axes))

        def reduce(self, x: Tensor, operation: str, axes: Any) -> Any:
            return getattr(x.stack.ops, operation)(x, axis=tuple(axes))

        def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
            return tensors[0].stack.ops.stack(*tensors, axis=0)

        def add_axis(self, x: Tensor, new_position: int) -> Any:
            return x.stack.ops.expand_dims(x, axis=new_position)

        def tile(self, x: Tensor, repeats: Any) -> Any:
            return x.stack.ops.tile(x, repetitions=tuple(repeats))

        def concat(self, tensors: list[Any], axis: int) -> Any:
            return tensors[0].stack.ops.concat(*tensors, axis=axis)

        def is_float_type(self, x: Tensor) -> bool:
            return x.dtype.kind not in "biu"

        def einsum(self, pattern: str, *x: Tensor) -> Any:
            return x[0].stack.ops.einsum(*x, subscripts=pattern)

    return TensorBackend
