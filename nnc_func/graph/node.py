"""Nodes and values: single-assignment applications of operators, interned by an `InternTable`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary, ref

from nnc_func.aval import Aval
from nnc_func.config import config
from nnc_func.declaration import Items
from nnc_func.errors import GraphError
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.origin import Origin
from nnc_func.graph.unpickled import Unpickled
from nnc_func.locks import forkable_lock
from nnc_func.op import Op

_serials = itertools.count()
LONG = 100  # characters of a parameter that are shown
LEAST_KEYS = 20_000  # of a table that is never swept


class Hold:
    """What all handles of one value keep alive, and nothing else does: it tells whether a user holds the value."""

    __slots__ = ("__weakref__",)


class Value(Unpickled):
    """What an operand is: one result of a node. A one-result node is its own value.

    Attributes
    ----------
    aval
        Shape and dtype.
    table
        The intern table of the stack that built it.
    handle
        Weak reference to the `Hold` of the handles by which users hold it; None where nobody did.
    """

    __slots__ = ("__weakref__", "aval", "handle", "table")
    aval: Aval
    handle: Any
    table: InternTable

    node: Node
    index: int
    op: Op  # of the node

    # rules ask for these all the time: no frame of Python's
    shape: Any = property(attrgetter("aval.shape"), doc="Extents, known or symbolic.")
    dtype: Any = property(attrgetter("aval.dtype"), doc="The NumPy dtype.")

    @property
    def symbolic(self) -> Value:
        """Itself; of an engine's own kind of value, that which a graph has in its place."""
        return self

    def hold(self) -> Hold:
        """What a handle keeps for as long as a user holds the value by it."""
        found = None if self.handle is None else self.handle()
        if found is None:
            found = Hold()
            self.handle = ref(found)
        return found

    @property
    def is_held(self) -> bool:
        """Whether a user holds it."""
        return self.handle is not None and self.handle() is not None


class Node(Value):
    """An application of an operator to values; leaves are applications of the operators in `leaves`.

    Attributes
    ----------
    op, args, items
        The operator, its operands, its canonical parameters.
    avals
        One for each result; `aval` is the first.
    origin
        The user lines that asked for it.
    data
        Of a leaf: the array of a constant, the `Variable`, the name of an input. None otherwise.
    serial
        Counts nodes as they are made: operands have lower ones.
    references
        Weak ones to its results as values, of a node that has several, see `InternTable.result`; None until one is
        asked for.
    """

    __slots__ = ("args", "avals", "data", "items", "op", "origin", "references", "serial")
    op: Op
    args: tuple[Value, ...]
    items: Items
    avals: tuple[Aval, ...]
    origin: Origin
    data: Any
    serial: int
    references: list[Callable[[], Result | None]] | None
    index = 0

    def __init__(
        self,
        table: InternTable,
        op: Op,
        args: tuple[Value, ...],
        items: Items,
        avals: tuple[Aval, ...],
        origin: Origin,
        data: Any = None,
    ) -> None:
        self.table = table
        self.op = op
        self.args = args
        self.items = items
        self.avals = avals
        self.aval = avals[0] if avals else None  # type: ignore[assignment]
        self.origin = origin
        self.data = data
        self.serial = next(_serials)
        self.handle = self.references = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """Itself."""
        return self

    @property
    def params(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.items)

    def result(self, index: int) -> Value:
        """One of its results, as a value.

        Raises
        ------
        GraphError
            There are fewer.
        """
        if not self.op.multi_result:
            if index == 0:
                return self
            raise GraphError(f"{self.op} has one result, asked for number {index}")
        if not 0 <= index < len(self.avals):
            raise GraphError(f"{self.op} has {len(self.avals)} results, asked for number {index}")
        return self.table.result(self, index)

    @property
    def results(self) -> tuple[Value, ...]:
        """All its results, as values."""
        if not self.op.multi_result:
            return (self,)
        return tuple(self.table.result(self, i) for i in range(len(self.avals)))

    def __repr__(self) -> str:
        inside = [_brief(a) for a in self.args]
        inside += [f"{k}={_short(repr(v))}" for k, v in self.items]
        if isinstance(self.data, str):
            inside.append(repr(self.data))
        return f"{self.op.name}({', '.join(inside)}): {', '.join(map(repr, self.avals))}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def leaves(table: InternTable, op: Op, avals: Sequence[tuple[Aval]], where: Origin, data: Sequence[Any]) -> list[Node]:
    """New leaves with these data; as many calls of `Node` take twice as long.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", (2,))
    >>> leaves(x.value.table, x.value.op, [(x.aval,)], (), ["y"])
    [input('y'): float32[2]]
    """
    found = []
    for its, each in zip(avals, data, strict=True):
        node = _blank(Node)
        node.table, node.op, node.args, node.items = table, op, (), ()
        node.avals, node.aval, node.origin, node.data = its, its[0], where, each
        node.serial, node.handle, node.references = next(_serials), None, None
        found.append(node)
    return found


_blank = object.__new__


