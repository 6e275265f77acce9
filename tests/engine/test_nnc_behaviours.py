"""Behaviours that NNC's own tests show, each with its numbers (`engine`, `autodiff`).

The numbers are those of its scalar tests: symbols, binding, aliases, autodiff without a tape, simplification.
"""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.allocators import BestFit
from nnc_func.engine.allocators.base import Problem, arena_size
from nnc_func.engine.plan_rows import ARENA
from nnc_func.errors import ShapeError

LAZY, EAGER = nnc.lazy(), nnc.eager()
both = pytest.mark.parametrize("stack", [LAZY, EAGER], ids=["lazy", "eager"])
TOLERANCE = 1e-5


def close(found: Any, wanted: Any, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance)


def scalar(value: float) -> Any:
    return np.array([value], "float32")


# --- symbols, allocation, binding ---------------------------------------------------------------------------


def test_softmax_is_computed_over_the_convolution_and_unused_symbols_have_no_memory() -> None:
    o = LAZY.ops
    a, w = LAZY.input("a", (1, 8, 8, 2)), LAZY.input("w", (3, 3, 2, 4))
    unused = o.exp(a)
    b = o.conv2d(a, w)
    m = o.softmax(b)
    program = LAZY.compile([a, w], o.max(m))
    plan = program.plan
    where = {i.op.name: plan.slots[i.results[0]].buffer for i in plan.instructions if not i.view}
    assert where["conv2d"] == where["softmax"]
    assert where["conv2d"] != plan.slots[plan.inputs[0]].buffer
    assert "exp" not in where
    assert unused.value.node not in program.blocks


def test_bound_tensors_take_no_memory_of_the_arena() -> None:
    """e = (a @ b) * d: a, d and e are bound, so the arena has b and c, to the byte."""
    apart = LAZY.swap(optimiser=type(LAZY.optimiser)(LAZY.operator, ()))  # with rules there is no arena
    a, given, d = apart.input("a", (1, 2)), apart.input("given", (2, 1)), apart.input("d", (1, 1))
    b = apart.ops.negative(given)
    program = apart.compile([a, given, d], (a @ b) * d)
    assert sum(p.nbytes for p in program.plan.planned) == a.aval.nbytes + d.aval.nbytes
    e = np.empty((1, 1), "float32")
    found = program(np.float32([[1.1, 11003]]), np.float32([[1], [0.12]]), np.float32([[0.5]]), out=e)
    assert found is e
    assert abs(e.item() + (11003 * 0.12 + 1.1) * 0.5) < 1e-2


@both
def test_a_result_may_be_bound_through_an_alias(stack: Any) -> None:
    """Bound when it is compiled (a variable's next value), and late (`out=`): both have ln 2.34."""
    a = stack.input("a", (1,))
    b = stack.ops.log(a)
    window = stack.alias(b, (0,), (1,))
    late, early = np.zeros(1, "float32"), stack.variable("early", scalar(0))
    stack.compile([a], window)(scalar(2.34), out=late)
    stack.compile([a], [], {early: window})(scalar(2.34))
    close(late, math.log(2.34))
    close(early.numpy(), math.log(2.34))


@both
def test_binding_and_rebinding_moves_every_alias(stack: Any) -> None:
    x, w = stack.input("x", (2, 3)), stack.variable("w", np.arange(6, dtype="float32").reshape(2, 3))
    views = [stack.alias(stack.alias(t, (0, 1), (2, 2)), (1, 0), (1, 2)) for t in (x, w)]
    program = stack.compile([x], [views[0] * 1, views[1] * 1, views[0] + views[1]])
    for seed in range(3):
        one, two = (np.random.default_rng([seed, i]).normal(size=(2, 3)).astype("float32") for i in range(2))
        w.value.assign(two)
        outs = [np.empty((1, 2), "float32") for _ in range(3)]
        for out in (None, outs):
            found = program(one, out=out)
            close(found[0], one[1:2, 1:3])
            close(found[1], two[1:2, 1:3])
            close(found[2], (one + two)[1:2, 1:3])


