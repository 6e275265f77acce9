"""Loops whose bodies are planned: a body as a graph, and where each of its values lies, time after time.

A carry is never copied from one time to the next. One that the body computes is written over itself where that can be
done, else into two arrays by turns; the result of the loop is one of these, and the turns are such that it is the last.
One that is also stacked is read from the row where it was written. One that another carry passes on is read where that
one was the time before, from a ring of as many arrays as there are times in between. What then does not lie in the
loop's result is copied there, once, after the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.declaration import Items
from nnc_func.engine.loop_instruction import ENDLESS, PLANNED, Address, Loop
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import VARIABLE
from nnc_func.engine.planning.request import Request
from nnc_func.errors import PlanError
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.node import Node, Value
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.loop import avals_of, steps_of
from nnc_func.graph.ops.memory import relayout
from nnc_func.op import Op
from nnc_func.tree import flatten

Plans = Callable[[Request], Plan]
Form = tuple[Any, tuple[Aval, ...]]
"""What applications have in common that are planned alike: parameters, and avals of operands."""


@frozen(eq=False)
class Planned:
    """Plans of the bodies of a loop or a branch, and the kernel that they are.

    Attributes
    ----------
    loops
        One of a loop; of a branch one of each body.
    """

    loops: tuple[Loop, ...]
    kernel: Kernel


def form(node: Node) -> Form:
    """That of an application of a loop or a branch."""
    return node.op.key(node.items), tuple([a.aval for a in node.args])


# --- a body as a graph -----------------------------------------------------------------------------------


@frozen(eq=False)
class _Body:
    """The body of a loop.

    Attributes
    ----------
    nodes
        It as nodes.
    constants, carries, count
        As of the loop.
    is_open
        Whether it is known only in the run how many times it goes.
    reverse
        Whether it goes from the last row to the first.
    """

    nodes: Nodes
    constants: int
    carries: int
    count: int
    is_open: bool
    reverse: bool

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Values of its parameters."""
        return self.nodes.inputs

    @property
    def results(self) -> tuple[Value, ...]:
        """Values of its results."""
        return self.nodes.results

    def rows(self, array: int) -> Address:
        """The row of each time."""
        return Address((array,), step=-1, start=max(0, self.count - 1)) if self.reverse else Address((array,), step=1)

    def passed_on(self, carry: int) -> tuple[list[int], list[int], Value | None]:
        """The carries whose values of times before it has, one after the other; and what these end with.

        That is a circle of carries, or a value that is none.
        """
        chain: list[int] = []
        first = self.constants
        carried = {value: n for n, value in enumerate(self.inputs[first : first + self.carries])}
        at: int | None = carry
        while at is not None:
            if at in chain:
                return chain[: chain.index(at)], chain[chain.index(at) :], None
            chain.append(at)
            source = self.results[at]
            at = carried.get(source)
        return chain, [], source


