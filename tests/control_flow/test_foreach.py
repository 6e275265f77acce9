"""Loops over an axis: `foreach`, `scan`, `fold`, `map`, `fori` (`control_flow/scanning`, `control_flow/carries`)."""

from __future__ import annotations

import threading
from itertools import product
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.control_flow.tracing import is_numbers
from nnc_func.errors import DTypeError, OperatorError, ShapeError, TracingError
from nnc_func.tree import flatten

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def agree(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    leaves, structure = flatten(found)
    others, its = flatten(wanted, is_leaf=is_numbers)
    assert structure == its
    for one, other in zip(leaves, others, strict=True):
        np.testing.assert_allclose(one.numpy() if hasattr(one, "numpy") else one, other, rtol=rtol)


# --- trees ---------------------------------------------------------------------------------------------------

DATA = {"single": lambda a: a[0], "list": lambda a: [a[0], a[1]], "nested": lambda a: [a[0], ([a[1]], {"k": a[2]})]}
STATES = {**DATA, "empty": lambda a: []}
OUTS = {"single": lambda v: v[0], "list": lambda v: [v[0]], "nested": lambda v: ({"a": v[0], "b": None}, [v[0] * 2]),
        "empty": lambda v: []}  # fmt: skip


def pairs(one: Any, other: Any) -> Any:
    return zip(one, other, strict=True)


def summed(tree: Any) -> Any:
    return sum(flatten(tree)[0][1:], flatten(tree)[0][0]) if flatten(tree)[0] else 0.0


@pytest.mark.parametrize(("data", "states", "outs"), list(product(DATA, STATES, OUTS)))
@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_trees_come_back_as_they_are(stack: Any, data: str, states: str, outs: str) -> None:
    for n in (0, 1, 2, 3, 7):
        _come_back(stack, data, states, outs, n)


def _come_back(stack: Any, data: str, states: str, outs: str, n: int) -> None:
    draw = np.random.default_rng(n)
    xs = [draw.uniform(-1, 1, (n, 2)) for _ in range(3)]
    starts = [draw.uniform(-1, 1, 2) for _ in range(3)]

    def body(x: Any, s: Any) -> Any:
        total = summed(x) + summed(s) * 0.5
        leaves, structure = flatten(s)
        return OUTS[outs]([total]), structure.build([leaf * 0.5 + total * (k + 1) for k, leaf in enumerate(leaves)])

    found, last = stack.foreach(body, DATA[data](xs), STATES[states](starts))
    state, rows = STATES[states](starts), []
    for i in range(n):
        row, state = body(DATA[data]([x[i] for x in xs]), state)
        rows.append(flatten(row)[0])
    agree(last, state)
    wanted = [np.stack(column) for column in zip(*rows, strict=True)] if n else None
    leaves, structure = flatten(found)
    assert structure == flatten(OUTS[outs]([np.zeros(2)]))[1]
    assert all(leaf.shape == (n, 2) and leaf.dtype == np.float64 for leaf in leaves)
    for one, other in zip(leaves, wanted or [], strict=bool(n)):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-12)

    def loss(xs: Any, starts: Any) -> Any:
        return summed([leaf.sum() for leaf in flatten(stack.foreach(body, DATA[data](xs), STATES[states](starts)))[0]])

    if n not in (0, 2) or not leaves + flatten(last)[0]:
        return
    gradients = stack.grad(loss, argnums=(0, 1))(xs, starts)
    steps = [[draw.uniform(-1, 1, a.shape) for a in each] for each in (xs, starts)]
    sides = [
        loss(*([EAGER.asarray(a + h * d) for a, d in pairs(a, b)] for a, b in pairs((xs, starts), steps)))
        for h in (1e-6, -1e-6)
    ] if stack is EAGER else stack.jvp(loss, (xs, starts), tuple(steps))  # fmt: skip
    slope = (sides[0].numpy() - sides[1].numpy()) / 2e-6 if stack is EAGER else sides[1].numpy()
    products = [np.vdot(g.numpy(), d) for each, its in pairs(gradients, steps) for g, d in pairs(each, its)]
    np.testing.assert_allclose(slope, sum(products), rtol=1e-6, atol=1e-8)


