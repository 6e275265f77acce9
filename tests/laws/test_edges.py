"""Derivatives at kinks and corners, activations of what is huge (`facets/derivatives`, `graph/composites`)."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import DTypeError, OperatorError, RunError, ShapeError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
EAGER = STACKS["eager"]
stacks = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def slope(stack: Any, f: Any, *at: float, order: int = 1, argnum: int = 0) -> float:
    """The derivative of that order, of a function of numbers."""
    for _ in range(order):
        f = stack.grad(f, argnum)
    return float(f(*(stack.asarray(np.float64(x)) for x in at)).numpy())


# --- derivatives at kinks and corners ---------------------------------------------------------------------


@stacks
@pytest.mark.parametrize(("name", "base"), [("log2", 2.0), ("log10", 10.0), ("log", math.e)])
def test_logarithms_have_one_over_x_times_the_logarithm_of_their_base(stack: Any, name: str, base: float) -> None:
    for x in (0.01, 0.7, 1.0, 300.0):
        assert slope(stack, getattr(stack.ops, name), x) == pytest.approx(1 / (x * math.log(base)), rel=1e-14)


@stacks
def test_atan2_under_broadcasting(stack: Any) -> None:
    a, b = np.array([[1.0], [2.0]]), np.array([0.5, -1.5, 2.0])
    by_a, by_b = stack.grad(lambda a, b: stack.ops.sum(stack.ops.atan2(a, b)), (0, 1))(a, b)
    square = a**2 + b**2
    np.testing.assert_allclose(by_a.numpy(), (b / square).sum(1, keepdims=True), rtol=1e-13)
    np.testing.assert_allclose(by_b.numpy(), (-a / square).sum(0), rtol=1e-13)


@stacks
def test_kinks_are_as_documented(stack: Any) -> None:
    ops = stack.ops
    for name, wanted in {
        "relu": 0.0, "abs": 0.0, "sign": 0.0, "leaky_relu": 0.01, "elu": 1.0, "celu": 1.0, "relu6": 1.0,
        "square_relu": 0.0,
        "gelu": 0.5, "silu": 0.5, "softsign": 1.0,
    }.items():  # fmt: skip
        assert slope(stack, getattr(ops, name), 0.0) == pytest.approx(wanted), name


@stacks
def test_ties_share_the_derivative(stack: Any) -> None:
    ops = stack.ops
    for name in ("maximum", "minimum", "fmax", "fmin"):
        for argnum in (0, 1):
            assert slope(stack, getattr(ops, name), 2.0, 2.0, argnum=argnum) == 0.5
    x = stack.asarray(np.array([3.0, 1.0, 3.0, 3.0]))
    np.testing.assert_allclose(stack.grad(ops.max)(x).numpy(), [1 / 3, 0, 1 / 3, 1 / 3])


@stacks
def test_roots_at_zero_behind_where(stack: Any) -> None:
    """What is not chosen has no say, in the derivative either: no zero times infinity."""
    ops = stack.ops
    for name in ("sqrt", "log", "reciprocal", "cbrt", "log2", "acosh"):
        f = getattr(ops, name)
        assert slope(stack, lambda x, f=f: ops.where(ops.greater(x, 1), f(x), 3 * x), 0.0) == 3.0, name
    assert slope(stack, ops.sqrt, 0.0) == math.inf


@stacks
def test_powers_at_zero_and_of_negative_numbers(stack: Any) -> None:
    ops = stack.ops
    power = ops.power
    assert slope(stack, power, 0.0, 0.0) == 0.0  # x**0 is one everywhere
    assert slope(stack, power, 0.0, 1.0) == 1.0
    assert slope(stack, power, 0.0, 2.0) == 0.0
    assert slope(stack, power, 0.0, 2.0, order=2) == 2.0
    assert slope(stack, power, -2.0, 3.0) == 12.0
    assert slope(stack, power, -2.0, 3.0, order=2) == -12.0
    assert slope(stack, power, -2.0, 3.0, argnum=1) == 0.0
    assert slope(stack, power, 0.0, 2.0, argnum=1) == 0.0
    assert slope(stack, lambda x: x**2, -3.0) == -6.0
    assert slope(stack, lambda x: 2.0**x, 3.0) == pytest.approx(8 * math.log(2))


@stacks
def test_lengths_at_the_origin(stack: Any) -> None:
    ops = stack.ops
    for argnum in (0, 1):
        assert slope(stack, ops.hypot, 0.0, 0.0, argnum=argnum) == 0.0
    x = stack.asarray(np.zeros(3))
    assert np.array_equal(stack.grad(lambda x: ops.l2_loss(x, ops.zeros_like(x)))(x).numpy(), np.zeros(3))


@stacks
def test_smooth_functions_have_all_derivatives_at_zero(stack: Any) -> None:
    ops = stack.ops
    assert slope(stack, ops.sinc, 0.0, order=2) == pytest.approx(-(math.pi**2) / 3)
    assert slope(stack, lambda x: ops.logaddexp(x, 0.0), 0.0, order=2) == pytest.approx(0.25)
    assert slope(stack, ops.logaddexp, -math.inf, -math.inf) == 0.5
    assert slope(stack, ops.xlogy, 0.0, 2.0) == pytest.approx(math.log(2))
    assert slope(stack, ops.xlogy, 0.0, 0.0) == 0.0


# --- activations ------------------------------------------------------------------------------------------

ACTIVATIONS = ("sigmoid", "relu", "softplus", "gelu", "silu", "mish", "log_sigmoid", "softsign", "elu", "selu", "celu",
               "leaky_relu", "relu6", "hard_sigmoid", "hard_swish", "hard_tanh", "square_relu", "tanh")  # fmt: skip


@stacks
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_arguments_give_no_nan(stack: Any, name: str, dtype: str) -> None:
    """Values, first and second derivatives; a value may overflow only where it is no smaller than its argument."""
    ops, activation = stack.ops, getattr(stack.ops, name)
    x = stack.asarray(np.array([-3e38, -1e20, -1e4, -100, 100, 1e4, 1e20, 3e38], dtype))
    first = stack.grad(lambda x: ops.sum(activation(x)))
    second = stack.grad(lambda x: ops.sum(first(x)))
    for found in (activation(x), first(x), second(x)):
        values = found.numpy()
        assert values.dtype == dtype
        assert not np.isnan(values).any(), (name, values)
        assert name == "square_relu" or np.isfinite(values).all(), (name, values)


@given(st.floats(-30, 30))
def test_activations_are_their_formulas(x: float) -> None:
    def value(name: str, *args: Any, **params: Any) -> float:
        return float(getattr(EAGER.ops, name)(EAGER.asarray(np.float64(x)), *args, **params).numpy())

    sigmoid, softplus = 1 / (1 + math.exp(-x)), math.log1p(math.exp(-abs(x))) + max(x, 0)
    cube = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    for found, wanted in (
        (value("gelu"), x * math.erfc(-x / math.sqrt(2)) / 2),
        (value("gelu", approximate=True), x * (1 + math.tanh(cube)) / 2),
        (value("silu"), x * sigmoid),
        (value("mish"), x * math.tanh(softplus)),
        (value("log_sigmoid"), -(math.log1p(math.exp(-abs(x))) + max(-x, 0))),
        (value("softsign"), x / (1 + abs(x))),
        (value("elu", alpha=0.7), x if x > 0 else 0.7 * math.expm1(x)),
        (value("celu", alpha=0.7), x if x > 0 else 0.7 * math.expm1(x / 0.7)),
        (value("leaky_relu", slope=0.2), x if x > 0 else 0.2 * x),
        (value("prelu", 0.3), x if x > 0 else 0.3 * x),
        (value("relu6"), min(max(x, 0), 6)),
        (value("hard_sigmoid"), min(max(x / 6 + 0.5, 0), 1)),
        (value("hard_swish"), x * min(max(x / 6 + 0.5, 0), 1)),
        (value("hard_tanh"), min(max(x, -1), 1)),
        (value("square_relu"), max(x, 0) ** 2),
    ):
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-14)


# --- losses -----------------------------------------------------------------------------------------------


@stacks
def test_losses_are_their_formulas(stack: Any) -> None:
    ops, random = stack.ops, np.random.default_rng(0)
    a, b = random.normal(size=(4, 3)), random.normal(size=(4, 3))
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (a, b))
    side, t = np.sign(b), random.uniform(size=(4, 3))
    size = np.abs(a - b)
    for found, wanted in (
        (ops.l1_loss(a, b, reduction="none"), size),
        (ops.quadratic_loss(a, b, reduction="none"), size**2),
        (ops.l2_loss(a, b, reduction="none"), np.sqrt((size**2).sum(-1))),
        (ops.smooth_l1_loss(a, b, beta=0.5, reduction="none"), np.where(size < 0.5, size**2, size - 0.25)),
        (ops.hinge_loss(a, side, reduction="none"), np.maximum(0, 1 - a * side)),
        (ops.squared_hinge_loss(a, side, reduction="none"), np.maximum(0, 1 - a * side) ** 2),
        (ops.binary_cross_entropy(p, t, reduction="none"), -(t * np.log(p) + (1 - t) * np.log(1 - p))),
        (ops.kl_divergence(p, q, reduction="none"), (q * np.log(q / p)).sum(-1)),
        (ops.categorical_cross_entropy(p, q, reduction="none"), -(q * np.log(p)).sum(-1)),
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    whole = ops.quadratic_loss(a, b).numpy(), ops.quadratic_loss(a, b, reduction="sum").numpy()
    np.testing.assert_allclose(whole, [(size**2).mean(), (size**2).sum()])


@stacks
def test_cross_entropies_from_logits_and_from_probabilities_agree(stack: Any) -> None:
    """NNC's case: the fused loss and softmax with the loss of probabilities, values and gradients, smoothed or not."""
    ops = stack.ops
    logits = stack.asarray(np.array([[10.0, -1.0, -5.0], [12.0, 4.0, 24.0]]))
    labels = stack.asarray(np.array([2, 1]))
    for smoothing in (0.0, 0.1):
        fused = lambda x, s=smoothing: ops.softmax_cross_entropy_loss(x, labels, label_smoothing=s)  # noqa: E731
        parts = lambda x, s=smoothing: ops.categorical_cross_entropy(ops.softmax(x), labels, label_smoothing=s)  # noqa: E731
        np.testing.assert_allclose(fused(logits).numpy(), parts(logits).numpy(), rtol=1e-12)
        np.testing.assert_allclose(stack.grad(fused)(logits).numpy(), stack.grad(parts)(logits).numpy(), atol=1e-12)
    one = ops.softmax_cross_entropy_loss(logits, ops.one_hot(labels, depth=3, dtype="float64"), label_smoothing=0.1)
    np.testing.assert_allclose(one.numpy(), nn.softmax_cross_entropy(logits, labels, 0.1).numpy())
    x, t = np.array([-2.0, 0.0, 3.0]), np.array([0.0, 0.3, 1.0])
    both = ops.sigmoid_binary_cross_entropy(x, t).numpy(), ops.binary_cross_entropy(1 / (1 + np.exp(-x)), t).numpy()
    np.testing.assert_allclose(*both, rtol=1e-12)


