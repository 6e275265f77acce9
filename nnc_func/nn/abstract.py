"""A stack of avals: it infers shapes and dtypes of what a model computes, and computes nothing."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Literal

from nnc_func.aval import Aval
from nnc_func.device import NumPy
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.shape import Shape
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.graph.type import Type
from nnc_func.op import Op


class Abstract:
    """What tensors need of a stack, interpreted over avals alone.

    Examples
    --------
    >>> x = Abstract().tensor((None, 3), "float32")
    >>> (x[:, :2] * 2).shape[1]
    2
    """

    role: ClassVar[Literal["shape"]] = "shape"

    def __init__(self) -> None:
        self._layer: Shape[Any] = Shape(Type(NumPy()))
        self.ops: Any = Ops(self.bind, CATALOGUE)

    def tensor(self, shape: Any, dtype: Any) -> Tensor:
        """A tensor of which nothing else is known."""
        return Tensor(self, Aval(shape, dtype))

    def aval(self, x: Any) -> Aval:
        """Shape and dtype of a tensor or an array."""
        value = x.value if isinstance(x, Tensor) else x
        return value if isinstance(value, Aval) else self._layer.type.device.aval(value)

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The operator on what is known of its arguments."""
        numbers = (bool, int, float, complex)
        dtypes = [self.aval(a).dtype for a in args if type(a) not in numbers]
        avals = [Aval((), self._layer.type.scalar(a, dtypes)) if type(a) in numbers else self.aval(a) for a in args]
        found = self._layer.bind(op, *avals, **params)
        return tuple(Tensor(self, a) for a in found) if op.multi_result else Tensor(self, found)

    def shown(self, x: Tensor) -> str:
        """Nothing is known of its elements."""
        return ", abstract"
