"""The builder: what right sides of rules are made with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from nnc_func.body import is_pure
from nnc_func.declaration import Items
from nnc_func.device.shared.queries import has_libraries, kernel_of, machine_of, writes_at_once
from nnc_func.facets.dims import known
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.origin import Origin
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.graph.rewriting.workspace import Workspace

REAL = (bool, int, float)
MOST = 4096  # answers of a device that are remembered after a graph


class Seen:
    """A graph as passes look at it.

    Attributes
    ----------
    order
        The nodes, operands first.
    operators
        Those that are applied.
    users
        ``users(node)``: the nodes that use it, each once.
    place
        ``place(node)``: where it is in the order.
    """

    __slots__ = ("_applied", "_listed", "operators", "order", "place", "users")

    def __init__(self, order: Sequence[Node], workspace: Workspace | None) -> None:
        self.order = order
        self._applied: dict[Op, Sequence[Node]] = {}
        self._listed: Callable[[Op], Sequence[Node]]
        self.place: Callable[[Any], int]
        self.users: Callable[[Any], Collection[Node]]
        if workspace is None:
            self.operators = {node.op for node in order}
            self._listed = lambda op: [node for node in order if node.op is op]
            self.place = {node: i for i, node in enumerate(order)}.__getitem__
            self.users = _users(order).__getitem__
        else:
            by_heads = workspace.by_heads()
            self.operators, self._listed = by_heads.operators(), by_heads.of
            self.place, self.users = attrgetter("place"), workspace.users

    def of(self, op: Op) -> Sequence[Node]:
        """The applications of an operator, in the order of the graph."""
        if op not in self.operators:
            return ()
        found = self._applied.get(op)
        if found is None:
            found = self._applied[op] = self._listed(op)
        return found


def _users(order: Sequence[Node]) -> dict[Node, dict[Node, None]]:
    found: dict[Node, dict[Node, None]] = {node: {} for node in order}
    for node in order:
        for a in node.args:
            found[a.node][node] = None
    return found


class Builder:
    """Makes nodes for right sides: interned like any, but with the origin of what they replace.

    Attributes
    ----------
    where
        The origin of the node that is being rewritten.
    machine
        Of the device, for which costs are estimated.
    numbers
        Of constants, what `number_of` found; forgotten after each graph.
    steps
        Of operators and what they are applied to, whether the device computes them in a fused one: asked once.
    workspace
        The graph that is being rewritten, of which the nodes are then; None where they are the stack's.
    """

    __slots__ = (
        "_lacking", "_seen", "machine", "numbers", "operator", "shape", "steps", "symbol", "table", "where",
        "workspace",
    )  # fmt: skip

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.symbol = operator.symbol
        self.shape = operator.symbol.shape
        self.table = operator.symbol.table
        self.where: Any = ()
        self.machine = machine_of(operator.device)
        self.steps: dict[Any, bool] = {}
        ops = operator.type.ops
        self._lacking = frozenset(op for name, op in CATALOGUE.items() if ops.get(name) is not op)
        self.forget()

    def forget(self) -> None:
        """Forget what was found of a graph."""
        self.workspace: Workspace | None = None
        self.numbers: dict[Node, Any] = {}
        if len(self.steps) > MOST:
            self.steps.clear()
        self._seen: Seen | None = None

    def seen(self, order: Sequence[Node]) -> Seen:
        """What passes ask of a graph, of which these are the nodes: found once for all passes over it."""
        found = self._seen
        if found is None or found.order is not order:
            found = self._seen = Seen(order, self.workspace)
        return found

    def made(self, op: Op, args: tuple[Value, ...], items: Items, avals: tuple[Any, ...] | None) -> Node:
        """The node of that application, `avals` being what is known of its results already.

        Raises
        ------
        UnknownOperatorError
            The catalogue lacks the operator: what wants it does not fire.
        """
        if op in self._lacking:
            self.shape.check(op)
        work = self.workspace
        if work is None:
            return self.interned(op, args, items, avals, self.where)
        if not args:
            return work.leaf(self.interned(op, args, items, avals, self.where))
        return work.made(op, args, items, avals)

    def interned(
        self, op: Op, args: tuple[Value, ...], items: Items, avals: tuple[Any, ...] | None, where: Origin
    ) -> Node:
        """The stack's node of that application.

        It is `Symbol.apply` but for the origin, which would be a line of this library.
        """
        key = (op, op.key(items), *map(id, args))
        pure = is_pure(op, items)
        node = self.table.get(key) if pure else None
        if node is None:
            node = Node(self.table, op, args, items, avals or self.inferred(op, args, items), where)
            if pure:
                node = self.table.kept(key, node)
        return node

    def may_fuse(self, by: Op) -> bool:
        """Whether operators may be computed together by that one: it is there, and no device's layer looks at each."""
        return by not in self._lacking and not getattr(self.operator.device, "asks_bind", False)

    def fuses(self, by: Op, avals: tuple[Any, ...], items: Items) -> bool:
        """Whether the device has a kernel of that fused operator, for these arguments, that needs no memory unplanned.

        One without such a kernel runs a fused operator's parts one by one, each into a new array.
        """
        return writes_at_once(self.operator.device, by, avals, items)

    @property
    def has_libraries(self) -> bool:
        """Whether the device has libraries of kernels."""
        return has_libraries(self.operator.device)

    def kernel(self, op: Op, avals: tuple[Any, ...], items: Items) -> Kernel | None:
        """The kernel that the device runs; None where it says nothing of it.

        Raises
        ------
        DeviceError
            It has none.
        """
        return kernel_of(self.operator.device, op, avals, items)

    def settled(self, node: Node, args: tuple[Value, ...]) -> Node:
        """The stack's node that is a workspace's on these operands, which are the stack's: a new one, or one it has."""
        op, items, table = node.op, node.items, self.table
        found = Node(table, op, args, items, node.avals, node.origin)
        if op.pure and (not op.holds_body or is_pure(op, items)):
            found = table.kept((op, op.key(items) if op.compares_bits else items, *map(id, args)), found)
        return found

    def inferred(self, op: Op, args: tuple[Value, ...], items: Items) -> tuple[Any, ...]:
        """The avals of the results."""
        found = self.shape.infer(op, tuple([a.aval for a in args]), items)
        return found if op.multi_result else (found,)

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
        return node.results if op.multi_result else node