@both
def test_a_shape_that_is_learned_after_the_graph_is_built(stack: Any) -> None:
    a = stack.input("a", (None,))
    close(stack.compile([a], stack.ops.log(a))(scalar(1.25)), math.log(1.25))


def test_three_intervals_of_which_upstream_wastes_one() -> None:
    problem = Problem([128, 192, 128], [0, 2, 0], [1, 3, 2], 64)
    assert arena_size(problem, BestFit()(problem)) == 256


# --- autodiff and aliases -----------------------------------------------------------------------------------


@both
def test_derivatives_of_scalars(stack: Any) -> None:
    o, grad = stack.ops, stack.grad

    def f(x: Any) -> Any:
        return x * x + o.log(1 / x)

    close(grad(f)(np.float64(0.84)).numpy(), 2 * 0.84 - 1 / 0.84)
    close(grad(lambda x: stack.asarray(1.0))(np.float64(0.84)).numpy(), 0)

    def product(x: Any, y: Any) -> Any:
        return (x - y) * (y + 1)

    value, (dx, dy) = stack.value_and_grad(product, argnums=(0, 1))(np.float64(43.24), np.float64(0.38))
    close(value.numpy(), 42.86 * 1.38)
    close(dx.numpy(), 1.38)
    close(dy.numpy(), -2 * 0.38 + 43.24 - 1)
    close(grad(lambda y, x: y * x + o.log(1 / x))(np.float64(1.23), np.float64(0.84)).numpy(), 0.84)
    dx, dy = grad(lambda x, y: f(x) + f(y), argnums=(0, 1))(np.float64(0.84), np.float64(0.24))
    close([dx.numpy(), dy.numpy()], [2 * 0.84 - 1 / 0.84, 2 * 0.24 - 1 / 0.24])


def test_nothing_is_computed_for_a_gradient_that_nobody_wants() -> None:
    o = LAZY.ops
    x, y = LAZY.input("x", ()), LAZY.input("y", ())
    program = LAZY.compile([y, x], LAZY.grad(lambda y, x: y * x + o.log(1 / x))(y, x))
    assert [i.op.name for i in program.plan.instructions] == ["copy"]
    close(program(np.float32(1.23), np.float32(0.84)), 0.84)


@both
def test_gradient_through_two_aliases(stack: Any) -> None:
    """y = x + [1, 1.5]; f = x_1 + (y_1 + y_1²) + e^{y_2}."""
    o = stack.ops

    def f(x: Any) -> Any:
        y = x + np.array([1, 1.5])
        first, second = stack.alias(y, (0,), (1,)), stack.alias(y, (1,), (1,))
        return o.sum(stack.alias(x, (0,), (1,)) + (first + first * first) + o.exp(second))

    close(stack.grad(f)(np.array([0.44, -1.18])).numpy(), [1 + 1 + 2 * 1.44, math.exp(0.32)])


@both
def test_the_gradient_of_what_is_not_used_is_zero(stack: Any) -> None:
    """Upstream leaves dx_2 undefined."""
    o = stack.ops

    def f(x: Any) -> Any:
        first = stack.alias(x, (0,), (1,))
        return o.sum(o.log(first) * o.log(first) + o.log(first))

    dx = stack.grad(f)(np.array([0.21, -3.0])).numpy()
    close(dx[0], 2 * math.log(0.21) / 0.21 + 1 / 0.21)
    assert dx[1] == 0


SHAPE = (100, 100, 128)


