"""Where a program's commit section may start: it writes the variables, and nothing in it can fail.

The shortest one holds what only updates need, so that interrupts are held for a moment; but every gradient is then
alive when it starts. A long one starts after the last instruction that can fail, and variables are written in it as
their gradients come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from operator import attrgetter

from attrs import evolve, frozen

from nnc_func.facets.kernels import Kernel
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Result, Value, topological

Kernels = Mapping[Node, Kernel]
_args = attrgetter("args")


@frozen
class Arrangement:
    """A sequence of nodes, and where its commit section starts.

    Attributes
    ----------
    sequence
        The nodes, operands first.
    early
        How many of them come before the section.
    contiguous
        Values that must lie without gaps, because a kernel in the section would need memory for a copy of them.
    loose
        What is behind the start may be computed before it, unless it writes a variable; what is before it may not
        be computed behind it.
    """

    sequence: list[Node]
    early: int
    contiguous: frozenset[Value] = frozenset()
    loose: bool = False


def arrangement(sequence: list[Node], early: int, kernels: Kernels) -> Arrangement:
    """The sequence with its section from there on."""
    wanted: set[Value] = set()
    for node in sequence[early:]:
        if kernels[node].copies_strided:
            wanted.update(node.results, map(_shown, node.args))
    return Arrangement(sequence, early, frozenset(wanted))


def short(graph: ComputationGraph, kernels: Kernels, sequence: list[Node]) -> Arrangement:
    """What only updates need, back from them, as far as nothing in it can fail, takes long, or shrinks what is kept.

    Products of matrices take long. What needs more bytes than its result has (a sum over a batch, or of gradients) is
    better done with early than kept alive until here.
    """
    updates = [u for _, u in graph.updates]
    users: dict[Value, int] = Counter(chain.from_iterable(map(_args, sequence if updates else ())))
    for one in [v for v in users if type(v) is Result]:  # what uses a result uses its node
        users[one.node] = users.get(one.node, 0) + users[one]
    for value in graph.outputs:  # what a caller is given comes before
        users[value.node] = len(sequence) ** 2 + 1
    late: set[Node] = set()
    ready = [u.node for u in updates if u.node in kernels and not users.get(u.node)]
    while ready:
        node = ready.pop()
        kernel = kernels[node]
        if node in late or kernel.copies_strided or _shrinks(node) or not is_certain(node, kernel):
            continue
        late.add(node)
        for a in node.args:
            users[a.node] -= 1
            if not users[a.node] and a.node in kernels:
                ready.append(a.node)
    if not late:
        return Arrangement(sequence, len(sequence))
    early = [n for n in sequence if n not in late]
    inside = topological(updates, early)
    _let_go(late, inside, {u.node for u in updates})
    inside = [n for n in inside if n in late]
    early = [n for n in sequence if n not in late]
    return arrangement(early + inside, len(early), kernels)


def _let_go(late: set[Node], inside: list[Node], updated: set[Node]) -> None:
    """Take out of a section what keeps more bytes alive until then than its result would; operands come first.

    An update, and what depends on one, stays: the next value of a variable lives in the variable's own memory.
    """
    kept: dict[Node, int] = {}  # for each node of the section the bytes that are alive when it starts
    bound: set[Node] = set()
    for node in inside:
        if node not in late:
            continue
        operands = {a.node for a in node.args if a.node.args}
        kept[node] = sum(0 if n in updated and n in late else kept[n] if n in late else _nbytes(n) for n in operands)
        if node in updated or not bound.isdisjoint(operands):
            bound.add(node)
        elif kept[node] > _nbytes(node):
            gone = [node]
            while gone:
                node = gone.pop()
                late.discard(node)
                gone += [a.node for a in node.args if a.node in late]


def loose(kernels: Kernels, sequence: list[Node]) -> Arrangement | None:
    """The section may start as soon as all is done that can fail: what writes no variable stands where it is best.

    None where something can fail at the end.
    """
    needed = {n for n in sequence if not is_certain(n, kernels[n])}
    for node in reversed(sequence):
        if node in needed:
            needed.update(a.node for a in node.args)
    first = [n for n in sequence if n in needed]
    if len(first) == len(sequence):
        return None
    later = [n for n in sequence if n not in needed]
    return evolve(arrangement(first + later, len(first), kernels), loose=True)


def is_certain(node: Node, kernel: Kernel) -> bool:
    """Whether its application can neither fail nor need memory."""
    view = node.op.view
    if view is not None and not view.needs_contiguous:
        return True
    if not kernel.copies_strided or not kernel.certain:
        return kernel.certain
    return all(a.layout is None for a in node.avals) and all(map(_is_contiguous, node.args))


def _is_contiguous(value: Value) -> bool:
    """Whether it lies without gaps, if what it shows does: leaves do, a program sees to it."""
    shown = _shown(value)
    view = shown.node.op.view
    return shown.aval.layout is None and value.aval.layout is None and (view is None or view.needs_contiguous)


def _shown(value: Value) -> Value:
    """What a view of all elements, in their order, shows: such views of it are looked through."""
    while (view := value.node.op.view) is not None and view.contiguous and not view.needs_contiguous:
        value = value.node.args[view.argument]
    return value


def _shrinks(node: Node) -> bool:
    return max([a.aval.nbytes for a in node.args if a.node.args], default=0) > _nbytes(node)


def _nbytes(node: Node) -> int:
    return sum([a.nbytes for a in node.avals])
