"""Programs in dynamic graphs, and the other way (`control_flow/recorded_programs`, `control_flow/dynamic_functions`).

The same computation by lazy programs only, by values only, and by each nesting, to the second derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError, OperatorError, RunError, ShapeError
from tests.engine.dynamic_stacks import own_device

LAZY, EAGER, DYNAMIC = nnc.lazy(), nnc.eager(), nnc.dynamic(own_device())
RNG = np.random.default_rng(0)
W, B, XS = RNG.normal(size=(3, 3)), RNG.normal(size=3), RNG.normal(size=(4, 3))


def loss(stack: Any, w: Any, b: Any, xs: Any) -> Any:
    """One number, by products, a loop, a branch and a choice."""
    ops = stack.ops
    hidden = ops.tanh(xs @ w + b)
    hidden = ops.relu(hidden * hidden - 0.1)
    carry, rows = stack.scan(lambda c, row: (ops.tanh(c * row.sum() + w[0, 0]), c * row), stack.asarray(0.5), hidden)
    chosen = stack.cond(carry > 0, lambda: carry * b.sum(), lambda: carry)
    return (hidden * hidden).sum() + chosen + rows.sum()


def weighed(slopes: Any) -> Any:
    """One number of gradients."""
    return sum(((n + 1.0) * g * g * g).sum() for n, g in enumerate(slopes))


def of_function(stack: Any, f: Any, *at: Any) -> list[Any]:
    """The first and the second derivatives of a function."""
    by = tuple(range(len(at)))
    first = stack.grad(f, by)
    second = stack.grad(lambda *xs: weighed(first(*xs)), by)
    return [g.numpy() for g in (*first(*at), *second(*at))]


def of_values(f: Any, *at: Any) -> list[Any]:
    """The same of values."""
    xs = [DYNAMIC.variable(f"x{n}", a) for n, a in enumerate(at)]
    first = DYNAMIC.gradients([f(*xs)], xs)
    return [g.numpy() for g in (*first, *DYNAMIC.gradients([weighed(first)], xs))]


def called(stack: Any, f: Any, *, values: int | None = None, shape: Any = ()) -> Callable[..., Any]:
    """A function of the dynamic stack as an operator of another one, or of itself."""
    function = nnc.DynamicFunction(f, DYNAMIC) if values is None else nnc.DynamicFunction(f, DYNAMIC, values)

    def applied(*xs: Any) -> Any:
        (y,) = stack.ops.callback(*xs, function=function, shapes=(shape,), dtypes=("float64",), pure=True)
        return y

    return applied


def agree(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_each_nesting_gives_the_same_derivatives() -> None:
    def on(stack: Any) -> Any:
        return lambda w, b: loss(stack, w, b, stack.asarray(XS))

    wanted = of_function(LAZY, LAZY.jit(on(LAZY)), W, B)
    agree(of_values(on(DYNAMIC), W, B), wanted)
    program = DYNAMIC.jit(on(DYNAMIC))
    agree(of_values(program, W, B), wanted)
    for stack in (LAZY, EAGER):
        for f in (on(DYNAMIC), program):  # a dynamic function; a program in a dynamic function
            operator = called(stack, f, values=2)
            agree(of_function(stack, operator, W, B), wanted)
            agree(of_function(stack, stack.jit(operator), W, B), wanted)
    within = DYNAMIC.jit(called(DYNAMIC, program, values=2))  # a program in a dynamic function in a program
    agree(of_values(within, W, B), wanted)
    agree(of_values(called(DYNAMIC, within, values=2), W, B), wanted)


# --- programs as commands -----------------------------------------------------------------------------------


def test_a_program_is_one_application_that_keeps_what_backward_reads() -> None:
    stack = nnc.dynamic(own_device())
    w = stack.variable("w", W)
    calls = []
    f = stack.jit(lambda x: (calls.append(1), stack.ops.tanh(stack.ops.exp(x) * 0.1))[1])
    before = stack.live
    y = f(w)
    assert stack.live.nodes - before.nodes <= 1
    assert f(w * 2).shape == (3, 3)
    assert len(calls) == 1
    agree(
        [g.numpy() for g in stack.gradients([y], [w])],
        of_function(EAGER, lambda w: EAGER.ops.tanh(EAGER.ops.exp(w) * 0.1).sum(), W)[:1],
    )
    del y
    assert stack.live.nodes == 0


def test_a_second_step_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_ = nnc.Lazy.compile
    monkeypatch.setattr(nnc.Lazy, "compile", lambda *args: compiled.append(1) or compile_(*args))
    stack = nnc.dynamic(own_device())
    w, losses = +stack.variable("w", W), []
    step = stack.jit(lambda w, xs: (stack.ops.tanh(xs @ w) ** 2).sum())
    for _ in range(4):
        y = step(w, XS)
        (g,) = stack.gradients([y], [w])
        w = w - 0.05 * g
        losses.append(y.item())
    assert len(compiled) == 2
    assert losses == sorted(losses, reverse=True)
    del y, g
    assert stack.live.nodes == 0


def test_variables_that_a_program_reads_have_gradients_and_their_values_of_now() -> None:
    w = DYNAMIC.variable("w", W)
    f = DYNAMIC.jit(lambda xs: {"sum": (xs @ w).sum(), "n": DYNAMIC.ops.argmax(xs)})
    for scale in (1.0, 2.0):
        w.value.assign(W * scale)
        found = f(XS)
        np.testing.assert_allclose(found["sum"].item(), (XS @ W).sum() * scale)
        assert found["n"].item() == XS.argmax()
        np.testing.assert_allclose(
            DYNAMIC.gradients([found["sum"]], [w])[0].numpy(), np.repeat(XS.sum(0), 3).reshape(3, 3)
        )
    with DYNAMIC.no_grad():
        assert f.program(XS).plan is not None


def test_what_is_no_program_is_simply_called() -> None:
    """Where Python wants a value, or a function has an effect, or reads what was made of variables."""
    x, lines = DYNAMIC.variable("x", B), []
    decides = DYNAMIC.jit(lambda x: x * 2 if x.sum().item() > 0 else x * 3)
    assert set(DYNAMIC.gradients([decides(x)], [x])[0].numpy()) == {2.0 if B.sum() > 0 else 3.0}
    speaks = DYNAMIC.jit(lambda x: (DYNAMIC.ops.callback(x, function=lambda a: lines.append(1)), x * 4)[1])
    for n in (1, 2):
        assert set(DYNAMIC.gradients([speaks(x)], [x])[0].numpy()) == {4.0}
        assert len(lines) == n
    around = [x]
    reads = DYNAMIC.jit(lambda y: (y * around[0]).sum())
    for scale in (5.0, 6.0):
        around[:] = [x * scale]
        np.testing.assert_allclose(DYNAMIC.gradients([reads(x)], [x])[0].numpy(), 2 * scale * B)


def test_a_program_calls_a_function_of_the_host_once() -> None:
    calls: list[str] = []
    exponential = nnc.HostFunction(
        lambda x: (calls.append("value"), np.exp(x))[1], vjp=lambda x, y, g: (calls.append("slope"), g * y)[1]
    )
    x = DYNAMIC.variable("x", B)
    given = {"function": exponential, "shapes": ((3,),), "dtypes": ("float64",), "pure": True}
    f = DYNAMIC.jit(lambda x: DYNAMIC.ops.callback(x * 2, **given)[0] * x)
    (g,) = DYNAMIC.gradients([f(x)], [x])
    np.testing.assert_allclose(g.numpy(), np.exp(2 * B) * (1 + 2 * B))
    assert calls == ["value", "slope"] or calls == ["value", "value", "slope"]  # forward mode was asked for as well


def test_a_program_loops_over_functions_of_the_host() -> None:
    sine = nnc.HostFunction(np.sin, vjp=lambda x, y, g: g * np.cos(x), jvp=lambda x, y, t: t * np.cos(x))
    given = {"function": sine, "shapes": ((),), "dtypes": ("float64",), "pure": True}

    def f(stack: Any, s: Any) -> Any:
        return lambda xs: stack.fold(lambda c, x: c + s(x * c), 1.0, xs)

    program = DYNAMIC.jit(f(DYNAMIC, lambda x: DYNAMIC.ops.callback(x, **given)[0]))
    x = DYNAMIC.variable("x", B)
    (g,) = DYNAMIC.gradients([program(x)], [x])
    np.testing.assert_allclose(g.numpy(), EAGER.grad(f(EAGER, EAGER.ops.sin))(B).numpy())


def test_the_graph_behind_a_programs_value_runs_elsewhere() -> None:
    x = DYNAMIC.variable("x", B)
    y = DYNAMIC.jit(lambda x: DYNAMIC.ops.tanh(x * 2) * x)(x)
    graph = DYNAMIC.trace(y)
    np.testing.assert_allclose(LAZY.engine.compile(graph.to(LAZY))(), np.tanh(2 * B) * B)


# --- dynamic functions as operators -------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [EAGER, LAZY, DYNAMIC], ids=["eager", "lazy", "dynamic"])
def test_python_decides_within_a_loop_of_a_program(stack: Any) -> None:
    def step(c: Any, x: Any) -> Any:
        for _ in range(3):
            if c.item() < 2:
                c = c * x + 1
        return DYNAMIC.ops.sin(c)

    operator, before = called(stack, step), DYNAMIC.live
    f = lambda xs: stack.fold(lambda c, x: operator(c, x), 0.5, xs)  # noqa: E731
    xs, h = np.array([0.7, 1.3, 0.9]), 1e-6
    slopes = [(f(stack.asarray(xs + d)).item() - f(stack.asarray(xs - d)).item()) / (2 * h) for d in h * np.eye(3)]
    for g in (stack.grad(f), stack.jit(stack.grad(f))):
        np.testing.assert_allclose(g(xs).numpy(), slopes, rtol=1e-7)
    _, slope = stack.jvp(f, (xs,), (np.ones(3),))
    np.testing.assert_allclose(slope.item(), sum(slopes), rtol=1e-7)
    with DYNAMIC.no_grad():
        np.testing.assert_allclose(stack.jit(stack.grad(f))(xs).numpy(), slopes, rtol=1e-7)
    assert DYNAMIC.live.nodes <= before.nodes


def test_rows_and_several_results() -> None:
    def both(x: Any, n: Any) -> Any:
        return x * n, x.sum()

    function = nnc.DynamicFunction(both, DYNAMIC)

    def f(x: Any) -> Any:
        y, total = LAZY.ops.callback(
            x, LAZY.asarray(3), function=function, shapes=((3,), ()), dtypes=("float64", "float64"), pure=True
        )
        return (y * y).sum() + total

    wanted = 18 * XS + 1
    np.testing.assert_allclose(LAZY.vmap(LAZY.grad(f))(XS).numpy(), wanted)
    np.testing.assert_allclose(LAZY.hessian(f)(XS[0]).numpy(), 18 * np.eye(3), atol=1e-12)


@pytest.mark.parametrize("stack", [LAZY, EAGER, DYNAMIC])
def test_it_asks_for_gradients_with_respect_to_its_arguments(stack: Any) -> None:
    def scaled(x: Any) -> Any:
        (slope,) = DYNAMIC.gradients([(x**3).sum()], [x])
        return slope * x

    def f(x: Any) -> Any:
        function = nnc.DynamicFunction(scaled, DYNAMIC)
        return stack.ops.callback(x, function=function, shapes=(x.shape,), dtypes=("float64",), pure=True)[0].sum()

    np.testing.assert_allclose(f(stack.asarray(B)).numpy(), 3 * np.sum(B**3))
    np.testing.assert_allclose(stack.grad(f)(B).numpy(), 9 * B**2)
    np.testing.assert_allclose(stack.hessian(f)(B).numpy(), np.diag(18 * B), atol=1e-12)


def test_what_is_wrong_is_told() -> None:
    def f(function: Any, **how: Any) -> Any:
        given = {"function": function, "shapes": ((3,),), "dtypes": ("float64",), "pure": True, **how}
        return lambda x: LAZY.ops.callback(x, **given)[0].sum()

    doubled = nnc.DynamicFunction(lambda x: x * 2, DYNAMIC)
    with pytest.raises(DerivativeError, match=r"<lambda> is computed again for its derivative: say pure=True"):
        LAZY.grad(f(doubled, pure=False))(B)
    with pytest.raises(
        ShapeError, match=r"(?s)test_nested_graphs.*<lambda> returned an array of shape \(\) .*callback expects \(3,\)"
    ):
        LAZY.jit(f(nnc.DynamicFunction(lambda x: x.sum(), DYNAMIC)))(B)
    with pytest.raises(ShapeError, match=r"<lambda> returned None, callback expects 1 result of shape \(3,\)"):
        LAZY.jit(f(nnc.DynamicFunction(lambda x: None, DYNAMIC)))(B)
    several = {"shapes": ((3,), (3,)), "dtypes": ("float64", "float64")}
    with pytest.raises(
        ShapeError, match=r"<lambda> returned None as result 1, callback expects float64 of shape \(3,\)"
    ):
        LAZY.jit(f(nnc.DynamicFunction(lambda x: (x, None), DYNAMIC), **several))(B)
    with pytest.raises(ShapeError, match=r"<lambda> is a function of 2 tensors, given 1"):
        LAZY.jit(f(nnc.DynamicFunction(lambda x, y: x + y, DYNAMIC)))(B)
    with pytest.raises(RunError, match="ZeroDivisionError"):
        LAZY.jit(f(nnc.DynamicFunction(lambda x: x * (1 / 0), DYNAMIC)))(B)
    with pytest.raises(OperatorError, match=r"wants a dynamic stack.*nnc\.dynamic"):
        nnc.DynamicFunction(lambda x: x, LAZY)
    with pytest.raises(OperatorError, match="say values="):
        nnc.DynamicFunction(lambda *xs: xs[0], DYNAMIC)
    with pytest.raises(OperatorError, match="wants a function of tensors, given 3"):
        nnc.DynamicFunction(3, DYNAMIC)
