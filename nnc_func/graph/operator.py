"""Operator, the fifth layer: operators as functions over graph values; it lifts and checks their arguments."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from attrs import Factory, field

from nnc_func.declaration import Items
from nnc_func.device.shared.bind_kernels import kernel_device
from nnc_func.device.shared.host import numbers
from nnc_func.errors import GraphError, NncError
from nnc_func.facets.dims import Dim
from nnc_func.facets.dims import substitute as bound
from nnc_func.facets.places import Place
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.leaves import LEAVES, Variable, are_places
from nnc_func.graph.node import Node, Result, Value, topological
from nnc_func.graph.origin import name_line
from nnc_func.graph.refinement import as_assumed, elsewhere
from nnc_func.layer import Layer, layer, opens
from nnc_func.layer_protocols import DeviceSignature, ShapeSignature, SymbolSignature, TypeSignature
from nnc_func.op import Op, convert

A = TypeVar("A")
SCALARS = (bool, int, float, complex)
NUMBERS = frozenset((*SCALARS, Dim))


@layer(on="symbol", needs=SymbolSignature)
class Operator(Layer, Generic[A]):
    """Operators as functions over nodes: numbers and arrays among the arguments become constants.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> operator = nnc.lazy().operator
    >>> x = operator.symbol.input("x", nnc.Aval((2,), "float32"))
    >>> operator.bind(operator.type.ops["add"], x, 1).aval
    float32[2]
    """

    symbol: SymbolSignature[A]
    shape: ShapeSignature[A] = opens("symbol.shape")
    type: TypeSignature[A] = opens("symbol.shape.type")
    device: DeviceSignature[A] = field(
        init=False,
        eq=False,
        repr=False,
        default=Factory(lambda self: kernel_device(self.type.device), takes_self=True),
    )
    _is_plain: bool = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: self.shape.is_plain, takes_self=True)
    )

    role: ClassVar[Literal["operator"]] = "operator"

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The value of the application, or a tuple of values.

        Raises
        ------
        GraphError
            An argument is a node of another stack.
        OperatorError, ShapeError, DTypeError
            The operator does not take these arguments.
        """
        table = self.symbol.table
        try:
            for arg in args:
                kind = type(arg)
                if (kind is not Node and kind is not Result) or arg.table is not table:
                    args = self.lifted(op, args)
                    break
            items = op.canonical(params) if params or op.params else ()
            found = self.symbol.apply(op, args, items)
        except NncError as error:
            name_line(error)
            raise
        return found if self._is_plain else self._convert(op, args, items, found)

    def _convert(self, op: Op, args: tuple[Value, ...], items: Items, found: Any) -> Any:
        """The results in the dtypes that Type wants: the operator as it is, then a cast, a node of its own."""
        conversion = self.shape.conversion(op, tuple([a.aval for a in args]), items)
        return convert(op, found, conversion, lambda cast, value: self.symbol.apply(cast[0], (value,), cast[1]))

    def lifted(self, op: Op, args: tuple[Any, ...]) -> tuple[Value, ...]:
        """The arguments as values: Python scalars take the dtype that promotion gives them beside the others."""
        place = None
        for a in args:
            if isinstance(a, (Value, Variable)):
                place = a.aval.place
                break
        values: list[Any] = [a if type(a) in NUMBERS else self.lift(a, place) for a in args]
        dtypes = [v.aval.dtype for v in values if isinstance(v, Value)]
        if len(dtypes) == len(values):
            return tuple(values)
        for i, value in enumerate(values):
            if type(value) is Dim:
                values[i] = self._of_extent(value, self.type.scalar(1, dtypes), place)
            elif not isinstance(value, Value):
                values[i] = self._constant(value, self.type.scalar(value, dtypes), place)
        return tuple(values)

    def _constant(self, value: Any, dtype: Any, place: Place) -> Any:
        if place is None or not isinstance(value, (*SCALARS, np.ndarray)):  # an array of the device is where it is
            return self.symbol.constant(value, dtype)
        return self.symbol.constant(value, dtype, place)

    def _of_extent(self, extent: Dim, dtype: Any, place: Place) -> Value:
        """An unknown extent as a tensor of shape (): a number once it is known."""
        full = self.type.ops["full"]
        found: Value = self.symbol.apply(full, (), full.canonical({"shape": (), "value": extent, "dtype": dtype}))
        if place is None:
            return found
        move = self.type.ops["transfer"]
        moved: Value = self.symbol.apply(move, (found,), move.canonical({"place": place}))
        return moved

    def lift(self, arg: Any, place: Place = None) -> Value:
        """A value of this stack: itself, a variable's node, or a constant, of data of the host in that place.

        Raises
        ------
        GraphError
            It is a node of another stack.
        """
        if isinstance(arg, Value):
            if not self.symbol.owns(arg):
                raise GraphError(
                    f"{arg!r} is a node of another stack; move its graph here with graph.to(stack), "
                    "or build it with this stack"
                )
            return arg if type(arg) is Node or type(arg) is Result else arg.symbolic
        if isinstance(arg, Variable):
            read = self.symbol.variable if are_places() else self.symbol.reading
            return read(arg)  # type: ignore[no-any-return]
        if isinstance(arg, (list, tuple, np.generic)):
            arg = numbers(self.device, arg)
        if isinstance(arg, Dim):
            return self._of_extent(arg, np.dtype(np.int64), place)
        return self._constant(arg, None, place)  # type: ignore[no-any-return]

    def substitute(self, roots: Any, values: dict[Node, Any], dims: dict[str, Any] | None = None) -> list[Value]:
        """The roots with leaves replaced, and symbolic extents in parameters bound: everything above is built anew.

        A leaf that `values` does not name stays, if it is this stack's own. Of a node with several results
        `values` names a list, one for each.
        """
        done: dict[Node, Any] = {}
        with uncollected(self.symbol.table.walking), self.symbol.table.walking:
            for node in topological(roots):
                if node in values:
                    done[node] = values[node]
                elif not node.args and node.op in LEAVES:
                    done[node] = self.lift(node)
                else:
                    args = tuple(_at(done, a) for a in node.args)
                    items = tuple((k, bound(v, dims)) for k, v in node.items) if dims else node.items
                    try:
                        found = self.symbol.apply(node.op, args, items, node.origin)
                    except NncError as error:
                        raise elsewhere(node, error) from None
                    made = found[0].node if node.op.multi_result else found
                    if dims:
                        as_assumed(node, made.avals, dims)
                    done[node] = made
        return [_at(done, r) for r in roots]


def _at(done: dict[Node, Any], value: Value) -> Value:
    found = done[value.node]
    if isinstance(found, list):  # the results of one node, each replaced by a value of its own
        return found[value.index]  # type: ignore[no-any-return]
    return found.result(value.index) if value.node.op.multi_result else found  # type: ignore[no-any-return]
