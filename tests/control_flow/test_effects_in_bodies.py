"""Effects in loops and branches: in order, each time, never again (`engine/effects`, `control_flow/steps`).

The order is that of the lines a plain Python function would print.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.effects import recording
from nnc_func.errors import (
    BatchingError,
    CheckError,
    DerivativeError,
    FileFormatError,
    GraphError,
    OperatorError,
    TracingError,
)

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
XS = np.array([1.0, 2.0, 3.0])
TIMES = ["s 1.0", "s 1.0", "s 2.0"]
Said = Callable[[Callable[[], Any]], tuple[list[str], Any]]
HOW: tuple[dict[str, Any], ...] = (
    {}, {"checkpoint": "sqrt"}, {"checkpoint": 2}, {"checkpoint": 1}, {"unroll": True}, {"unroll": 2},
)  # fmt: skip


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What a function prints, line by line, and what it gives."""

    def of(f: Callable[[], Any]) -> tuple[list[str], Any]:
        capsys.readouterr()
        found = f()
        return capsys.readouterr().out.splitlines(), found

    return of


def products(stack: Any, xs: Any, **how: Any) -> Any:
    """A sum of products so far, and of the last one; each time prints the product before."""

    def body(x: Any, s: Any) -> Any:
        stack.ops.print(s, text="s")
        return s * x * 2, s * x

    outs, last = stack.foreach(body, xs, 1.0, **how)
    return outs.sum() + last


@every
@pytest.mark.parametrize("how", HOW)
def test_once_for_each_time(stack: Any, how: Any, said: Said) -> None:
    assert said(lambda: products(stack, stack.asarray(XS), **how).item()) == (TIMES, 24.0)
    jitted = stack.jit(lambda xs: products(stack, xs, **how))
    for _ in range(3):
        assert said(lambda: jitted(XS).item()) == (TIMES, 24.0)


@every
@pytest.mark.parametrize("how", HOW)
def test_derivatives_do_not_repeat_them(stack: Any, how: Any, said: Said) -> None:
    def f(xs: Any) -> Any:
        return products(stack, xs, **how)

    wanted = EAGER.grad(lambda xs: 2 * xs[0] + 2 * xs[0] * xs[1] + 3 * xs[0] * xs[1] * xs[2])(XS).numpy()
    for transformed in (stack.grad(f), stack.jit(stack.grad(f))):
        lines, found = said(lambda transformed=transformed: transformed(XS).numpy())
        assert lines == TIMES
        np.testing.assert_allclose(found, wanted)
    lines, (_, tangent) = said(lambda: stack.jvp(f, (XS,), (XS,)))
    assert lines == TIMES
    np.testing.assert_allclose(tangent.numpy(), wanted @ XS)
    lines, curved = said(lambda: stack.hessian(f)(XS).numpy())
    assert lines == TIMES
    np.testing.assert_allclose(curved, [[0, 11, 6], [11, 0, 3], [6, 3, 0]])


@every
def test_while_loops(stack: Any, said: Said) -> None:
    def doubled(a: Any, **how: Any) -> Any:
        def body(a: Any) -> Any:
            stack.ops.print(a)
            return a, (a * 2,)

        outs, (last,), _ = stack.while_loop(lambda a: a < 10, body, (a,), **how)
        return outs.sum() + last

    lines = ["1.0", "2.0", "4.0", "8.0"]
    assert said(lambda: doubled(1.0, max_iterations=6).item()) == (lines, 31.0)
    assert said(lambda: doubled(1.0).item()) == (lines, 31.0)  # whose rows are counted first
    assert said(lambda: stack.jit(lambda a: doubled(a, max_iterations=6))(1.0).item()) == (lines, 31.0)
    assert said(lambda: stack.grad(lambda a: doubled(a, max_iterations=3))(1.0).item()) == (lines[:3], 15.0)
    assert said(lambda: stack.grad(lambda a: doubled(a)[()])(1.0).item()) == (lines, 31.0)  # which is counted first