@stacks
def test_class_numbers_along_another_axis(stack: Any) -> None:
    ops = stack.ops
    logits, labels = np.random.default_rng(1).normal(size=(2, 3, 4)), np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
    found = ops.softmax_cross_entropy_loss(logits, labels, axis=1, reduction="none").numpy()
    moved = ops.softmax_cross_entropy_loss(np.moveaxis(logits, 1, -1), labels, reduction="none").numpy()
    np.testing.assert_allclose(found, moved, rtol=1e-14)


@stacks
def test_certain_predictions_have_finite_losses_and_gradients(stack: Any) -> None:
    ops = stack.ops
    p, t = stack.asarray(np.array([0.0, 1.0])), stack.asarray(np.array([0.0, 1.0]))
    assert ops.binary_cross_entropy(p, t).numpy() == 0
    assert np.isfinite(stack.grad(lambda p: ops.binary_cross_entropy(p, t))(p).numpy()).all()
    x = stack.asarray(np.array([-1e4, 1e4]))
    assert np.isfinite(stack.grad(lambda x: ops.sigmoid_binary_cross_entropy(x, 1 - t))(x).numpy()).all()


def test_losses_refuse_in_words() -> None:
    ops, x = EAGER.ops, EAGER.asarray(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"l1_loss.*one shape"):
        ops.l1_loss(x, EAGER.asarray(np.ones(3)))
    with pytest.raises(OperatorError, match="reduction='average'"):
        ops.l1_loss(x, x, reduction="average")
    with pytest.raises(ShapeError, match="class numbers"):
        ops.categorical_cross_entropy(x, EAGER.asarray(np.array([1, 2, 0])))
    with pytest.raises(OperatorError, match="label_smoothing"):
        ops.softmax_cross_entropy_loss(x, x, label_smoothing=1.5)
    with pytest.raises(OperatorError, match="beta"):
        ops.smooth_l1_loss(x, x, beta=0.0)
    with pytest.raises(DTypeError, match="orders from zero on"):
        ops.polygamma(x, order=-1)


