"""Compositions that mypy must accept, and the array type that it must know at the top of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

from nnc_func.autodiff import Autodiff
from nnc_func.aval import Aval
from nnc_func.device import NumPy
from nnc_func.engine import Eager, Lazy
from nnc_func.graph.graph import Graph
from nnc_func.graph.operator import Operator
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.shape import Shape
from nnc_func.graph.symbol import Symbol
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.graph.type import Type
from nnc_func.layer_protocols import DeviceSignature
from nnc_func.op import Catalogue, Op

Array = npt.NDArray[Any]

# --- the array type of the device is known at the top ---------------------------------------------------

type_ = Type(NumPy())
shape = Shape(type_)
symbol = Symbol(shape)
operator = Operator(symbol)
optimiser = Optimiser(operator)
graph = Graph(optimiser)
eager = Eager(graph)
lazy = Lazy(graph)

assert_type(type_, Type[Array])
assert_type(shape, Shape[Array])
assert_type(symbol, Symbol[Array])
assert_type(operator, Operator[Array])
assert_type(optimiser, Optimiser[Array])
assert_type(graph, Graph[Array])
assert_type(eager, Eager[Array])
assert_type(lazy, Lazy[Array])
assert_type(Autodiff(eager), Autodiff[Array])
assert_type(Autodiff(lazy), Autodiff[Array])
assert_type(Autodiff(NumPy()), Autodiff[Array])
assert_type(Autodiff(Lazy(Graph(Optimiser(Operator(Symbol(Shape(Type(NumPy())))))))), Autodiff[Array])
assert_type(type_.with_ops(CATALOGUE["add"]), Type[Array])


# --- whatever satisfies a signature is accepted: test doubles are any small class ---------------------------


class Device:
    """A device of one's own, that derives from nothing."""

    @property
    def role(self) -> Any:
        """The discriminating member; a literal would do, too."""
        return "device"

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """Computes nothing."""
        return args[0]

    def asarray(self, value: Any, dtype: Any = None) -> list[float]:
        """Its arrays are lists."""
        return [float(value)]

    def aval(self, array: Any) -> Aval:
        """Always a vector."""
        return Aval((len(array),), "float64")


class OneType:
    """A Type of one's own."""

    role: Any = "type"
    ops: Catalogue = CATALOGUE

    def __init__(self, device: Device) -> None:
        self.device: DeviceSignature[list[float]] = device

    def bind(self, op: Op, *dtypes: Any, **params: Hashable) -> Any:
        """There is one dtype."""
        return np.dtype("float64")

    def scalar(self, value: Any, dtypes: Sequence[Any]) -> Any:
        """There is one dtype."""
        return np.dtype("float64")


assert_type(Type(Device()), Type[list[float]])
assert_type(Shape(OneType(Device())), Shape[list[float]])
assert_type(Symbol(Shape(OneType(Device()))), Symbol[list[float]])

# --- operators as typed functions -----------------------------------------------------------------------

ops: Ops[Array] = Ops(NumPy().bind)
x = np.zeros((2, 3), "float32")
assert_type(ops.add(x, 1), Array)
assert_type(ops.sum(x, axis=0, keepdims=True), Array)
assert_type(ops.sum(x, axis=(0, 1)), Array)
assert_type(ops.split(x, sections=3, axis=1), tuple[Array, ...])