@every
def test_the_untaken_branch_has_none(stack: Any, said: Said) -> None:
    def f(x: Any) -> Any:
        def then() -> Any:
            stack.ops.print(x, text="then")
            return x * 2

        return stack.cond(x > 0, then, lambda: x)

    for g in (f, stack.jit(f)):
        assert said(lambda g=g: g(stack.asarray(1.0)).item()) == (["then 1.0"], 2.0)
        assert said(lambda g=g: g(stack.asarray(-1.0)).item()) == ([], -1.0)
    assert said(lambda: stack.grad(f)(1.0).item()) == (["then 1.0"], 2.0)
    assert said(lambda: stack.grad(f)(-1.0).item()) == ([], 1.0)
    which = [lambda x: x, lambda x: (stack.ops.print(x), x)[1]]
    assert said(lambda: stack.case_of(1, which, 5.0, default=nnc.bypass).item()) == (["5.0"], 5.0)
    assert said(lambda: stack.case_of(7, which, 5.0, default=nnc.bypass).item()) == ([], 5.0)


@every
def test_before_within_and_after(stack: Any, said: Said) -> None:
    def f(xs: Any) -> Any:
        def body(x: Any, s: Any) -> Any:
            def large() -> Any:
                stack.ops.print(x, text="large")
                return s + x

            s = stack.cond(x > 1.5, large, lambda: s)
            return stack.fori(0, 2, lambda i, t: (stack.ops.print(i), t + s)[1], 0.0), s

        stack.ops.print(xs.sum(), text="before")
        outs, last = stack.foreach(body, xs, 0.0)
        stack.ops.print(outs, text="after")
        return outs.sum() + last

    lines = ["before 6.0", "0", "1", "large 2.0", "0", "1", "large 3.0", "0", "1", "after [ 0.  4. 10.]"]
    for g in (f, stack.jit(f)):
        assert said(lambda g=g: g(stack.asarray(XS)).item()) == (lines, 19.0)
    for g in (stack.grad(f), stack.jit(stack.grad(f))):
        found, slope = said(lambda g=g: g(XS).numpy().tolist())
        assert (found, slope) == (lines, [0.0, 5.0, 3.0])


@every
def test_loops_that_give_nothing_else(stack: Any, said: Said) -> None:
    def f(xs: Any) -> Any:
        stack.foreach(lambda x, _: (stack.ops.print(x), (None, None))[1], xs, None)
        return xs.sum()

    lines = ["1.0", "2.0", "3.0"]
    assert said(lambda: f(stack.asarray(XS)).item()) == (lines, 6.0)
    assert said(lambda: stack.jit(f)(XS).item()) == (lines, 6.0)
    assert said(lambda: stack.jit(f)(XS[:0]).item()) == ([], 0.0)


@every
def test_what_is_the_same_each_time_is_said_each_time(stack: Any, said: Said) -> None:
    def f(xs: Any) -> Any:
        return stack.fold(lambda s, x: (stack.ops.print(stack.asarray(7)), s + x)[1], 0.0, xs)

    assert said(lambda: stack.jit(f)(XS).item()) == (["7"] * 3, 6.0)


@every
def test_converted_statements(stack: Any, said: Said) -> None:
    @stack.jit(control_flow=True)
    def f(n: Any) -> Any:
        while n < 3:
            if n > 1.5:
                n.stack.ops.print(n, text="above")
            n.stack.ops.print(n)
            n = n + 1
        return n

    assert said(lambda: f(stack.asarray(1.0)).item()) == (["1.0", "above 2.0", "2.0"], 3.0)


