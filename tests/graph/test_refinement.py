"""Shapes learned late flow into a new graph, or contradict it in words (`graph/refinement`, `facets/equations`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import GraphError, ShapeError
from nnc_func.facets.dims import Dim, known, substitute
from nnc_func.facets.equations import Equations
from nnc_func.facets.expressions import parsed

LAZY = nnc.lazy()
LINE = r"test_refinement.py:\d+"


def closed(inputs: Any, outputs: Any) -> Any:
    return LAZY.graph.close([i.value for i in inputs], [o.value for o in outputs])


def shapes(graph: Any) -> dict[str, Any]:
    return {n.data: str(n.aval.shape) for n in graph.inputs}


def test_a_shape_learned_late_flows_through_a_diamond_into_a_new_graph() -> None:
    x = LAZY.input("x", (None, None), "float64")
    left, right = LAZY.ops.sin(x), LAZY.ops.cos(x)
    graph = closed([x], [LAZY.ops.concat(left * right, left, axis=0)])
    before, nodes = str(graph), graph.nodes
    known_now = graph.with_shapes({"x": (32, 784)})
    assert known_now.outputs[0].shape == (64, 784)
    assert all(not n.aval.symbols for n in known_now.nodes)
    assert str(graph) == before
    assert graph.nodes == nodes
    half = graph.with_shapes({"x": ("2*m", None)})
    assert str(half.outputs[0].shape[0]) == "4*m"
    assert str(half.with_shapes({"x": (32, 784)})) == str(known_now)
    a = np.ones((32, 784))
    np.testing.assert_array_equal(LAZY.engine.compile(known_now).run([a])[0], LAZY.engine.compile(graph).run([a])[0])


def test_an_extent_is_learned_from_another_input() -> None:
    x, y, w = (LAZY.input(k, s, "float64") for k, s in (("x", ("n", 4)), ("y", ("m", 4)), ("w", ("k", 4, 2))))
    chain = LAZY.ops.tanh(x) + y
    graph = closed([x, y, w], [chain @ w.reshape(4, -1), LAZY.ops.concat(y, w[:, :, 0], axis=1)])
    assert shapes(graph.with_shapes({"x": (32, 4)})) == {"x": "(32, 4)", "y": "(32, 4)", "w": "(32, 4, 2)"}
    assert shapes(graph.with_shapes({"w": (8, None, None)})) == {"x": "(8, 4)", "y": "(8, 4)", "w": "(8, 4, 2)"}
    assert shapes(graph.with_shapes({"y": ("a + b", 4)})) == {"x": "(a+b, 4)", "y": "(a+b, 4)", "w": "(a+b, 4, 2)"}
    assert len({n for each in shapes(graph.with_shapes({})).values() for n in each if n.isalpha()}) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": (3, 4), "y": (5, 4)}, rf"add\(.*\): 3 against 5.*must be equal \(built at {LINE}"),
        ({"x": (3, 5)}, rf"input 'x' has the shape \(n, 4\), which cannot be \(3, 5\): 4 against 5 \(built at {LINE}"),
        ({"x": (3,)}, r"'x' has 2 axes.*given the shape \(3,\)"),
        (
            {"z": (7, 7)},
            rf"'z' has the shape \(2\*n, n\+1\).*cannot be \(7, 7\).*holds for no whole n \(built at {LINE}",
        ),
        ({"z": (6, 5)}, rf"'z'.*cannot be \(6, 5\): 4 against 5 \(built at {LINE}"),
        ({"x": (-1, 4)}, r"n would be -1"),
    ],
)
def test_a_shape_that_contradicts_is_refused(given: Any, words: str) -> None:
    x, y, z = (LAZY.input(k, s, "float64") for k, s in (("x", ("n", 4)), ("y", ("m", 4)), ("z", ("2*n", "n + 1"))))
    graph = closed([x, y, z], [x + y, z])
    with pytest.raises(ShapeError, match=words):
        graph.with_shapes(given)


def test_an_input_that_is_not_there_is_named() -> None:
    x = LAZY.input("x", ("n",), "float64")
    with pytest.raises(GraphError, match=r"no input 'y'; it has x"):
        closed([x], [x + 1]).with_shapes({"y": (2,)})


def test_what_a_graph_assumes_is_shown() -> None:
    x, y = LAZY.input("x", ("n",), "float64"), LAZY.input("y", ("m",), "float64")
    (assumption,) = closed([x, y], [x + y, x * y]).assumptions
    assert repr(assumption).startswith("n = m in add(float64[n], float64[m]) (built at test_refinement.py:")
    assert closed([x], [x + x]).assumptions == ()


# --- equations and expressions -----------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
EXTENTS = st.builds(
    lambda terms, constant: sum((k * Dim.named(n) for n, k in terms), constant),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-3, 3)), max_size=3),
    st.integers(-4, 4),
)


@given(st.lists(st.tuples(EXTENTS, EXTENTS), max_size=4), st.tuples(*[st.integers(0, 5)] * 3))
def test_what_is_solved_holds_wherever_the_equations_do(pairs: Any, numbers: Any) -> None:
    """Shifted so that the given numbers solve them, equations are never refused, nor solved by anything else."""
    values = dict(zip(NAMES, numbers, strict=True))
    found = Equations()
    for left, right in pairs:
        found.add(left, right + (substitute(left, values) - substitute(right, values)))
    for name, value in found.values.items():
        assert substitute(value, values) == values[name]
    for name in NAMES:
        found.add(Dim.named(name), values[name])
    assert {n: found.values[n] for n in NAMES} == values


@given(EXTENTS, EXTENTS, st.integers(1, 4))
def test_an_extent_is_read_from_how_it_is_written(one: Any, other: Any, by: int) -> None:
    for extent in (one, one * other, (one + 1) // by + other):
        if known(extent):
            continue
        assert parsed(str(extent)) == extent
