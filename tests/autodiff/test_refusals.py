"""What has no derivative, or not like this, is refused with words; never a wrong number (`autodiff`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError

LAZY, EAGER = nnc.lazy(), nnc.eager()
every = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
X = np.array([1.0, 2.0])


def total(x: Any) -> Any:
    return x.sum()


@every
@pytest.mark.parametrize("x", [np.array([1, 2]), np.array([True, False]), 3])
def test_integers_and_booleans(stack: Any, x: Any) -> None:
    for apply in (
        lambda: stack.grad(total)(stack.asarray(x)),
        lambda: stack.vjp(total, stack.asarray(x)),
        lambda: stack.jvp(total, (stack.asarray(x),), (stack.asarray(x),)),
        lambda: stack.linearize(total, stack.asarray(x)),
        lambda: stack.jacobian(total)(stack.asarray(x)),
        lambda: stack.grad(lambda tree: total(tree["x"]))({"x": stack.asarray(x), "y": X}),
    ):
        with pytest.raises(DerivativeError, match=r"with respect to floating tensors, given (int64|bool)"):
            apply()


@every
def test_results_that_have_no_gradient(stack: Any) -> None:
    with pytest.raises(DerivativeError, match=r"returns one number, shape \(\), given \(2,\); sum it"):
        stack.grad(lambda x: x * 2)(X)
    with pytest.raises(DerivativeError, match="given a list"):
        stack.grad(lambda x: [total(x)])(X)
    with pytest.raises(DerivativeError, match="given a NoneType"):
        stack.grad(lambda x: None)(X)
    with pytest.raises(DerivativeError, match="floating number, given int64"):
        stack.grad(lambda x: total(x.astype("int64")))(X)
    with pytest.raises(DerivativeError, match=r"with has_aux the function returns \(result, auxiliary\)"):
        stack.grad(total, has_aux=True)(X)
    with pytest.raises(DerivativeError, match=r"one number as its argument, shape \(\), given \(2,\)"):
        stack.derivative(lambda x: x)(X)
    with pytest.raises(DerivativeError, match="order is at least 1, given 0"):
        stack.directional_derivative(total, (X,), (X,), order=0)
    with pytest.raises(DerivativeError, match="mode is forward, reverse or None, given 'both'"):
        stack.jacobian(total, mode="both")


@every
def test_structures_and_shapes_that_differ(stack: Any) -> None:
    _, back = stack.vjp(lambda x: {"y": x * 2}, X)
    _, push = stack.linearize(lambda x: {"y": x * 2}, X)
    with pytest.raises(DerivativeError, match="cotangent is a tree"):
        back(X)
    with pytest.raises(DerivativeError, match="cotangent is a tree"):
        back({"y": X, "z": X})
    with pytest.raises(DerivativeError, match=r"result's shape \(2,\), given \(3,\)"):
        back({"y": np.ones(3)})
    with pytest.raises(DerivativeError, match="tangents are a tree"):
        push(X, X)
    with pytest.raises(DerivativeError, match=r"primal's shape \(2,\), given \(\)"):
        push(1.0)
    with pytest.raises(DerivativeError, match="tangents are a tree"):
        stack.jvp(total, (X,), ([X, X],))
    with pytest.raises(DerivativeError, match="tangents are a tree"):
        stack.jvp(total, (X,), (X, X))
    with pytest.raises(DerivativeError, match=r"primal's shape \(2,\), given \(2, 1\)"):
        stack.jvp(total, (X,), (X[:, None],))
    with pytest.raises(DerivativeError, match="primals are a tuple with one tree for each argument, given ndarray"):
        stack.jvp(total, X, X)


@every
def test_operators_without_derivative(stack: Any) -> None:
    refusing = [op for op in stack.type.ops.values() if type(op.derivative).__name__ == "Refusal" and op.args]
    assert refusing
    for op in refusing:
        assert len(op.derivative.why) > 10
    ops = stack.ops
    assert stack.grad(lambda x: 1.0)(X).numpy().tolist() == [0, 0]  # a constant has one: zero
    zero = stack.grad(lambda x: ops.sum(ops.floor(x) + ops.sign(x) + ops.stop_gradient(x)))(X + 0.5)
    np.testing.assert_array_equal(zero.numpy(), [0, 0])
