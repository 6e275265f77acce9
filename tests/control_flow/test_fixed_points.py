"""Fixed points and the derivatives of the implicit function (`control_flow/fixed_points`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DTypeError, OperatorError, RunError, UnboundError
from tests.control_flow.files import same_from_a_file

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
draw = np.random.default_rng(5)
A, B = draw.normal(size=(4, 4)) / 8, draw.normal(size=4)


def close(found: Any, wanted: Any, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(found.numpy() if hasattr(found, "numpy") else found, wanted, rtol=rtol, atol=atol)


def root(stack: Any, **how: Any) -> Any:
    """A square root by Newton's method."""
    return lambda a: stack.fixed_point(lambda x: (x + a / x) / 2, 1.0, **how)


def linear(stack: Any, **how: Any) -> Any:
    """What solves x = a x + b."""
    return lambda a, b: stack.fixed_point(lambda x, b: a @ x + b, np.zeros(4), b, **how)


# --- closed forms --------------------------------------------------------------------------------------------


@every
def test_square_roots_to_every_order(stack: Any) -> None:
    f = root(stack)
    close(f(stack.asarray(2.0)), 2**0.5)
    for k, wanted in enumerate((0.5 * 2**-0.5, -0.25 * 2**-1.5, 0.375 * 2**-2.5)):
        f = stack.grad(f)
        close(f(2.0), wanted)
        assert k < 3
    close(stack.jvp(root(stack), (2.0,), (3.0,))[1], 1.5 * 2**-0.5)
    close(stack.jvp(stack.grad(root(stack)), (2.0,), (1.0,))[1], -0.25 * 2**-1.5)
    close(stack.hvp(root(stack), (2.0,), (1.0,))[0], -0.25 * 2**-1.5)


@every
def test_linear_maps_are_solved(stack: Any) -> None:
    """By explicit arguments and by what is captured, in both modes, and of second order."""
    weights = draw.normal(size=4)
    found = lambda a, b: (linear(stack)(a, b) ** 2 * weights).sum()  # noqa: E731
    wanted = lambda a, b: (stack.ops.solve(np.eye(4) - a, b) ** 2 * weights).sum()  # noqa: E731
    close(linear(stack)(stack.asarray(A), B), np.linalg.solve(np.eye(4) - A, B))
    primals, tangents = (A, B), (draw.normal(size=(4, 4)), draw.normal(size=4))
    for one, other in zip(*(stack.grad(f, argnums=(0, 1))(*primals) for f in (found, wanted)), strict=True):
        close(one, other.numpy())
    close(stack.jvp(found, primals, tangents)[1], stack.jvp(wanted, primals, tangents)[1].numpy())
    for one, other in zip(*(stack.hvp(f, primals, tangents) for f in (found, wanted)), strict=True):
        close(one, other.numpy(), 1e-8)
    close(stack.jacobian(lambda b: linear(stack)(stack.asarray(A), b))(B), np.linalg.inv(np.eye(4) - A))


@every
def test_an_equilibrium_cell(stack: Any) -> None:
    """Of a layer of a deep equilibrium model, whose derivative is that of its equation."""
    w, u, x = draw.normal(size=(3, 3)) / 4, draw.normal(size=(2, 3)), draw.normal(size=(5, 2))
    target = draw.normal(size=(5, 3))

    def state(w: Any, u: Any, x: Any) -> Any:
        return stack.fixed_point(lambda h: stack.ops.tanh(h @ w + x @ u), np.zeros((5, 3)))

    h = np.zeros((5, 3))
    for _ in range(500):
        h = np.tanh(h @ w + x @ u)
    close(state(*map(stack.asarray, (w, u, x))), h)
    found = stack.grad(lambda *v: (state(*v) * target).sum(), argnums=(0, 1, 2))(w, u, x)
    slope = 1 - h * h  # row by row: (I - w D) adjoint = target
    lam = np.stack([np.linalg.solve(np.eye(3) - w @ np.diag(d), g) for d, g in zip(slope, target, strict=True)]) * slope
    for one, other in zip(found, (h.T @ lam, x.T @ lam, lam @ u.T), strict=True):
        close(one, other)


