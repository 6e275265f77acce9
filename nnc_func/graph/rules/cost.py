"""What operators cost, as their facet `cost` tells: bytes moved, arithmetic, kernels; and what rewrites save."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from nnc_func.facets.dims import known, substitute, symbols_of
from nnc_func.facets.machine import CORE, Machine
from nnc_func.facets.views import Cost
from nnc_func.graph.leaves import LEAVES
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.conditions import PROFIT, Condition
from nnc_func.graph.rules.pattern import Apply, parts

EXTENT = 64  # elements that an unknown axis is taken to have


@frozen
class Work:
    """What some operators cost in all.

    Attributes
    ----------
    bytes, flops, launches
        Bytes read and written, arithmetic, kernels; views launch none.
    seconds
        Estimated, for a machine: for comparing.

    Examples
    --------
    >>> Work(8, 2, 1) + Work(8, 2, 1)
    Work(bytes=16, flops=4, launches=2, seconds=0.0)
    """

    bytes: int = 0
    flops: int = 0
    launches: int = 0
    seconds: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.bytes + other.bytes, self.flops + other.flops,
            self.launches + other.launches, self.seconds + other.seconds,
        )  # fmt: skip

    def __sub__(self, other: Work) -> Work:
        return Work(
            self.bytes - other.bytes, self.flops - other.flops,
            self.launches - other.launches, self.seconds - other.seconds,
        )  # fmt: skip


NOTHING = Work()


def work_of(node: Node, machine: Machine = CORE) -> Work:
    """What a node costs on a machine; leaves and views cost nothing, an unknown extent is taken to be 64.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (1000,), "float32")
    >>> work = work_of((x + x).value)
    >>> work.bytes, work.flops, work.launches
    (12000, 1000, 1)
    """
    if node.op in LEAVES or node.op.view is not None:
        return NOTHING
    args, results, params = tuple(a.aval for a in node.args), node.avals, node.params
    if not all(known(a.nbytes) for a in (*args, *results)):
        values = dict.fromkeys(symbols_of((tuple(a.shape for a in (*args, *results)), node.items)), EXTENT)
        args, results = (tuple(a.having(shape=substitute(a.shape, values)) for a in avals) for avals in (args, results))
        params = dict(substitute(node.items, values))
    cost: Cost = node.op.cost(args, results, **params)
    moved = sum(a.nbytes for a in (*args, *results)) + cost.extra_bytes
    return Work(moved, cost.flops, 1, seconds_of(cost, moved, machine))


def seconds_of(cost: Cost, moved: int, machine: Machine) -> float:
    """Estimated seconds of a kernel that costs that and reads and writes so many bytes in all.

    Examples
    --------
    >>> CORE.launch == seconds_of(Cost(), 0, CORE) and 3 * CORE.launch == seconds_of(Cost(launches=3), 0, CORE)
    True
    """
    return machine.seconds(cost.flops, moved, cost.threaded) + (cost.launches - 1) * machine.launch


def total(nodes: Iterable[Node], machine: Machine = CORE) -> Work:
    """What nodes cost together on a machine.

    Examples
    --------
    >>> total([])
    Work(bytes=0, flops=0, launches=0, seconds=0.0)
    """
    return sum([work_of(node, machine) for node in nodes], NOTHING)


def made(after: Value, is_there: Callable[[Any], bool]) -> list[Node]:
    """The nodes of a replacement that are not there without it."""
    found: dict[Node, None] = {}
    stack = [after.node]
    while stack:
        node = stack.pop()
        if node not in found and not is_there(node):
            found[node] = None
            stack += [a.node for a in node.args]
    return list(found)


def freed(before: Value, after: Value, new: Iterable[Node], users: Callable[[Any], int]) -> list[Node]:
    """The nodes that nothing uses any more once a value is replaced."""
    kept = {after.node, *(a.node for n in new for a in n.args)}
    if before.node in kept:
        return []
    found: dict[Node, None] = {}
    stack = [before.node]
    while stack:
        node = stack.pop()
        found[node] = None
        stack += [a.node for a in dict.fromkeys(node.args) if a.node not in kept and users(a.node) == 1]
    return list(found)


def cheaper(lhs: Any, rhs: Any) -> Condition:
    """What the right side makes is estimated to take less time than what it makes needless, on the device's machine.

    The operators of the left side that others use as well are computed anyway, so they count for nothing.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> @nnc.rule
    ... def multiply_from_the_right(a, b, c):
    ...     '''A product of three matrices begins where that is less work.'''
    ...     left, right = (a @ b) @ c, a @ (b @ c)
    ...     return nnc.rewrite(left).to(right).when(cheaper(left, right)).up_to("reassociation")
    >>> print(multiply_from_the_right)
    multiply_from_the_right: ((a @ b) @ c) -> (a @ (b @ c))   when (a @ (b @ c)) is cheaper than all of it
    """

    inner = [p for p in parts(lhs) if isinstance(p, Apply)]

    def holds(match: Any) -> bool:
        there, after = match.nodes(), match[rhs]
        if not isinstance(after, Value):
            return True
        applied = {match[p].node for p in inner}
        new = made(after, there.__contains__)
        gone = freed(match[lhs], after, new, lambda node: match.users(node) if node in applied else 0)
        return total(new, match.machine).seconds < total(gone, match.machine).seconds

    return Condition(holds, f"{rhs} is cheaper than {lhs}", PROFIT, of_result=True)
