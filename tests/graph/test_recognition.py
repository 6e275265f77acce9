"""Functions written out are recognised; norms folded into weights (`graph/rules/recognise`, `graph/rules/weights`).

Scales and batch norms are folded that come after products with constant weights.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.graph.node import topological
from nnc_func.graph.rules import REASSOCIATION, SIGNED_ZERO

LAZY = nnc.lazy()
FAST = LAZY.swap(optimiser=LAZY.optimiser.with_numerics(REASSOCIATION, fast_math=True))
OPS = FAST.ops
RNG = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def names(tensor: Any, on: Any = FAST) -> list[str]:
    (root,) = on.optimiser.optimise([tensor.value]).roots
    return sorted(n.op.name for n in topological([root]) if n.args)


def check_equal(inputs: Any, output: Any) -> None:
    """The program, compared with the eager engine on the graph as it was written."""
    given = [array(*i.shape) for i in inputs]
    eager = nnc.eager().swap(type=FAST.type)
    wanted = FAST.graph.close([i.value for i in inputs], [output.value], (), "wanted").to(eager)
    found, like = FAST.compile(inputs, output)(*given), eager.engine.compile(wanted)(*given)
    np.testing.assert_allclose(found, like[0] if isinstance(like, list) else like, rtol=1e-4, atol=1e-4)


# --- written out -----------------------------------------------------------------------------------------

WRITTEN: dict[str, Any] = {
    "softmax": lambda o, x: (
        o.exp(x - o.max(x, axis=-1, keepdims=True))
        / o.sum(o.exp(x - o.max(x, axis=-1, keepdims=True)), axis=-1, keepdims=True)
    ),
    "log_softmax": lambda o, x: (
        (x - o.max(x, axis=(1,), keepdims=True))
        - o.log(o.sum(o.exp(x - o.max(x, axis=(1,), keepdims=True)), axis=(1,), keepdims=True))
    ),
    "sigmoid": lambda o, x: 1 / (1 + o.exp(-x)),
    "softplus": lambda o, x: o.log(1 + o.exp(x)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_function_that_is_written_out_is_recognised(name: str) -> None:
    x = FAST.input("x", (3, 5))
    y = WRITTEN[name](OPS, x)
    assert names(y) == [name]
    check_equal([x], y)


def test_silu_and_gelu_as_files_write_them() -> None:
    x = FAST.input("x", (3, 5))
    silu, gelu = x / (1 + OPS.exp(-x)), x * 0.5 * (1 + OPS.erf(x * float(np.sqrt(0.5))))
    assert "erfc" in names(gelu)
    for each in (silu, gelu):
        check_equal([x], each)


def test_binary_cross_entropy_of_a_sigmoid_is_computed_from_scores() -> None:
    x, y = FAST.input("x", (3, 5)), FAST.input("y", (3, 5))
    s = OPS.sigmoid(x)
    said = y * OPS.log(s) + (1 - y) * OPS.log(1 - s)
    assert names(said) == ["multiply", "softplus", "subtract"]
    check_equal([x, y], said)


def test_the_gradient_of_cross_entropy_is_one_operator() -> None:
    x, y = FAST.input("x", (3, 5)), FAST.input("y", (3, 5))
    found = FAST.grad(lambda x: OPS.softmax_cross_entropy(x, y).sum())(x)
    assert "softmax_cross_entropy_gradient" in names(found)
    check_equal([x, y], found)


# --- folded into weights ---------------------------------------------------------------------------------

PRODUCTS: dict[str, Any] = {
    "NHWC": ((1, 6, 6, 4), -1, lambda x: OPS.conv2d(x, FAST.asarray(array(3, 3, 4, 5)))),
    "NCHW": ((1, 4, 6, 6), 1, lambda x: OPS.conv2d(x, FAST.asarray(array(3, 3, 4, 5)), data_format="NCHW")),
    "groups": ((1, 6, 6, 10), -1, lambda x: OPS.conv2d(x, FAST.asarray(array(3, 3, 2, 5)), groups=5)),
    "transposed": (
        (1, 6, 6, 4), -1,
        lambda x: OPS.conv2d_input_gradient(x, FAST.asarray(array(3, 3, 5, 4)), input_shape=(1, 8, 8, 5)),
    ),
    "matmul": ((3, 4), -1, lambda x: x @ FAST.asarray(array(4, 5))),
    "matmul transposed": ((3, 4), -1, lambda x: OPS.matmul(x, FAST.asarray(array(5, 4)), transpose_b=True)),
}  # fmt: skip


def scales(tensor: Any, on: Any) -> bool:
    """Whether a program multiplies elements by a factor."""
    nodes = topological(on.optimiser.optimise([tensor.value]).roots)
    return any(n.op.name in ("multiply", "fma") or "multiply" in str(n.items) for n in nodes)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_batch_norm_is_folded_into_constant_weights(name: str) -> None:
    shape, axis, product = PRODUCTS[name]
    x = FAST.input("x", shape)
    y = product(x)
    statistics = (array(5), abs(array(5)) + 1, array(5), array(5))
    y = OPS.batch_norm(y, *map(FAST.asarray, statistics), axis=axis)
    assert not scales(y, FAST)
    assert scales(y, LAZY)  # infinity may be elsewhere when it is folded
    check_equal([x], y)


def test_what_is_not_constant_or_not_by_channel_is_not_folded() -> None:
    x, s = FAST.input("x", (3, 4)), FAST.input("s", (5,))
    w = FAST.asarray(array(4, 5))
    for scale in (s, FAST.asarray(array(3, 1)), FAST.asarray(array(3, 5))):
        inputs = [x, s] if scale is s else [x]
        (root,) = FAST.optimiser.optimise([(x @ w * scale).value]).roots
        assert "multiply" in str(root.node.items)
        check_equal(inputs, x @ w * scale)


def test_a_zero_with_an_axis_widens_what_it_is_compared_with() -> None:
    x, y = FAST.input("x", (), "float32"), FAST.input("y", (), "float32")
    masked = OPS.masked(x, OPS.greater(y, np.zeros(1, "float32")))
    assert masked.shape == (1,)
    assert names(masked) == ["greater", "masked"]
    check_equal([x, y], masked)


def test_cross_entropy_is_recognised_wherever_its_sign_stands() -> None:
    """Signs move out of means before losses are recognised."""
    lazy = nnc.lazy()
    lazy = lazy.swap(optimiser=lazy.optimiser.with_numerics(REASSOCIATION, fast_math=True))
    ops, (x, y) = lazy.ops, (lazy.input(name, (4, 5), "float32") for name in "xy")
    each = ops.sum(y * ops.log_softmax(x), axis=-1)
    logits = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    labels = np.eye(5, dtype="float32")[[0, 2, 1, 4]]
    wanted = -np.mean(np.sum(labels * (logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))), axis=-1))
    for loss in (ops.mean(-each), -ops.mean(each), ops.mean(-ops.sum(y * ops.log(ops.softmax(x)), axis=-1))):
        program = lazy.compile([x, y], [loss])
        assert [n.op.name for n in program.graph.nodes if n.args] == ["softmax_cross_entropy", "mean"]
        np.testing.assert_allclose(program(logits, labels)[0], wanted, rtol=1e-5)


# --- what only looks like it -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_a_softmax_of_integers_is_none(dtype: str) -> None:
    """What the largest is taken off wraps around."""
    lazy = nnc.lazy()
    x = lazy.input("x", (2, 3), dtype)
    y = WRITTEN["softmax"](lazy.ops, x)
    assert "softmax" not in names(y, lazy)
    rows = np.array([[0, 1, 2], [3, 100, 7]], dtype)
    wanted = WRITTEN["softmax"](nnc.eager().ops, nnc.eager().asarray(rows)).numpy()
    np.testing.assert_allclose(lazy.compile([x], y)(rows), wanted)


def test_nan_stays_where_a_tangent_has_vanished() -> None:
    lazy = nnc.lazy()
    x, y = (lazy.input(name, (3,), "float32") for name in "xy")
    program = lazy.compile([x, y], (x * 0.5) * (1 + lazy.ops.tanh(y * 0.8)))
    found = program(np.float32([np.inf, -np.inf, np.nan]), np.float32([-50, -50, 1]))
    assert np.isnan(found).all()


def test_gelu_of_what_is_not_finite() -> None:
    """The default level recognises it, and keeps its NaN: that of minus infinity, where the tangent says it."""
    lazy = nnc.lazy()
    x = lazy.input("x", (6,), "float32")
    y = x * 0.5 * (1 + lazy.ops.tanh((x + 0.044715 * x**3) * 0.7978845608))
    assert "sigmoid" in names(y, lazy)
    found = lazy.compile([x], y)(np.float32([np.inf, -np.inf, np.nan, 0, 1, -20]))
    np.testing.assert_allclose(found, np.float32([np.inf, np.nan, np.nan, 0, 0.841192, 0]), rtol=1e-5)


def test_fast_math_cancels_complex_quotients_up_to_rounding() -> None:
    strict = LAZY.swap(optimiser=LAZY.optimiser.with_numerics(SIGNED_ZERO, fast_math=True))
    for stack, kept in ((strict, ["divide"]), (FAST, [])):
        x = stack.input("x", (3,), "complex64")
        assert names(x / x, stack) == kept


def test_complex_functions_are_not_undone_where_they_lose_all_digits() -> None:
    x, y = (FAST.input(name, (2,), "complex128") for name in "xy")
    assert names(OPS.tanh(OPS.atanh(x))) == ["atanh", "tanh"]
    assert names(OPS.reciprocal(x) * OPS.reciprocal(y)).count("reciprocal") == 2
