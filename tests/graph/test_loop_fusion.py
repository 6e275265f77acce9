"""Loops that go equally often are one loop where that pays, and only there (`graph/rewriting/loop_fusion`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.device.cpu import NumPy
from nnc_func.facets.machine import Machine
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.loop import loop

EAGER, LAZY = nnc.eager(), nnc.lazy()
X = np.random.default_rng(0).normal(0, 0.5, (9, 2))
Y = np.random.default_rng(1).normal(0, 0.5, (9, 2))


def sums(stack: Any, xs: Any, **how: Any) -> Any:
    """A loop that adds up, and gives each sum."""
    return stack.scan(lambda s, x: (s + x, s * x), stack.asarray(np.zeros(2)), xs, **how)


def products(stack: Any, xs: Any, **how: Any) -> Any:
    """A loop that multiplies."""
    return stack.scan(lambda p, x: (p * x + 1.0, p), stack.asarray(np.ones(2)), xs, **how)


def loops_in(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op is loop]


def compiled(f: Callable[..., Any], *given: np.ndarray, stack: Any = LAZY) -> list[Any]:
    """The loops of a compiled function, of which values are those of the eager stack."""
    inputs = [stack.input(f"x{n}", x.shape, x.dtype) for n, x in enumerate(given)]
    program = stack.compile(inputs, list(f(stack, *inputs)))
    wanted = f(EAGER, *map(EAGER.asarray, given))
    for one, other in zip(program(*given), wanted, strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-12)
    return loops_in(program)


# --- what is fused -----------------------------------------------------------------------------------------


def test_loops_over_one_sequence_are_one_and_slice_it_once(memory: Any) -> None:
    (found,) = compiled(lambda s, xs: (sums(s, xs)[0], products(s, xs)[0]), X)
    assert (found.params["carries"], len(found.args)) == (2, 3)


def test_loops_over_several_sequences_are_one() -> None:
    (found,) = compiled(lambda s, xs, ys: (*sums(s, xs), *products(s, ys)), X, Y)
    assert (found.params["carries"], len(found.args), len(found.avals)) == (2, 4, 4)


def test_what_both_carry_alike_is_carried_once_and_computed_once() -> None:
    def both(s: Any, xs: Any) -> Any:
        first, _ = s.scan(
            lambda c, x: ((c[0] + x, c[1] * x), None), (s.asarray(np.zeros(2)), s.asarray(np.ones(2))), xs
        )
        return (*first, sums(s, xs)[0])

    (found,) = compiled(both, X)
    assert found.params["carries"] == 2
    assert [each.op.name for each in found.params["body"].applications].count("add") == 1


def test_carries_that_begin_alike_and_go_on_differently_stay_two(memory: Any) -> None:
    (found,) = compiled(lambda s, xs: (sums(s, xs)[0], sums(s, xs * 2.0)[0], sums(s, xs)[1]), X)
    assert found.params["carries"] == 2


def test_a_value_and_its_gradient_asked_for_apart_go_forward_together() -> None:
    def both(s: Any, xs: Any) -> Any:
        def loss(xs: Any) -> Any:
            return s.fold(lambda c, x: s.ops.sin(c + x), s.asarray(np.zeros(2)), xs).sum()

        return loss(xs), s.grad(loss)(xs)

    found = compiled(both, X)
    assert sorted(each.params["reverse"] for each in found) == [False, True]


def test_rows_that_only_another_loop_reads_at_the_same_time_are_never_stacked(memory: Any) -> None:
    (found,) = compiled(lambda s, xs: (sums(s, s.map(s.ops.sin, xs))[0],), X)
    assert len(found.avals) == found.params["carries"] == 1


def test_rows_that_others_read_as_well_are_stacked() -> None:
    def rows(s: Any, xs: Any) -> Any:
        ys = s.map(s.ops.sin, xs)
        return sums(s, ys)[0], ys

    (found,) = compiled(rows, X)
    assert len(found.avals) == 2


def test_what_carries_nothing_goes_in_either_direction() -> None:
    (found,) = compiled(lambda s, xs: (sums(s, xs, reverse=True)[1], s.map(s.ops.exp, xs)), X)
    assert found.params["reverse"]


def test_a_chain_of_loops_is_one() -> None:
    def chain(s: Any, xs: Any) -> Any:
        rows = s.map(s.ops.sin, xs)
        for _ in range(4):
            rows = sums(s, rows)[1]
        return (rows, *products(s, xs))

    (found,) = compiled(chain, X)
    assert len(found.avals) - found.params["carries"] == 2


def test_loops_in_bodies_are_fused() -> None:
    def outer(s: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            row = x * xs
            return c + sums(s, row)[0] * products(s, row)[0], None

        return (s.scan(body, s.asarray(np.zeros(2)), xs)[0],)

    (found,) = compiled(outer, X)
    inner = [each for each in found.params["body"].applications if each.op is loop]
    assert len(inner) == 1


def test_loops_over_one_unknown_extent_are_one() -> None:
    stack = nnc.lazy()
    x, y = stack.input("x", ("n", 2), "float64"), stack.input("y", ("n", 2), "float64")
    z = stack.input("z", ("m", 2), "float64")
    program = stack.compile([x, y, z], [sums(stack, x)[0], products(stack, y)[0], products(stack, z)[0]])
    assert len(loops_in(program)) == 2
    wanted = [sums(EAGER, EAGER.asarray(X))[0], *(products(EAGER, EAGER.asarray(each))[0] for each in (Y, Y[:4]))]
    for one, other in zip(program(X, Y, Y[:4]), wanted, strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-12)


@pytest.mark.parametrize("times", [0, 1, 4, 9])
def test_loops_of_one_counted_number_of_times_are_one(times: int) -> None:
    add = Body.of(2, (OPS["add"], 0, 1), results=(2, 2))
    multiply = Body.of(2, (OPS["multiply"], 0, 1), results=(2, 0))

    def both(s: Any, xs: Any, start: Any, n: Any, other: Any) -> Any:
        how = {"carries": 1, "counted": True}
        first, second = s.ops.loop(start, xs, n, body=add, **how), s.ops.loop(start, xs, n, body=multiply, **how)
        return (*first, *second, *s.ops.loop(start, xs, other, body=multiply, **how))

    found = compiled(both, X, np.ones(2), np.array(times), np.array(3))
    assert sorted(len(each.avals) for each in found) == [2, 4]


# --- what is not -------------------------------------------------------------------------------------------


def one_waits(s: Any, xs: Any, ys: Any) -> Any:
    total = sums(s, xs)[0]
    return total, s.scan(lambda p, x: (p * x + total, None), s.asarray(np.ones(2)), ys)[0]


def one_waits_for_rows(s: Any, xs: Any, ys: Any) -> Any:
    rows = sums(s, xs)[1]
    return products(s, rows * rows[0, ...])[0], products(s, ys)[0][0, ...]


def one_waits_by_way_of_a_third(s: Any, xs: Any, ys: Any) -> Any:
    rows = sums(s, xs)[1]
    third = sums(s, rows, reverse=True)[1]
    return (s.scan(lambda p, x: (p * x[0] + x[1], p), s.asarray(np.ones(2)), (rows, third))[0],)


def both_directions(s: Any, xs: Any, ys: Any) -> Any:
    return sums(s, xs)[0], sums(s, xs, reverse=True)[0]


def rows_the_other_way(s: Any, xs: Any, ys: Any) -> Any:
    return (products(s, sums(s, xs)[1], reverse=True)[0],)


def of_other_lengths(s: Any, xs: Any, ys: Any) -> Any:
    return sums(s, xs)[0], sums(s, ys[:5, ...])[0]


def with_a_condition(s: Any, xs: Any, ys: Any) -> Any:
    def until(limit: float) -> Any:
        return s.while_loop(lambda c: c.sum() < limit, lambda c: (None, c + 1.0), xs[0, ...], 9)[1]

    return until(5.0), until(7.0)


APART = (
    one_waits, one_waits_for_rows, one_waits_by_way_of_a_third, both_directions, rows_the_other_way, of_other_lengths,
    with_a_condition,
)  # fmt: skip


@pytest.mark.parametrize("f", APART, ids=lambda f: f.__name__)
def test_loops_that_differ_or_wait_stay(f: Any) -> None:
    assert len(compiled(f, X, Y)) == (3 if f is one_waits_by_way_of_a_third else 2)


def test_a_loop_that_waits_for_one_of_two_is_fused_with_the_other() -> None:
    assert len(compiled(lambda s, xs, ys: (*one_waits(s, xs, ys), products(s, ys)[0]), X, Y)) == 2


def test_effects_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    def said(word: str, c: Any, x: Any) -> Any:
        LAZY.ops.print(x, text=word)
        return c + x

    def f(xs: Any) -> Any:
        return [LAZY.fold(lambda c, x, w=w: said(w, c, x), LAZY.asarray(np.zeros(2)), xs) for w in ("one", "two")]

    first, second = LAZY.jit(f)(LAZY.asarray(X[:3]))
    np.testing.assert_allclose(np.asarray(first), np.asarray(second))
    lines = [line.split()[0].rstrip(":") for line in capsys.readouterr().out.splitlines() if line[:1] in "ot"]
    assert lines == ["one"] * 3 + ["two"] * 3


def test_memory_does_not_grow() -> None:
    """Rows that are dead before the next loop's are made are not made at once with these."""

    def apart(s: Any, xs: Any, ys: Any) -> Any:
        return tuple(sums(s, s.ops.cumulative_sum(each, axis=0))[0] for each in (xs, ys))

    long = [np.tile(each, (2000, 1)) / 1e3 for each in (X, Y)]
    assert len(compiled(apart, *long)) == 2
    assert len(compiled(apart, X, Y)) == 1