@frozen(eq=False)
class Nodes:
    """A body as nodes of a stack.

    Attributes
    ----------
    inputs, results
        Values of its parameters and of its results.
    literals
        The parameters of `full` of which a constant is.
    """

    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    literals: dict[Node, Items]

    @classmethod
    def of(cls, request: Request, node: Node, body: Body, avals: Sequence[Aval]) -> Nodes:
        """The body that an application has, on parameters of these avals; a number in it is a constant."""
        symbol = request.graph.layer.symbol
        literals: dict[Node, Items] = {}

        def applied(op: Op, args: list[Any], items: Items) -> Any:
            values = dict(items)
            if op is full and values["shape"] == ():
                made = symbol.constant(np.asarray(values["value"], values["dtype"])[()], None, node.avals[0].place)
                literals[made] = items
                return made
            return symbol.apply(op, tuple(args), items, node.origin)

        def row_major(value: Value) -> Value:
            if value.aval.layout is None:
                return value
            items = relayout.canonical({"layout": "row-major"})
            return symbol.apply(relayout, (value,), items, node.origin)  # type: ignore[no-any-return]

        inputs = [symbol.input(f"%{n}", a, node.origin) for n, a in enumerate(avals)]
        values = body.values(applied, inputs)
        return cls(tuple(inputs), tuple([row_major(values[n]) for n in body.results]), literals)

    def planned(self, request: Request, outputs: Sequence[Value], updates: Sequence[tuple[int, Value]], plan: Plans,
    ) -> tuple[Plan, tuple[Items, ...]]:  # fmt: skip
        """A plan that gives those of its values, and writes others over parameters; and what its constants are.

        Raises
        ------
        PlanError
            It lies in several places.
        """
        graph = ComputationGraph(
            tuple([value.node for value in self.inputs]), tuple(outputs),
            tuple([(self.inputs[n].node, value) for n, value in updates]), f"body of {request.graph.name}",
            flatten([*outputs], is_leaf=lambda each: isinstance(each, Value))[1], request.graph.layer,
        )  # fmt: skip
        asked = evolve(
            request, graph=graph, streams=1, donated=(), checked=False, retain=None, sequence=None, careless=True,
            is_body=True, lends=False,
        )  # fmt: skip
        found = plan(asked)
        if len([n for n in found.arenas.values() if n]) > 1:
            raise PlanError(f"a body of {request.graph.name!r} lies in one place, and this one in {[*found.arenas]}")
        return found, tuple([self.literals[n] for n in graph.constants])


def _built(request: Request, node: Node) -> _Body:
    """The body of a loop as nodes of the stack."""
    params = node.params
    body, constants, carries, counted = params["body"], params["constants"], params["carries"], params["counted"]
    avals = tuple([a.aval for a in node.args])
    nodes = Nodes.of(request, node, body, avals_of(avals, body, constants, carries, counted))
    most = steps_of(avals, constants, carries, params["length"], counted)
    is_open = counted or params["conditional"]
    count = ENDLESS if most is None else most
    return _Body(nodes, constants, carries, count, is_open, params["reverse"])


@frozen(eq=False)
class _Homes:
    """Where what a body computes goes.

    Attributes
    ----------
    chains
        Of each carry, see `_Body.passed_on`.
    carried
        Carries that are variables of the body's plan.
    gives
        Results of the body that are its plan's outputs.
    rows
        A value that is stacked, and the result of the loop where its rows are.
    rings
        A value of which several times are there, and for each carry that has one how many times ago it was.
    """

    chains: list[tuple[list[int], list[int], Value | None]]
    carried: list[int]
    gives: list[int]
    rows: dict[Value, int]
    rings: dict[Value, dict[int, int]]


def _homes(body: _Body) -> _Homes:
    inputs, results = set(body.inputs), body.results
    chains = [body.passed_on(n) for n in range(body.carries)]
    rows: dict[Value, int] = {}
    for n in range(body.carries, len(results)):
        if results[n] not in inputs:
            rows.setdefault(results[n], n)
    readers: dict[Value, dict[int, int]] = {}
    for n, (chain, _, source) in enumerate(chains):
        if source is not None and source not in inputs and source not in rows:
            readers.setdefault(source, {})[n] = len(chain) - 1
    carried = sorted(n for each in readers.values() if len(each) == 1 for n in each)
    rings = {value: each for value, each in readers.items() if len(each) > 1}
    direct = [next(n for n, delay in each.items() if not delay) for each in rings.values()]
    return _Homes(chains, carried, [*range(body.carries, len(results)), *direct], rows, rings)


# --- addresses -------------------------------------------------------------------------------------------


