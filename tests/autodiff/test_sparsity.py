"""Work that no requested derivative needs is not done, and gradients of aliases add up (`autodiff`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.autodiff import Autodiff

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def applied(f: Any, *shapes: Any) -> Counter[str]:
    """How often each operator is applied by ``f(stack, *arrays)``, by number; views are counted as others are."""
    null = nnc.Null()
    arrays = [null.empty(s, "float64") for s in shapes]
    counted: Counter[str] = Counter()
    bind = null.bind

    class Counting:
        role, places, name = "device", (), "null"
        asarray, aval = null.asarray, null.aval

        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            counted[op.name] += 1
            return bind(op, *args, **params)

    autodiff = Autodiff(Counting())
    f(autodiff, autodiff.functions, *arrays)
    return counted


def gradient(wanted: Any, f: Any) -> Any:
    """Pulls a cotangent back to the wanted arguments of a function of carriers."""

    def run(autodiff: Any, o: Any, *arrays: Any) -> None:
        def of(*some: Any) -> Any:
            whole = list(arrays)
            for i, x in zip(wanted, some, strict=True):
                whole[i] = x
            return f(o, *whole)

        y, back = autodiff.vjp(of, [arrays[i] for i in wanted])
        several = isinstance(y, list)
        found = back(*(y if several else [y]))
        assert all(g.shape == arrays[i].shape for i, g in zip(wanted, found, strict=True))

    return run


def test_only_wanted_gradients_are_built() -> None:
    square = [(3, 3)] * 3
    chain = lambda o, a, b, c: o.matmul(o.matmul(a, b), c)  # noqa: E731
    assert applied(gradient((2,), chain), *square)["matmul"] == 2 + 1
    assert applied(gradient((0,), chain), *square)["matmul"] == 2 + 2
    assert applied(gradient((0, 1, 2), chain), *square)["matmul"] == 2 + 4
    joined = lambda o, a, b, c: o.concat(a, b, c, axis=0)  # noqa: E731
    assert applied(gradient((1,), joined), *square) == {"concat": 1, "slice": 1}
    assert applied(gradient((1, 2), joined), *square) == {"concat": 1, "slice": 2}
    stacked = lambda o, a, b, c: o.stack(a, b, c, axis=0)  # noqa: E731
    assert applied(gradient((0,), stacked), *square) == {"stack": 1, "slice": 1, "squeeze": 1}
    chosen = lambda o, a, b, c: o.where(o.greater(c, 0), a, b)  # noqa: E731
    assert applied(gradient((0,), chosen), *square) == {"greater": 1, "where": 1 + 1}
    written = lambda o, a, b, c: o.set_slice(a, b, starts=(0, 0), stops=(3, 3), steps=(1, 1))  # noqa: E731
    assert applied(gradient((1,), written), *square) == {"set_slice": 1, "slice": 1}
    assert applied(gradient((0,), written), *square) == {"set_slice": 2}
    product = lambda o, a, b, c: o.multiply(o.multiply(a, b), c)  # noqa: E731
    assert applied(gradient((2,), product), *square)["multiply"] == 2 + 1
    filtered = lambda o, a, b: o.conv2d(a, b)  # noqa: E731
    for i in (0, 1):
        assert applied(gradient((i,), filtered), (1, 5, 5, 2), (3, 3, 2, 3)).total() == 1 + 1


def test_results_without_cotangent_cost_nothing() -> None:
    def run(autodiff: Any, o: Any, x: Any) -> None:
        _, back = autodiff.vjp(lambda t: [o.exp(t), o.sin(t)], [x])
        assert back(x, None)[0] is not None
        assert back(None, None) == [None]

    assert applied(run, (2,)) == {"exp": 1, "sin": 1, "multiply": 1}

    def push(autodiff: Any, o: Any, x: Any) -> None:
        def f(s: Any, t: Any) -> list[Any]:
            o.cos(s)  # leads to no result
            return [o.exp(s), o.sin(t)]

        _, derivative = autodiff.linearize(f, [x, x])
        slopes = derivative.push([x, None])
        assert slopes[0] is not None
        assert slopes[1] is None

    assert applied(push, (2,)) == {"exp": 1, "sin": 1, "cos": 1, "multiply": 1}


def test_a_zero_by_structure_is_known() -> None:
    def run(autodiff: Any, o: Any, x: Any) -> None:
        def f(t: Any) -> list[Any]:
            return [o.floor(t), o.stop_gradient(t), o.greater(t, 0), o.cast(t, dtype="int64"), o.exp(x)]

        values, back = autodiff.vjp(f, [x])
        assert back(*values) == [None]
        assert autodiff.jvp(f, [x], [x])[1] == [None] * 5
        assert autodiff.linearize(f, [x])[1].push([x]) == [None] * 5
        mixed = lambda t: o.multiply(o.stop_gradient(t), o.exp(x))  # noqa: E731
        assert autodiff.vjp(mixed, [x])[1](x) == [None]

    found = applied(run, (2,))
    assert not found.keys() & {"full", "add"}, "no zeros are made, none are added"


# --- aliases --------------------------------------------------------------------------------------------------


@every
def test_slices_of_one_base_add_up_and_the_rest_is_zero(stack: Any) -> None:
    ops, x = stack.ops, np.arange(1.0, 9.0)

    def f(t: Any) -> Any:
        unused = t[5:] * 100  # noqa: F841
        return ops.sum(t[0:3] * 2) + ops.sum(t[2:4] ** 2) + ops.sum(t[3:0:-2] * 10)

    wanted = np.array([2, 2 + 10, 2 + 6, 8 + 10, 0, 0, 0, 0.0])
    np.testing.assert_array_equal(stack.grad(f)(x).numpy(), wanted)
    np.testing.assert_array_equal(stack.grad(lambda t: (t[1:3] * 0 + 1).sum())(x).numpy(), np.zeros(8))
    a, b = stack.grad(lambda s, t: ops.sum(s[:2] + 0 * stack.ops.stop_gradient(t[1:3])), (0, 1))(x, x)
    np.testing.assert_array_equal(a.numpy(), [1, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(b.numpy(), np.zeros(8))


@every
def test_nncs_gradients_through_aliases(stack: Any) -> None:
    """y = x + [1, 1.5], f = x₁ + (y₁ + y₁²) + exp y₂; and one where x₂ is not used at all: undefined there, 0 here."""
    ops = stack.ops

    def f(x: Any) -> Any:
        y = x + stack.asarray(np.array([1.0, 1.5]))
        return x[0] + (y[0] + y[0] ** 2) + ops.exp(y[1])

    found = stack.grad(f)(np.array([0.44, -1.18])).numpy()
    np.testing.assert_allclose(found, [1 + 1 + 2 * 1.44, np.exp(0.32)], rtol=1e-14)
    found = stack.grad(lambda x: ops.log(x[0]) ** 2 + ops.log(x[0]))(np.array([0.21, 5.0])).numpy()
    np.testing.assert_allclose(found, [2 * np.log(0.21) / 0.21 + 1 / 0.21, 0], rtol=1e-14)


@every
def test_windows_and_fresh_tensors(stack: Any) -> None:
    """`alias` and `fresh` are sugar over slice and assemble: reading and writing are each other's transposes."""
    ops = stack.ops

    def f(x: Any) -> Any:
        target = stack.fresh((2, 4), "float64", fill=3.0)
        target.write(stack.alias(x, (0, 1), (2, 2)), offsets=(0, 0))
        target.write(stack.alias(x, (1, 0), (1, 1)), offsets=(1, 3))
        return ops.sum(target.value**2)

    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(stack.grad(f)(x).numpy(), [[0, 2, 4], [6, 8, 10]])
    _, slope = stack.jvp(f, (x,), (np.ones((2, 3)),))
    assert slope.item() == 2 * (1 + 2 + 4 + 5 + 3)


