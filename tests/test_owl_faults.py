"""Faults of Owl's graph and derivatives, with the numbers of its report's sections (`graph`, `autodiff`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import GraphError, NncError

LAZY, EAGER = nnc.lazy(), nnc.eager()
OPS = LAZY.ops
X = np.linspace(-1, 2, 12).reshape(3, 4)


def run(f: Any, *arrays: Any, stack: Any = LAZY) -> Any:
    """f compiled and called: optimised, planned, run."""
    arrays = tuple(map(np.asarray, arrays))
    inputs = [stack.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    return stack.compile(inputs, f(*inputs))(*arrays)


# --- section 1: construction and engine --------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_1_set_slice_gives_a_new_value_and_is_not_lost(make: Any) -> None:
    stack = make()
    x = stack.asarray(X)
    y = stack.ops.set_slice(x, 9.0, starts=(0, 1), stops=(2, 3), steps=(1, 1))
    wanted = X.copy()
    wanted[0:2, 1:3] = 9
    np.testing.assert_array_equal(y.numpy(), wanted)
    np.testing.assert_array_equal(x.numpy(), X)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_1_gradients_of_slices_and_items_are_not_zero(make: Any) -> None:
    stack = make()
    rows = stack.asarray([2, 2])
    found = stack.grad(lambda x: stack.ops.sum(stack.ops.square(x[1:, ::2])) + 3 * x[0, 1] + x[rows].sum())(X)
    wanted = np.zeros_like(X)
    wanted[1:, ::2] = 2 * X[1:, ::2]
    wanted[0, 1] += 3
    wanted[2] += 2
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_1_jacobian_and_hessian_are_not_zero(make: Any) -> None:
    stack = make()
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    x = np.array([0.5, -1.0])

    def affine(x: Any) -> Any:
        return (stack.asarray(a) @ x.reshape((2, 1))).reshape((3,))

    np.testing.assert_allclose(stack.jacobian(affine)(x).numpy(), a, rtol=1e-12)
    hessian = stack.hessian(lambda x: stack.ops.sum(stack.ops.square(affine(x))))(x)
    np.testing.assert_allclose(hessian.numpy(), 2 * a.T @ a, rtol=1e-12)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_1_a_second_backward_pass_does_not_accumulate(make: Any) -> None:
    stack = make()
    _, back = stack.vjp(lambda x: x * x, X)
    first, second = back(np.ones_like(X))[0].numpy(), back(np.ones_like(X))[0].numpy()
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0), (1, 1, 0)])
def test_2_requested_intermediates_are_not_clobbered(order: tuple[int, ...]) -> None:
    def f(x: Any) -> Any:
        y = OPS.sin(x)
        both = (y, OPS.cos(y))
        return [both[i] for i in order]

    wanted = (np.sin(X), np.cos(np.sin(X)))
    for one, i in zip(run(f, X), order, strict=True):
        np.testing.assert_array_equal(one, wanted[i])


def test_3_programs_that_share_nodes_do_not_disturb_each_other() -> None:
    x = LAZY.input("x", X.shape, "float64")
    a = OPS.exp(x)
    b = OPS.sin(a)
    first, second = LAZY.compile([x], b), LAZY.compile([x], a + b)
    e = np.exp(X)
    for _ in range(2):
        held = first(X)
        np.testing.assert_array_equal(second(X), e + np.sin(e))
        np.testing.assert_array_equal(held, np.sin(e))


def test_4_an_unassigned_input_is_named() -> None:
    x, y = LAZY.input("x", (2,)), LAZY.input("forgotten", (2,))
    with pytest.raises(GraphError, match=r"depend on the input 'forgotten' \(made at test_owl_faults.py:\d+"):
        LAZY.compile([x], x + y)


def test_5_a_diamond_of_unknown_shape_is_inferred_when_it_is_known() -> None:
    x = LAZY.input("x", (None, 3), "float64")
    program = LAZY.compile([x], OPS.sum(OPS.sin(x) + OPS.cos(x), axis=0))
    for rows in (1, 4, 0):
        a = np.arange(rows * 3.0).reshape(rows, 3)
        np.testing.assert_allclose(program(a), (np.sin(a) + np.cos(a)).sum(axis=0), rtol=1e-12, atol=1e-12)


def test_6_what_is_built_on_a_compiled_graph_follows_its_variable() -> None:
    w = LAZY.variable("w", np.ones(3))
    y = w * 2
    program = LAZY.compile([], y)
    later = y + 1
    program()
    w.value.assign(np.full(3, 4.0))
    np.testing.assert_array_equal(program(), 8.0)
    np.testing.assert_array_equal(LAZY.compile([], later)(), 9.0)
    np.testing.assert_array_equal(later.numpy(), 3.0)  # a value is of what the variable was


def test_7_another_batch_size_needs_no_new_graph() -> None:
    x = LAZY.input("x", ("batch", 4), "float64")
    program = LAZY.compile([x], OPS.mean(x, axis=0))
    for batch in (3, 5, 3):
        a = np.arange(batch * 4.0).reshape(batch, 4)
        np.testing.assert_allclose(program(a), a.mean(axis=0), rtol=1e-12)
    assert len(program.programs) == 2


def test_10_the_gradient_of_a_sum_leaves_recorded_shapes_alone() -> None:
    x = LAZY.input("x", (3, 4), "float64")
    LAZY.grad(lambda t: OPS.sum(OPS.square(OPS.sum(t, axis=1, keepdims=False))))(x)
    assert x.shape == (3, 4)


# --- section 2: what rewriting must not do -----------------------------------------------------------------


def test_002_zeros_that_broadcast_are_not_dropped() -> None:
    zeros = np.zeros((3, 4))
    np.testing.assert_array_equal(run(lambda x: LAZY.asarray(zeros) + x, X[:1]), X[:1] + zeros)
    np.testing.assert_array_equal(run(lambda x: x * LAZY.asarray(np.ones((3, 4))), X[:1]), X[:1] * np.ones((3, 4)))


def test_002_zeros_added_to_themselves() -> None:
    zeros = LAZY.asarray(np.zeros((2, 2)))
    np.testing.assert_array_equal(run(lambda x: (zeros + zeros) + x, np.ones((2, 2))), np.ones((2, 2)))


def test_004_a_product_added_to_itself_and_a_product_that_is_an_output() -> None:
    product, twice, plus = run(lambda x: ((p := x * 3.0), p + p, p + x), X)
    np.testing.assert_array_equal(product, X * 3)
    np.testing.assert_array_equal(twice, X * 6)
    np.testing.assert_allclose(plus, X * 4, rtol=1e-15)


def test_006_transposes_on_both_sides_and_permutations_that_are_none() -> None:
    a, b = X, X[:, :3].copy()
    np.testing.assert_allclose(run(lambda a, b: a.T @ b.T, a, b), a.T @ b.T, rtol=1e-12)
    np.testing.assert_allclose(run(lambda a, b: OPS.permute_dims(a, axes=(0, 1)) @ b.T, a, a), a @ a.T, rtol=1e-12)
    c = np.arange(24.0).reshape(2, 3, 4)
    found = run(lambda c, d: OPS.permute_dims(c, axes=(1, 0, 2)) @ d, c, np.ones((3, 4, 5)))
    np.testing.assert_allclose(found, c.transpose(1, 0, 2) @ np.ones((3, 4, 5)), rtol=1e-12)


@pytest.mark.parametrize("special", [0.0, np.inf, np.nan, -np.inf])
def test_008_and_020_nan_and_infinity_are_kept(special: float) -> None:
    x = np.array([special, 1.0])
    with np.errstate(all="ignore"):
        wanted = (np.zeros(2) / x, np.zeros(2) * x, x - x, x / x)
        found = run(lambda x: (LAZY.asarray(np.zeros(2)) / x, 0.0 * x, x - x, x / x), x)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_010_integer_constants_are_folded_as_integers() -> None:
    big = LAZY.asarray(np.int64(2**60))
    found = run(lambda x: x + (big + 1) - big, np.zeros(2, "int64"))
    np.testing.assert_array_equal(found, np.ones(2, "int64"))
    assert found.dtype == np.int64


def test_017_what_looks_like_adagrad_is_what_it_says() -> None:
    x = np.array([0.0, 1e-3, 4.0])
    for epsilon in (1e-32, 1e-7, 1.0):
        found = run(lambda x, e=epsilon: 0.01 / OPS.sqrt(x + e), x)
        np.testing.assert_allclose(found, 0.01 / np.sqrt(x + epsilon), rtol=1e-12)


def test_018_a_copy_of_a_variable_is_not_the_variable() -> None:
    w = LAZY.variable("w", np.zeros(3))
    program = LAZY.compile([], OPS.stop_gradient(w), [(w, w + 1)])
    first = program()
    program()
    np.testing.assert_array_equal(first, 0.0)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "maximum", "power", "atan2"])
def test_023_repeats_with_no_partner_of_full_shape(op: str) -> None:
    reference = {"atan2": "arctan2"}.get(op, op)
    a, b = np.array([[1.0, 2.0, 3.0]]), np.array([2.0])

    def f(a: Any, b: Any) -> Any:
        wide = OPS.broadcast_to(a, shape=(4, 3))
        bind = getattr(OPS, op)
        return bind(wide, OPS.broadcast_to(b, shape=(4, 3))), bind(wide, wide), bind(wide, b)

    wide = np.broadcast_to(a, (4, 3))
    call = getattr(np, reference)
    wanted = (call(wide, np.full((4, 3), 2.0)), call(wide, wide), call(wide, b))
    for one, other in zip(run(f, a, b), wanted, strict=True):
        assert one.shape == (4, 3)
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", [0, 1, (0, 1), None, ()])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
def test_024_reductions_keep_their_shape(op: str, axis: Any, keepdims: bool) -> None:
    found = run(lambda x: getattr(OPS, op)(x, axis=axis, keepdims=keepdims), X)
    wanted = getattr(np, op)(X, axis=axis, keepdims=keepdims)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_optimising_is_idempotent_and_works_after_evaluation() -> None:
    x = LAZY.asarray(X)
    y = (x * 1.0 + 0.0).T.T * 2.0 / 4.0
    y.numpy()
    z = y + x
    np.testing.assert_allclose(z.numpy(), X * 0.5 + X, rtol=1e-12)
    graph = LAZY.compile([], z).graph
    again, _ = LAZY.graph.optimised(graph)
    assert str(again) == str(graph)


# --- section 5: derivatives --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_derivatives_of_logarithms_by_their_closed_forms(make: Any) -> None:
    stack = make()
    ops = stack.ops
    for base, wanted in ((2.0, 1 / (3 * np.log(2))), (10.0, 1 / (3 * np.log(10)))):
        found = stack.grad(lambda x, b=base: ops.log(x) / ops.log(stack.asarray(b)))(3.0)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(stack.grad(ops.log)(3.0).numpy(), 1 / 3, rtol=1e-15)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
@pytest.mark.parametrize("shapes", [((3, 1), (4,)), ((), (2, 3)), ((1, 3), (2, 1)), ((2, 1, 3), (4, 1))])
def test_cotangents_of_what_broadcast_have_the_arguments_shapes(make: Any, shapes: Any) -> None:
    stack = make()
    a, b = (np.random.default_rng(i).uniform(0.5, 2, s) for i, s in enumerate(shapes))
    for name in ("atan2", "power", "maximum", "subtract", "divide", "remainder"):
        ga, gb = stack.grad(lambda x, y, n=name: stack.ops.sum(getattr(stack.ops, n)(x, y)), (0, 1))(a, b)
        assert (ga.shape, gb.shape) == shapes
    ga, gb = stack.grad(lambda x, y: stack.ops.sum(stack.ops.atan2(x, y)), (0, 1))(a, b)
    whole = b / (a**2 + b**2)
    extra = whole.ndim - a.ndim
    axes = (*range(extra), *(i + extra for i, n in enumerate(a.shape) if n == 1))
    np.testing.assert_allclose(ga.numpy(), whole.sum(axis=axes).reshape(a.shape), rtol=1e-12)


def test_the_forward_tangent_of_a_convolution_is_bilinear() -> None:
    random = np.random.default_rng(0)
    x, k = random.normal(size=(1, 5, 5, 2)), random.normal(size=(3, 3, 2, 3))
    dx, dk = random.normal(size=x.shape), random.normal(size=k.shape)
    _, found = LAZY.jvp(lambda x, k: OPS.conv2d(x, k), (x, k), (dx, dk))
    wanted = (OPS.conv2d(dx, k) + OPS.conv2d(x, dk)).numpy()
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_extremes_are_not_made_of_magnitudes(make: Any) -> None:
    stack = make()
    a, b = np.array([np.inf, 1e308, 1.0, 3.0]), np.array([1.0, -1e308, -np.inf, 3.0])
    np.testing.assert_array_equal(stack.ops.maximum(a, b).numpy(), np.maximum(a, b))
    found = stack.grad(lambda a, b: stack.ops.sum(stack.ops.maximum(a, b)), (0, 1))(a, b)
    np.testing.assert_array_equal(found[0].numpy(), [1, 1, 1, 0.5])
    np.testing.assert_array_equal(found[1].numpy(), [0, 0, 0, 0.5])
    assert stack.grad(stack.ops.relu)(0.0).numpy() == 0


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_past_faults_of_derivatives(make: Any) -> None:
    stack = make()
    ops = stack.ops
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5, -1.0], [2.0, 0.25]])
    _, tangent = stack.jvp(lambda x, y: x - y, (a, b), (a, b))  # the sign of a difference
    np.testing.assert_array_equal(tangent.numpy(), a - b)
    wide = stack.jacobian(lambda x: ops.concat(x, x * 2, ops.sum(x).reshape((1,))))(a[0])  # a map that is not square
    np.testing.assert_array_equal(wide.numpy(), [[1, 0], [0, 1], [2, 0], [0, 2], [1, 1]])
    nested = stack.grad(lambda x: ops.sum(stack.grad(lambda y: ops.sum(ops.square(x @ y)))(b)))(a)  # nested through dot
    np.testing.assert_allclose(nested.numpy(), _nested(a, b), rtol=1e-9)
    # perturbations of different levels are kept apart: d/dx (x d/dy (x + y)) is 1
    assert stack.grad(lambda x: x * stack.grad(lambda y: x + y)(1.0))(1.0).item() == 1.0


def _nested(a: Any, b: Any) -> Any:
    """Of sum(2 Aᵀ A B) by A: 2 (A B 1ᵀ + A (B 1ᵀ)ᵀ)."""
    ones = np.ones_like(b)
    return 2 * (a @ b @ ones.T + a @ ones @ b.T)


# --- section 8 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_f_a_draw_is_shared_by_all_that_use_it_and_is_that_of_its_key(make: Any) -> None:
    stack = make()
    key = stack.input("key", (2,), "uint64")
    draw = stack.ops.random_normal(key, shape=(50,), dtype="float64")
    program = stack.compile([key], [draw, draw - draw, draw + 1.0])
    one, zero, more = program(np.array([1, 2], "uint64"))
    again, _, _ = program(np.array([1, 2], "uint64"))
    other, _, _ = program(np.array([1, 3], "uint64"))
    np.testing.assert_array_equal(zero, 0.0)
    np.testing.assert_array_equal(more, one + 1)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.1


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_e_rank_0_is_rank_0_and_no_elements_are_no_elements(make: Any) -> None:
    stack = make()
    x = stack.input("x", (), "float64")
    empty = stack.input("empty", (0, 3), "float64")
    one, total, same = stack.compile([x, empty], [x * 2, stack.ops.sum(empty, axis=0), empty + 1])(
        np.float64(2), np.zeros((0, 3))
    )
    assert (one.shape, total.shape, same.shape) == ((), (3,), (0, 3))
    assert float(one) == 4.0
    with pytest.raises(NncError, match="of no elements none is largest"):
        stack.ops.max(empty, axis=0)
