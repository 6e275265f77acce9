"""Symbol, the fourth layer: nodes in single assignment, interned; constants, variables, inputs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Generic, Literal, TypeVar
from weakref import WeakValueDictionary, ref

import attrs
import numpy as np
from attrs import field

from nnc_func.aval import Aval
from nnc_func.body import is_pure
from nnc_func.declaration import Items
from nnc_func.device.shared.host import numbers
from nnc_func.errors import GraphError, ShapeError
from nnc_func.facets.places import Place
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.constants import Large, dense, is_fixed
from nnc_func.graph.leaves import CONSTANT, INPUT, VARIABLE, Variable, brought, owned
from nnc_func.graph.node import InternTable, Node, Value
from nnc_func.graph.origin import Origin, origin
from nnc_func.layer import Layer, layer, opens
from nnc_func.layer_protocols import DeviceSignature, ShapeSignature, TypeSignature
from nnc_func.locks import forkable_lock
from nnc_func.op import Op

A = TypeVar("A")
MOST_NUMBERS = 10_000  # whose constants are remembered, as long as they live
BY_BYTES = 256  # constants up to so many bytes are known by their bytes, wherever they are

# Functors are applicative: equal recipes share one table, for as long as a stack of that recipe lives.
_tables: WeakValueDictionary[Any, InternTable] = WeakValueDictionary()
_making = forkable_lock()


def _table_of(symbol: Any) -> InternTable:
    recipe = (type(symbol), symbol.shape)
    with uncollected(), _making:
        found = _tables.get(recipe)
        if found is None:
            found = _tables[recipe] = InternTable()
    return found


@layer(on="shape", needs=ShapeSignature)
class Symbol(Layer, Generic[A]):
    """Nodes: an application of an operator is one object, however often it is written.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> symbol = nnc.lazy().symbol
    >>> x = symbol.input("x", Aval((2,), "float32"))
    >>> add = symbol.type.ops["add"]
    >>> symbol.bind(add, x, x) is symbol.bind(add, x, x)
    True
    """

    shape: ShapeSignature[A]
    type: TypeSignature[A] = opens("type")
    device: DeviceSignature[A] = opens("type.device")
    _numbers: dict[Any, ref[Node]] = field(init=False, factory=dict, eq=False, repr=False)
    table: InternTable = field(init=False, eq=False, repr=False, default=attrs.Factory(_table_of, takes_self=True))

    role: ClassVar[Literal["symbol"]] = "symbol"

    def bind(self, op: Op, *values: Value, **params: Hashable) -> Any:
        """The value of the application, or a tuple of values: values only, nothing is converted."""
        return self.apply(op, values, op.canonical(params))

    def apply(self, op: Op, values: tuple[Value, ...], items: Items, where: Origin | None = None) -> Any:
        """As `bind`, of canonical parameters: interned if the operator is pure. `where` is a node's that is rebuilt."""
        table = self.table
        if where is None:
            table.asked += 1
        key: tuple[Any, ...]
        given: tuple[Aval, ...]
        if len(values) == 2:  # as most are
            a, b = values
            key, given = (op, items and op.key(items), id(a), id(b)), (a.aval, b.aval)
        else:
            key, given = (op, items and op.key(items), *map(id, values)), tuple([v.aval for v in values])
        found = table.nodes.get(key)
        node = None if found is None else found()
        if node is None:
            avals = self.shape.infer(op, given, items)
            if not op.multi_result:
                avals = (avals,)
            node = Node(table, op, values, items, avals, origin(1) if where is None else where)
            if op.pure and (not op.holds_body or is_pure(op, items)):
                node = table.kept(key, node)
        elif table.recording and where is None:
            table.merge(node, origin())
        return node.results if op.multi_result else node

    def owns(self, value: Value) -> bool:
        """Whether a value was built by a stack with this Symbol recipe."""
        return value.table is self.table

    def input(self, name: str, aval: Aval, where: Origin | None = None) -> Node:
        """A new input: unbound until a program is called. `where` is the origin of one that it stands for."""
        if not isinstance(name, str) or not name:
            raise GraphError(f"an input has a name that is a non-empty string, given {name!r}")
        if any(isinstance(n, int) and n < 0 for n in aval.shape):
            raise ShapeError(f"input {name!r}: a shape has no negative extents, given {aval.shape}; None is unknown")
        if aval.place is not None:
            aval = aval.having(place=self.shape.settled(aval.place))
        return Node(self.table, INPUT, (), (), (aval,), origin() if where is None else where, name)

    def reading(self, variable: Variable) -> Node:
        """The node that is the value that a variable has now, and keeps it; in a program it stands for the variable."""
        return variable.reader(  # type: ignore[no-any-return]
            self.table, lambda: Node(self.table, VARIABLE, (), (), (variable.aval,), origin(), variable)
        )

    def variable(self, variable: Variable) -> Node:
        """The node that stands for a variable, whatever its value is when a program starts: one for each variable."""
        key = (VARIABLE, id(variable))
        node = self.table.get(key)
        if node is None:
            node = self.table.kept(key, Node(self.table, VARIABLE, (), (), (variable.aval,), origin(), variable))
        return node

    def constant(self, value: Any, dtype: Any = None, place: Place = None) -> Node:
        """A constant in a place: what has the same bytes, dtype and shape is one node.

        The value is copied, unless it shows memory that nobody can write to: bytes, or a file that is mapped so. An
        array of the device is copied each time: make a tensor of one that is used often, by `Stack.asarray`.
        """
        if place is None and (type(value) is int or (type(value) is float and value)) and isinstance(dtype, np.dtype):
            return self._number(value, dtype)
        return self._constant(value, dtype, place)

    def _number(self, value: Any, dtype: Any) -> Node:
        """The constant of a number, but not of 0.0 and -0.0, which are equal keys: formulas ask for the same few."""
        key = (type(value), value, dtype)
        found = self._numbers.get(key)
        node = None if found is None else found()
        if node is None:
            node = self._constant(value, dtype, None)
            if len(self._numbers) >= MOST_NUMBERS:
                self._numbers.clear()
            self._numbers[key] = ref(node)
        return node

    def _constant(self, value: Any, dtype: Any, place: Place) -> Node:
        host = isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)) or not hasattr(value, "dtype")
        if not host:
            return self.held(owned(self.device, value, dtype, place))
        if place is not None:
            place = self.shape.settled(place)
        array = numbers(self.device, value, dtype)
        if array.nbytes > BY_BYTES:
            return self._large(array, value, place)
        key = (CONSTANT, array.dtype, array.shape, array.tobytes(), place)
        node = self.table.get(key)
        if node is None:
            mine = array.astype(np.dtype(array.dtype.type))  # one that says its order of bytes prints otherwise
            mine.flags.writeable = False  # it is shared by all that are equal to it
            made = self.held(brought(self.device, mine, mine.dtype, place))
            self.table.literals[made] = mine  # before another thread can meet it
            node = self.table.kept(key, made)
        return node

    def _large(self, array: Any, value: Any, place: Place) -> Node:
        mine, flat = dense(array)
        large, table, free = Large(mine, flat, place), self.table, None
        for slot in large.slots():
            node = table.get(slot)
            if node is None:
                free = free or slot
            elif large.is_shown_by(node, table):
                return node
        is_view = mine is array and not isinstance(value, (list, tuple, np.generic))  # of a buffer, say
        if isinstance(value, np.ndarray):
            is_view = is_view and np.may_share_memory(array, value)
        if is_view and not is_fixed(array):
            mine = np.array(mine)
        mine.flags.writeable = False  # it is shared by all that are equal to it
        made = self.held(brought(self.device, mine, mine.dtype, place))
        if not isinstance(made.data, np.ndarray):
            table.digests[made] = large.digest
        found = made if free is None else table.kept(free, made)
        return found if found is made or large.is_shown_by(found, table) else made  # another thread's, perhaps

    def held(self, array: Any) -> Node:
        """A constant that shows a device array: its own node, nothing copied."""
        return Node(self.table, CONSTANT, (), (), (self.device.aval(array),), origin(), array)

    def host_of(self, value: Value) -> Any:
        """The elements of a constant that are on the host without work, as a NumPy array; else None.

        They are for small constants on every device, so a graph is rewritten alike whichever it is for.
        """
        node = value.node
        if node.op is not CONSTANT:
            return None
        found = self.table.literals.get(node)
        return node.data if found is None and isinstance(node.data, np.ndarray) else found

    def scalar_of(self, value: Value) -> Any:
        """The Python number that every element of a small constant is; None where that is not known.

        Only constants whose elements are on the host without work are looked at.
        """
        data = self.host_of(value)
        if data is None or data.nbytes > BY_BYTES or data.size == 0:
            return None
        bits = data.tobytes()
        return data.flat[0].item() if bits == bits[: data.itemsize] * data.size else None