def test_constants_stay_in_the_cache() -> None:
    """Two loops whose constants fit into the cache one by one, and not together, stay two."""

    def networks(s: Any, xs: Any, v: Any, w: Any) -> Any:
        return tuple(s.fold(lambda h, x, u=u: s.ops.tanh(h @ u) + x, xs[0, ...], xs) for u in (v, w))

    arrays = [np.ones((50, 1, 64)), np.eye(64), np.eye(64) * 2]
    for cache, count in ((1 << 15, 2), (1 << 17, 1)):
        machine = Machine(caches=(1 << 14, cache + (1 << 13)))
        assert len(compiled(networks, *arrays, stack=nnc.lazy(NumPy(machine=machine)))) == count


# --- derivatives, batches ----------------------------------------------------------------------------------


def siblings(s: Any, how: dict[str, Any]) -> Callable[[Any, Any], Any]:
    def f(xs: Any, ys: Any) -> Any:
        a, rows = s.scan(lambda c, x: (s.ops.sin(c + x), c * x), s.asarray(np.zeros(2)), xs, **how)
        b, more = s.scan(lambda c, x: (c * 0.5 + x * x, s.ops.tanh(c)), s.asarray(np.ones(2)), ys, **how)
        c = s.fold(lambda c, x: c + x * x, s.asarray(np.zeros(2)), rows, reverse=False)
        return (a * b * c).sum() + (rows * more).sum()

    return f