# --- functions of the host ---------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("how", HOW)
def test_what_a_callback_gives_is_kept_for_the_derivative(stack: Any, how: Any) -> None:
    given: list[float] = []

    def times(v: Any) -> Any:
        given.append(float(v))
        return np.asarray(v * len(given))

    def f(xs: Any) -> Any:
        def body(x: Any, s: Any) -> Any:
            (t,) = stack.ops.callback(stack.ops.stop_gradient(s), function=times, shapes=((),), dtypes=("float64",))
            return None, s * t + x

        return stack.foreach(body, xs, 1.0, **how)[1]

    for g in (stack.grad(f), stack.jit(stack.grad(f))):
        given.clear()
        np.testing.assert_allclose(g(XS).numpy(), [120, 30, 1])
        assert given == [1.0, 2.0, 10.0]


@every
def test_what_would_be_called_twice_is_refused(stack: Any) -> None:
    def doubled(a: Any, **how: Any) -> Any:
        def body(a: Any) -> Any:
            (t,) = stack.ops.callback(
                stack.ops.stop_gradient(a), function=lambda v: v, shapes=((),), dtypes=("float64",)
            )
            return a, (a + t,)

        return stack.while_loop(lambda a: a < 10, body, (a,), **how)

    with pytest.raises(OperatorError, match=r"counted first, without its effects.*say max_iterations="):
        doubled(1.0)
    with pytest.raises(DerivativeError, match=r"computes a loop or a branch again without its effects"):
        stack.hessian(lambda a: doubled(a, max_iterations=4)[1][0] ** 2)(1.0)
    assert doubled(1.0, max_iterations=6)[1][0].item() == 16.0


# --- what fails, and what is refused -----------------------------------------------------------------------------


@every
def test_a_check_fails_in_its_time(stack: Any, said: Said) -> None:
    def f(xs: Any) -> Any:
        def body(s: Any, x: Any) -> Any:
            stack.ops.print(x)
            stack.ops.check(x < 1.5, x, text="x={} is small")
            return s + x

        return stack.fold(body, 0.0, xs)

    for g in (f, stack.jit(f)):
        with pytest.raises(CheckError, match=r"x=2.0 is small .*test_effects_in_bodies.py"):
            g(stack.asarray(XS)).item()


@every
def test_rows_of_a_batch_have_none(stack: Any) -> None:
    def one(x: Any) -> Any:
        return stack.fold(lambda s, y: (stack.ops.print(stack.asarray(1.0)), s + y)[1], 0.0, x)

    with pytest.raises(BatchingError, match=r"print, within loop, has an effect, which happens once"):
        stack.vmap(one)(np.stack([XS, XS]))
    with pytest.raises(BatchingError, match=r"print, within branch, has an effect"):
        stack.vmap(lambda x: stack.cond(x > 1, lambda: (stack.ops.print(x), x)[1], lambda: x))(XS)


@every
def test_rules_have_none(stack: Any) -> None:
    @nnc.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda _, g: (g.stack.ops.print(g), g * 2)[1:])
    with pytest.raises(GraphError, match=r"stands in a rule of a function's derivative, which is computed as often as"):
        stack.grad(lambda xs: stack.fold(lambda s, x: s + f(x), 0.0, xs))(XS)


def test_what_would_be_lost_is_refused() -> None:
    x = LAZY.input("x", (3,), "float64")
    with pytest.raises(GraphError, match=r"a loop with effects depends on the input 'x'.*carry a token"):
        LAZY.fold(lambda s, x: (LAZY.ops.print(x), s + x)[1], 0.0, x)


def test_a_token_may_be_carried(said: Said) -> None:
    x = LAZY.input("x", (3,), "float64")

    def body(x: Any, carried: Any) -> Any:
        token, s = carried
        return None, (LAZY.ops.print(s, after=token), s + x)

    token, s = LAZY.foreach(body, x, (LAZY.token(), 0.0))[1]
    program = LAZY.compile([x], s, effects=[token])
    assert said(lambda: float(program(XS))) == (["0.0", "1.0", "3.0"], 6.0)


