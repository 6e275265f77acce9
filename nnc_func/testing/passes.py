"""Rewrites of whole graphs, on random programs: every output keeps its value, and what is found once is not again."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import frozen
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from nnc_func.config import config
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.rule import Pass
from nnc_func.testing.program import INPUT, VARIABLE, Program
from nnc_func.testing.programs import programs
from nnc_func.testing.rewrites import applied, values


@frozen
class OnPrograms:
    """What was found of a pass on random programs: how many there were, how many it changed, and what went wrong."""

    seen: int
    fired: int
    counterexample: str = ""
    nodes: int = 0


def on_programs(rule: Pass, builder: Any, examples: int) -> OnPrograms:
    """The pass on so many random programs; the smallest that it breaks is told as code.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.rewriting.compiled import Builder
    >>> from nnc_func.graph.rules.parts import read_parts
    >>> on_programs(read_parts, Builder(nnc.eager().operator), 5).counterexample
    ''
    """
    counts = [0, 0]

    def broken(program: Program) -> bool:
        why, fired = difference(rule, builder, program)
        counts[0] += 1
        counts[1] += fired
        return bool(why)

    chosen = settings(
        max_examples=examples,
        database=None,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    try:
        smallest = find(programs(), broken, settings=chosen, random=Random(config.seed))
    except NoSuchExample:
        return OnPrograms(counts[0], counts[1])
    why, _ = difference(rule, builder, smallest)
    return OnPrograms(counts[0], counts[1], f"{rule}\n{why}\n{smallest}", len(smallest.steps))


def difference(rule: Pass, builder: Any, program: Program) -> tuple[str, bool]:
    """What the pass does wrong to a program, and whether it did something."""
    feeds: dict[Node, Any] = {}
    roots = roots_of(program, builder.operator, feeds)
    found = applied(rule, builder, roots)
    if found is None:
        return "", False
    why = ""
    for before, after in zip(roots, found, strict=True):
        if before.aval != after.aval:
            return f"{before.aval} became {after.aval}", True
        both = values(before, after, feeds, builder.operator.device)
        why = why or (both.difference(rule.numerics, rule.fast_math) if both is not None else "")
    return why or ("it finds something the second time" if applied(rule, builder, found) else ""), True


def roots_of(program: Program, operator: Any, feeds: dict[Node, Any]) -> tuple[Value, ...]:
    """A program as a graph of that stack: its outputs and the variables' next values; `feeds` is given the leaves'."""
    leaves = []
    for leaf in program.leaves:
        if leaf.kind in (INPUT, VARIABLE):
            node = operator.symbol.input(leaf.name, leaf.aval)
            feeds[node] = leaf.value()
            leaves.append(node)
        else:
            leaves.append(operator.symbol.constant(leaf.value()))
    known = program.applied(operator, leaves)
    return tuple(known[i] for i in program.outputs) + tuple(known[u] for _, u in program.updates)
