"""Shape, the third layer: shape inference, with unknown and symbolic dimensions, memoised."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from attrs import Factory, field

from nnc_func.aval import Aval
from nnc_func.body import bodies_of, holds_functions
from nnc_func.declaration import Items
from nnc_func.errors import NncError, UnknownOperatorError
from nnc_func.facets.dims import Extent, assumptions, known
from nnc_func.facets.places import Place, settled
from nnc_func.graph.origin import describe, origin
from nnc_func.layer import Layer, chain, is_ours, layer
from nnc_func.layer_protocols import TypeSignature
from nnc_func.memo import Few
from nnc_func.op import Op, convert

A = TypeVar("A")
Conversion = tuple[tuple[Op, Items, Aval] | None, ...]
MEMO_LIMIT = 200_000  # avals remembered; a program that draws ever new shapes starts anew


def _is_plain(type_layer: Any) -> bool:
    return all(is_ours(each) for each in chain(type_layer) if each.role == "type")


@layer(on="type", needs=TypeSignature)
class Shape(Layer, Generic[A]):
    """Shape inference: what is known of a result before anything is computed.

    Attributes
    ----------
    type
        The layer below.
    is_plain
        Type is this library's: it wants the operators' own dtypes.

    Examples
    --------
    >>> from nnc_func.device import NumPy
    >>> from nnc_func.graph.type import Type
    >>> shape = Shape(Type(NumPy()))
    >>> shape.bind(shape.type.ops["add"], Aval(("n", 1), "float32"), Aval((3,), "float32"))
    float32[n, 3]
    """

    type: TypeSignature[A]
    is_plain: bool = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _is_plain(self.type), takes_self=True)
    )
    _conversions: dict[Any, Conversion | None] = field(init=False, factory=dict, eq=False, repr=False)
    _memo: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)
    _few: tuple[Few, Few] = field(
        init=False, eq=False, repr=False,
        default=Factory(lambda self: (Few(self._memo), Few(self._conversions)), takes_self=True),
    )  # fmt: skip

    role: ClassVar[Literal["shape"]] = "shape"

    def bind(self, op: Op, *avals: Any, **params: Hashable) -> Any:
        """The aval of the result, or a tuple of them; numbers and arrays of the host are taken as they are lifted.

        Raises
        ------
        OperatorError
            The wrong number of arguments, a parameter that does not exist, or an operator outside the catalogue.
        ShapeError, DTypeError, PlaceError
            Arguments that the operator does not take, named with their avals.
        """
        for a in avals:
            if type(a) is not Aval:
                avals = self._lifted(avals)
                break
        items = op.canonical(params)
        found, conversion = self.infer(op, avals, items), self.conversion(op, avals, items)
        return convert(op, found, conversion, lambda cast, aval: self.infer(cast[0], (aval,), cast[1]))

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
        """As `bind`, of canonical parameters; in the dtype that the operator's kernels give."""
        key = (op, avals, items and op.key(items))
        found = self._memo.get(key)
        if found is None:
            op.check_arity(len(avals))
            found = self._infer(op, avals, dict(items))
            if len(self._memo) >= MEMO_LIMIT:
                self._memo.clear()
            self._memo[key] = found
            if holds_functions(op, items):
                self._few[0].note(key)
        return found

    def check(self, op: Op) -> None:
        """Raise UnknownOperatorError unless the operator is in the catalogue that Type has."""
        if self.type.ops.get(op.name) is not op:
            raise UnknownOperatorError(
                f"{op.name} is not an operator of this stack; add it: stack.swap(type=stack.type.with_ops({op.name}))"
            )

    def conversion(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Conversion | None:
        """What is applied to the operator's results, where Type wants them in other dtypes than the operator's own.

        For each result None, or a cast, its parameters and the result's own aval. None where Type wants nothing, as
        this library's does not.

        Raises
        ------
        OperatorError
            There is no cast in the catalogue.
        """
        if self.is_plain:
            return None
        key = (op, avals, op.key(items))
        if key not in self._conversions:
            if len(self._conversions) >= MEMO_LIMIT:
                self._conversions.clear()
            found = self._conversions[key] = self._conversion(op, avals, items)
            if holds_functions(op, items):
                self._few[1].note(key)
            return found
        return self._conversions[key]

    def _conversion(self, op: Op, avals: tuple[Aval, ...], items: Items) -> Conversion | None:
        found = self.infer(op, avals, items)
        wanted = self.type.bind(op, *(a.dtype for a in avals), **dict(items))
        rows = [*zip(found, wanted, strict=True)] if op.multi_result else [(found, wanted)]
        if all(aval.dtype == dtype for aval, dtype in rows):
            return None
        cast = self.type.ops["cast"]
        return tuple([None if a.dtype == d else (cast, cast.canonical({"dtype": d}), a) for a, d in rows])

    def assumptions(self, op: Op, avals: tuple[Aval, ...], items: Items) -> list[tuple[Extent, Extent]]:
        """The pairs of extents that must be equal for these arguments to fit, which their shapes do not prove."""
        return assumptions(op.shape, *(a.shape for a in avals), **dict(items))

    def _infer(self, op: Op, avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        try:
            self.check(op)
            for body in bodies_of(params.items()):
                for each in body.operators:
                    self.check(each)
            dtypes = tuple([a.dtype for a in avals])
            dtype = self.type.bind(op, *dtypes, **params)
            if not self.is_plain:
                dtype = op.dtypes(dtypes, params)
            shape = op.shape(*(a.shape for a in avals), **params)
            place = self.settled(op.place(tuple([a.place for a in avals]), **params))
        except NncError as error:
            given = ", ".join([*map(repr, avals), *(f"{k}={v!r}" for k, v in params.items())])
            where = describe(origin())
            raise type(error)(f"{op.name}({given}): {error}" + (f" (at {where})" if where else "")) from None
        if op.multi_result:
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
