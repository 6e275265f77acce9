"""Type, the second layer: dtypes, promotion of scalars, and the operator catalogue."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from attrs import field

from nnc_func.facets.dtypes import weak
from nnc_func.graph.ops import CATALOGUE
from nnc_func.layer import Layer, evolved, layer
from nnc_func.layer_protocols import DeviceSignature
from nnc_func.op import Catalogue, Op

A = TypeVar("A")


@layer(on="device", needs=DeviceSignature)
class Type(Layer, Generic[A]):
    """Dtypes: which dtype an operator's result has, and which operators there are.

    Attributes
    ----------
    device
        The layer below.
    ops
        The catalogue: only its operators can be bound in this stack.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> t = Type(NumPy())
    >>> t.bind(t.ops["divide"], np.dtype("int32"), np.dtype("int32"))
    dtype('float64')
    """

    device: DeviceSignature[A]
    ops: Catalogue = field(default=CATALOGUE, repr=False)

    role: ClassVar[Literal["type"]] = "type"

    def bind(self, op: Op, *dtypes: Any, **params: Hashable) -> Any:
        """The dtype of the result, or a tuple of them.

        Raises
        ------
        DTypeError
            The operator does not take these dtypes.
        """
        return op.dtypes(dtypes, params)

    def scalar(self, value: Any, dtypes: Sequence[Any]) -> Any:
        """The dtype that a Python scalar takes beside arguments of these dtypes: scalars are weak (NEP 50).

        Raises
        ------
        DTypeError
            An integer that the common dtype cannot hold.
        """
        return weak(value, dtypes)

    def with_ops(self, *ops: Op) -> Type[A]:
        """This layer, its catalogue extended."""
        return evolved(self, ops=self.ops.with_ops(*ops))