def sliced_gradient(*offsets: tuple[int, int, int]) -> Any:
    """The program of the gradient of b, of which 50×100×64 slices are used; checked against NumPy."""
    o = LAZY.ops

    def f(b: Any) -> Any:
        return sum(o.sum(o.sin(LAZY.alias(b, at, (50, 100, 64)))) for at in offsets)

    b = LAZY.input("b", SHAPE)
    program = LAZY.compile([b], LAZY.grad(f)(b))
    program.plan.verify()
    given, wanted = np.random.default_rng(0).normal(size=SHAPE).astype("float32"), np.zeros(SHAPE, "float32")
    for i, j, k in offsets:
        wanted[i : i + 50, j : j + 100, k : k + 64] += np.cos(given[i : i + 50, j : j + 100, k : k + 64])
    np.testing.assert_allclose(program(given), wanted, rtol=1e-5, atol=1e-6)
    return program


def ran(program: Any) -> list[str]:
    return [i.op.name for i in program.plan.instructions if not i.view]


def test_gradients_of_slices_that_cover_need_no_zeros() -> None:
    found = ran(sliced_gradient((0, 0, 0), (0, 0, 64), (50, 0, 0), (50, 0, 64)))
    assert sorted(found) == ["cos"] * 4  # each computed where it lies: neither zeros, nor sums, nor copies


def test_gradients_of_some_slices_are_zero_elsewhere() -> None:
    program = sliced_gradient((0, 0, 0), (0, 0, 64))
    assert sorted(ran(program)) == ["cos", "cos", "fill"]
    (fill,) = [i for i in program.plan.instructions if i.op.name == "fill"]
    assert program.plan.slots[fill.results[0]].aval.shape == (50, 100, 128)


def test_gradients_of_slices_that_overlap_are_added() -> None:
    found = ran(sliced_gradient((0, 0, 0), (0, 0, 32)))
    assert {"add", "blockwise"} & set(found)


# --- simplification -----------------------------------------------------------------------------------------


def test_one_sum_is_left_of_a_square_of_sums() -> None:
    x, y = LAZY.input("x", (1,)), LAZY.input("y", (1,))
    program = LAZY.compile([x, y], (x + y) * (x + y))
    close(program(scalar(10), scalar(8)), 324)
    sums = [n for n in program.graph.nodes if n.op.name == "add"]
    assert len(sums) <= 1  # none where it is fused with the square


@both
def test_softmax_and_cross_entropy_are_the_fused_loss(stack: Any) -> None:
    o = stack.ops
    logits, labels = np.array([[10.0, -1, -5], [12, 4, 24]]), np.eye(3)[[2, 1]]

    def apart(x: Any) -> Any:
        return o.negative(o.sum(o.sum(labels * o.log(o.softmax(x)), axis=-1)))

    def fused(x: Any) -> Any:
        return o.sum(o.softmax_cross_entropy(x, labels))

    (one, d_one), (two, d_two) = (stack.value_and_grad(f)(logits) for f in (apart, fused))
    close(one.numpy(), two.numpy())
    np.testing.assert_allclose(d_one.numpy(), d_two.numpy(), rtol=1e-5, atol=1e-7)


# --- without a tape -----------------------------------------------------------------------------------------


@both
def test_all_gradients_of_one_trace_and_their_accumulation(stack: Any) -> None:
    """f = x·y + z with y = ln x, z = 1.2·x at 19; dy and dz are those of what is added to them."""
    o = stack.ops

    def f(x: Any, y: Any, z: Any) -> Any:
        return x * y + z

    x = np.float64(19)
    zero = np.float64(0)
    all_three = stack.grad(lambda x, y, z: f(x, o.log(x) + y, 1.2 * x + z), argnums=(0, 1, 2))
    for _ in range(2):
        close([d.numpy() for d in all_three(x, zero, zero)], [math.log(19) + 2.2, 19, 1])
    whole = stack.grad(lambda x: f(x, o.log(x), 1.2 * x))
    dx = whole(x)
    close(dx.numpy(), math.log(19) + 2.2)
    dx = dx + whole(np.float64(10))
    close(dx.numpy(), math.log(19) + 2.2 + math.log(10) + 2.2)
    x = np.float64(10)
    close((x + stack.grad(lambda x: x * o.log(x) + x)(x)).numpy(), 10 + math.log(10) + 2)