def test_programs_with_such_loops_in_files(tmp_path: Any, said: Said) -> None:
    x = LAZY.input("x", (3,), "float64")
    with recording(LAZY) as scope:
        total = LAZY.fold(lambda s, x: (LAZY.ops.print(x), s + x)[1], 0.0, x)
    program = LAZY.compile([x], total, effects=scope.effects)
    program.save(tmp_path / "program")
    with pytest.raises(FileFormatError, match="'print', which does more than compute"):
        nnc.load_program(tmp_path / "program")
    loaded = nnc.load_program(tmp_path / "program", allow=("print",))
    assert said(lambda: float(loaded(XS))) == (["1.0", "2.0", "3.0"], 6.0)
    with pytest.raises(GraphError, match=r"loop .*has effects, and autotuning runs a program many times"):
        program.autotune(XS)


def test_a_budget_does_not_compute_them_again(said: Said) -> None:
    """What is computed again under a memory budget are other operators."""
    stack = LAZY.swap(engine=LAZY.engine.with_memory_budget("20 kB"))

    @stack.jit
    def f(x: Any) -> Any:
        layers = [x]
        for _ in range(6):
            once = stack.foreach(lambda y, s: (stack.ops.print(s), (y, s + 1))[1], layers[-1].reshape((2, 500)), 0)[0]
            layers.append(stack.ops.sort(once.reshape((1000,)) * 0.5))
        return sum(stack.ops.sum(layer * layers[-1]) for layer in reversed(layers))

    lines, _ = said(lambda: f(np.ones(1000, "float32")).item())
    assert lines == ["0", "1"] * 6


# --- variables ---------------------------------------------------------------------------------------------------


@every
def test_an_update_within_a_body_is_refused(stack: Any) -> None:
    w = stack.variable("w", np.zeros(()))

    def body(s: Any, x: Any) -> Any:
        w.value.assign(np.ones(()))
        return s + x

    with pytest.raises(TracingError, match=r"variable 'w' is assigned within .*outside, from the loop's results"):
        stack.fold(body, 0.0, XS)
    with pytest.raises(TracingError, match=r"variable 'w' is assigned within"):
        stack.cond(True, lambda: body(0.0, 1.0), lambda: 1.0)
    assert w.numpy() == 0.0
    w.value.assign(stack.fold(lambda s, x: s + x + w, 0.0, XS).numpy())
    assert w.numpy() == 6.0


@pytest.mark.parametrize("fails", [True, False])
def test_a_loop_that_fails_leaves_variables_as_they_were(fails: bool) -> None:
    """Values that are carried begin as variables, are swapped and written over, and end as their updates."""
    shape = (4, 3)
    starts = [np.arange(12.0).reshape(shape) + n for n in range(3)]
    variables = [LAZY.variable(f"w{n}", x) for n, x in enumerate(starts)]
    limit = LAZY.input("limit", (), "float64")

    def body(i: Any, carried: Any) -> Any:
        a, b, c = carried
        LAZY.ops.check(a.max() < limit, text="a is small")
        return b * 2, a + 1, LAZY.ops.tanh(c) + b

    with recording(LAZY) as scope:
        found = LAZY.fori(0, 6, body, tuple(variables))
    pairs = [*zip(variables, found, strict=True)]
    program = LAZY.compile([limit], [x.sum() for x in found], updates=pairs, effects=scope.effects)
    before = [v.numpy() for v in variables]
    if fails:
        with pytest.raises(CheckError):
            program(20.0)
        for v, was in zip(variables, before, strict=True):
            np.testing.assert_array_equal(v.numpy(), was)
    a, b, c = before
    for _ in range(6):
        a, b, c = b * 2, a + 1, np.tanh(c) + b
    program(1e9)
    for v, wanted in zip(variables, (a, b, c), strict=True):
        np.testing.assert_allclose(v.numpy(), wanted)