@every
def test_results_that_nothing_is_computed_of(stack: Any) -> None:
    k = stack.asarray([1.0, 2.0])
    (a, b), ys = stack.scan(
        lambda c, x: ((c[1], c[1]), (k, 3.0, x, c[0], c[0], np.arange(2))), (k, k * 3), np.ones((3, 2))
    )
    agree(a, [3.0, 6.0])
    agree(b, [3.0, 6.0])
    agree(ys, ([[1, 2]] * 3, [3.0] * 3, np.ones((3, 2)), *[[[1, 2], [3, 6], [3, 6]]] * 2, [[0, 1]] * 3))


@every
def test_one_tensor_as_several_operands(stack: Any) -> None:
    def f(x: Any) -> Any:
        (a, b), ys = stack.scan(lambda c, t: ((c[0] + t[0] * t[1], c[1] * x[0]), c[0] * t[0]), (x[0], x[0]), (x, x))
        return a + b + ys.sum()

    def plain(x: Any) -> Any:
        a = b = x[0]
        total = 0.0
        for t in x:
            total += a * t
            a, b = a + t * t, b * x[0]
        return a + b + total

    x = np.array([1.0, 2.0, 3.0])
    agree(stack.grad(f)(x), np.array([(plain(x + d) - plain(x - d)) / 2e-6 for d in np.eye(3) * 1e-6]), 1e-6)


# --- what is carried -----------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_numbers_that_are_carried_have_the_dtype_that_they_get(stack: Any, count: int) -> None:
    """Whichever way around they are handed on, and by three traces at most."""
    traces = []

    def body(c: Any, x: Any) -> Any:
        traces.append(1)
        return (*c[1:], c[0] + x), c[0]

    carry, rows = stack.scan(body, (0,) * count, np.ones(1000))
    assert {each.dtype.name for each in carry} == {"float64"}
    assert rows.dtype == np.float64
    agree(summed(carry), 1000.0)
    assert len(traces) <= 3


@every
@pytest.mark.parametrize(
    ("start", "dtype", "wanted"),
    [(0, "float32", "float32"), (0.5, "float16", "float16"), (0.5, "bfloat16", "bfloat16"), (1, "bfloat16", "bfloat16"),
     (0, "complex64", "complex64"), (True, "uint8", "uint8"), (1, "int8", "int8"), (2.5, "int64", "float64")],
)  # fmt: skip
def test_numbers_follow_what_they_are_added_to(stack: Any, start: Any, dtype: str, wanted: str) -> None:
    xs = stack.asarray([1, 2, 3]).astype(dtype)
    total, before = stack.scan(lambda c, x: (c + x, c), start, xs)
    assert total.dtype.name == before.dtype.name == wanted
    agree(total.astype("complex128"), start + 6)
    agree(before.astype("complex128"), [start, start + 1, start + 3])


@every
def test_a_number_does_not_lose_what_the_dtype_after_it_has_not(stack: Any) -> None:
    for start, xs in ((1.5, np.ones(2, "int8")), (1j, np.ones(2)), (2, np.array([True, False]))):
        with pytest.raises(OperatorError, match="a carry keeps its dtype"):
            stack.scan(lambda c, x: (x, c), start, xs)