@stacks
@pytest.mark.parametrize("wrong", [3, -1, 100])
def test_a_number_of_no_class_raises_when_it_is_met(stack: Any, wrong: int) -> None:
    ops, logits = stack.ops, stack.asarray(np.full((2, 3), 1 / 3))
    for loss in (ops.softmax_cross_entropy_loss, ops.categorical_cross_entropy):
        with pytest.raises(RunError, match=f"number {wrong} is none of 3 classes, 0 to 2"):
            loss(logits, stack.asarray([0, wrong])).numpy()
        labels = stack.input("labels", (2,), "int64")
        program = stack.compile([labels], loss(logits, labels))
        assert np.isclose(program(np.array([0, 2])), np.log(3))
        with pytest.raises(RunError, match=f"number {wrong} is none of 3 classes"):
            program(np.array([wrong, 1]))
    with pytest.raises(RunError, match="index 4 is outside of an axis of extent 3"):
        ops.embedding(stack.asarray([4]), logits.T).numpy()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize("order", [0, 1, 2, 3, np.inf])
def test_norms_of_no_elements_are_those_of_numpy(shape: tuple[int, ...], order: float) -> None:
    x = np.zeros(shape)
    for stack in STACKS.values():
        given = stack.asarray(x)
        for axis in range(-1, len(shape)):
            wanted = np.linalg.norm(x, order, axis=axis)
            np.testing.assert_array_equal(stack.ops.vector_norm(given, ord=order, axis=axis).numpy(), wanted)
        if len(shape) > 1 and order in (1, 2, np.inf):
            wanted = np.linalg.norm(x, order, axis=(-2, -1))
            np.testing.assert_array_equal(stack.ops.matrix_norm(given, ord=order).numpy(), wanted)


