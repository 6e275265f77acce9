"""The Optimiser on any graph: values kept, nothing left to do again, linear time (`graph/rewriting`, `graph/rules`)."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import ShapeError
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.rules import EXACT
from tests.graph.rewriting import OPTIMISER, bind, check_equal, fills, variable

UNARY = ("negative", "abs", "relu", "floor", "square", "stop_gradient")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
CONSTANTS = (0, 1, 2, 0.5, -1, 0.1)


@st.composite
def graphs(draw: Any) -> list[Any]:
    """A few values of a small random graph, intermediates among them."""
    shapes_ = [(2, 3), (3,), (1, 3), (2, 1), (), (3, 2)]
    found = [variable(f"x{i}", draw(st.sampled_from(shapes_))) for i in range(3)]
    for _ in range(draw(st.integers(1, 14))):
        a = found[draw(st.integers(0, len(found) - 1))]
        kind = draw(st.integers(0, 5))
        try:
            if kind == 0:
                found.append(bind(draw(st.sampled_from(UNARY)), a))
            elif kind == 1:
                b = found[draw(st.integers(0, len(found) - 1))]
                found.append(bind(draw(st.sampled_from(BINARY)), a, b))
            elif kind == 2:
                op = draw(st.sampled_from((*BINARY, "divide", "power")))
                found.append(bind(op, a, draw(st.sampled_from((1, 2) if op == "power" else CONSTANTS[1:]))))
            elif kind == 3:
                value, shape = draw(st.sampled_from((0, 1, 2))), draw(st.sampled_from((a.shape, a.shape[1:], ())))
                filled = bind("full", shape=shape, value=value, dtype="float32")
                found += [bind(draw(st.sampled_from(BINARY)), filled, a), *[filled] * draw(st.booleans())]
            elif kind == 4:
                found.append(bind("permute_dims", a))
            elif draw(st.booleans()):
                found.append(bind("reshape", a, shape=(-1, 1)))
            else:
                found.append(bind("sum", a, keepdims=True))
        except ShapeError:
            continue
    count = draw(st.integers(1, 3))
    return [found[-1], *(found[draw(st.integers(0, len(found) - 1))] for _ in range(count))]


def shared() -> list[Any]:
    """Found by a fresh seed: the fill of one root becomes that of the other, which had not been folded yet."""
    ones = [bind("full", shape=shape, value=1, dtype="float32") for shape in ((2, 3), ())]
    return [bind("add", one, variable("x", one.shape)) for one in ones]


@example(shared(), Random(0))
@given(graphs(), st.randoms(use_true_random=False))
def test_optimised_graphs_have_the_same_values_and_are_not_optimised_twice(roots: list[Any], random: Any) -> None:
    found = OPTIMISER.optimise(roots)
    check_equal(roots, found.roots)
    again = OPTIMISER.optimise(found.roots)
    assert again.roots == found.roots, str(again)
    shuffled = list(OPTIMISER.rules)
    random.shuffle(shuffled)
    check_equal(roots, Optimiser(OPTIMISER.operator, tuple(shuffled)).optimise(roots).roots)


@given(graphs(), st.randoms(use_true_random=False), st.booleans())
def test_nor_is_what_has_the_results_of_some_rules_beside_it(roots: list[Any], random: Any, later: bool) -> None:
    """What a rule makes is in the graph already, and has been met, or has not."""
    some = tuple(rule for rule in OPTIMISER.rules if random.random() < 0.5)
    made = Optimiser(OPTIMISER.operator, some).optimise(roots).roots
    both = [*roots, *made] if later else [*made, *roots]
    found = OPTIMISER.optimise(both)
    assert OPTIMISER.optimise(found.roots).roots == found.roots, str(found)


@given(graphs())
def test_exact_rules_keep_every_bit(roots: list[Any]) -> None:
    feeds = fills(roots)
    for i, array in enumerate(feeds.values()):
        array.flat[:] = np.resize(np.float32([np.nan, -0.0, np.inf, 1, -2, 0.0, -np.inf])[i:], array.shape).flat
    check_equal(roots, OPTIMISER.with_numerics(EXACT).optimise(roots).roots, EXACT, feeds)


# --- size ------------------------------------------------------------------------------------------------


def test_a_chain_of_a_hundred_thousand_nodes() -> None:
    x = variable("x")
    y = x
    for i in range(100_000):
        y = bind("exp" if i % 2 else "add", y, *(() if i % 2 else (0,)))
    start = time.perf_counter()
    found = OPTIMISER.optimise([y])
    print(f"{1e6 * (time.perf_counter() - start) / found.nodes_before:.1f} µs a node, chain of {found.nodes_before}")
    assert found.nodes_after == 50_001


def test_how_long_it_takes() -> None:
    random = np.random.default_rng(0)
    pool = [variable(f"x{i}", (4, 4)) for i in range(8)]
    while len(pool) < 15_000:
        a, b = (pool[-1 - int(i)] for i in random.integers(0, min(len(pool), 50), 2))
        kind = random.random()
        if kind < 0.05:
            pool.append(bind("add", a, 0))
        else:
            pool.append(bind("exp", a) if kind < 0.3 else bind("tanh", a) if kind < 0.5 else bind("multiply", a, b))
    start = time.perf_counter()
    found = OPTIMISER.optimise(pool[-3000:])
    print(f"{1e6 * (time.perf_counter() - start) / found.nodes_before:.1f} µs a node of {found.nodes_before}")
    assert found.statistics["drop_unit"].matched > 100


def test_what_was_computed_meanwhile_is_a_constant() -> None:
    lazy = nnc.lazy()
    x, known = lazy.input("x", (5,), "float64"), lazy.asarray(np.arange(5.0))
    computed = lazy.ops.tanh(lazy.ops.exp(known) * 2)
    graph = lazy.graph.close([x.value], [(lazy.ops.sin(computed) * x + 1).value])
    lazy.to_numpy(computed)
    optimised, report = lazy.graph.optimised(graph)
    assert report.nodes_before == 6  # of the ten with which it was closed: what only the computed one used is gone
    assert {node.op.name for node in optimised.nodes} == {"constant", "input", "fma"}
    wanted = np.sin(np.tanh(np.exp(np.arange(5.0)) * 2)) * 3 + 1
    np.testing.assert_allclose(lazy.engine.compile(optimised)(np.full(5, 3.0)), wanted)
