"""Values that are asked for again: what is known is not computed again, and never changes (`engine/force`)."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.leaves import CONSTANT
from tests.engine.changing import Counting

LAZY = nnc.lazy(Counting())
OPS = LAZY.ops
COUNTING = LAZY.device
X = np.linspace(0, 1, 50)


def ran(*tensors: Any) -> list[str]:
    """The kernels that asking for these takes."""
    COUNTING.counted()
    LAZY.evaluate(*tensors)
    return sorted(COUNTING.counted())


def test_what_was_asked_for_is_not_computed_again() -> None:
    w = LAZY.variable("w", X)
    a = OPS.cumulative_sum(w, axis=0)
    assert ran(a) == ["cumulative_sum"]
    assert ran(a) == []
    w.value.assign(X + 1)
    assert ran(a) == []
    np.testing.assert_array_equal(a.numpy(), np.cumsum(X))
    again = OPS.cumulative_sum(w, axis=0)
    assert ran(again, a) == ["cumulative_sum"]
    np.testing.assert_array_equal(again.numpy(), np.cumsum(X + 1))


def test_an_evaluated_graph_that_is_extended_computes_the_extension_only() -> None:
    """Owl computed 2 sin(exp x) here."""
    for x in (LAZY.asarray(X), LAZY.variable("x", X)):
        a = OPS.cumulative_sum(x, axis=0)
        b = OPS.cumulative_sum(a, axis=0)
        assert len(ran(b)) == 2
        d = a + b
        assert ran(d) == ["add"]
        assert ran(a, b, d) == []
        np.testing.assert_allclose(d.numpy(), np.cumsum(X) + np.cumsum(np.cumsum(X)), rtol=1e-14)


def test_after_a_variable_changed_only_what_depends_on_it_runs() -> None:
    """What nobody holds is kept too, where a part that changes reads it."""
    w, x = LAZY.variable("w", X), LAZY.asarray(X)
    sums = OPS.cumulative_sum(OPS.cumulative_sum(x, axis=0), axis=0)
    assert ran(OPS.cumulative_sum(sums + w, axis=0)).count("cumulative_sum") == 3
    for i in range(3):
        w.value.assign(X + i)
        y = OPS.cumulative_sum(sums + w, axis=0)
        assert ran(y).count("cumulative_sum") == 1
        np.testing.assert_allclose(y.numpy(), np.cumsum(np.cumsum(np.cumsum(X)) + X + i), rtol=1e-13)


def test_what_a_view_shows_is_kept() -> None:
    w, x = LAZY.variable("w", X[:10]), LAZY.asarray(X)
    shown = OPS.cumulative_sum(x, axis=0)[::5]
    ran(OPS.cumulative_sum(shown + w, axis=0))
    w.value.assign(X[:10] + 1)
    y = OPS.cumulative_sum(shown + w, axis=0)
    assert ran(y).count("cumulative_sum") == 1
    np.testing.assert_allclose(y.numpy(), np.cumsum(np.cumsum(X)[::5] + X[:10] + 1), rtol=1e-13)


def test_two_variables_each_make_only_their_own_dirty() -> None:
    v, w = LAZY.variable("v", X), LAZY.variable("w", X)
    a, b = OPS.cumulative_sum(v, axis=0), OPS.cumulative_sum(w, axis=0)
    both = OPS.cumulative_sum(a * b, axis=0)
    ran(both)
    w.value.assign(X + 1)
    other = OPS.cumulative_sum(w, axis=0)
    second = OPS.cumulative_sum(a * other, axis=0)
    assert ran(second).count("cumulative_sum") == 2
    LAZY.compile([], [], [(v, v + 1)])()
    third = OPS.cumulative_sum(OPS.cumulative_sum(v, axis=0) * other, axis=0)
    assert ran(third).count("cumulative_sum") == 2
    np.testing.assert_allclose(third.numpy(), np.cumsum(np.cumsum(X + 1) ** 2), rtol=1e-13)
    np.testing.assert_allclose(both.numpy(), np.cumsum(np.cumsum(X) ** 2), rtol=1e-13)
    assert ran(a, b, both, other, second) == []


def test_nodes_that_two_graphs_share_are_right_in_both() -> None:
    w, x = LAZY.variable("w", X), LAZY.input("x", (50,), "float64")
    shared = OPS.cumulative_sum(w, axis=0)
    one = LAZY.compile([x], shared * x, retain="all")
    other = LAZY.compile([x], [shared + x, shared], [(w, w + 1)], retain="frontier")
    for i in range(3):
        np.testing.assert_allclose(one(X), np.cumsum(X + i) * X, rtol=1e-13)
        np.testing.assert_allclose(shared.numpy(), np.cumsum(X), rtol=1e-13)
        np.testing.assert_allclose(other(X)[0], np.cumsum(X + i) + X, rtol=1e-13)
    np.testing.assert_allclose(OPS.cumulative_sum(w, axis=0).numpy(), np.cumsum(X + 3), rtol=1e-13)


def test_several_results_of_one_application_are_known_together() -> None:
    w = LAZY.variable("w", np.ones(6))
    parts = OPS.split(OPS.cumulative_sum(w, axis=0), sections=3)
    found = [p.numpy() for p in parts]
    np.testing.assert_array_equal(np.concatenate(found), np.arange(1.0, 7))
    assert ran(*parts) == []
    w.value.assign(np.zeros(6))
    np.testing.assert_array_equal(parts[2].numpy(), [5, 6])
    np.testing.assert_array_equal(OPS.split(OPS.cumulative_sum(w, axis=0), sections=3)[2].numpy(), 0.0)


def test_what_is_known_dies_with_its_node() -> None:
    w = LAZY.variable("w", X)
    y = OPS.cumulative_sum(w, axis=0)
    y.numpy()
    node, count = ref(y.value.node), len(LAZY.engine.known)
    assert count
    del y
    gc.collect()
    assert node() is None
    assert len(LAZY.engine.known) == count - 1


def test_what_depends_on_no_variable_becomes_a_leaf() -> None:
    w, x = LAZY.variable("w", X), LAZY.asarray(X)
    inner = OPS.cumulative_sum(x, axis=0)
    OPS.cumulative_sum(inner * w, axis=0).numpy()
    assert inner.value.node.op is CONSTANT


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=12))
def test_values_built_asked_and_changed_in_any_order_are_those_of_their_time(events: list[tuple[int, int]]) -> None:
    """Variables are assigned and updated by programs; what is built meanwhile is what an eager engine had computed."""
    values = [X, X + 1]
    variables = [LAZY.variable(n, v) for n, v in zip("vw", values, strict=True)]
    updates = [LAZY.compile([], [], [(v, v * 0.5)]) for v in variables]
    eager = nnc.eager()

    def build(v: Any, w: Any, ops: Any) -> list[Any]:
        a = ops.cumulative_sum(v, axis=0)
        b = ops.tanh(w)
        c = a * b
        return [a, b, c, c + a, ops.flip(c + b, axis=(0,))[2:]]

    made: list[tuple[Any, Any]] = []
    for kind, number in [(5, 0), *events, (4, 0), (4, 7)]:
        if kind < 2:
            values[kind] = X * number
            variables[kind].value.assign(values[kind])
        elif kind == 2:
            values[number % 2] = values[number % 2] * 0.5
            updates[number % 2]()
        elif kind < 5:
            found, wanted = made[number % len(made)]
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-12)
        else:
            wanted = [y.numpy() for y in build(*map(eager.asarray, values), eager.ops)]
            made += zip(build(*variables, OPS), wanted, strict=True)
    for found, wanted in made:
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-12)
