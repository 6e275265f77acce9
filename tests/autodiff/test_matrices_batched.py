"""Jacobians, Hessians and Laplacians go through their tape as batches (`autodiff/matrices`, `batching`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.autodiff import matrices
from nnc_func.layer import PassThrough, layer

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "products": lambda o, x: o.tanh(o.matmul(o.reshape(x, shape=(2, 3)), o.reshape(x, shape=(3, 2)))),
    "slices": lambda o, x: x[1:4] * x[0] + o.cumulative_sum(x, axis=0)[2:5],
    "reduced": lambda o, x: o.stack(o.sum(x**2), o.max(x), o.logsumexp(x), o.prod(x[:3])),
    "chosen": lambda o, x: o.where(x > 0, o.sqrt(o.abs(x)), x * x),
    "sorted": lambda o, x: o.sort(x) * o.take(x, np.array([0, 0, 5, 2, 1, 4]), axis=0),
    "solved": lambda o, x: o.solve(o.reshape(x[:4], shape=(2, 2)) + 9 * np.eye(2), x[4:]),
}


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Calls a function with one unit vector after the other."""
    passed = matrices.Matrices._pass

    def single(self: Any, apply: Any, vectors: Any) -> Any:
        parts = [passed(self, apply, vectors[n : n + 1]) for n in range(vectors.shape[0])]
        return [self._stacked(list(values), [1] * len(values)) for values in zip(*parts, strict=True)]

    def looped(call: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(matrices.Matrices, "_pass", single)
            return call()

    return looped


@BOTH
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("what", ["forward", "reverse", "hessian", "laplacian"])
def test_equal_to_a_loop(stack: nnc.Stack, name: str, what: str, loop: Any) -> None:
    def f(x: Any) -> Any:
        return FUNCTIONS[name](stack.ops, x)

    def number(x: Any) -> Any:
        return stack.ops.sum(f(x) ** 2)

    made = {
        "forward": lambda: stack.jacobian(f, mode="forward"), "reverse": lambda: stack.jacobian(f, mode="reverse"),
        "hessian": lambda: stack.hessian(number), "laplacian": lambda: stack.laplacian(number),
    }[what]  # fmt: skip
    x = np.array([0.7, -1.2, 0.4, 2.0, 1.1, -0.3])
    found = made()(x).numpy()
    np.testing.assert_allclose(found, loop(lambda: made()(x).numpy()), rtol=1e-12, atol=1e-12)


SEEN: list[str] = []  # operators that reached the device


@layer(on="device", needs=("bind",))
class Counting(PassThrough):
    """Counts the matrix products that reach the device."""

    device: Any

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        SEEN.append(op.name)
        return self.device.bind(op, *args, **params)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_product_of_64_rows_is_one_product(mode: str) -> None:
    layers = nnc.eager(Counting(nnc.NumPy()))
    a = layers.asarray(np.random.default_rng(1).normal(size=(64, 64)))
    jacobian = layers.jacobian(lambda x: layers.ops.tanh(a @ x), mode=mode)
    x = layers.asarray(np.linspace(-1, 1, 64))
    SEEN.clear()
    found = jacobian(x).numpy()
    assert SEEN.count("matmul") + SEEN.count("tensordot") == 2  # the function's own, and that of all rows
    np.testing.assert_allclose(found, (1 - np.tanh(a.numpy() @ x.numpy()) ** 2)[:, None] * a.numpy(), rtol=1e-9)


@BOTH
@settings(max_examples=20)
@given(
    n=st.integers(0, 5), m=st.integers(0, 5), at_once=st.integers(1, 4), mode=st.sampled_from(["forward", "reverse"])
)
def test_any_number_of_rows_in_parts_of_any_size(stack: nnc.Stack, n: int, m: int, at_once: int, mode: str) -> None:
    a, x = np.arange(float(n * m)).reshape(m, n) - 3, np.linspace(0.5, 2.0, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "AT_ONCE", at_once)
        found = stack.jacobian(lambda v: (stack.asarray(a) @ (v * v), stack.ops.zeros_like(v)), mode=mode)(x)
    np.testing.assert_allclose(found[0].numpy(), a * 2 * x, atol=1e-12)
    assert found[1].numpy().tolist() == np.zeros((n, n)).tolist()


@BOTH
def test_a_rule_of_ones_own_that_takes_elements_is_asked_row_by_row(stack: nnc.Stack) -> None:
    asked: list[float] = []

    @stack.custom_vjp  # type: ignore[untyped-decorator]
    def cube(x: Any) -> Any:
        return x**3

    def backward(saved: Any, g: Any) -> Any:
        asked.append(float(g.sum()) if stack is STACKS["eager"] else 1.0)
        return (3 * saved[0] ** 2 * g,)

    cube.defvjp(lambda x: (x**3, (x,)), backward)
    found = stack.jacobian(cube, mode="reverse")(np.array([1.0, 2.0]))
    np.testing.assert_allclose(found.numpy(), np.diag([3.0, 12.0]))
    assert asked


@BOTH
def test_under_other_transformations(stack: nnc.Stack) -> None:
    def f(x: Any) -> Any:
        return stack.ops.sin(x) * x[0]

    x = np.array([[0.3, 0.5], [1.0, 2.0]])
    each = stack.vmap(stack.jacobian(f))(stack.asarray(x)).numpy()
    for row, found in zip(x, each, strict=True):
        wanted = np.diag(np.cos(row) * row[0])
        wanted[:, 0] += np.sin(row)
        np.testing.assert_allclose(found, wanted)
    gradient = stack.grad(lambda v: stack.ops.sum(stack.jacobian(f)(v)))(x[0]).numpy()
    np.testing.assert_allclose(
        gradient, stack.jit(stack.grad(lambda v: stack.ops.sum(stack.jacobian(f)(v))))(x[0]).numpy()
    )
    near = [(np.sum(stack.jacobian(f)(x[0] + d).numpy()) - np.sum(stack.jacobian(f)(x[0] - d).numpy())) / 2e-6
            for d in 1e-6 * np.eye(2)]  # fmt: skip
    np.testing.assert_allclose(gradient, near, rtol=1e-6)
