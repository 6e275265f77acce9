"""Rewriting many parts takes as much a part as few, in instructions (`graph/rewriting/wide`, `graph/rules/joining`).

Instructions are counted, not seconds.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.rules import joining
from nnc_func.tree import flatten

LAZY = nnc.lazy()
OPS = LAZY.ops
LEAST = 100  # parts
Graph = tuple[list[Any], list[Any]]  # inputs, outputs


def inputs(n: int, extent: int = 1) -> list[Any]:
    return [LAZY.input(f"x{i}", (extent,), "float32") for i in range(n)]


def unstacked(n: int) -> Graph:
    x = LAZY.input("x", (n,), "float32")
    return [x], [OPS.stack(*OPS.unstack(x))]


def listed_parts(n: int) -> Graph:
    x = LAZY.input("x", (2 * n,), "float32")
    return [x], [OPS.concat(*OPS.split(x, sections=(1, 3) * (n // 2)))]


def rewritten_parts(n: int) -> Graph:
    x = LAZY.input("x", (n,), "float32")
    return [x], [OPS.stack(*[part * 1.0 for part in OPS.unstack(x)])]


def rewritten_operands(n: int) -> Graph:
    xs = inputs(n)
    return xs, [OPS.concat(*[OPS.exp(x * 1.0) for x in xs])]


def written_parts(n: int) -> Graph:
    xs, fresh = inputs(n), LAZY.fresh((n,))
    for i, x in enumerate(xs):
        fresh.write(x * 1.0, offsets=(i,))
    return xs, [fresh.value]


def windows(n: int) -> Graph:
    xs = inputs(n, 3)
    joined = OPS.concat(*xs)
    return xs, [OPS.exp(joined[3 * i + 1 : 3 * i + 2]) for i in range(n)]


def windows_across(n: int) -> Graph:
    xs = inputs(n, 2)
    joined = OPS.concat(*[x / 1.0 for x in xs])
    return xs, [OPS.tanh(joined[i : i + 3]) for i in range(n)]


def tiles(n: int) -> Graph:
    xs, fresh = [LAZY.input(f"x{i}", (2, 2), "float32") for i in range(n)], LAZY.fresh((n, 4))
    for i, x in enumerate(xs):
        fresh.write(x, offsets=(i // 2 * 2, i % 2 * 2))
    whole = fresh.value
    return xs, [OPS.exp(whole[i : i + 1, 1:2]) for i in range(n)]


GRAPHS = (
    unstacked,
    listed_parts,
    rewritten_parts,
    rewritten_operands,
    written_parts,
    windows,
    windows_across,
    tiles,
)


def instructions(call: Callable[[], Any]) -> int:
    """How many of the interpreter's instructions a call takes; what others left is collected before, not meanwhile."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.collect()  # an Aval that nobody has any more is forgotten by a function, which would be counted
    len(LAZY.symbol.table)  # sweeps out the keys of what others left: else that falls into any call, of 20,000 keys
    with uncollected():
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return count


def closed(build: Callable[[int], Graph], n: int) -> Any:
    xs, outputs = build(n)
    return LAZY.graph.close([x.value for x in xs], [y.value for y in outputs], structure=flatten(outputs)[1])


@pytest.mark.parametrize("build", GRAPHS, ids=lambda b: b.__name__)
def test_twice_the_parts_are_twice_the_work(build: Callable[[int], Graph]) -> None:
    graphs = [closed(build, n) for n in (LEAST, LEAST, 2 * LEAST, 4 * LEAST)]
    _, one, two, four = (instructions(lambda g=g: LAZY.graph.optimised(g)) for g in graphs)
    assert four - two <= 2.2 * (two - one), (one, two, four)


def test_what_others_left_is_not_counted() -> None:
    """It once was, on one Python of three: forgetting ten thousand shapes takes as much as rewriting fifty parts."""
    counts = []
    for shapes in (0, 0, 10_000):
        graph = closed(windows, LEAST)
        left: list[Any] = [nnc.Aval((n, 3, 5, 7), "float32") for n in range(shapes)]
        left.append(left)
        del left
        counts.append(instructions(lambda g=graph: LAZY.graph.optimised(g)))  # type: ignore[misc]
    assert counts[2] <= 1.1 * counts[1], counts


def test_of_a_split_extents_are_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, counted = joining.part_sizes, 0

    def counting(n: Any, sections: Any) -> Any:
        nonlocal counted
        found = sizes(n, sections)
        counted += len(found)
        return found

    monkeypatch.setattr(joining, "part_sizes", counting)
    assert len(LAZY.graph.optimised(closed(unstacked, 1000))[0].nodes) == 1
    assert counted <= 2 * 1000


@pytest.mark.parametrize("build", GRAPHS, ids=lambda b: b.__name__)
@pytest.mark.parametrize("n", [2, 6, 20, 40])
def test_wide_or_not_the_values_are_those_of_the_graph_as_it_is(build: Callable[[int], Graph], n: int) -> None:
    xs, outputs = build(n)
    random = np.random.default_rng(n)
    values = [random.standard_normal(x.shape).astype("float32") for x in xs]
    eager = nnc.eager()
    wanted = eager.engine.compile(closed(build, n).to(eager))(*values)
    for found, like in zip(LAZY.compile(xs, outputs)(*values), wanted, strict=True):
        np.testing.assert_allclose(found, like, rtol=1e-6)


def test_a_wide_node_whose_operands_all_become_others_is_merged_with_its_equal() -> None:
    xs = inputs(40)
    one, other = (OPS.concat(*[x * factor for x in xs]) for factor in (1.0, 2.0))
    again = OPS.concat(*xs)
    program = LAZY.compile(xs, [OPS.exp(one), OPS.exp(again), OPS.exp(other * 0.5)])
    assert sum(n.op.name == "exp" for n in program.graph.nodes) <= 2
    values = [np.full(1, i / 40, "float32") for i in range(40)]
    for found in program(*values):
        np.testing.assert_allclose(found, np.exp(np.arange(40, dtype="float32") / 40), rtol=1e-6)