@every
def test_trees_and_numbers(stack: Any) -> None:
    def f(s: Any, c: Any) -> Any:  # x = cos y, y = c sin x / 2
        return {"x": stack.ops.cos(s["y"]), "y": c * stack.ops.sin(s["x"]) / 2}

    solved = lambda c: stack.fixed_point(f, {"x": 0, "y": np.float64(1)}, c)  # noqa: E731
    found = solved(stack.asarray(1.0))
    x, y = found["x"].item(), found["y"].item()
    close(x, np.cos(y))
    close(y, np.sin(x) / 2)
    for leaf in "xy":
        sides = [solved(stack.asarray(1.0 + h))[leaf].item() for h in (1e-6, -1e-6)]
        close(stack.grad(lambda c, leaf=leaf: solved(c)[leaf])(1.0), (sides[0] - sides[1]) / 2e-6, 1e-7)


@every
def test_where_it_starts_has_no_derivative(stack: Any) -> None:
    f = lambda x0, a: stack.fixed_point(lambda x: (x + a / x) / 2, x0)  # noqa: E731
    found = stack.grad(f, argnums=(0, 1))(1.5, 2.0)
    close(found[0], 0.0)
    close(found[1], 0.5 * 2**-0.5)
    close(stack.jvp(lambda x0: f(x0, 2.0), (1.5,), (1.0,))[1], 0.0)
    assert stack.fixed_point(lambda x: x, []) == []


@every
def test_complex_numbers_and_no_elements(stack: Any) -> None:
    m = np.array([[0.2 + 0.3j, 0.1], [0.1j, -0.4]])
    b = np.array([1 + 1j, -2.0])
    close(stack.fixed_point(lambda x: m @ x + b, b * 0), np.linalg.solve(np.eye(2) - m, b))
    loss = lambda b: stack.ops.abs(stack.fixed_point(lambda x: m @ x + b, b * 0)).sum()  # noqa: E731
    plain = lambda b: stack.ops.abs(stack.asarray(np.linalg.inv(np.eye(2) - m)) @ b).sum()  # noqa: E731
    close(stack.grad(loss)(b), stack.grad(plain)(b).numpy())
    assert stack.fixed_point(lambda x: x * 2, np.zeros((0, 3))).shape == (0, 3)


@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_default_tolerance_is_that_of_the_dtype(stack: Any, dtype: str) -> None:
    a = stack.asarray(np.asarray(2.0, dtype))
    found, slope = stack.value_and_grad(lambda a: stack.fixed_point(lambda x: (x + a / x) / 2, a))(a)
    assert found.dtype.name == slope.dtype.name == dtype
    close(found, 2**0.5, 1e-6 if dtype == "float32" else 1e-12)
    close(slope, 0.5 * 2**-0.5, 1e-5 if dtype == "float32" else 1e-12)


# --- how it ends ---------------------------------------------------------------------------------------------


@every
def test_what_does_not_converge_is_no_number(stack: Any) -> None:
    doubled = lambda **how: stack.fixed_point(lambda x: 2 * x, 1.0, **how).item()  # noqa: E731
    assert np.isnan(doubled())
    assert np.isnan(doubled(max_iterations=0))
    assert doubled(max_iterations=5, on_limit="stop") == 32.0
    assert doubled(max_iterations=0, on_limit="stop") == 1.0
    halved = stack.fixed_point(lambda x: x / 2, 1.0, max_iterations=40, tolerance=1e-3).item()
    assert 0 < halved < 2e-3
    assert np.isnan(stack.grad(lambda a: stack.fixed_point(lambda x: a * x + 1, 0.0, max_iterations=9))(2.0).item())


@every
def test_it_says_how_it_did_not_converge(stack: Any) -> None:
    f = lambda x0, **how: stack.fixed_point(lambda x: x / 2 + 1, x0, on_limit="raise", **how)  # noqa: E731
    close(f(0.0), 2.0)
    close(f(0.0, max_iterations=None), 2.0)
    with pytest.raises(RunError, match=r"after max_iterations=3: x still changes by 0\.0435, and tolerance is 1e-06"):
        f(0.0, max_iterations=3, tolerance=1e-6)
    with pytest.raises(RunError, match="x is no finite number"):
        f(float("nan"))
    with pytest.raises(RunError, match="did not converge"):
        stack.grad(lambda a: stack.fixed_point(lambda x: a * x + 1, 0.0, max_iterations=9, on_limit="raise"))(2.0)


def test_what_has_no_value_yet_is_not_judged_now() -> None:
    x = LAZY.input("x", (), "float64")
    with pytest.raises(UnboundError, match='on_limit="nan" says it by the result'):
        root(LAZY, on_limit="raise")(x)