def planned_loop(request: Request, node: Node, planner: Plans) -> Planned:
    """The plan of a loop's body, and where its values lie each time.

    Raises
    ------
    PlanError
        The body lies in several places.
    """
    body = _built(request, node)
    homes = _homes(body)
    updates = [(body.constants + n, body.results[n]) for n in homes.carried]
    plan, literals = body.nodes.planned(request, [body.results[n] for n in homes.gives], updates, planner)
    operands, params = len(node.args), node.params
    arena = sum(plan.arenas.values())
    place = next((place for place, nbytes in plan.arenas.items() if nbytes), None)
    spare = [Aval((arena,), "uint8", None, place)] if arena else []
    results, scratch = operands, operands + len(body.results)
    written: dict[Value, Address] = {value: body.rows(results + n) for value, n in homes.rows.items()}

    def ring(value: Value, delays: dict[int, int]) -> Address:
        """As many arrays as are there at one time; the last times end in the results of the carries that have them.

        Where it is not known which the last times are, none is a result.
        """
        size = max(1, min(max(delays.values()) + 2, body.count))
        ends = {} if body.is_open else delays
        last = {(body.count - 1 - delay) % size: n for n, delay in ends.items() if delay < body.count}
        cycle = []
        for turn in range(size):
            if turn in last:
                cycle.append(results + last[turn])
            else:
                cycle.append(scratch + len(spare))
                spare.append(value.aval)
        return Address(tuple(cycle))

    for value, delays in homes.rings.items():
        written[value] = ring(value, delays)
    in_place = set()
    for n, (_, slot) in zip(homes.carried, plan.updates, strict=True):
        if plan.buffers[plan.slots[slot].buffer].kind == VARIABLE:
            written[body.results[n]] = Address((results + n,))
            in_place.add(n)
        else:
            written[body.results[n]] = ring(body.results[n], {n: 0})
    first = body.constants

    def read(number: int) -> Address:
        if not first <= number < first + body.carries:
            return body.rows(number) if number >= first else Address((number,))
        chain, circle, source = homes.chains[number - first]
        before = tuple([first + n for n in chain])
        if source is None:
            return Address(tuple([first + n for n in circle]), before)
        at = read(body.inputs.index(source)) if source in body.inputs else written[source]
        return evolve(at, first=before)

    reads = tuple(map(read, range(len(body.inputs))))
    rows = [body.rows(results + n) for n in homes.gives if n >= body.carries]
    rings = [written[value] for value in homes.rings]
    carried = [written[body.results[n]] for n in homes.carried]
    carries = range(first, first + body.carries)
    last = [] if body.is_open else [reads[n].at(body.count) for n in carries]
    made = Loop(
        plan=plan,
        count=body.count,
        carried=tuple([first + n for n in homes.carried]),
        gives=tuple(homes.gives),
        reads=reads,
        writes=(*rows, *rings, *carried),
        copies=tuple([(n, array, row) for n, (array, row) in enumerate(last) if (array, row) != (results + n, None)]),
        literals=literals,
        limit=operands - 1 if params["counted"] else None,
        condition=first if params["conditional"] else None,
        ends=tuple(carries) if body.is_open else (),
    )
    over = _overwritten(made, body, results, in_place)
    return Planned((made,), kernel_of(spare, over))


def _overwritten(made: Loop, body: _Body, results: int, in_place: set[int]) -> tuple[tuple[int, ...], ...]:
    """For each result the operands that it may be written over.

    That is the carry that it ends, if this is read the first time only, and nothing else is written there by then.
    """
    read = [at for address in made.reads for at in (*address.first, *address.cycle)]
    read += [] if made.limit is None else [made.limit]
    read += [source for _, source, _ in made.copies]
    begun = {address.at(0)[0] for address in made.writes}

    def over(n: int) -> tuple[int, ...]:
        operand = body.constants + n
        once = n < body.carries and made.reads[operand].first[:1] == (operand,) and read.count(operand) == 1
        return (operand,) if once and (n in in_place or results + n not in begun) else ()

    return tuple(map(over, range(len(body.results))))


def kernel_of(scratch: Sequence[Aval], over: tuple[tuple[int, ...], ...]) -> Kernel:
    """What takes that scratch, and may write its results over those operands."""
    needs = tuple([(a.shape, a.dtype) for a in scratch])
    return Kernel(PLANNED, into=_never, scratch=lambda *_, **__: needs, overwrites=lambda *_, **__: over)


def _never(*_: Any, **__: Any) -> Any:
    raise PlanError("plans of bodies are linked by `engine.running`, and is no kernel of a device's")
