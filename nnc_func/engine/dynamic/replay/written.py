"""A sequence written as a program: operators, gradients and all, from what came from outside to what is held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.engine.dynamic.records import PART, Record, Recorded, Recording
from nnc_func.engine.dynamic.replay.needs import Needs, ancestors
from nnc_func.engine.dynamic.replay.places import Gradients, Place
from nnc_func.engine.running.program import Program
from nnc_func.graph.leaves import INPUT
from nnc_func.graph.node import topological
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.origin import attributed
from nnc_func.tree import ONE_LEAF, Structure

FIRST = np.zeros((), np.int64)
"""Chooses the body of a branch that has one."""


@frozen(eq=False)
class Flow:
    """How gradients of a sequence flow.

    Attributes
    ----------
    pull
        See `nnc_func.autodiff.values.Pull`.
    reads
        Numbers of the values that it reads.
    """

    pull: Any
    reads: tuple[int, ...]


@frozen(eq=False)
class Written:
    """A program for a sequence that ends at one place, where the same is held.

    Attributes
    ----------
    program, feeds
        From values from outside, of which it reads those with these numbers.
    needs
        What it gives, and what of that is recorded.
    steps
        The places that have a result among these.
    flows
        Of gradients that are recorded.
    nbytes
        Bytes of what it gives, which the program holds, to give them again once nobody refers to them.
    """

    program: Any
    feeds: tuple[int, ...]
    needs: Needs
    steps: tuple[Place, ...]
    flows: Mapping[Place, Flow]
    nbytes: int

    def run(self, recording: Recording, inputs: Sequence[Any]) -> dict[int, Any]:
        """Results by number: arrays, or recorded where that is needed."""
        arrays = [each.array if type(each) is Recorded else each for each in inputs]
        found = self.program.run([arrays[n] for n in self.feeds])
        values: dict[int, Any] = dict(zip(self.needs.outputs, found, strict=True))
        if self.needs.recorded or self.needs.leaves:
            self._record(recording, values, inputs)
        return values

    def _record(self, recording: Recording, values: dict[int, Any], inputs: Sequence[Any]) -> None:
        kept = {*self.needs.recorded}
        records: dict[int, Record] = {}

        def operand(n: Any) -> Any:
            if type(n) is not int:
                return n[1]
            if n < 0:
                value = inputs[-1 - n]
                return value.record if type(value) is Recorded else value
            return records.get(n, values[n])

        for place in self.steps:
            numbers = range(place.first, place.first + len(place.avals))
            if place not in kept:
                for n in self.needs.leaves.intersection(numbers):
                    values[n] = recording.leaf(values[n])
                    records[n] = values[n].record
                continue
            made: Any
            with attributed(place.where):
                if type(place.op) is Gradients:
                    made = self._gradients(recording, place, values, operand)
                else:
                    arrays = [values[n] for n in numbers]
                    operands = tuple(map(operand, place.operands))
                    found = tuple(arrays) if place.op.multi_result else arrays[0]
                    made = recording.enter(place.op, operands, place.params, found)
                    made = made if place.op.multi_result else (made,)
            for n, each in zip(numbers, made, strict=True):
                values[n] = each
                if type(each) is Recorded:
                    records[n] = each.record

    def _gradients(self, recording: Recording, place: Place, values: Any, operand: Any) -> list[Any]:
        pull, reads = self.flows[place].pull, self.flows[place].reads
        numbers = range(place.first, place.first + len(place.avals))
        arrays = tuple([values[n] for n, flows in zip(numbers, pull.flows, strict=True) if flows])
        operands = (FIRST, *map(operand, reads), *pull.captured)
        made = iter(recording.enter(CATALOGUE["branch"], operands, {"bodies": (pull.body,), "default": False}, arrays))
        return [next(made) if flows else values[n] for n, flows in zip(numbers, pull.flows, strict=True)]


def flow(its: tuple[Any, Sequence[Any]], results: Mapping[int, Any], inputs: Sequence[Any]) -> Flow | None:
    """How gradients flow, by the numbers of what they read; None where that is not all of the sequence.

    Parameters
    ----------
    its
        The pull, and values by their numbers in it.
    results, inputs
        Values of the sequence by number, and those from outside.
    """
    pull, sources = its
    numbers: dict[int, int] = {}
    for n, each in [*((-1 - n, each) for n, each in enumerate(inputs)), *results.items()]:
        if type(each) is Recorded:
            numbers[id(each.record)] = n
            made = each.record.application
            if made is not None and made[0] is PART:
                numbers.setdefault(id(made[1][0]), n - made[2])
        else:
            numbers[id(each)] = n
    found = []
    for source in [sources[n] for n in pull.feeds]:
        whole, part = source if type(source) is tuple else (source, 0)
        if id(whole) not in numbers:
            return None
        found.append(numbers[id(whole)] + part)
    return Flow(pull, tuple(found))


def written(stack: Any, path: Sequence[Place], avals: Sequence[Any], needs: Needs, flows: Mapping[Place, Flow]) -> Any:
    """The program of a sequence.

    Parameters
    ----------
    avals
        Of the values from outside.
    """
    inputs = [stack.symbol.input(f"value {n}", aval) for n, aval in enumerate(avals)]
    values: dict[int, Any] = {-1 - n: each for n, each in enumerate(inputs)}
    computed = ancestors(path, needs.outputs)

    def apply(op: Any, operands: Sequence[Any], items: Any) -> Any:
        return stack.graph.bind(op, *operands, **dict(items))

    for place in path:
        if place not in computed:
            continue
        with attributed(place.where):
            if type(place.op) is Gradients:
                found = _gradients_of(stack, place, values, flows[place], apply)
            else:
                operands = [values[n] if type(n) is int else n[1] for n in place.operands]
                made = apply(place.op, operands, place.params)
                found = made if place.op.multi_result else [made]
        values.update(zip(range(place.first, place.first + len(place.avals)), found, strict=True))
    outputs = [stack.operator.lift(values[n]) for n in needs.outputs]
    read = {node for node in topological(outputs) if node.op is INPUT}
    feeds = tuple([n for n, each in enumerate(inputs) if each in read])
    structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
    graph = stack.graph.close([inputs[n] for n in feeds], outputs, (), "replay", structure)
    program = stack.engine.compile(graph)
    if isinstance(program, Program):
        program.arenas = stack.engine.arenas
        program.forget_graph()
    steps = [p for p in path if not {*needs.outputs}.isdisjoint(range(p.first, p.first + len(p.avals)))]
    kept = {place: flows[place] for place in needs.recorded if place in flows}
    return Written(program, feeds, needs, tuple(steps), kept, sum([each.aval.nbytes for each in outputs]))


def _gradients_of(stack: Any, place: Place, values: Mapping[int, Any], its: Flow, apply: Any) -> list[Any]:
    pull = its.pull
    results: Any = iter(())
    if pull.body is not None:
        captured = [stack.symbol.held(array) for array in pull.captured]
        found = pull.body.values(apply, [*(values[n] for n in its.reads), *captured])
        results = iter([found[n] for n in pull.body.results])
    zeros = stack.autodiff.functions.zeros_like
    xs = place.operands[place.op.ys :]
    return [next(results) if flows else zeros(values[x]) for x, flows in zip(xs, pull.flows, strict=True)]
