"""Functions of the host with derivatives of the host, wherever a callback may stand (`graph/ops/host_functions`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import BatchingError, DerivativeError, DTypeError, OperatorError, RunError, ShapeError

LAZY, EAGER, DYNAMIC = nnc.lazy(), nnc.eager(), nnc.dynamic()
STACKS = {"eager": EAGER, "lazy": LAZY, "dynamic": DYNAMIC, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
two = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
both = pytest.mark.parametrize("pure", [True, False], ids=["pure", "effect"])
X, ROWS = np.array([0.3, 0.7, 1.1]), np.random.default_rng(0).normal(size=(4, 3))


class Sine:
    """The sine as a function of the host, with derivatives to the third order, and a note of what is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        second = nnc.HostFunction(self._second, vjp=self._third)
        first = nnc.HostFunction(self._first, vjp=second, jvp=self._first_moved)
        self.function = nnc.HostFunction(self._value, vjp=first, jvp=lambda x, y, t: t * np.cos(x))

    def _value(self, x: Any) -> Any:
        self.calls.append("value")
        return np.sin(x)

    def _first(self, x: Any, y: Any, g: Any) -> Any:
        self.calls.append("first")
        return g * np.cos(x)

    def _first_moved(self, x: Any, y: Any, g: Any, c: Any, tx: Any, ty: Any, tg: Any) -> Any:
        return tg * np.cos(x) - g * np.sin(x) * tx

    def _second(self, x: Any, y: Any, g: Any, c: Any, h: Any) -> Any:
        self.calls.append("second")
        return -h * g * np.sin(x), None, h * np.cos(x)

    def _third(
        self, x: Any, y: Any, g: Any, c: Any, h: Any, cx: Any, cy: Any, cg: Any, kx: Any, _: Any, kg: Any
    ) -> Any:
        by_x = -h * g * np.cos(x) * kx - h * np.sin(x) * kg
        return by_x, None, -h * np.sin(x) * kx, None, -g * np.sin(x) * kx + np.cos(x) * kg

    def on(self, stack: Any, pure: bool = True) -> Callable[[Any], Any]:
        """It as a function of tensors of a stack."""
        return lambda x: applied(stack, self.function, x, pure=pure)

    def while_it(self, f: Callable[[], Any]) -> tuple[Any, list[str]]:
        """What a function gives, and what is called meanwhile."""
        self.calls.clear()
        return f(), [*self.calls]


def applied(stack: Any, function: Any, *xs: Any, pure: bool = True) -> Any:
    """A function of the host on tensors, whose result is like the last one."""
    like = stack.asarray(xs[-1])
    given = {"shapes": (tuple(like.shape),), "dtypes": (like.dtype.name,), "pure": pure}
    return stack.ops.callback(*xs, function=function, **given)[0]


