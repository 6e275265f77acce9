"""What where() leaves out has no effect on derivatives, whatever it is made of (`facets/derivatives`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
SINGULAR: dict[str, Callable[[Any, Any], Any]] = {  # not finite, or with slopes that are not, at or below 0
    "x log x": lambda o, x: x * o.log(x),
    "power": lambda o, x: x**0.5,
    "power of itself": lambda o, x: x**x,
    "quotient": lambda o, x: (1 + x) / x,
    "quotient of roots": lambda o, x: o.sqrt(x) / o.cbrt(x),
    "entropy": lambda o, x: -(x * o.log(x) + (2 - x) * o.log(2 - x)),
    "chain": lambda o, x: o.tanh(o.log(x) * x) / (x * x) + o.maximum(o.log(x), x),
    "hypot": lambda o, x: o.hypot(o.log(x), 1.0) * x,
    "two paths": lambda o, x: (lambda y: y * y + o.exp(y) * x)(o.log(x)),
    "cast": lambda o, x: o.cast(x * o.log(x), dtype="float64") * x,
    "branches": lambda o, x: o.where(x < 1, x * o.log(x), x / (x - 1)) + o.log(x) * x,
}


def second(stack: Any, f: Callable[[Any], Any], x: Any) -> list[Any]:
    """Sums of second derivatives of an elementwise function, by three orders of the modes."""
    ops, one = stack.ops, np.ones_like(x)

    def gradient(v: Any) -> Any:
        return stack.grad(lambda u: ops.sum(f(u)))(v)

    return [
        stack.grad(lambda v: ops.sum(gradient(v)))(x).numpy(),
        stack.jvp(gradient, (x,), (one,))[1].numpy(),
        stack.grad(lambda v: ops.sum(stack.jvp(f, (v,), (one,))[1]))(x).numpy(),
    ]


POINTS = [0.0, -0.0, -1.0, 1.0, 0.25, 1.75, 3.0]


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("name", SINGULAR)
def test_as_if_only_what_is_chosen_were_computed(name: str, other: bool) -> None:
    check(STACKS["eager"], name, POINTS, other)


@pytest.mark.parametrize("name", ["x log x", "quotient", "branches"])
def test_as_if_only_what_is_chosen_were_computed_when_it_is_compiled(name: str) -> None:
    check(STACKS["lazy"], name, POINTS, False)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("name", SINGULAR)
@settings(max_examples=50)
@given(x=st.lists(st.sampled_from(POINTS) | st.floats(-2, 4), min_size=1, max_size=4), other=st.booleans())
def test_as_if_only_what_is_chosen_were_computed_at_any_point(
    stack: nnc.Stack, name: str, x: list[float], other: bool
) -> None:
    check(stack, name, [v if abs(v) > 1e-3 and abs(v - 1) > 1e-3 and abs(v - 2) > 1e-3 else 0.0 for v in x], other)


def check(stack: nnc.Stack, name: str, x: list[float], other: bool) -> None:
    """Written twice over, the choice inside too, a formula never meets what it leaves out: the oracle."""
    ops, point = stack.ops, np.array(x)

    def chosen(v: Any, inside: Any) -> Any:
        holds = (v > 0) & (v < 2) & (v != 1)
        value = SINGULAR[name](ops, inside(holds, v))
        return ops.where(~holds, v, value) if other else ops.where(holds, value, 0)

    def plain(v: Any) -> Any:
        return chosen(v, lambda holds, v: v)

    def safe(v: Any) -> Any:
        return chosen(v, lambda holds, v: ops.where(holds, v, 0.5))

    with np.errstate(all="ignore"):
        wanted = stack.grad(lambda v: ops.sum(safe(v)))(point).numpy()
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(stack.grad(lambda v: ops.sum(plain(v)))(point).numpy(), wanted, rtol=1e-10)
        np.testing.assert_allclose(stack.jvp(plain, (point,), (np.ones_like(point),))[1].numpy(), wanted, rtol=1e-10)
        curvature = second(stack, safe, point)[0]
        for found in second(stack, plain, point):
            np.testing.assert_allclose(found, curvature, rtol=1e-9, atol=1e-12)


@BOTH
def test_sums_of_several_choices_keep_what_flows_past_them(stack: nnc.Stack) -> None:
    ops = stack.ops

    def f(v: Any) -> Any:
        y = v * v
        return ops.sum(ops.where(v > 1, y, 0) + ops.where(v > 2, 3 * y, 0) + y)

    x = np.array([0.5, 1.5, 2.5])
    np.testing.assert_allclose(stack.grad(f)(x).numpy(), 2 * x * np.array([1, 2, 5]))


@BOTH
def test_arguments_that_broadcast_get_sums(stack: nnc.Stack) -> None:
    ops = stack.ops
    rows, row = np.array([[0.0, 2.0], [3.0, 0.0]]), np.array([2.0, 3.0])

    def f(a: Any, b: Any) -> Any:
        return ops.sum(ops.where(a > 0, b * ops.log(a), 0))

    by_rows, by_row = stack.grad(f, (0, 1))(rows, row)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(by_rows.numpy(), np.where(rows > 0, row / np.where(rows > 0, rows, 1), 0))
        np.testing.assert_allclose(by_row.numpy(), np.where(rows > 0, np.log(np.where(rows > 0, rows, 1)), 0).sum(0))


def test_a_scale_costs_nothing_more() -> None:
    """A number's product is left as it is: no slope of it can be infinite."""
    lazy = STACKS["lazy"]
    ops = lazy.ops
    x, m = lazy.input("x", (3,), "float64"), lazy.input("m", (3,), "bool")
    program = lazy.compile([x, m], lazy.grad(lambda v: ops.sum(ops.where(m, v * 2.0, 0)))(x))
    names = [i.op.name for i in program.plan.instructions]
    assert len(names) <= 3, names
    assert program(np.ones(3), np.array([True, False, True])).tolist() == [2, 0, 2]


@BOTH
def test_a_function_with_a_rule_of_its_own_in_a_branch(stack: nnc.Stack) -> None:
    ops = stack.ops

    @stack.custom_jvp  # type: ignore[untyped-decorator]
    def square(v: Any) -> Any:
        return v * v

    square.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))
    found = stack.grad(lambda v: ops.sum(ops.where(v > 0, square(v), 0)))(np.array([-1.0, 2.0]))
    assert found.numpy().tolist() == [0, 4]
