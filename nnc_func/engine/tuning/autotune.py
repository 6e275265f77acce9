"""Autotuning: a program's kernels timed on the operands that they really meet, and the faster ones recorded.

Nothing live is touched: the program is gone through once on copies of its inputs and variables, kernels are timed on
what that gave, with results and scratch of their own, and whole programs on variables of their own. A kernel is chosen
only where it is faster by more than noise, round by round; the tuned program only where it is faster as a whole.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from nnc_func.body import is_pure
from nnc_func.engine.plan_rows import DONATED
from nnc_func.engine.planning.kernel_table import Entry, KernelTable, chosen
from nnc_func.engine.planning.layout_pass import elsewhere
from nnc_func.engine.running.outs import kept
from nnc_func.engine.tuning.environment import Environment
from nnc_func.engine.tuning.trials import LEAST, Candidate, Trial, alternated, seconds, tried
from nnc_func.errors import GraphError, OperatorError
from nnc_func.graph.leaves import INPUT, LEAVES, VARIABLE, Variable, brought, owned
from nnc_func.graph.node import Node
from nnc_func.graph.origin import describe

WHOLE = 0.4  # of the budget, for the comparison of whole programs
WORTH = 0.002  # of the time of a run: what costs less is left as it is
BETTER = 0.99  # tuned time / default time, from which the tuned program is kept
MOSTLY = 2 / 3  # of the rounds in which it must be faster by that


@frozen
class Group:
    """Equal applications: one operator, the same parameters, operands of the same avals.

    Attributes
    ----------
    node
        The first of them.
    count
        How many there are.
    seconds
        How long the first took.
    operands
        What it was given: arrays that nobody else has.
    """

    node: Node
    count: int
    seconds: float
    operands: tuple[Any, ...] = field(repr=False)


@frozen(repr=False)
class Tuning:
    """What autotuning found.

    Attributes
    ----------
    program
        The tuned program, over the same variables; the program as it was where tuning gains nothing.
    table
        The engine's table and the choices that were made, with the description of the environment.
    trials
        What was tried, and what came of it.
    ratio
        Time of the tuned program / time of the program as it was; 1 where they are the same.
    seconds
        How long it took.
    verdict
        What became of the choices, in words.
    """

    program: Any
    table: KernelTable
    trials: tuple[Trial, ...]
    ratio: float
    seconds: float
    verdict: str

    def __str__(self) -> str:
        lines = [repr(self)]
        for application, found in groupby(self.trials, key=lambda t: t.application):
            trials = list(found)
            lines += [f"  {trials[0].count} x {application}", *(f"    {t}" for t in trials)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<tuning: {len(self.trials)} trials in {self.seconds:.2f} s, {self.verdict}>"


def autotune(program: Any, inputs: Sequence[Any], budget: float, workspace: int | None) -> Tuning:
    """See `Program.autotune`."""
    start = time.perf_counter()
    check(program, inputs)
    engine, device, graph = program.engine, program._device, program.graph
    with np.errstate(all="ignore"):  # what a run of the program may warn of, it warns of when it is run
        groups = met(program, inputs)
        runs = [_repeated(program, inputs)]
        runs[0]()
        least = 2 * LEAST * seconds(device, runs[0])  # the comparison of whole programs takes that at least
        deadline = start + budget - max(WHOLE * budget, least)
        trials: list[Trial] = []
        entries = []
        for group, until in _shared(groups, deadline):
            found = tried(device, group, _kernels(engine, device, group), until, deadline, workspace)
            trials += found
            entries += [e for t in found if t.verdict == "chosen" for e in _entries(group, t)]
        if not entries:
            verdict = "nothing is faster" if deadline > start else f"a budget of {budget} s is too small to measure"
            return Tuning(program, engine.kernels, tuple(trials), 1.0, time.perf_counter() - start, verdict)
        table = _merged(engine.kernels, KernelTable(entries, Environment.here(device)))
        donated = sorted({b.source for b in program.plan.buffers if b.kind == DONATED})
        report = getattr(program.stats, "optimiser", None)  # of a program from a file there is none
        tuned = engine.with_kernels(table).program(graph, program.source, report, 0.0, donated=donated)
        runs.append(_repeated(tuned, inputs))
        runs[1]()
        before, after = alternated(device, runs, start + budget)
        ratios = [b / a for a, b in zip(before, after, strict=False)]
    ratio, spent = statistics.median(ratios), time.perf_counter() - start
    if ratio > BETTER or sum(r < BETTER for r in ratios) < MOSTLY * len(ratios):
        verdict = f"as a whole not faster with {len(entries)} other kernels ({ratio:.3f} of the time): kept as it was"
        return Tuning(program, engine.kernels, tuple(trials), 1.0, spent, verdict)
    verdict = f"{len(entries)} kernels chosen, {ratio:.3f} of the time"
    return Tuning(tuned, table, tuple(trials), ratio, spent, verdict)


def check(program: Any, inputs: Sequence[Any]) -> None:
    """Refuse what cannot be tuned.

    Raises
    ------
    GraphError
        The program was made of no graph, in a stack that plans nothing, or has effects, which would happen again and
        again.
    DeviceError
        The device computes nothing.
    OperatorError
        The wrong number of inputs.
    """
    graph, device = program.graph, program._device
    if graph is None:
        raise GraphError(f"the program {program.plan.name!r} has a plan and no graph: tune where it was compiled")
    if program.engine is None:
        raise GraphError(
            f"the program {program.plan.name!r} was read in a stack that plans nothing: read it in a lazy one, and tune"
        )
    device.to_numpy(device.empty((), np.float32))  # a device without elements says so: there is nothing to time
    for node in graph.nodes:
        if node.op not in LEAVES and not is_pure(node.op, node.items):
            where = describe(node.origin)
            at = f" (built at {where})" if where else ""
            raise GraphError(f"{node.op.name}{at} has effects, and autotuning runs a program many times")
    if len(inputs) != len(graph.inputs):
        raise OperatorError(f"the program {graph.name!r} takes {len(graph.inputs)} inputs, given {len(inputs)}")


# --- what kernels are given ----------------------------------------------------------------------------


def met(program: Any, inputs: Sequence[Any]) -> list[Group]:
    """The groups of a program's applications that have a choice and take time, the most expensive first.

    The graph is computed node by node, on copies.
    """
    device, graph = program._device, program.graph
    last = {a.node: n for n in graph.nodes for a in n.args}
    dying: dict[Node, list[Node]] = {}
    for node, user in last.items():
        dying.setdefault(user, []).append(node)
    given = dict(zip(graph.inputs, inputs, strict=True))
    env: dict[Node, Any] = {}
    groups: dict[Any, Group] = {}
    for node in graph.nodes:
        if node.op in LEAVES and not node.args:
            env[node] = _leaf(device, node, given)
            continue
        operands = tuple(env[a.node][a.index] if a.node.op.multi_result else env[a.node] for a in node.args)
        start = time.perf_counter()
        env[node] = device.bind(node.op, *operands, **node.params)
        device.synchronise()
        taken = time.perf_counter() - start
        if node.op.view is None:
            key = node.op, node.op.key(node.items), tuple(a.aval for a in node.args)
            known = groups.get(key)
            groups[key] = evolve(known, count=known.count + 1) if known else Group(node, 1, taken, operands)
        for gone in dying.get(node, ()):
            del env[gone]
    able = [
        g for g in groups.values()
        if len(device.candidates(g.node.op, _avals(g), g.node.items)) > 1 or any(elsewhere(device, g.node))
    ]  # fmt: skip
    total = sum(g.count * g.seconds for g in groups.values())
    worth = [g for g in able if g.count * g.seconds >= WORTH * total]
    return sorted(worth, key=lambda g: -g.count * g.seconds)


def _leaf(device: Any, node: Node, given: dict[Node, Any]) -> Any:
    if node.op is INPUT:
        return owned(device, brought(device, given[node], node.aval.dtype, node.aval.place))
    if node.op.multi_result:
        return tuple(owned(device, array) for array in node.data)
    return owned(device, node.data.array if node.op is VARIABLE else node.data)


def _avals(group: Group) -> tuple[Any, ...]:
    return tuple(a.aval for a in group.node.args)


def _kernels(engine: Any, device: Any, group: Group) -> list[Candidate]:
    """The kernel that the program runs, then the others, then those that want other layouts."""
    node, avals = group.node, _avals(group)
    first = chosen(device, node.op, node.items, avals, engine.kernels)
    others = [k for k in device.candidates(node.op, avals, node.items) if k.name != first.name]
    return [(first, ()), *((k, ()) for k in others), *elsewhere(device, node)]


def _shared(groups: list[Group], deadline: float) -> Any:
    """Each group with the time until which it may be measured: the rest of the time is shared by what they cost."""
    for i, group in enumerate(groups):
        now = time.perf_counter()
        weights = [g.count * g.seconds for g in groups[i:]]
        yield group, now + (deadline - now) * weights[0] / max(sum(weights), 1e-12)


# --- what is made of it --------------------------------------------------------------------------------


def _entries(group: Group, trial: Trial) -> list[Entry]:
    """What is recorded of a kernel that was chosen: of operands as they are, and of those converted."""
    node, avals = group.node, _avals(group)
    if not trial.layouts:
        return [Entry.of(node.op, node.items, avals, trial.kernel)]
    moved = [a.having(layout=axes) for a, axes in zip(avals, trial.layouts, strict=True)]
    return [
        Entry.of(node.op, node.items, avals, trial.kernel, trial.layouts),
        Entry.of(node.op, node.items, moved, trial.kernel),
    ]


def _merged(old: KernelTable, found: KernelTable) -> KernelTable:
    return evolve(old, environment=found.environment).merged(found)


def copied(program: Any) -> Any:
    """The program over variables of its own, with the same values."""
    device = program._device
    return program.over([Variable(v.name, owned(device, v.array), v.aval, device) for v in program.variables.values()])


def _repeated(program: Any, inputs: Sequence[Any]) -> Callable[[], Any]:
    """A run of the program on copies of its inputs, over variables of its own."""
    device, mine = program._device, copied(program)
    avals = [n.aval for n in program.graph.inputs]
    arrays = kept([owned(device, brought(device, x, a.dtype, a.place)) for x, a in zip(inputs, avals, strict=True)])
    return lambda: mine.run(arrays)