@both
def test_nothing_of_a_trace_is_alive_once_the_gradient_is_there(stack: Any) -> None:
    """x(32) · y(.9) four times: what was between is freed with the trace."""
    made: list[Any] = []

    def f(x: Any) -> Any:
        for _ in range(4):
            x = x * 0.9
            made.append(weakref.ref(x))
        return x

    dx = stack.grad(f)(np.float64(32))
    close(dx.numpy(), 0.9**4)
    gc.collect()
    assert [r() for r in made] == [None] * 4


def test_nothing_is_alive_between_a_thousand_steps_of_which_five_are_accumulated() -> None:
    """After each update there are as many nodes as after the first ones."""

    class Own(nnc.NumPy):
        """A device of this test's own, so that no other test's nodes are counted."""

    stack = nnc.lazy(Own())
    table = stack.symbol.table
    w, total, counts = stack.asarray(np.full(3, 2.0)), None, []
    gradient = stack.grad(lambda w, x: stack.ops.sum(stack.ops.tanh(w * x)))
    for i in range(1, 1001):
        found = gradient(w, np.float64(i % 5))
        total = found if total is None else total + found
        if i % 5 == 0:
            w, total, found = stack.asarray((w - 0.01 * total).numpy()), None, None
        if i in (100, 500, 1000):
            gc.collect()
            counts.append(len(table))
            counts.append(sum(type(o).__name__ == "Node" and o.table is table for o in gc.get_objects()))
    assert counts[:2] == counts[2:4] == counts[4:]


@both
def test_a_tensor_is_written_part_by_part(stack: Any) -> None:
    """y[0] = 10·z, y[1] = 2·z; f = y at z = 20; the parts are dropped before the whole is used."""
    z = stack.asarray(np.array([20.0]))
    y = stack.fresh((2,), "float64")
    y.write(10 * z, offsets=(0,))
    y.write(2 * z, offsets=(1,))
    value = y.value
    del y, z
    assert value.numpy().tolist() == [200, 40]


@both
def test_what_is_not_written_is_filled_and_what_is_written_twice_is_refused(stack: Any) -> None:
    y = stack.fresh((2, 3), "float64")
    assert y.value.numpy().tolist() == [[0, 0, 0]] * 2
    y.write(np.ones((1, 2)), offsets=(0, 0), strides=(1, 2))
    assert y.read((0, 0), (2, 2)).numpy().tolist() == [[1, 0], [0, 0]]
    with pytest.raises(ShapeError, match=r"element \[0, 2\] .* written twice.*test_nnc_behaviours.py:\d+ in .*py:\d+"):
        y.write(np.ones((2, 1)), offsets=(0, 2))
    y.write(np.full((2, 1), 5.0), offsets=(0, 1))
    assert y.value.numpy().tolist() == [[1, 5, 1], [0, 5, 0]]


def test_what_is_written_part_by_part_is_computed_there() -> None:
    o = LAZY.ops
    z = LAZY.input("z", (4, 5))
    y = LAZY.fresh((4, 10))
    y.write(o.sin(z), offsets=(0, 0), strides=(1, 2))
    y.write(o.cos(z), offsets=(0, 1), strides=(1, 2))
    program = LAZY.compile([z], o.sum(y.value))
    assert sorted(ran(program)) == ["cos", "sin", "sum"]
    assert [b.kind for b in program.plan.buffers].count(ARENA) == 1


@pytest.mark.parametrize("bad", [(0.5, 0), np.array([0, 0]), "00", None])
def test_offsets_are_whole_numbers(stack: Any, bad: Any) -> None:
    x = stack.asarray(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="offsets of an alias are whole numbers, a tuple"):
        stack.alias(x, bad, (1, 1))
    with pytest.raises(ShapeError, match="offsets of a part are whole numbers, a tuple"):
        stack.fresh((2, 3)).write(np.ones((1, 1)), bad)
    with pytest.raises(ShapeError, match="extents of a fresh tensor are whole numbers, a tuple"):
        stack.fresh(bad)
