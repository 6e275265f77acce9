"""Interpreted programs: a graph's nodes computed one after the other, as they are. The oracle of all engines.

Also how programs run on devices that offer no memory to plan in: values live in slots, freed after their last use.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from nnc_func.engine.inspecting.inspection import Inspected
from nnc_func.engine.running.binding import accepted, every
from nnc_func.engine.running.cancelling import asked
from nnc_func.engine.running.checked import observers
from nnc_func.engine.running.interrupts import held
from nnc_func.engine.running.observed import Application, Observer, drained, observed
from nnc_func.engine.running.outs import delivered, given
from nnc_func.errors import NncError
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import INPUT, LEAVES, VARIABLE, owned
from nnc_func.graph.node import Node, Value
from nnc_func.graph.origin import told
from nnc_func.graph.turns import Run, enter, leave, ordered
from nnc_func.op import Op

KEPT = 16  # bindings of unknown extents that are remembered


class Interpreted(Inspected):
    """A graph as a callable, on any device.

    Attributes
    ----------
    graph, source
        The graph that runs, and the one that was compiled.
    stats
        What the compilation did.

    Raises
    ------
    OperatorError
        The wrong number of inputs.
    ShapeError
        An input of another shape or dtype than the graph's.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> eager = nnc.eager()
    >>> x = eager.input("x", (3,), "float32")
    >>> eager.compile(inputs=[x], outputs=x + 1)(np.float32([1, 2, 3]))
    array([2., 3., 4.], dtype=float32)
    """

    plan = None
    written_as = "interpreted"

    def __init__(
        self,
        graph: ComputationGraph,
        source: ComputationGraph,
        device: Any,
        stats: Any = None,
        check_numerics: bool = False,
    ) -> None:
        self.graph = graph
        self.source = source
        self.stats = stats
        self._device = device
        self._check = check_numerics
        # as they are now: a node that is forced later becomes a leaf and forgets its operands
        self._leaves = [(n, n.op, n.data) for n in graph.nodes if n.op in LEAVES]
        self._steps = [(n, n.op, n.args, n.params) for n in graph.nodes if n.op not in LEAVES]
        self._dies = _deaths(graph, self._steps)
        self._shown = {n for n in graph.nodes if n.op in LEAVES or n.op.view is not None}
        self._bindings: dict[Any, Interpreted] = {}  # of unknown extents
        self._written = [v.data for v, _ in graph.updates]
        self._turns = ordered([n.data for n in graph.variables], self._written)

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        return self.source.structure.build(self.run(inputs, out))

    def run(self, inputs: Any, out: Any = None) -> list[Any]:
        """The outputs as a flat list, of the inputs as a sequence."""
        if self._check or asked() is not None:
            return drained(self.walk(inputs, out))  # type: ignore[no-any-return]
        return self._run(inputs, out)

    def _run(self, inputs: Any, out: Any) -> list[Any]:
        env, bound = self._given(inputs)
        if self.graph.symbols:
            return self._bound(bound)._run([env[n] for n in self.graph.inputs], out)
        targets = self._targets(out)
        me = Run()
        try:
            enter(me, self._turns)
            self._leaf_values(env)
            for step, (node, op, args, params) in enumerate(self._steps):
                env[node] = applied(self._device, node, op, [_at(env, a) for a in args], params)
                for gone in self._dies.get(step, ()):
                    del env[gone]
            results, following = self._finished(env)
            held(_exchange, following)
            return results if targets is None else delivered(targets, results)
        finally:
            leave(me, self._turns)

    def _targets(self, out: Any) -> list[Any] | None:
        """The caller's arrays, refused before anything runs if they do not fit."""
        return None if out is None else given(out, [v.aval for v in self.graph.outputs], self._device)

    def nested(self, results: list[Any]) -> Any:
        """Outputs nested as a call returns them."""
        return self.source.structure.build(results)

    def walk(
        self, inputs: Any, out: Any = None, watching: Sequence[Observer] = (), keep: bool = True, wait: Any = None
    ) -> Generator[Application, None, list[Any]]:
        """A run whose applications are computed one at a time; see `Program.walk`."""
        env, bound = self._given(inputs)
        if self.graph.symbols:
            program = self._bound(bound)
            return (yield from program.walk([env[n] for n in self.graph.inputs], out, watching, keep, wait))
        targets = self._targets(out)
        seeing = [*watching, *observers(self._device, self._check, asked())]
        me = Run()
        try:
            enter(me, self._turns)
            self._leaf_values(env)
            for step, (node, op, args, params) in enumerate(self._steps):
                found = Application(self._device, step, step, op, node.items, node.origin)
                found.arguments = [_at(env, a) for a in args]
                call = partial(self._shown_apply, found, node, params)
                env[node] = observed(found, call, seeing, wait, _as_it_is)
                for gone in self._dies.get(step, ()):
                    del env[gone]
                yield found
            results, following = self._finished(env)
            if keep:
                held(_exchange, following)
            return results if targets is None else delivered(targets, results)
        finally:
            leave(me, self._turns)

    def _shown_apply(self, application: Application, node: Node, params: dict[str, Any]) -> Any:
        found = applied(self._device, node, application.op, list(application.arguments), params)
        application.outs = found if application.op.several else (found,)
        return found

    def _bound(self, bound: dict[str, int]) -> Interpreted:
        """The program with its unknown extents bound: what was assumed of them is checked."""
        key = every(self.graph, bound)
        found = self._bindings.get(key)
        if found is None:
            if len(self._bindings) >= KEPT:
                self._bindings.clear()
            graph = self.graph.specialised(bound)
            found = self._bindings[key] = Interpreted(graph, graph, self._device, self.stats, self._check)
        return found

    def _given(self, inputs: Any) -> tuple[dict[Node, Any], dict[str, int]]:
        """The inputs' values, checked, and the unknown extents that they tell."""
        graph = self.graph
        arrays, dims = accepted(self._device, graph.name, graph.inputs, inputs)
        return dict(zip(graph.inputs, arrays, strict=True)), dims

    def _leaf_values(self, env: dict[Node, Any]) -> None:
        for node, op, data in self._leaves:
            if op is not INPUT:
                env[node] = data.array if op is VARIABLE else data

    def _finished(self, env: dict[Node, Any]) -> tuple[list[Any], list[Any]]:
        """The outputs, and pairs of variables and their next values, each in memory of its own."""
        taken: set[Value] = set()
        results = [self._fresh(env, v, taken) for v in self.graph.outputs]
        return results, [(v.data, self._fresh(env, u, taken)) for v, u in self.graph.updates]

    def _fresh(self, env: dict[Node, Any], value: Value, taken: set[Value]) -> Any:
        """An output or update in memory of its own: leaves, views and what is wanted twice are copied."""
        array = _at(env, value)
        shared = value.node in self._shown or value in taken
        taken.add(value)
        return owned(self._device, array) if shared else array

    def __repr__(self) -> str:
        return f"<program {self.graph.name!r}: {len(self._steps)} applications, interpreted>"