@every
@pytest.mark.parametrize(
    ("init", "after", "said"),
    [
        ({"h": np.zeros(2), "n": [0.0, np.ones(3, "float32")]},
         lambda c: {"h": c["h"], "n": [c["n"][0], c["n"][1] * c["h"][0]]},
         r"dtype: carry at n\.1 is float32, and float64"),
        ({"h": np.zeros(2)}, lambda c: {"h": c["h"][:1]}, r"shape: carry at h is \(2,\), and \(1,\)"),
        ({"h": np.zeros(())}, lambda c: {"h": c["h"] + np.ones(2)}, r"shape: carry at h is \(\), and \(2,\)"),
        ({"h": np.zeros(2)}, lambda c: [c["h"]], "keeps its structure"),
        ({"h": np.zeros(2)}, lambda c: {"h": c["h"], "g": c["h"]}, "keeps its structure"),
        ([np.zeros(2), None], lambda c: [c[0], c[0]], "keeps its structure"),
    ],
)  # fmt: skip
def test_a_carry_that_changes_is_named(stack: Any, init: Any, after: Any, said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        stack.scan(lambda c, x: (after(c), None), init, np.ones(3))
    with pytest.raises(OperatorError, match=said.replace("carry at", "state at")):
        stack.foreach(lambda x, c: (None, after(c)), np.ones(3), init)


@every
def test_what_is_no_loop_is_refused_in_words(stack: Any) -> None:
    one, two = np.ones((2, 3)), np.ones((4, 3))
    for call, error, said in (
        (
            lambda: stack.scan(lambda c, x: (c, x), 0.0, {"a": one, "b": two}), ShapeError,
            "one extent .* xs at a: 2, xs at b: 4",
        ),
        (lambda: stack.scan(lambda c, x: (c, x), 0.0, one, length=5), ShapeError, "length=5, xs: 2"),
        (lambda: stack.scan(lambda c, x: (c, x), 0.0, np.float64(1)), ShapeError, "has an axis"),
        (lambda: stack.scan(lambda c, x: (c, x), 0.0, one, axis=2), ShapeError, "axis 2"),
        (lambda: stack.scan(lambda c, x: c, np.zeros(3), one), OperatorError, "returns a pair"),
        (lambda: stack.foreach(lambda x, c: c, one, 0.0), OperatorError, "returns a pair"),
        (lambda: stack.scan(lambda c, x: [c, x], 0.0, one), OperatorError, "returns a pair"),
        (lambda: stack.scan(lambda c, x: (c, None), 0.0, None), OperatorError, "length="),
        (lambda: stack.scan(lambda c, x: (c, None), 0.0, None, length=-1), ShapeError, "not negative"),
        (lambda: stack.scan(lambda c, x: (c, None), 0.0, None, length=2.0), DTypeError, "length is an integer"),
        (lambda: stack.scan(lambda c, x: (c, None), 0.0, None, length=True), DTypeError, "length is an integer"),
        (lambda: stack.scan(lambda c, x: (c, c), 0.0, None, length=stack.asarray(3)), OperatorError, "length="),
        (lambda: stack.scan(lambda c, x: (c, x), 0.0, one, unroll=0), OperatorError, "unroll="),
        (lambda: stack.scan(lambda c, x: (c, x), 0.0, one, checkpoint="all"), OperatorError, "checkpoint="),
        (lambda: stack.scan(lambda c, x: (c, x), 0.0, one, checkpoint=0), OperatorError, "checkpoint="),
        (lambda: stack.scan(lambda c, x: (c, x), "a", one), OperatorError, "carry is a str"),
        (lambda: stack.scan(lambda c, x: (c + 1 if c > 0 else c, x), np.zeros(()), one), TracingError, "traced"),
        (lambda: stack.fori(0, 2.5, lambda i, c: c, 0), DTypeError, "upper is an integer"),
        (lambda: stack.fori(np.zeros(1, "int64"), 2, lambda i, c: c, 0), DTypeError, "lower is an integer"),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            call()


@every
def test_a_body_that_fails_leaves_nothing_behind(stack: Any) -> None:
    class OfMineError(Exception):
        pass

    def body(c: Any, x: Any) -> Any:
        c * x
        raise OfMineError

    for call in (
        lambda: stack.scan(body, 0.0, np.ones(3)),
        lambda: stack.while_loop(lambda c: True, lambda c: body(c, c), 1.0),
        lambda: stack.cond(stack.asarray(True), lambda: body(stack.asarray(1.0), 2.0), lambda: 1.0),
        lambda: stack.scan(lambda c, x: (stack.cond(c > 0, lambda: body(c, x), lambda: c), c), 0.0, np.ones(3)),
    ):
        with pytest.raises(OfMineError):
            call()
    agree(stack.asarray(1.0) + 1, 2.0)
    agree(stack.grad(lambda x: stack.scan(lambda c, i: (c * x, None), x, None, length=2)[0])(2.0), 12.0)


@every
def test_what_escapes_a_body_is_refused(stack: Any) -> None:
    kept = []
    stack.scan(lambda c, x: (kept.append(c) or c, None), np.zeros(()), np.ones(2))
    with pytest.raises(TracingError, match="had returned"):
        kept[0] + 1


# --- how often, which way ------------------------------------------------------------------------------------


def stepwise(x: Any, count: int | None, reverse: bool) -> tuple[Any, Any]:
    n = len(x) if count is None else max(0, min(count, len(x)))
    carry, rows = np.zeros(x.shape[1:]) + 0.5, np.zeros(x.shape)
    for i in reversed(range(n)) if reverse else range(n):
        carry = np.tanh(carry * x[i]) + x[i]
        rows[i] = carry * 2
    return carry, rows


@every
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [None, -3, 0, 1, 4, 5, 6, 99])
@pytest.mark.parametrize("shape", [(5, 2), (5,), (0, 2), (5, 0)])
def test_as_many_times_as_a_tensor_says(stack: Any, shape: Any, count: int | None, reverse: bool) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, shape)
    ops = stack.ops

    def f(x: Any) -> Any:
        start = np.zeros(shape[1:]) + 0.5
        length = None if count is None else stack.asarray(count)

        def body(c: Any, x: Any) -> Any:
            c = ops.tanh(c * x) + x
            return c, c * 2

        carry, rows = stack.scan(body, start, x, reverse=reverse, length=length)
        return (carry * 3).sum() + (rows * rows).sum(), (carry, rows)

    (_, found), gradient = stack.value_and_grad(f, has_aux=True)(x)
    agree(found, stepwise(x, count, reverse))
    agree(f(stack.asarray(x))[1], stepwise(x, count, reverse))
    wanted = np.zeros(shape)
    for at in np.ndindex(shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[at] += step
            carry, rows = stepwise(moved, count, reverse)
            sides.append((carry * 3).sum() + (rows * rows).sum())
        wanted[at] = (sides[0] - sides[1]) / 2e-6
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-6, atol=1e-8)


