"""Shape, the third layer: shape inference, with unknown and symbolic dimensions, memoised."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from attrs import field

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.errors import NncError
from nnc_func.facets.dims import Extent, assumptions, known
from nnc_func.facets.places import Place, settled
from nnc_func.graph.origin import origin, told
from nnc_func.layer import Layer, layer
from nnc_func.op import Op
from nnc_func.signatures import TypeSignature

A = TypeVar("A")
MEMO_LIMIT = 200_000  # avals remembered; a program that draws ever new shapes starts anew


@layer(on="type", needs=("bind", "scalar", "ops"))
class Shape(Layer, Generic[A]):
    """Shape inference: what is known of a result before anything is computed.

    Examples
    --------
    >>> from nnc_func.device import NumPy
    >>> from nnc_func.graph.type import Type
    >>> shape = Shape(Type(NumPy()))
    >>> shape.bind(shape.type.ops["add"], Aval(("n", 1), "float32"), Aval((3,), "float32"))
    float32[n, 3]
    """

    type: TypeSignature[A]
    _memo: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)

    role: ClassVar[Literal["shape"]] = "shape"

    def bind(self, op: Op, *avals: Any, **params: Hashable) -> Any:
        """The aval of the result, or a tuple of them; numbers and arrays of the host are taken as they are lifted.

        Raises
        ------
        OperatorError
            The wrong number of arguments, or a parameter that does not exist.
        ShapeError, DTypeError, PlaceError
            Arguments that the operator does not take, named with their avals.
        """
        for a in avals:
            if type(a) is not Aval:
                avals = self._lifted(avals)
                break
        return self.infer(op, avals, op.canonical(params))

    def _lifted(self, args: tuple[Any, ...]) -> tuple[Aval, ...]:
        """Avals of whatever may stand for a tensor: numbers take the dtype that promotion gives them."""
        dtypes = [a.dtype for a in args if isinstance(a, (Aval, np.ndarray, np.generic))]
        return tuple(
            a if isinstance(a, Aval)
            else Aval(a.shape, a.dtype) if isinstance(a, (np.ndarray, np.generic))
            else Aval((), self.type.scalar(a if known(a) else 1, dtypes))
            for a in args
        )  # fmt: skip

    def infer(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Any:
        """As `bind`, of canonical parameters."""
        key = (op, avals, op.key(items))
        found = self._memo.get(key)
        if found is None:
            op.check_arity(len(avals))
            found = self._infer(op, avals, dict(items))
            if len(self._memo) >= MEMO_LIMIT:
                self._memo.clear()
            self._memo[key] = found
        return found

    def assumptions(self, op: Op, avals: tuple[Aval, ...], items: Items) -> list[tuple[Extent, Extent]]:
        """The pairs of extents that must be equal for these arguments to fit, which their shapes do not prove."""
        return assumptions(op.shape, *(a.shape for a in avals), **dict(items))

    def _infer(self, op: Op, avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        try:
            dtype = self.type.bind(op, *(a.dtype for a in avals), **params)
            shape = op.shape(*(a.shape for a in avals), **params)
            place = self.settled(op.place(tuple([a.place for a in avals]), **params))
        except NncError as error:
            given = ", ".join([*map(repr, avals), *(f"{k}={v!r}" for k, v in params.items())])
            where = told(origin())
            raise type(error)(f"{op.name}({given}): {error}" + (f" (at {where})" if where else "")) from None
        if op.several:
            return tuple(Aval(s, d, op.layout(avals, s, **params), place) for s, d in zip(shape, dtype, strict=True))
        return Aval(shape, dtype, op.layout(avals, shape, **params), place)

    def settled(self, place: Place) -> Place:
        """A place of the device, as avals name it: None for the first.

        Raises
        ------
        PlaceError
            The device has no such place.
        """
        return None if place is None else settled(place, getattr(self.type.device, "places", ()))