def test_the_smallest_of_no_elements_is_refused() -> None:
    with pytest.raises(ShapeError, match="of no elements none is"):
        EAGER.ops.vector_norm(EAGER.asarray(np.zeros(0)), ord=-np.inf)


@pytest.mark.parametrize("name", ["care", "dare"])
def test_a_system_without_inputs_is_refused(name: str) -> None:
    a, b, r = EAGER.asarray(-np.eye(2)), EAGER.asarray(np.zeros((2, 0))), EAGER.asarray(np.zeros((0, 0)))
    with pytest.raises(ShapeError, match=f"{name} wants a system with an input at least"):
        getattr(EAGER.ops, name)(a, b, a, r)


def hurwitz(s: int, x: str) -> Decimal:
    """Its zeta function, by the sum of 4,000 terms and the first corrections of what is left."""
    at, total = Decimal(x), Decimal(0)
    for _ in range(4000):
        total += at**-s
        at += 1
    return total + at ** (1 - s) / (s - 1) + at**-s / 2 + s * at ** -(s + 1) / 12


@pytest.mark.parametrize("order", [1, 7, 30, 80, 150, 160])
def test_polygamma_of_high_orders(order: int) -> None:
    """Powers had left float64 before the factorial was there: numbers from 30 on were -0.0 at order 150."""
    points = ["0.5", "1", "3.75", "31.5", "200", "1000"]
    found = nnc.eager().ops.polygamma(np.array([*map(float, points)]), order=order).numpy()
    with localcontext() as context:
        context.prec = 60
        wanted = [(-1) ** (order + 1) * math.factorial(order) * hurwitz(order + 1, x) for x in points]
        np.testing.assert_allclose(found, [*map(float, wanted)], rtol=2e-15)
