"""Gradients of values in growing loops, and of host functions in loops (`control_flow`, `engine/dynamic`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError
from tests.engine.dynamic_stacks import fresh

POINT = np.array([1.0, 3.0])


def slopes(stack: Any, f: Callable[[Any], Any], at: Any = POINT) -> tuple[Any, Any]:
    """The gradient of the sum of f as one of values, and as one of a function."""
    x = stack.variable("x", at)
    (found,) = stack.gradients([f(x).sum()], [x])
    return found.numpy(), stack.grad(lambda x: f(x).sum())(at).numpy()


def agree(stack: Any, f: Callable[[Any], Any], at: Any = POINT) -> Any:
    """The gradient, which is the same both ways."""
    found, wanted = slopes(stack, f, at)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.any(wanted)
    return found


# --- loops that grow ---------------------------------------------------------------------------------------


def grown(stack: Any, x: Any) -> Any:
    """Three numbers more, each twice the one before."""

    def step(c: Any) -> Any:
        return None, stack.ops.concat(c, 2 * c[-1:], axis=0)

    return stack.while_loop(lambda c: c.shape[0] < 5, step, x, dynamic=True)[1]


def bent(stack: Any, x: Any, w: Any = 2.0) -> Any:
    """Products of the first and the last one, until they are large."""

    def step(c: Any) -> Any:
        return None, stack.ops.concat(c, (w + 1) * c[-1:] * c[:1], axis=0)

    return stack.while_loop(lambda c: c.sum() < 100, step, x, dynamic=True)[1]


@pytest.mark.parametrize(
    "settings", [{}, {"memory_limit": 0}, {"asynchronous": True}, {"replay_after": 2}, {"memoise": True}]
)
def test_gradients_flow_through_a_loop_that_grows(settings: dict[str, Any]) -> None:
    stack = fresh(**settings)
    for _ in range(3):
        np.testing.assert_array_equal(agree(stack, lambda x: grown(stack, x)), [1, 15])


def test_what_is_beside_a_loop_that_grows_is_added() -> None:
    stack = fresh()
    agree(stack, lambda x: grown(stack, x).sum() + x * x)
    agree(stack, lambda x: grown(stack, x) * grown(stack, x))


def test_gradients_flow_through_a_loop_that_grows_in_each_row() -> None:
    stack = fresh()
    agree(stack, lambda x: stack.vmap(lambda row: grown(stack, row))(stack.ops.stack(x, x * x, axis=0)))


def test_gradients_flow_to_a_variable_that_a_loop_that_grows_reads() -> None:
    stack = fresh()
    w = stack.variable("w", 2.0)
    (found,) = stack.gradients([bent(stack, stack.asarray(POINT), w).sum()], [w])
    assert found.item() == stack.grad(lambda w: bent(stack, stack.asarray(POINT), w).sum())(2.0).item() == 102


def test_gradients_flow_through_rows_of_differing_shapes() -> None:
    stack = fresh()

    def listed(x: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            return c * t, stack.ops.concat(c, t * c[-1:] * c[:1], axis=0)

        rows, last = stack.foreach(step, x * np.array([1.0, 2.0]), x, dynamic=True)
        return sum((row.sum() for row in rows), last.sum())

    agree(stack, listed)


def test_gradients_flow_through_what_a_loop_that_grows_stacks() -> None:
    stack = fresh()

    def stacked(x: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            return c.sum(), stack.ops.concat(c, t * c[-1:] * c[:1], axis=0)

        return stack.foreach(step, x, x, dynamic=True)[0]

    agree(stack, stacked)


def test_second_derivatives_flow_through_a_loop_that_grows() -> None:
    stack = fresh()
    slope = stack.grad(lambda x: bent(stack, x).sum())
    x = stack.variable("x", POINT)
    wanted = stack.grad(lambda x: (slope(x) ** 2).sum())(POINT).numpy()
    (first,) = stack.gradients([bent(stack, x).sum()], [x])
    (of_values,) = stack.gradients([(first**2).sum()], [x])
    (of_a_function,) = stack.gradients([(slope(x) ** 2).sum()], [x])
    np.testing.assert_allclose(of_values.numpy(), wanted)
    np.testing.assert_allclose(of_a_function.numpy(), wanted)


def test_a_loop_that_grows_is_a_constant_without_gradients() -> None:
    stack = fresh()
    x = stack.variable("x", POINT)
    with stack.no_grad():
        y = grown(stack, x)
    np.testing.assert_array_equal(stack.gradients([(y[:2] * x).sum()], [x])[0].numpy(), POINT)


def test_a_loop_that_grows_keeps_nothing_once_it_is_dropped() -> None:
    stack = fresh()
    x = +stack.variable("x", POINT)
    before = stack.live
    y = grown(stack, x).sum()
    assert stack.live.nodes > before.nodes
    del y
    assert stack.live == before


# --- functions of the host in loops and branches -----------------------------------------------------------


def squared(stack: Any, pure: bool = True, calls: list[int] | None = None, **more: Any) -> Callable[[Any], Any]:
    """The square as a function of the host, with a derivative backwards, and that of this one."""

    def square(a: Any) -> Any:
        if calls is not None:
            calls.append(1)
        return a * a

    def curved(a: Any, y: Any, g: Any, c: Any, h: Any) -> Any:
        return 2 * g * h, None, 2 * a * h

    slope = nnc.HostFunction(lambda a, y, g: 2 * a * g, vjp=curved)
    function = nnc.HostFunction(square, **{"vjp": slope, **more})

    def call(a: Any) -> Any:
        return stack.ops.callback(a, function=function, shapes=(a.shape,), dtypes=("float64",), pure=pure)[0]

    return call


FORMS: dict[str, Callable[[Any, Any], Callable[[Any], Any]]] = {
    "cond": lambda s, call: lambda x: s.cond(x.sum() > 0, lambda: call(x), lambda: x),
    "case_of": lambda s, call: lambda x: s.case_of(s.asarray(1), [lambda: x, lambda: call(x)]),
    "fori": lambda s, call: lambda x: s.fori(0, 2, lambda i, c: call(c) * 3, x),
    "foreach": lambda s, call: lambda x: s.foreach(lambda t, c: (c, call(c) * t), np.array([2.0, 3.0]), x)[0],
    "while": lambda s, call: (
        lambda x: s.while_loop(lambda c: c.sum() < 9, lambda c: (None, call(c) + 1), x, max_iterations=5)[1]
    ),
    "cond in foreach": lambda s, call: (
        lambda x: s.foreach(
            lambda t, c: (None, s.cond(c.sum() > 0, lambda: call(c) * t, lambda: c)), np.array([2.0, 3.0]), x
        )[1]
    ),
    "captured": lambda s, call: lambda x: s.foreach(lambda t, c: (None, call(x) * t * c), np.array([2.0, 3.0]), x)[1],
}
BENT = np.array([0.1, 0.2])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_gradients_flow_through_a_function_that_has_a_vjp_alone(form: str, rows: int) -> None:
    stack, calls = fresh(), list[int]()
    of_one = FORMS[form](stack, squared(stack, calls=calls))

    def f(x: Any) -> Any:
        if rows == 0:
            return of_one(x)
        xs = stack.ops.stack(x, -2 * x, axis=0)
        return stack.vmap(of_one)(xs) if rows == 1 else stack.vmap(stack.vmap(of_one))(stack.ops.stack(xs, xs, axis=0))

    agree(stack, f, BENT)
    x = stack.variable("x", BENT)
    y = f(x)
    calls.clear()
    assert y.numpy() is not None  # somebody looks
    (first,) = stack.gradients([y.sum() + (x * x).sum()], [x])
    assert calls == []  # what was computed is kept
    np.testing.assert_allclose(first.numpy(), stack.grad(lambda x: f(x).sum() + (x * x).sum())(BENT).numpy())
    (second,) = stack.gradients([(first * first).sum()], [x])
    slope = stack.grad(lambda x: f(x).sum() + (x * x).sum())
    np.testing.assert_allclose(second.numpy(), stack.grad(lambda x: (slope(x) ** 2).sum())(BENT).numpy())


@pytest.mark.parametrize("form", FORMS)
def test_gradients_flow_through_a_jitted_function_with_a_vjp_alone(form: str) -> None:
    stack = fresh()
    f = FORMS[form](stack, squared(stack))
    agree(stack, lambda x: stack.jit(f)(x), BENT)


@pytest.mark.parametrize("kind", [nnc.lazy, nnc.eager, nnc.dynamic])
def test_rows_of_a_program_without_tangents_have_gradients_and_refuse_tangents(kind: Callable[[], Any]) -> None:
    stack, other, xs = fresh(), kind(), np.array([[0.1, 0.2], [0.3, 0.4]])
    call = squared(stack)
    x = stack.variable("x", BENT)
    y = stack.jit(lambda a: call(a) * 3)(x)
    whole = y.value.record.application[1][0]  # of its several results
    op, _, params = whole.application

    def f(xs: Any) -> Any:
        return other.vmap(lambda row: other.bind(op, row, **params)[0])(xs).sum()

    np.testing.assert_allclose(other.grad(f)(xs).numpy(), 6 * xs)
    with pytest.raises(DerivativeError, match=r"has no tangents.*give it a jvp="):
        other.jvp(f, [other.asarray(xs)], [other.asarray(xs)])


def test_gradients_flow_through_a_dynamic_function_in_rows_of_a_branch() -> None:
    stack, inner = fresh(), fresh()
    function = nnc.DynamicFunction(lambda a: a * a, inner)

    def call(a: Any) -> Any:
        return stack.ops.callback(a, function=function, shapes=((2,),), dtypes=("float64",), pure=True)[0]

    f = FORMS["cond"](stack, call)
    np.testing.assert_allclose(agree(stack, lambda x: stack.vmap(f)(x[None]), BENT), 2 * BENT)


def test_an_effect_happens_once_where_its_function_has_a_vjp_alone() -> None:
    stack, calls = fresh(), list[int]()
    x = stack.variable("x", BENT)
    y = FORMS["fori"](stack, squared(stack, pure=False, calls=calls))(x)
    (found,) = stack.gradients([y.sum()], [x])
    np.testing.assert_allclose(found.numpy(), 108 * BENT**3)
    assert calls == [1, 1]


def test_a_derivative_that_nobody_gave_is_refused_after_a_look_too() -> None:
    stack = fresh()
    x = stack.variable("x", BENT)
    y = FORMS["cond"](stack, squared(stack, vjp=None, jvp=lambda a, y, t: 2 * a * t))(x)
    assert y.sum().item() > 0
    with pytest.raises(DerivativeError, match="given a jvp= and no vjp="):
        stack.gradients([y.sum() + x.sum()], [x])
    y = FORMS["cond"](stack, squared(stack, vjp=lambda a, y, g: 2 * a * g))(x)
    (first,) = stack.gradients([y.sum()], [x])
    assert first.sum().item() > 0
    with pytest.raises(DerivativeError, match="vjp of square"):
        stack.gradients([first.sum()], [x])


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("memoise", [False, True])
def test_what_is_out_of_reach_is_refused_after_a_look_too(looks: bool, memoise: bool) -> None:
    stack, calls = fresh(memoise=memoise), list[int]()
    call, x = squared(stack, pure=False, calls=calls), stack.variable("x", BENT)
    other = stack.variable("other", BENT)
    endless = stack.while_loop(lambda c: c.sum() < 9, lambda c: (None, call(c) + 1), x)[1]
    count = len(calls)
    if looks:
        assert endless.numpy().sum() >= 9
    made = endless * 2 + other
    if looks:
        assert made.numpy().sum() >= 9
    with pytest.raises(DerivativeError, match=r"nothing bounds.*max_iterations=.*test_dynamic_host_loops.py:"):
        stack.gradients([made.sum()], [x])
    np.testing.assert_array_equal(stack.gradients([made.sum()], [other])[0].numpy(), [1, 1])  # past it
    assert len(calls) == count


@pytest.mark.parametrize("looks", [False, True])
def test_what_belongs_to_a_graph_is_refused_after_a_look_too(looks: bool) -> None:
    stack = fresh()
    function = nnc.HostFunction(lambda a: a * a, vjp=lambda a, y, g: 2 * a * g)
    x = +stack.variable("x", BENT)

    def ordered(a: Any) -> Any:
        given = {"function": function, "shapes": ((2,),), "dtypes": ("float64",)}
        return stack.ops.callback(a, **given, after=stack.token())[1]

    y = ordered(x * 1.0)
    if looks:
        assert y.numpy().sum() > 0
    z = y * 2
    if looks:
        assert z.numpy().sum() > 0
    for made in (y, z, z + x, stack.jit(lambda a: a * 2)(y), grown(stack, y)):
        with pytest.raises(DerivativeError, match="after="):
            stack.gradients([made.sum()], [x])


def test_what_a_loop_gives_without_gradients_is_a_constant() -> None:
    stack = fresh()
    x = stack.variable("x", BENT)
    f = FORMS["foreach"](stack, squared(stack, pure=False))
    with stack.no_grad():
        y = f(x)
    for constant in (y, f(stack.asarray(BENT))):
        np.testing.assert_allclose(stack.gradients([(constant * x).sum()], [x])[0].numpy(), constant.numpy().sum(0))
        agree(stack, lambda x, c=constant: stack.fold(lambda a, row: a * row + f(a)[1], x, c), BENT)  # type: ignore[misc]


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_with_a_function_of_the_host_keeps_nothing_once_it_is_dropped(form: str) -> None:
    stack = fresh()
    x, f = +stack.variable("x", BENT), FORMS[form](stack, squared(stack))
    before = stack.live
    y = stack.vmap(f)(x[None]).sum()
    assert stack.live.nodes > before.nodes
    del y
    assert stack.live == before