def _exchange(following: list[Any]) -> None:
    for variable, array in following:
        variable.become(array)


def _as_it_is(error: Exception) -> Exception:
    return error


def applied(device: Any, node: Node, op: Op, args: list[Any], params: dict[str, Any]) -> Any:
    """One application, which names the user's line where it fails."""
    try:
        return device.bind(op, *args, **params)
    except Exception as error:
        where = told(node.origin)
        if isinstance(error, NncError):
            if where and where not in str(error):
                error.args = (f"{error} (built at {where})",)
        elif where and hasattr(error, "add_note"):
            error.add_note(f"{op.name} was built at {where}")
        raise


def _at(env: dict[Node, Any], value: Any) -> Any:
    found = env[value.node]
    return found[value.index] if value.node.op.several else found


def _deaths(graph: ComputationGraph, steps: list[Any]) -> dict[int, list[Node]]:
    last: dict[Node, int] = {}
    for step, (node, _, args, _) in enumerate(steps):
        last[node] = step
        for a in args:
            last[a.node] = step
    for value in (*graph.outputs, *(u for _, u in graph.updates)):
        last.pop(value.node, None)
    dies: dict[int, list[Node]] = {}
    for node, step in last.items():
        if node.op is not INPUT or node not in graph.inputs:
            dies.setdefault(step, []).append(node)
    return dies
