"""Derivatives of loops that grow, where none is known (`control_flow/waiting_derivatives`, `control_flow/stages`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ShapeError

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
X = np.array([1.0, 0.3])


def longer(s: Any, x: Any) -> Any:
    more = lambda x: (None, s.ops.concat(x, 2 * x[-1:] * x[-1:], axis=0))  # noqa: E731
    return s.while_loop(lambda x: x.shape[0] < 5, more, x, dynamic=True)[1]


def known_length(s: Any, x: Any) -> Any:
    for _ in range(3):
        x = s.ops.concat(x, 2 * x[-1:] * x[-1:], axis=0)
    return x


def loss(s: Any, grown: Any) -> Callable[[Any], Any]:
    return lambda x: (grown(s, x) ** 2).sum()


PROGRAMS: dict[str, Callable[[Any, Any], Callable[[Any], Any]]] = {
    "grad": lambda s, g: s.grad(loss(s, g)),
    "grad of what is computed": lambda s, g: lambda x: s.grad(loss(s, g))(x * 2).sum() * x,
    "value and grad": lambda s, g: lambda x: s.value_and_grad(loss(s, g))(x)[1],
    "second": lambda s, g: s.grad(lambda x: (s.grad(loss(s, g))(x) * np.array([1.0, 2.0])).sum()),
    "third": lambda s, g: s.grad(
        lambda x: s.grad(lambda y: (s.grad(loss(s, g))(y) * np.array([1.0, 2.0])).sum())(x)[1] * x[0]
    ),
    "forward": lambda s, g: lambda x: s.jvp(loss(s, g), (x,), (np.array([1.0, 2.0]),))[1],
    "forward over backward": lambda s, g: lambda x: s.jvp(s.grad(loss(s, g)), (x,), (np.array([1.0, 2.0]),))[1],
    "hessian": lambda s, g: s.hessian(loss(s, g)),
    "rows of gradients": lambda s, g: lambda x: s.vmap(s.grad(loss(s, g)))(s.ops.stack(x, x * 2, axis=0)),
    "gradient of rows": lambda s, g: s.grad(lambda x: s.vmap(loss(s, g))(s.ops.stack(x, x * 2, axis=0)).sum()),
    "of a part": lambda s, g: s.grad(lambda x: loss(s, g)(x[x > 0.1])),
    "of a branch": lambda s, g: s.grad(lambda x: s.cond(x.sum() > 0, lambda: loss(s, g)(x), lambda: x.sum())),
    "in a branch": lambda s, g: lambda x: s.cond(x.sum() > 0, lambda: s.grad(loss(s, g))(x), lambda: x),
    "descent": lambda s, g: lambda x: s.foreach(
        lambda _, x: (None, x - 0.01 * s.grad(loss(s, g))(x)), np.arange(3.0), x
    )[1],
    "gradient of descent": lambda s, g: s.grad(
        lambda x: s.foreach(lambda _, x: (None, x - 0.01 * s.grad(loss(s, g))(x)), np.arange(3.0), x)[1].sum()
    ),
    "of a loop around it": lambda s, g: s.grad(
        lambda x: s.foreach(lambda _, x: (None, x - 0.01 * g(s, x)[-2:]), np.arange(3.0), x)[1].sum()
    ),
}  # fmt: skip


@STACKS
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_under_jit_are_those_of_what_is_written_out(stack: Any, name: str) -> None:
    wanted = PROGRAMS[name](EAGER, known_length)(EAGER.asarray(X)).numpy()
    f = PROGRAMS[name](stack, longer)
    np.testing.assert_allclose(f(stack.asarray(X)).numpy(), wanted, rtol=1e-10)
    compiled = stack.jit(f, dynamic=True)
    for scale in (1.0, 0.9, 1.0):
        there = PROGRAMS[name](EAGER, known_length)(EAGER.asarray(X * scale)).numpy()
        np.testing.assert_allclose(compiled(X * scale).numpy(), there, rtol=1e-10)


def test_how_often_it_goes_may_differ_from_call_to_call() -> None:
    def f(x: Any) -> Any:
        s = x.stack
        more = lambda x: (x.sum(), s.ops.concat(x, x[-1:] * 1.5, axis=0))  # noqa: E731
        sums, x, n = s.while_loop(lambda x: x.sum() < 9, more, x, dynamic=True)
        return (sums * sums).sum() + (x**3).sum() + n.astype("float64") * x[0]

    compiled = LAZY.jit(LAZY.grad(f), dynamic=True)
    for x in ([1.0, 0.4], [4.0, 7.0], [0.1, 0.2], [2.0, 3.0]):
        np.testing.assert_allclose(compiled(np.array(x)).numpy(), EAGER.grad(f)(EAGER.asarray(x)).numpy(), rtol=1e-10)


def test_rows_under_jit_have_one_shape() -> None:
    def grown(x: Any) -> Any:
        more = lambda x: (None, LAZY.ops.concat(x, x[-1:], axis=0))  # noqa: E731
        return LAZY.while_loop(lambda x: x.sum() < 5, more, x, dynamic=True)[1]

    compiled = LAZY.jit(lambda x: LAZY.vmap(grown)(x), dynamic=True)
    assert compiled(np.array([[1.0, 1.0], [0.9, 1.1]])).tolist() == [[1] * 5, [0.9, 1.1, 1.1, 1.1, 1.1]]
    with pytest.raises(ShapeError, match=r"tensors of one shape, given \(5,\) and \(10,\)"):
        compiled(np.array([[1.0, 1.0], [0.5, 0.5]]))
