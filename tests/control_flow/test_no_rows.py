"""Programs for any number of rows, and of times, run on none of them (`batching/branches`, `batching/loops`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

STACK = nnc.lazy()
OPS = STACK.ops
KINDS = ("values", "gradients of rows", "the gradient of all rows")


def cond(v: Any, k: Any) -> Any:
    """A branch of what is computed in any case."""
    return STACK.cond(v > 0, lambda: OPS.sin(v), lambda: v * v)


def reads(v: Any, k: Any) -> Any:
    """A branch that may raise."""
    table = STACK.asarray(np.arange(1.0, 4.0))
    return STACK.cond(k < 3, lambda: v * OPS.take(table, k, axis=0), lambda: OPS.exp(v))


def case_of(v: Any, k: Any) -> Any:
    """One of several, or the operand."""
    return STACK.case_of(k, [lambda x: OPS.sin(x), lambda x: x * x], v, default=nnc.bypass)


def named(v: Any, k: Any) -> Any:
    """One of several, or an error."""
    return STACK.case_of(k % 2, [lambda x: OPS.sin(x), lambda x: x * x], v)


def while_loop(v: Any, k: Any) -> Any:
    """A loop that ends at another time in each row."""
    return STACK.while_loop(lambda c: c < 3, lambda c: (None, c + c * c + 1), OPS.abs(v), max_iterations=6)[1]


def unbounded(v: Any, k: Any) -> Any:
    """A loop that nothing bounds."""
    return STACK.while_loop(lambda c: c < 3, lambda c: (None, c + v * v + 1), v)[1]


def fori(v: Any, k: Any) -> Any:
    """So many times as a row says."""
    return STACK.fori(0, k, lambda i, c: c * v + OPS.sin(c), v)


def scan(v: Any, k: Any) -> Any:
    """So many slices as a row says."""
    xs = STACK.asarray(np.arange(1.0, 5.0))
    return STACK.scan(lambda c, x: (OPS.sin(c * x), None), v, xs, length=k)[0]


def loop_until(v: Any, k: Any) -> Any:
    """A loop that ends in the middle of its body."""
    segments = [lambda c, x: (c * 1.5 + 1, None), lambda mid: mid > 4, lambda mid, x: (mid + v * v, None)]
    return STACK.loop_until(segments, OPS.abs(v), max_iterations=5).carry


def fixed_point(v: Any, k: Any) -> Any:
    """What an iteration comes to, another number of times in each row."""
    return STACK.fixed_point(lambda y: 0.5 * OPS.cos(y) + 0.1 * v, v * 0)


def mapped(v: Any, k: Any) -> Any:
    """A branch in a loop over slices, of blocks."""
    return STACK.map(lambda x: STACK.cond(x > v, lambda: OPS.sin(x * v), lambda: v), np.arange(3.0), batch=2).sum()


ALL: list[Callable[..., Any]] = [
    cond, reads, case_of, named, while_loop, unbounded, fori, scan, loop_until, fixed_point, mapped
]  # fmt: skip


def of_rows(f: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """The function of all rows, or its gradients."""
    if kind == "values":
        return nnc.vmap(f)
    if kind == "gradients of rows":
        return nnc.vmap(STACK.grad(f))
    return STACK.grad(lambda xs, ks: nnc.vmap(f)(xs, ks).sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_no_row(f: Callable[..., Any], kind: str) -> None:
    xs, ks = STACK.input("xs", ("n",), "float64"), STACK.input("ks", ("n",), "int64")
    program = STACK.compile([xs, ks], of_rows(f, kind)(xs, ks))
    for count in (0, 1, 4, 0):
        x, k = np.linspace(-1.5, 1.5, count), np.arange(count) % 4
        found = program(x, k)
        wanted = of_rows(f, kind)(STACK.asarray(x), STACK.asarray(k)).numpy() if count else np.zeros(0)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_no_slice() -> None:
    xs, ks = STACK.input("xs", (3, "n"), "float64"), STACK.input("ks", (3,), "int64")

    def f(x: Any, k: Any) -> Any:
        return STACK.scan(lambda c, v: (OPS.sin(c * v), None), 0.7, x, length=k)[0]

    program = STACK.compile([xs, ks], nnc.vmap(STACK.grad(f))(xs, ks))
    assert program(np.zeros((3, 0)), np.zeros(3, "int64")).shape == (3, 0)
    x, k = np.linspace(0.3, 2, 12).reshape(3, 4), np.array([2, 0, 4])
    wanted = nnc.vmap(STACK.grad(f))(STACK.asarray(x), STACK.asarray(k)).numpy()
    np.testing.assert_allclose(program(x, k), wanted, rtol=1e-12)