bounds = st.tuples(st.integers(0, 5), st.integers(0, 6), st.sampled_from((1, 2, -1)))


@given(st.lists(bounds, max_size=4))
@example([(0, 3, 1), (3, 6, 1)])
@example([(5, 0, -1), (0, 6, 2)])
def test_any_slices_on_every_engine(slices: list[tuple[int, int, int]]) -> None:
    """The gradient of Σᵢ i Σ x[sᵢ]² counts each element as often as it is shown."""
    x = np.linspace(1, 2, 6)
    wanted = np.zeros(6)
    for i, s in enumerate(slices):
        shown = np.zeros(6)
        shown[slice(*s)] = 1
        wanted += 2 * (i + 1) * shown * x
    for stack in (EAGER, LAZY):

        def f(t: Any, stack: Any = stack) -> Any:
            total = stack.asarray(np.float64(0))
            for i, s in enumerate(slices):
                total = total + (i + 1) * stack.ops.sum(t[slice(*s)] ** 2)
            return total

        np.testing.assert_allclose(stack.grad(f)(x).numpy(), wanted, rtol=1e-13)


def test_slices_that_cover_a_base_need_no_zeros() -> None:
    """NNC's inception-like cases: what is put together is one assembly or concatenation, without a fill to add to."""
    x = LAZY.input("x", (4, 6), "float64")

    def operators(parts: Any) -> Counter[str]:
        found = LAZY.grad(lambda t: sum((LAZY.ops.sum(LAZY.ops.sin(t[:, a:b])) for a, b in parts)))(x)
        graph, _ = LAZY.graph.optimised(LAZY.graph.close([x.value], [found.value], [], "gradient"))
        return Counter(n.op.name for n in graph.nodes if n.args)

    covering = operators([(0, 2), (2, 5), (5, 6)])
    assert covering["add"] == 0
    assert covering["assemble"] + covering["concat"] == 1
    partial = operators([(0, 2), (4, 6)])
    assert partial["add"] == 0
    assert partial["assemble"] == 1