@every
@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda s: s.fixed_point(None, 1.0), OperatorError, "fixed_point"),
        (lambda s: s.fixed_point(lambda x: x, 1.0, on_limit="warn"), OperatorError, "given 'warn'"),
        (lambda s: s.fixed_point(lambda x: x, 1.0, max_iterations=-1), OperatorError, "given -1"),
        (lambda s: s.fixed_point(lambda x: x, 1.0, tolerance=-1.0), OperatorError, "given -1.0"),
        (lambda s: s.fixed_point(lambda x: x, 1.0, tolerance=float("nan")), OperatorError, "given nan"),
        (lambda s: s.fixed_point(lambda x: (x, x), 1.0), OperatorError, "keeps its structure"),
        (lambda s: s.fixed_point(lambda x: x[:1], np.ones(3)), OperatorError, r"x0 is \(3,\), and \(1,\) after"),
        (lambda s: s.fixed_point(lambda t: {"n": t["n"]}, {"n": 3}), DTypeError, "x0 at n is int64"),
    ],
)
def test_what_is_no_iteration_is_refused_in_words(stack: Any, call: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call(stack)


# --- within other things ---------------------------------------------------------------------------------------


@every
def test_rows_of_a_vmap_that_take_differently_many_times(stack: Any) -> None:
    a = np.array([1.0, 2.0, 900.0, 1e-4])
    close(stack.vmap(root(stack))(stack.asarray(a)), a**0.5)
    close(stack.vmap(stack.grad(root(stack)))(stack.asarray(a)), 0.5 * a**-0.5)
    close(stack.grad(lambda a: stack.vmap(root(stack))(a).sum())(a), 0.5 * a**-0.5)
    found = stack.vmap(lambda r: stack.fixed_point(lambda x: r * x + 1, 0.0, max_iterations=99))(
        stack.asarray([0.5, 2])
    )
    close(found, [2.0, np.nan])


@every
def test_in_loops_and_branches(stack: Any) -> None:
    xs = np.array([1.0, 2.0])

    def f(a: Any) -> Any:
        return stack.scan(lambda c, x: (stack.cond(c < 9, lambda: root(stack)(c + a * x), lambda: c), c), 0.0, xs)[0]

    def plain(a: float) -> float:
        return float(np.sqrt(np.sqrt(a) + 2 * a))

    close(f(stack.asarray(2.0)), plain(2.0))
    close(stack.grad(f)(2.0), (plain(2 + 1e-6) - plain(2 - 1e-6)) / 2e-6, 1e-7)
    close(stack.jvp(f, (2.0,), (1.0,))[1], (plain(2 + 1e-6) - plain(2 - 1e-6)) / 2e-6, 1e-7)
    close(stack.grad(stack.grad(f))(2.0), (plain(2 + 1e-4) - 2 * plain(2) + plain(2 - 1e-4)) / 1e-8, 1e-5)


def test_as_a_program_and_from_a_file(tmp_path: Any) -> None:
    a, b = LAZY.input("a", (4, 4), "float64"), LAZY.input("b", (4,), "float64")
    x = linear(LAZY)(a, b)
    slopes = LAZY.grad(lambda a, b: (linear(LAZY)(a, b) ** 2).sum(), argnums=(0, 1))(a, b)
    found = same_from_a_file(LAZY, [a, b], [x, *slopes], [A, B], tmp_path)
    close(found[0], np.linalg.solve(np.eye(4) - A, B))
    close(found[2], np.linalg.solve((np.eye(4) - A).T, 2 * found[0]))
    f = LAZY.jit(LAZY.grad(lambda a: root(LAZY)(a)))
    for value in (2.0, 5.0):
        close(f(np.float64(value)), 0.5 * value**-0.5)


def test_nothing_of_the_iterations_is_kept() -> None:
    """However many there are, the gradient stacks no rows: it wants no bound, and its memory is the same."""
    a = LAZY.input("a", (), "float64")
    sizes = []
    for most in (10, 10_000, None):
        f = lambda a, most=most: LAZY.fixed_point(lambda x: a * x + 1, 0.0, max_iterations=most)  # noqa: E731
        program = LAZY.compile([a], LAZY.grad(f)(a))
        close(program(np.float64(0.01)), 1 / 0.99**2)
        sizes.append(program.plan.arena_bytes)
    assert sizes[0] == sizes[1]
    assert sizes[2] <= sizes[0]