@every
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_any_axis(stack: Any, axis: int) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 4))
    total, sums = stack.scan(lambda c, row: (c + row, c + row), np.zeros(np.delete(x.shape, axis)), x, axis=axis)
    agree(sums, np.cumsum(x, axis=axis))
    agree(total, x.sum(axis=axis))
    agree(stack.map(lambda row: row * 2, x, axis=axis), x * 2)
    agree(stack.fold(lambda c, row: c + row, np.zeros(np.delete(x.shape, axis)), x, axis=axis), x.sum(axis=axis))


@every
def test_between_bounds(stack: Any) -> None:
    for lower, upper in ((0, 5), (-2, 3), (5, 2), (3, 3)):
        wanted = sum(range(lower, upper))
        for bounds in ((lower, upper), (stack.asarray(lower), upper), (lower, stack.asarray(np.int32(upper)))):
            agree(stack.fori(*bounds, lambda i, c: c + i, 0), wanted)


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 7, 12])
def test_every_way_to_write_it_out_and_to_keep_it_is_the_same(stack: Any, length: int, reverse: bool) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (length, 2))
    w = np.random.default_rng(2).uniform(-1, 1, 2)

    def f(x: Any, w: Any, **how: Any) -> Any:
        body = lambda c, x: ((c[1], stack.ops.tanh(c[0] * w) + x), c[0] * x)  # noqa: E731
        (a, b), ys = stack.scan(body, (w, w * 2), x, reverse=reverse, **how)
        return (a * 2 + b).sum() + (ys * ys).sum()

    wanted = EAGER.value_and_grad(lambda *xs: by_hand(EAGER, *xs, reverse), argnums=(0, 1))(x, w)
    for how in (
        {}, {"unroll": 2}, {"unroll": 5}, {"unroll": True}, {"checkpoint": "full"}, {"checkpoint": "sqrt"},
        {"checkpoint": 1}, {"checkpoint": 3}, {"checkpoint": 100},
    ):  # fmt: skip
        found = stack.value_and_grad(lambda *xs, h=how: f(*xs, **h), argnums=(0, 1))(x, w)
        agree(found[0], wanted[0].numpy())
        for one, other in zip(found[1], wanted[1], strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def by_hand(stack: Any, x: Any, w: Any, reverse: bool) -> Any:
    a, b, total = w, w * 2, 0.0
    for i in reversed(range(x.shape[0])) if reverse else range(x.shape[0]):
        total = total + ((a * x[i]) ** 2).sum()
        a, b = b, stack.ops.tanh(a * w) + x[i]
    return (a * 2 + b).sum() + total


# --- what is captured ----------------------------------------------------------------------------------------


@every
def test_whatever_is_around_a_body_may_be_used_in_it(stack: Any) -> None:
    array, variable = np.array([1.0, 2.0]), stack.variable("w", [0.5, 0.25])

    def f(x: Any) -> Any:
        y = stack.ops.exp(x)

        def outer(c: Any, t: Any) -> Any:
            z = c * y

            def inner(d: Any, u: Any) -> Any:
                return d * variable + z * u + array * x, d * t

            last, rows = stack.scan(inner, c, np.arange(2.0))
            return last + rows.sum(axis=0), z

        carry, zs = stack.scan(outer, x, np.arange(3.0) * 0.1)
        return carry.sum() + zs.sum()

    def plain(x: Any) -> Any:
        y, c, total = np.exp(x), x, 0.0
        for t in np.arange(3.0) * 0.1:
            z = c * y
            total += z.sum()
            d, rows = c, 0.0
            for u in np.arange(2.0):
                rows = rows + d * t
                d = d * np.array([0.5, 0.25]) + z * u + array * x
            c = d + rows
        return c.sum() + total

    x = np.array([0.3, -0.2])
    wanted = np.array([(plain(x + d) - plain(x - d)) / 2e-6 for d in np.eye(2) * 1e-6])
    agree(f(stack.asarray(x)), plain(x))
    agree(stack.grad(f)(x), wanted, 1e-7)
    if stack is not STACKS["eager over lazy"]:
        value, gradient = stack.jit(lambda x: stack.value_and_grad(f)(x))(x)
        agree(value, plain(x))
        agree(gradient, wanted, 1e-7)
    ones = np.eye(2)
    second = np.stack([
        (stack.grad(f)(x + d).numpy() - stack.grad(f)(x - d).numpy()) / 2e-5 for d in ones * 1e-5
    ])  # fmt: skip
    np.testing.assert_allclose(stack.hessian(f)(x).numpy(), second, rtol=1e-6, atol=1e-7)


def test_what_is_captured_is_computed_once() -> None:
    class Counting(nnc.NumPy):
        calls = 0

        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            Counting.calls += op.name == "exp"
            return super().bind(op, *args, **params)

    stack = nnc.eager(Counting())
    x = stack.asarray(np.ones(2))
    stack.scan(lambda c, _: (c * stack.ops.exp(x), None), x, None, length=50)
    assert Counting.calls <= 3  # once for each trace


@every
def test_stop_gradient_within(stack: Any) -> None:
    def f(x: Any) -> Any:
        still = stack.ops.stop_gradient
        a, ys = stack.scan(lambda c, i: (c * still(x) + i * x, still(c) * x), x, np.arange(3.0))
        return a + ys.sum()

    x, step = 1.1, 1e-6

    def plain(x: float, fixed: float) -> float:
        c, k, total = x, fixed, 0.0
        for i in range(3):
            total += k * x
            c, k = c * fixed + i * x, k * fixed + i * fixed
        return c + total

    agree(stack.grad(f)(x), (plain(x + step, x) - plain(x - step, x)) / (2 * step), 1e-8)


@every
def test_random_keys(stack: Any) -> None:
    """One that is captured repeats its numbers; one that the counter is folded into does not."""
    key, ops = stack.asarray(np.array([1, 2], "uint64")), stack.ops
    _, same = stack.scan(lambda c, _: (c, ops.random_uniform(key, shape=(2,))), 0, None, length=3)
    assert len(np.unique(same.numpy())) == 2
    start = stack.asarray(np.uint64(0))
    _, each = stack.scan(
        lambda i, _: (i + 1, ops.random_uniform(ops.random_fold_in(key, i), shape=(2,))), start, None, length=3
    )
    assert len(np.unique(each.numpy())) == 6
    one = EAGER.ops
    k = EAGER.asarray(np.array([1, 2], "uint64"))
    wanted = [one.random_uniform(one.random_fold_in(k, np.uint64(i)), shape=(2,)).numpy() for i in range(3)]
    np.testing.assert_array_equal(each.numpy(), wanted)


@every
@pytest.mark.parametrize("how", [{}, {"checkpoint": "sqrt"}, {"checkpoint": 2}], ids=str)
def test_what_is_computed_again_draws_the_same_numbers(stack: Any, how: Any) -> None:
    key, ops = stack.asarray(np.array([1, 2], "uint64")), stack.ops

    def f(x: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            i, h = c
            kept = ops.random_uniform(ops.random_fold_in(key, i), shape=(2,)) > 0.5
            h = ops.where(kept, h * x, h + 1.0)
            return (i + 1, h), None

        return stack.scan(body, (stack.asarray(np.uint64(0)), x), None, length=7, **how)[0][1].sum()

    x = np.array([0.9, 1.2])
    step = 1e-6
    wanted = [((f(stack.asarray(x + d)) - f(stack.asarray(x - d))) / (2 * step)).item() for d in np.eye(2) * step]
    agree(stack.grad(f)(x), wanted, 1e-6)


# --- dtypes --------------------------------------------------------------------------------------------------


@every
def test_integers_and_truth_values_that_are_carried_beside_what_is_differentiated(stack: Any) -> None:
    def f(w: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            i, even, a = c
            a = stack.ops.where(even, a * w * i.astype("float64"), a + w)
            return (i + 1, stack.ops.logical_not(even), a), (i, even, a)

        (_, _, a), (i, even, rows) = stack.scan(body, (1, True, w), None, length=4)
        assert (i.dtype, even.dtype) == (np.int64, np.bool_)
        return a + rows.sum()

    def plain(w: float) -> float:
        a, total = w, 0.0
        for i in range(1, 5):
            a = a * w * i if i % 2 else a + w
            total += a
        return a + total

    for mode in (stack.grad(f)(1.3), stack.jvp(f, (1.3,), (1.0,))[1]):
        agree(mode, (plain(1.3 + 1e-6) - plain(1.3 - 1e-6)) / 2e-6, 1e-7)


@every
def test_complex_numbers(stack: Any) -> None:
    z = np.array([1 + 1j, 2 - 1j, 0.5j])

    def f(w: Any) -> Any:
        c, ys = stack.scan(lambda c, x: (c * x * w + 1j, c), stack.asarray(1 + 0j), z)
        return (stack.ops.abs(c) + stack.ops.abs(ys)[1:].sum()) * 1.0

    def plain(w: float) -> Any:
        c, total = 1 + 0j, 0.0
        for n, x in enumerate(z):
            total += abs(c) if n else 0.0
            c = c * x * w + 1j
        return abs(c) + total

    agree(stack.grad(f)(0.7), (plain(0.7 + 1e-6) - plain(0.7 - 1e-6)) / 2e-6, 1e-7)


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_dtypes_are_kept_in_gradients_too(stack: Any, dtype: str) -> None:
    x = stack.asarray([1.0, 2.0, 3.0]).astype(dtype)
    w = stack.asarray(0.5).astype(dtype)
    found, gradient = stack.value_and_grad(lambda w: stack.scan(lambda c, x: (c * x + w, c), w, x)[1].sum())(w)
    assert found.dtype.name == gradient.dtype.name == dtype
    agree(found.astype("float64"), 4.0)
    agree(gradient.astype("float64"), 8.0)


def test_threads_trace_at_the_same_time() -> None:
    wrong: list[Any] = []

    def work(stack: Any, k: float) -> None:
        try:
            for _ in range(8):
                found = stack.grad(
                    lambda x: stack.cond(x > 0, lambda: stack.fori(0, 3, lambda i, c: c * x, x), lambda: x)
                )(k)
                if abs(found.item() - 4 * k**3) > 1e-9:
                    wrong.append(found)
                if (stack.asarray(k) * 2).item() != 2 * k:
                    wrong.append(k)
        except Exception as error:  # what a thread raises is seen by nobody else
            wrong.append(error)

    threads = [threading.Thread(target=work, args=((EAGER, LAZY)[k % 2], k + 1.0)) for k in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@every
def test_a_number_that_its_dtype_after_the_body_does_not_hold_is_refused(stack: Any) -> None:
    with pytest.raises(OperatorError, match="carry at 0 starts as 300, and is int8 after the body"):
        stack.scan(lambda c, x: ((x,), None), (300,), np.ones(2, "int8"))


@every
def test_fori_between_extremes(stack: Any) -> None:
    least, most = -(2**63), 2**63 - 1

    def times(lower: Any, upper: Any) -> Any:
        return stack.fori(lower, upper, lambda i, c: c + 1, 0)

    pairs = [(most, least + 4), (least + 3, least), (most - 2, most), (least, least + 3), (5, 5)]
    lower, upper = np.array(pairs).T
    wanted = [max(0, b - a) for a, b in pairs]
    for (a, b), count in zip(pairs, wanted, strict=True):
        assert times(stack.asarray(np.int64(a)), stack.asarray(np.int64(b))).item() == count
        assert times(stack.asarray(np.int64(a)), b).item() == times(a, stack.asarray(np.int64(b))).item() == count
        assert times(a, b).item() == count
    assert nnc.vmap(times)(stack.asarray(lower), stack.asarray(upper)).numpy().tolist() == wanted
    for bounds, name in (((2**63, 2**63 + 2), "lower"), ((0, 2**63), "upper"), ((least - 1, 0), "lower")):
        with pytest.raises(DTypeError, match=f"{name} is an integer of 64 bits, as i is, given"):
            times(*bounds)