class Result(Value):
    """One result of a node that has several."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index
        self.aval = node.avals[index]
        self.table = node.table
        self.handle = None

    op: Any = property(attrgetter("node.op"), doc="The node's operator.")

    def __repr__(self) -> str:
        return f"{self.node.op.name}(…)[{self.index}]: {self.aval!r}"


def _short(said: str) -> str:
    """A parameter that is not longer than one reads: bodies of loops are."""
    return said if len(said) <= LONG else f"{said[: LONG - 1]}…"


def _brief(value: Value) -> str:
    return f"{value.node.op.name}[{', '.join(map(str, value.shape))}]"


_nothing = type(None)  # a reference to what is gone: called, it gives None


class InternTable:
    """The nodes of one Symbol recipe, weakly held: equal pure applications are one node while it lives.

    An application's key has the identities of its operands, not these: whoever is equal to it holds them, and a key
    keeps nothing alive. Keys of nodes that are gone are swept out when they are as many as those of others.

    Attributes
    ----------
    nodes
        Keys to weak references; one may be dead.
    walking
        A lock. Who reads several attributes of nodes holds it, or changes one: a graph that is rewritten or planned
        in one thread sees each node as it was before another thread settled it, or after.
    asked
        Counts the applications that were asked for, see `counted`.
    merged
        Nodes to where else they were asked for; recorded only while `recording` is not 0.
    """

    __slots__ = (
        "__weakref__", "_lock", "_most", "asked", "digests", "literals", "merged", "nodes", "pasts",
        "recording", "walking",
    )  # fmt: skip

    def __init__(self) -> None:
        self.nodes: dict[Any, ref[Node]] = {}
        self._most = LEAST_KEYS
        # small constants, equal by their bytes, and their elements on the host: known whatever the device is
        self.literals: WeakKeyDictionary[Node, Any] = WeakKeyDictionary()
        # large constants whose elements are not on the host, and what tells their bytes from others
        self.digests: WeakKeyDictionary[Node, bytes] = WeakKeyDictionary()
        # nodes that are values of variables which have other ones now, and the arrays that show them
        self.pasts: WeakKeyDictionary[Node, Any] = WeakKeyDictionary()
        self._lock, self.walking = forkable_lock(), forkable_lock()
        self.asked = 0
        self.recording = min(config.spec, 1)
        self.merged: WeakKeyDictionary[Node, list[Origin]] = WeakKeyDictionary()

    def get(self, key: Any) -> Node | None:
        """The node of that key, while it lives."""
        found = self.nodes.get(key)
        return None if found is None else found()

    def kept(self, key: Any, node: Node) -> Node:
        """The node of that key: this one, unless another thread has made one meanwhile."""
        nodes, mine = self.nodes, ref(node)
        found = nodes.setdefault(key, mine)  # which nobody can interrupt
        if found is not mine:
            with uncollected(), self._lock:
                other = nodes.get(key, mine)()
                if other is not None:
                    return other
                nodes[key] = mine
        if len(nodes) > self._most:
            with uncollected(), self._lock:
                self._sweep()
        return node

    def _sweep(self) -> None:
        """Forget the keys of nodes that are gone."""
        for key in list(self.nodes):  # which nobody can interrupt; to make pairs may collect, and finalisers make nodes
            found = self.nodes.get(key)
            if found is not None and found() is None:
                self.nodes.pop(key, None)
        self._most = max(LEAST_KEYS, 3 * len(self.nodes))

    def merge(self, node: Node, where: Origin) -> None:
        """Record that a node that there is was asked for once more."""
        found = self.merged.setdefault(node, [])
        if where and where != node.origin and where not in found:
            found.append(where)

    def result(self, node: Node, index: int) -> Result:
        """The value of that result: the same object while it lives."""
        if node.references is not None:
            found = node.references[index]()
            if found is not None:
                return found
        # two threads must not make two of one result: plans tell values apart by identity
        with uncollected(), self._lock:
            references = node.references
            if references is None:
                references = node.references = [_nothing] * len(node.avals)
            found = references[index]()
            if found is None:
                found = Result(node, index)
                references[index] = ref(found)
        return found

    def settle(self, node: Node, op: Op, data: Any) -> None:
        """Make a computed node a leaf that holds its value, so that it may forget its operands."""
        with uncollected(self.walking), self.walking:
            self.nodes.pop((node.op, node.op.key(node.items), *map(id, node.args)), None)
            node.data, node.op, node.args, node.items, node.origin = data, op, (), (), ()

    def __len__(self) -> int:
        with uncollected(), self._lock:
            self._sweep()
            return len(self.nodes)


def topological(roots: Iterable[Value], stop: Any = ()) -> list[Node]:
    """All nodes that the roots depend on, operands first; iterative, deterministic. Nodes in `stop` end the walk.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> [n.op.name for n in topological([(x * x + x).value])]
    ['input', 'multiply', 'add']
    """
    order: list[Node] = []
    seen: set[Node] = set(stop)
    above: list[tuple[Any, Any]] = []  # nodes on the way to this one, and the operands that each has still to look at
    for root in roots:
        node: Any = root.node
        if node in seen:
            continue
        seen.add(node)
        rest: Any = iter(node.args)
        while node is not None:
            for operand in rest:
                if operand in seen:
                    continue
                if type(operand) is Result:
                    operand = operand.node
                    if operand in seen:
                        continue
                seen.add(operand)
                if operand.args:
                    above.append((node, rest))
                    node, rest = operand, iter(operand.args)
                    break
                order.append(operand)
            else:
                order.append(node)
                node, rest = above.pop() if above else (None, None)
    return order
