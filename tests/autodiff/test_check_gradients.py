"""check_gradients passes what is right and names the first thing that is wrong (`testing/gradients`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DerivativeError
from nnc_func.facets.derivatives import Custom
from nnc_func.testing import check_gradients

EAGER, LAZY = nnc.eager(), nnc.lazy()
every = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
X = np.array([[0.5, -1.0], [2.0, 0.25]])


@every
def test_what_is_right_passes(stack: Any) -> None:
    ops = stack.ops

    def f(p: Any, x: Any, index: Any) -> Any:
        return {"h": ops.tanh(x @ p["w"]) * p["b"], "n": index + 1, "s": ops.sum(ops.take(x, index, axis=0) ** 3)}

    index = stack.asarray(np.array([1, 0, 1]))
    check_gradients(f, {"w": X, "b": np.array([0.3, 0.7])}, X.astype("float32"), index, stack=stack)
    check_gradients(lambda x: ops.exp(x) * x, stack.asarray([0.1, 0.4]), order=3)
    check_gradients(lambda x: x * 2, X, order=1, modes=("reverse",), stack=stack)
    check_gradients(ops.sum, np.zeros((0, 3)), stack=stack)
    check_gradients(lambda x: ops.sum(x * x), np.linspace(-1, 1, 200), order=1, stack=stack)


def wrong(**parts: Any) -> Any:
    """x² elementwise, whose derivative is wrong as told: a function of (primal, tangent), or of (primal, cotangent)."""
    square = lambda x: x * x  # noqa: E731
    if "jvp" in parts:
        f = nnc.custom_jvp(square)
        f.defjvp(lambda primals, tangents: (f(*primals), parts["jvp"](primals[0], tangents[0])))
        return f
    return nnc.custom_vjp(square).defvjp(lambda x: (x * x, x), lambda x, g: (parts["vjp"](x, g),))


def fails(f: Any, *args: Any, match: str, **keywords: Any) -> None:
    with pytest.raises(AssertionError, match=match):
        check_gradients(f, *args, stack=EAGER, **keywords)


def test_what_is_wrong_is_named() -> None:
    ops = EAGER.ops
    twice = wrong(jvp=lambda x, t: x * t)
    fails(twice, X, match=r"^forward mode, argument 0, element \(0, 0\): .* at \(0, 0\) is 0.5, differences say 1$")
    fails(twice, X, modes=("reverse",), match=r"^reverse mode, argument 0, element \(0, 0\): the derivative is ")
    mask = EAGER.asarray(np.array([[0.0, 0.0], [1.0, 0.0]]))
    one = wrong(vjp=lambda x, g: 2 * x * g + mask * g)
    tree = {"a": np.float64(1.0), "b": [X]}
    fails(
        lambda t: t["a"] * one(t["b"][0]),
        tree,
        modes=("reverse",),
        match=r"^reverse mode, argument 0\['b'\]\[0\], element \(1, 0\): the derivative is",
    )
    stopped = wrong(vjp=lambda x, g: 2 * ops.stop_gradient(x) * g)
    check_gradients(stopped, X, order=1, stack=EAGER)
    fails(stopped, X, match=r"^forward mode, and of that forward mode, argument 0, element \(0, 0\)")
    fails(stopped, X, modes=("reverse",), match=r"^reverse mode, and of that reverse mode, argument 0, element")
    fails(ops.log, np.array([-1.0]), match="not finite")
    fails(lambda x: [x, ops.relu(x - 0.5)], X, order=1, match=r"derivative of result 1 at \(0, 0\)")


def test_a_map_and_its_transpose_are_compared() -> None:
    """Differences cannot see an error of 1e-7; ⟨g, J t⟩ = ⟨Jᵀ g, t⟩ does."""
    nearly = nnc.operator(
        shape=lambda x: x, dtype=lambda x: x, kernels="negative",
        derivative=Custom(
            lambda o, ts, y, x: o.negative(ts[0]), (lambda o, g, y, x: o.multiply(g, -1 - 1e-7),)
        ),
    )  # fmt: skip

    @nearly
    def negated(x: Any, /) -> Any:
        """The opposite number."""

    stack = EAGER.swap(type=EAGER.type.with_ops(negated))
    with pytest.raises(AssertionError, match="by forward mode"):
        check_gradients(lambda x: stack.bind(negated, x), X, stack=stack)


@pytest.mark.parametrize(
    "given", [{"modes": "reverse"}, {"modes": ("backward",)}, {"modes": ()}, {"order": 0}], ids=str
)
def test_what_would_check_nothing_is_refused(given: Any) -> None:
    with pytest.raises(DerivativeError, match=r"modes are a tuple of .* and the order at least 1"):
        check_gradients(lambda x: x * x, [1.0, 2.0], **given)
