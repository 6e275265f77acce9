"""Branches that grow apart in the bodies of loops that grow (`control_flow/branches`, `control_flow/branch_stages`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
STARTS = ([1.0, 2.0], [4.0, 2.0], [0.5, 0.25])

Body = Callable[[Any, Any], Any]


def joined(s: Any, *parts: Any) -> Any:
    return s.ops.concat(*parts, axis=0)


def one_or_twice(s: Any, x: Any, choose: Any) -> Any:
    return choose(x.sum() > 5, lambda: joined(s, x, x[-1:] * x[:1]), lambda: joined(s, x, x) * 1.1)


def more_or_as_it_is(s: Any, x: Any, choose: Any) -> Any:
    return choose(x.sum() > 5, lambda: joined(s, x, x[-1:] * x[:1]), lambda: x * 1.5)


def a_part_of_it(s: Any, x: Any, choose: Any) -> Any:
    return joined(s, x, choose(x.sum() > 5, lambda: x[-1:], lambda: x[-2:]) * 2)


def within_another(s: Any, x: Any, choose: Any) -> Any:
    def inner() -> Any:
        return choose(x[0] > 3, lambda: joined(s, x, x[:1]), lambda: joined(s, x, x[:2]))

    return choose(x.sum() > 4, inner, lambda: x * 2)


def with_other_results(s: Any, x: Any, choose: Any) -> Any:
    longer, scale = choose(x.sum() > 5, lambda: (joined(s, x, x[:1]), x.sum()), lambda: (x, x.mean()))
    return longer * (1 + 0.1 * s.ops.tanh(scale))


BODIES: list[Body] = [one_or_twice, more_or_as_it_is, a_part_of_it, within_another, with_other_results]


def grown(s: Any, body: Any) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        sums, x, n = s.while_loop(
            lambda x: x.shape[0] < 7, lambda x: (x.sum(), body(s, x, s.cond)), x, max_iterations=6, dynamic=True
        )
        return sums.sum() * 0.1, x, n

    return run


def by_hand(body: Any) -> Callable[[Any], Any]:
    def number(x: Any) -> Any:
        carrier = x.value
        while hasattr(carrier, "primal"):
            carrier = carrier.primal
        return np.asarray(carrier)

    def run(x: Any) -> Any:
        n, total = 0, 0.0
        while x.shape[0] < 7 and n < 6:
            total = total + x.sum()
            x, n = body(EAGER, x, lambda test, then, other: then() if bool(number(test)) else other()), n + 1
        return total * 0.1, x, EAGER.asarray(n)

    return run


def loss(run: Any) -> Callable[[Any], Any]:
    def of(x: Any) -> Any:
        sums, x, _ = run(x)
        return sums + (x**2).sum()

    return of


@STACKS
@pytest.mark.parametrize("start", STARTS, ids=["three", "six", "less"])
@pytest.mark.parametrize("body", BODIES)
def test_sides_may_grow_apart(stack: Any, body: Body, start: list[float]) -> None:
    run, plain = grown(stack, body), by_hand(body)
    for one, other in zip(run(stack.asarray(start)), plain(EAGER.asarray(start)), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    wanted = EAGER.grad(loss(plain))(EAGER.asarray(start)).numpy()
    np.testing.assert_allclose(stack.grad(loss(run))(stack.asarray(start)).numpy(), wanted, rtol=1e-10)
    compiled = stack.jit(stack.value_and_grad(loss(run)), dynamic=True)
    np.testing.assert_allclose(compiled(np.array(start))[1].numpy(), wanted, rtol=1e-10)


@STACKS
def test_case_of_may_shorten(stack: Any) -> None:
    def body(x: Any) -> Any:
        ways = [lambda: joined(stack, x, x[-1:] * x[:1]), lambda: x * 1.5, lambda: x[1:]]
        return None, stack.case_of(x.sum().astype("int64") % 3, ways)

    found = stack.while_loop(lambda x: x.shape[0] < 7, body, stack.asarray([1.0, 2.0]), max_iterations=5, dynamic=True)[
        1
    ]
    x = np.array([1.0, 2.0])
    for _ in range(5):
        x = [np.append(x, x[-1] * x[0]), x * 1.5, x[1:]][int(x.sum()) % 3]
    np.testing.assert_allclose(found.numpy(), x)


@STACKS
def test_elsewhere_sides_are_alike(stack: Any) -> None:
    x = stack.asarray([1.0, 2.0])
    with pytest.raises(OperatorError, match=r"is \(2,\) in else, \(1,\) in then; broadcast one"):
        stack.cond(x[0] > 0, lambda: x[:1], lambda: x)
    with pytest.raises(OperatorError, match=r"is \(2, 1\) in else, \(4,\) in then; broadcast one"):
        grown(stack, lambda s, x, choose: choose(x[0] > 0, lambda: joined(s, x, x), lambda: x[:, None]))(x)


@STACKS
def test_derivatives_of_rows(stack: Any) -> None:
    def grown(v: Any) -> Any:
        found = stack.while_loop(
            lambda y: y.shape[0] < 4, lambda y: (None, stack.ops.concat(y, y * y, axis=0)), v[None], dynamic=True
        )
        return found[1].sum()

    def f(v: Any) -> Any:
        return stack.cond(v > 0, lambda: grown(v), lambda: v)

    slope = stack.grad(f)
    x = stack.asarray([1.0, -1.0, 2.0])
    assert nnc.vmap(slope)(x).numpy().tolist() == [9, 1, 41]
    assert nnc.vmap(stack.grad(slope))(x).numpy().tolist() == [16, 0, 52]
    assert nnc.vmap(nnc.vmap(slope))(x[None]).numpy().tolist() == [[9, 1, 41]]
    values, tangents = nnc.vmap(lambda v: stack.jvp(f, [v], [v]))(x)
    assert (values.numpy().tolist(), tangents.numpy().tolist()) == ([4, -1, 26], [9, -1, 82])
    assert stack.grad(lambda x: (nnc.vmap(slope)(x) ** 2).sum())(x).numpy().tolist() == [2 * 9 * 16, 0, 2 * 41 * 52]
