"""Compositions that mypy must refuse: one error on each line marked ``# E``, none elsewhere."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from nnc_func.autodiff import Autodiff
from nnc_func.aval import Aval
from nnc_func.device import NumPy
from nnc_func.engine import Eager, Lazy
from nnc_func.graph.graph import Graph
from nnc_func.graph.operator import Operator
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.shape import Shape
from nnc_func.graph.symbol import Symbol
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.graph.type import Type
from nnc_func.op import Op

device = NumPy()
type_ = Type(device)
shape = Shape(type_)
symbol = Symbol(shape)
operator = Operator(symbol)
optimiser = Optimiser(operator)
graph = Graph(optimiser)
eager = Eager(graph)
lazy = Lazy(graph)
autodiff = Autodiff(lazy)

# --- a layer is left out --------------------------------------------------------------------------------

Shape(device)  # E
Symbol(type_)  # E
Operator(shape)  # E
Optimiser(symbol)  # E
Graph(operator)  # E
Lazy(optimiser)  # E
Eager(optimiser)  # E
Autodiff(graph)  # E

# --- a layer stands on its own kind, or on one above it -------------------------------------------------

Type(type_)  # E
Type(shape)  # E
Shape(shape)  # E
Shape(symbol)  # E
Symbol(symbol)  # E
Symbol(operator)  # E
Operator(operator)  # E
Operator(optimiser)  # E
Optimiser(optimiser)  # E
Optimiser(graph)  # E
Graph(graph)  # E
Graph(lazy)  # E
Lazy(lazy)  # E
Eager(eager)  # E
Eager(lazy)  # E
Lazy(autodiff)  # E
Autodiff(autodiff)  # E
Autodiff(optimiser)  # E
Autodiff(type_)  # E

# --- layers too far down, nothing at all ----------------------------------------------------------------

Eager(device)  # E
Lazy(device)  # E
Graph(device)  # E
Operator(device)  # E
Type()  # E
Type("numpy")  # E
Type(np)  # E


# --- the role alone tells signatures apart --------------------------------------------------------------


class Pretender:
    """It has all that a device has, under another role."""

    role: ClassVar[Literal["shape"]] = "shape"

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """As a device's."""

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """As a device's."""

    def aval(self, array: Any) -> Aval:
        """As a device's."""
        return Aval((), "bool")


Type(Pretender())  # E

# --- layers are frozen; what they computed is no argument of theirs ---------------------------------------

shape.type = type_  # E
Symbol(shape, type_)  # E
Symbol(shape, device=device)  # E
lower: Type[list[int]] = Type(device)  # E

# --- operators ------------------------------------------------------------------------------------------

ops: Ops[npt.NDArray[Any]] = Ops(device.bind)
ops.tanhh(1.0)  # E
ops.add(1.0)  # E
ops.add(1.0, "two")  # E
ops.sum(1.0, axes=0)  # E
ops.sum(1.0, 0)  # E
