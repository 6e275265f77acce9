"""The steps of a graph, interpreted, with some values kept: incremental programs on devices without memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from nnc_func.engine.incremental.dependencies import Dependencies, Step
from nnc_func.engine.interpreted import applied
from nnc_func.engine.running.observed import Application, Observer, observed
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import INPUT, LEAVES, VARIABLE, owned
from nnc_func.graph.node import Value


class InterpretedSteps:
    """A graph's applications, each of which can be run; what it computes lives in slots.

    The attributes are those of `PlannedSteps`; there is no plan.
    """

    plan = None
    arena_bytes = 0

    def __init__(self, graph: ComputationGraph, device: Any, policy: str) -> None:
        self.done = 0
        self._device = device
        self._arrays: dict[int, Any] = {}
        self._numbers: dict[Value, int] = {}
        self._avals: list[Any] = []
        self._applications: list[tuple[Any, ...]] = []
        steps: list[Step] = []
        for node in graph.nodes:
            results = tuple([self._number(v) for v in node.results])
            if node.op not in LEAVES:  # as they are now: a node that is forced later becomes a leaf
                operands = tuple([self._numbers[a] for a in node.args])
                steps.append(Step(operands, results, operands[node.op.view.argument] if node.op.view else None))
                self._applications.append((node, node.op, operands, node.params, results))
            elif node.op is not INPUT and node.op is not VARIABLE:
                self._arrays.update(zip(results, node.data if node.op.several else (node.data,), strict=True))
        number = self._numbers.__getitem__
        self.inputs = tuple(map(number, graph.inputs))
        self.variables = tuple(map(number, graph.variables))
        self.outputs = tuple(map(number, graph.outputs))
        at = {node: i for i, node in enumerate(graph.variables)}
        self.updates = tuple((at[v], number(u)) for v, u in graph.updates)
        self.leaves = leaves = Dependencies(steps, [*self.inputs, *self.variables])
        pairs = [(len(self.inputs) + i, leaves.mask(value)) for i, value in self.updates]
        roots = [*self.outputs, *(v for _, v in self.updates)]
        self.kept = leaves.kept(policy, roots, pairs) | {v for v in roots if v in leaves.maker}  # views cost nothing

    def _number(self, value: Value) -> int:
        self._numbers[value] = len(self._avals)
        self._avals.append(value.aval)
        return len(self._avals) - 1

    def nbytes(self, value: int) -> int:
        """Size of a value."""
        return int(self._avals[value].nbytes)

    def put(self, value: int, array: Any) -> None:
        """Let a leaf be that array."""
        self._arrays[value] = array

    def array(self, value: int) -> Any:
        """A value: not the caller's to keep."""
        return self._arrays[value]

    def copied(self, value: int) -> Any:
        """A value in memory of its own."""
        return owned(self._device, self.array(value))

    def prepared(self, positions: Sequence[int]) -> Any:
        """What `run` takes: what is forgotten after each step, and the positions."""
        last: dict[int, int] = {}
        for t in positions:
            step = self.leaves.steps[t]
            for value in (*step.operands, *step.results):
                last[value] = t
        dies: dict[int, list[int]] = {}
        for value, t in last.items():
            if value in self.leaves.maker and value not in self.kept:
                dies.setdefault(t, []).append(value)
        return dies, positions

    def run(self, section: Any) -> None:
        """Run steps one after the other.

        Raises
        ------
        NncError
            An operator failed.
        """
        self.done = 0
        dies, positions = section
        arrays = self._arrays
        for t in positions:
            self.done += 1
            node, op, operands, params, results = self._applications[t]
            found = applied(self._device, node, op, [arrays[a] for a in operands], params)
            arrays.update(zip(results, found if op.several else (found,), strict=True))
            for value in dies.get(t, ()):
                arrays.pop(value, None)

    def walk(self, section: Any, missing: Any, watching: Sequence[Observer], wait: Any) -> Iterator[Application]:
        """As `run`, before the observers' eyes; what is missing is forgotten first."""
        self.done = 0
        dies, positions = section
        for value in missing:
            self._arrays.pop(value, None)
        for t in positions:
            node, op, operands, params, results = self._applications[t]
            found = Application(self._device, self.done, t, op, node.items, node.origin)
            found.arguments = [self._arrays[a] for a in operands]
            self.done += 1
            observed(found, partial(self._shown, found, node, params), watching, wait, _as_it_is)
            self._arrays.update(zip(results, found.outs, strict=True))
            for value in dies.get(t, ()):
                self._arrays.pop(value, None)
            yield found

    def _shown(self, application: Application, node: Any, params: dict[str, Any]) -> None:
        found = applied(self._device, node, application.op, list(application.arguments), params)
        application.outs = found if application.op.several else (found,)


def _as_it_is(error: Exception) -> Exception:
    return error