def close(found: Any, wanted: Any) -> None:
    """Equal up to rounding."""
    found, wanted = (x.numpy() if isinstance(x, nnc.Tensor) else x for x in (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


# --- each transformation, to any order ----------------------------------------------------------------------


@every
@both
@pytest.mark.parametrize("compiled", [False, True], ids=["at once", "jit"])
def test_derivatives_have_the_orders_that_are_given(stack: Any, pure: bool, compiled: bool) -> None:
    sine = Sine()
    f = lambda x: (sine.on(stack, pure)(x) * x).sum()  # noqa: E731
    first = stack.grad(f)
    second = stack.grad(lambda x: first(x).sum())
    third = stack.grad(lambda x: second(x).sum())
    jit = stack.jit if compiled else lambda g: g
    sin, cos = np.sin(X), np.cos(X)
    found, calls = sine.while_it(lambda: jit(first)(X).numpy())
    np.testing.assert_allclose(found, sin + X * cos)
    assert calls == ["value", "first"]
    found, calls = sine.while_it(lambda: jit(second)(X).numpy())
    np.testing.assert_allclose(found, 2 * cos - X * sin)
    assert calls.count("value") == calls.count("second") == 1
    close(jit(third)(X), -3 * sin - X * cos)
    found, calls = sine.while_it(lambda: jit(lambda x: stack.jvp(f, (x,), (x,))[1])(X).item())
    np.testing.assert_allclose(found, ((sin + X * cos) * X).sum())
    assert calls == ["value"]
    if pure:
        close(stack.hessian(f)(X), np.diag(2 * cos - X * sin))


@every
@both
def test_a_value_is_computed_once_where_nothing_is_differentiated(stack: Any, pure: bool) -> None:
    sine = Sine()
    f = stack.jit(sine.on(stack, pure))
    for _ in range(2):
        found, calls = sine.while_it(lambda: f(X).numpy())
        np.testing.assert_array_equal(found, np.sin(X))
        assert calls == ["value"]
    with stack.no_grad():
        assert sine.while_it(lambda: sine.on(stack, pure)(stack.asarray(X)).numpy())[1] == ["value"]


@both
def test_gradients_of_values(pure: bool) -> None:
    sine, stack = Sine(), DYNAMIC
    x = stack.variable("x", X)
    y = (sine.on(stack, pure)(x * 1) * x).sum()
    assert sine.calls == ["value"]
    wanted = np.sin(X) + X * np.cos(X), 2 * np.cos(X) - X * np.sin(X), -3 * np.sin(X) - X * np.cos(X)
    for each in wanted:
        (y,) = stack.gradients([y], [x])
        close(y, each)
        y = y.sum()
    assert sine.calls.count("value") == 1
    with stack.no_grad():
        z = sine.on(stack, pure)(x)
    close(stack.gradients([z * x], [x])[0], np.sin(X))


@every
def test_several_values_and_results_some_of_which_are_integers(stack: Any) -> None:
    def powers(x: Any, n: Any, y: Any) -> Any:
        return x**n * y, n + 1, np.float32(x.sum())

    def backward(x: Any, n: Any, y: Any, power: Any, more: Any, total: Any, g: Any, _: Any, h: Any) -> Any:
        assert (power.shape, more.dtype, total.dtype, h.dtype) == ((3,), np.int64, np.float32, np.float32)
        return g * n * x ** (n - 1) * y + h, None, (g * x**n).sum()

    function = nnc.HostFunction(powers, vjp=backward)

    def f(x: Any, y: Any) -> Any:
        power, more, total = stack.ops.callback(
            x, stack.asarray(2), y, function=function, shapes=((3,), (), ()), dtypes=("float64", "int64", "float32")
        )
        return power.sum() * more + total

    by_x, by_y = stack.grad(f, (0, 1))(X, 5.0)
    close(by_x, 3 * 2 * X * 5 + 1)
    close(by_y, 3 * (X**2).sum())
    close(stack.grad(lambda x: f(x, 2.0))(X), 3 * 2 * X * 2 + 1)  # the other one is a constant


def test_extents_that_are_not_known() -> None:
    sine = Sine()
    x = LAZY.input("x", ("n",), "float64")
    slope = LAZY.grad(lambda x: (applied(LAZY, sine.function, x) * x).sum())(x)
    program = LAZY.compile([x], slope)
    for some in (X, X[:1]):
        np.testing.assert_allclose(program(some), np.sin(some) + some * np.cos(some))


# --- in loops and branches ----------------------------------------------------------------------------------


def summed(stack: Any, s: Any, **how: Any) -> Any:
    def f(xs: Any) -> Any:
        rows, last = stack.foreach(lambda x, c: ((y := s(x * c)), c + y), xs, 1.0, **how)
        return rows.sum() + last

    return f


def grown(stack: Any, s: Any) -> Any:
    def f(x: Any) -> Any:
        (a,) = stack.while_loop(lambda a: a.sum() < 6, lambda a: (None, (a + s(a * a * 0.1),)), (x,), 20)[1]
        return (a * a).sum()

    return f


def chosen(stack: Any, s: Any) -> Any:
    def f(x: Any) -> Any:
        taken = stack.cond(x.sum() > 1, lambda x: s(x) * x, lambda x: x, x)
        return (taken + stack.cond(x.sum() < 1, lambda x: s(x) * x, lambda x: x, x)).sum()

    return f


HOW = [
    (summed, {}), (summed, {"checkpoint": "sqrt"}), (summed, {"checkpoint": 1}), (summed, {"unroll": 2}),
    (grown, {}), (chosen, {}),
]  # fmt: skip


@two
@both
@pytest.mark.parametrize(("make", "how"), HOW)
def test_gradients_flow_through_loops_and_branches(stack: Any, pure: bool, make: Any, how: Any) -> None:
    sine = Sine()
    f, plain = make(stack, sine.on(stack, pure), **how), make(stack, stack.ops.sin, **how)
    count = len(sine.while_it(lambda: f(stack.asarray(X)).numpy())[1])
    wanted = stack.grad(plain)(X)
    for g in (stack.grad(f), stack.jit(stack.grad(f))):
        found, calls = sine.while_it(lambda g=g: g(X).numpy())
        close(found, wanted)
        assert calls.count("first") == count
        if not pure:
            assert calls.count("value") == count
    close(stack.jvp(f, (X,), (X,))[1], stack.jvp(plain, (X,), (X,))[1])
    curved = stack.grad(lambda x: (stack.grad(f)(x) ** 2).sum())
    found, calls = sine.while_it(lambda: curved(X).numpy())
    close(found, stack.grad(lambda x: (stack.grad(plain)(x) ** 2).sum())(X))
    if not pure:
        assert calls.count("value") == count


@every
def test_what_would_be_called_twice_is_refused(stack: Any) -> None:
    sine = Sine()

    def f(x: Any) -> Any:
        s = sine.on(stack, pure=False)
        (a,) = stack.while_loop(lambda a: a.sum() < 6, lambda a: (None, (a + s(a * a * 0.1),)), (x,))[1]
        return (a * a).sum()

    with pytest.raises(DerivativeError, match=r"computes a loop or a branch again without its effects.*pure=True"):
        stack.grad(f)(X)


# --- rows ---------------------------------------------------------------------------------------------------


@every
def test_rows_of_a_batch(stack: Any) -> None:
    sine = Sine()
    f, plain = (lambda x: (sine.on(stack)(x) * x).sum()), (lambda x: (stack.ops.sin(x) * x).sum())
    for transformed in (
        stack.vmap,
        lambda f: stack.jit(stack.vmap(stack.grad(f))),
        lambda f: stack.grad(lambda rows: stack.vmap(f)(rows).sum()),
        lambda f: stack.vmap(lambda x: stack.jvp(f, (x,), (x,))[1]),
        lambda f: stack.vmap(stack.grad(lambda x: stack.grad(f)(x).sum())),
        lambda f: stack.vmap(stack.vmap(lambda x: f(x[None]))),
    ):
        close(transformed(f)(ROWS), transformed(plain)(ROWS))
    assert len(sine.while_it(lambda: stack.vmap(f)(ROWS).numpy())[1]) == len(ROWS)
    for g in (stack.vmap(f), stack.vmap(stack.grad(f))):
        found, calls = sine.while_it(lambda g=g: g(np.zeros((0, 3))).numpy())
        assert (len(found), calls) == (0, [])


@every
def test_what_has_no_rows_gets_the_sum_of_their_cotangents(stack: Any) -> None:
    product = nnc.HostFunction(lambda a, b: a * b, vjp=lambda a, b, y, g: ((g * b).sum(), g * a))
    f = stack.vmap(lambda a, b: applied(stack, product, a, b), in_axes=(None, 0))
    close(f(stack.asarray(2.0), ROWS), 2 * ROWS)
    close(stack.grad(lambda a: f(a, stack.asarray(ROWS)).sum())(2.0), ROWS.sum())


@two
def test_loops_of_rows_that_end_at_different_times(stack: Any) -> None:
    def grown(s: Any) -> Any:
        def f(x: Any) -> Any:
            step = lambda a: (None, (a + abs(s(a)) + 0.1,))  # noqa: E731
            (a,) = stack.while_loop(lambda a: a.sum() < 6, step, (x,), 80)[1]
            return (a * a).sum()

        return f

    sine = Sine()
    close(stack.vmap(grown(sine.on(stack)))(ROWS), stack.vmap(grown(stack.ops.sin))(ROWS))
    close(stack.vmap(stack.grad(grown(sine.on(stack))))(ROWS), stack.vmap(stack.grad(grown(stack.ops.sin)))(ROWS))


@every
def test_an_effect_is_of_no_row(stack: Any) -> None:
    with pytest.raises(BatchingError, match=r"callback has an effect, .* pure=True is called for each"):
        stack.vmap(Sine().on(stack, pure=False))(ROWS)


# --- functions of tensors with a derivative of their own ----------------------------------------------------


def of_tensors(stack: Any, calls: list[str]) -> tuple[Any, Any]:
    """Sine and exponential, whose rules call functions of the host."""

    def called(function: Any) -> Any:
        def noted(a: Any) -> Any:
            calls.append(function.__name__)
            return function(a)

        return lambda x: applied(stack, noted, x)

    host_sin, host_cos, host_exp = map(called, (np.sin, np.cos, np.exp))
    sine, cosine, exponential = map(stack.custom_vjp, (host_sin, host_cos, host_exp))
    sine.defvjp(lambda x: (sine(x), x), lambda x, g: (g * cosine(x),))
    cosine.defvjp(lambda x: (cosine(x), x), lambda x, g: (-g * sine(x),))
    exponential.defvjp(lambda x: (y := exponential(x), y), lambda y, g: (g * y,))
    return sine, exponential


@two
@pytest.mark.parametrize("which", [0, 1], ids=["sine", "exponential"])
def test_rules_may_call_pure_functions_of_the_host(stack: Any, which: int) -> None:
    """What a rule keeps for its backward pass is not called again."""
    calls: list[str] = []
    s, plain = of_tensors(stack, calls)[which], (stack.ops.sin, stack.ops.exp)[which]
    for make, times in ((lambda s: lambda x: (s(x) * x).sum(), 1), (lambda s: summed(stack, s), 3)):
        f, wanted = make(s), make(plain)
        for g in (stack.grad(f), stack.jit(stack.grad(f))):
            calls.clear()
            close(g(X), stack.grad(wanted)(X))
            assert len(calls) == (2 - which) * times
        curved = [stack.grad(lambda x, f=f: (stack.grad(f)(x) ** 2).sum()) for f in (f, wanted)]
        close(curved[0](X), curved[1](X))
    close(stack.vmap(s)(ROWS), plain(stack.asarray(ROWS)))


# --- what is refused ----------------------------------------------------------------------------------------


@every
def test_a_mode_that_was_not_given_is_refused_with_words(stack: Any) -> None:
    def f(**given: Any) -> Any:
        function = nnc.HostFunction(np.sin, **{name: lambda x, y, g: g * np.cos(x) for name in given})
        return lambda x: applied(stack, function, x).sum()

    close(stack.grad(f(vjp=1))(X), np.cos(X))
    with pytest.raises(DerivativeError, match=r"no derivative in forward mode .*: sin was given a vjp= and no jvp="):
        stack.jvp(f(vjp=1), (X,), (X,))
    with pytest.raises(DerivativeError, match=r"no derivative in reverse mode .*HostFunction\(sin, vjp="):
        stack.grad(f(jvp=1))(X)
    with pytest.raises(DerivativeError, match=r"callback has no derivative: .*give sin a derivative of the host"):
        stack.grad(f())(X)
    with pytest.raises(DerivativeError, match=r"callback has no derivative: .*give <lambda> \(vjp of sin\) a derivat"):
        stack.grad(lambda x: stack.grad(f(vjp=1))(x).sum())(X)


@every
@pytest.mark.parametrize(
    ("backward", "error", "words"),
    [
        (lambda x, y, g: g[:2], ShapeError, r"returned an array of shape \(2,\) as the cotangent of value 0"),
        (lambda x, y, g: (g, g), ShapeError, r"returned 2 arrays, wanted is one cotangent for each value"),
        (lambda x, y, g: 1 / 0, RunError, r"ZeroDivisionError"),
        (lambda x, y, g: g * 1j, DTypeError, r"vjp of sin\) returned complex128 as result 0, callback expects float64"),
        (lambda x, y, g: g.fill(0), RunError, r"read-only"),
    ],
)  # fmt: skip
def test_what_a_derivative_does_wrong_is_told(stack: Any, backward: Any, error: Any, words: str) -> None:
    function = nnc.HostFunction(np.sin, vjp=backward)
    f = stack.grad(lambda x: applied(stack, function, x).sum())
    for g in (f, stack.jit(f)):
        with pytest.raises(error, match=rf"(?s)(test_host_functions\.py.*{words}|{words}.*test_host_functions\.py)"):
            g(X).numpy()


def test_what_is_no_function() -> None:
    with pytest.raises(OperatorError, match="wants a function of NumPy arrays as its vjp, given 3"):
        nnc.HostFunction(np.sin, vjp=3)  # type: ignore[arg-type]
    with pytest.raises(OperatorError, match="as its function, given None"):
        nnc.HostFunction(None)  # type: ignore[arg-type]
    assert repr(nnc.HostFunction(np.sin)) == "HostFunction(sin)"
    assert nnc.HostFunction(np.sin, vjp=np.cos) == nnc.HostFunction(np.sin, vjp=np.cos)
