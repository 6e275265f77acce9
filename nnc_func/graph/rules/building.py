"""The builder: what right sides of rules are made with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnc_func.declaration import Items
from nnc_func.facets.dims import known
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.origin import Origin
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.graph.rules.workspace import Workspace

REAL = (bool, int, float)


class Builder:
    """Makes nodes for right sides: interned like any, but with the origin of what they replace.

    Attributes
    ----------
    where
        The origin of the node that is being rewritten.
    numbers
        Of constants, what `number_of` found; forgotten after each graph.
    workspace
        The graph that is being rewritten, of which the nodes are then; None where they are the stack's.
    """

    __slots__ = ("_order", "_users", "numbers", "operator", "shape", "symbol", "table", "where", "workspace")

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.symbol = operator.symbol
        self.shape = operator.symbol.shape
        self.table = operator.symbol.table
        self.where: Any = ()
        self.forget()

    def forget(self) -> None:
        """Forget what was found of a graph."""
        self.workspace: Workspace | None = None
        self.numbers: dict[Node, Any] = {}
        self._order: list[Node] | None = None
        self._users: dict[Node, list[Node]] = {}

    def users(self, order: list[Node]) -> dict[Node, list[Node]]:
        """Node to the nodes that use it, as often as they do, of a graph: found once for all passes over it."""
        if self._order is not order and self.workspace is not None:
            self._order = order
            self._users = {n: [user for user, times in n.users.items() for _ in range(times)] for n in order}
        if self._order is not order:
            found: dict[Node, list[Node]] = {}
            for node in order:
                for a in node.args:
                    used = a if type(a) is Node else a.node
                    listed = found.get(used)
                    if listed is None:
                        found[used] = [node]
                    else:
                        listed.append(node)
            self._order, self._users = order, found
        return self._users

    def made(self, op: Op, args: tuple[Value, ...], items: Items, avals: tuple[Any, ...] | None) -> Node:
        """The node of that application, `avals` being what is known of its results already."""
        work = self.workspace
        if work is None or not args:
            return self.interned(op, args, items, avals, self.where)
        return work.made(op, args, items, avals)

    def interned(
        self, op: Op, args: tuple[Value, ...], items: Items, avals: tuple[Any, ...] | None, where: Origin
    ) -> Node:
        """The stack's node of that application.

        It is `Symbol.apply` but for the origin, which would be a line of this library.
        """
        key = (op, op.key(items), *map(id, args))
        node = self.table.get(key) if op.pure else None
        if node is None:
            node = Node(self.table, op, args, items, avals or self.inferred(op, args, items), where)
            if op.pure:
                node = self.table.kept(key, node)
        return node

    def inferred(self, op: Op, args: tuple[Value, ...], items: Items) -> tuple[Any, ...]:
        """The avals of the results."""
        found = self.shape.infer(op, tuple([a.aval for a in args]), items)
        return found if op.several else (found,)

    def number_of(self, value: Value) -> Any:
        """The real number that every element of a constant is, whether it is stored or filled; else None."""
        node = value.node
        if node in self.numbers:
            return self.numbers[node]
        found = None
        if node.op is CONSTANT:
            found = self.symbol.scalar_of(value)
        elif node.op.name == "full" and not node.args:
            filled = node.params["value"]
            found = value.dtype.type(filled).item() if known(filled) else None
        number = self.numbers[node] = found if type(found) in REAL else None
        return number

    def apply(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The value of the application, or a tuple of values; numbers among the arguments are lifted."""
        for arg in args:
            if not isinstance(arg, Value):
                args = self.operator.lifted(op, args)
                break
        node = self.made(op, args, op.canonical(params), None)
        return node.results if op.several else node