@pytest.mark.parametrize("checkpoint", [None, "full", "sqrt", 2, "budget:1kB"])
def test_gradients_of_fused_loops(checkpoint: Any, memory: Any) -> None:
    how = {} if checkpoint is None else {"checkpoint": checkpoint}
    wanted = EAGER.grad(siblings(EAGER, {}), (0, 1))(EAGER.asarray(X), EAGER.asarray(Y))
    found = LAZY.jit(LAZY.grad(siblings(LAZY, how), (0, 1)))(LAZY.asarray(X), LAZY.asarray(Y))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-10)


def test_second_derivatives_of_fused_loops() -> None:
    def second(s: Any) -> Any:
        f = siblings(s, {})
        return s.grad(lambda xs, ys: (s.grad(f)(xs, ys) ** 2).sum(), (0, 1))

    wanted = second(EAGER)(EAGER.asarray(X), EAGER.asarray(Y))
    for one, other in zip(LAZY.jit(second(LAZY))(LAZY.asarray(X), LAZY.asarray(Y)), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-9)


def test_batches_of_fused_loops() -> None:
    rows = np.stack([X, X * 2, Y])
    found = LAZY.jit(LAZY.vmap(siblings(LAZY, {}), (0, None)))(LAZY.asarray(rows), LAZY.asarray(Y))
    f = siblings(EAGER, {})
    wanted = [np.asarray(f(EAGER.asarray(row), EAGER.asarray(Y))) for row in rows]
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12)
