"""Matrix equations of control theory: solutions solve them, or words say why not (`graph/ops/matrix_equations`)."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DeviceError, RunError, ShapeError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing.samples import arguments

EAGER, LAZY = nnc.eager(), nnc.lazy()
FEW = settings(max_examples=max(4, settings().max_examples // 4))


def adjoint(x: Any) -> Any:
    return np.swapaxes(np.conj(x), -1, -2)


def residual(name: str, x: Any, a: Any, b: Any, q: Any = None, r: Any = None) -> Any:
    """What is left of the equation."""
    if name == "sylvester":
        return a @ x + x @ b - q
    if name == "discrete_lyapunov":
        return a @ x @ adjoint(a) - x + b
    if name == "care":
        return adjoint(a) @ x + x @ a - x @ b @ np.linalg.inv(r) @ adjoint(b) @ x + q
    back = adjoint(a) @ x @ b
    return adjoint(a) @ x @ a - x - back @ np.linalg.inv(r + adjoint(b) @ x @ b) @ adjoint(back) + q


@pytest.mark.parametrize("name", ["sylvester", "discrete_lyapunov", "care", "dare"])
@FEW
@given(data=st.data())
def test_a_solution_solves_its_equation_by_every_kernel(name: str, data: Any) -> None:
    op = CATALOGUE[name]
    given_, _ = data.draw(arguments(op, data.draw(st.sampled_from(["float64", "complex128"]))))
    for kernel in op.kernels:
        x = kernel.compute(np, *given_)
        assert np.all(np.abs(residual(name, x, *given_)) <= 1e-9 * (1 + np.abs(x).max(initial=0))), (kernel.name, x)


@FEW
@given(data=st.data())
def test_exponentials_are_inverse_to_those_of_the_negative(data: Any) -> None:
    (x,), _ = data.draw(arguments(CATALOGUE["expm"], "float64"))
    ops, t = EAGER.ops, EAGER.asarray(x)
    both = ops.matmul(ops.expm(t), ops.expm(-t)).numpy()
    assert np.all(np.abs(both - np.eye(x.shape[-1])) <= 1e-12 * np.exp(2 * np.abs(x).sum()))
    near = ops.det(ops.expm(t)).numpy() / np.exp(np.linalg.trace(x))
    assert np.all(np.abs(near - 1) <= 1e-10)


def test_equations_without_a_solution_are_told() -> None:
    ops, one = EAGER.ops, np.eye(2)
    for kernel in (0, -1):
        with pytest.raises(np.linalg.LinAlgError, match="no unique solution"):
            CATALOGUE["sylvester"].kernels[kernel].compute(np, one, -one, one)  # type: ignore[misc]
    for stack in (EAGER, LAZY):
        with pytest.raises(RunError, match=r"discrete_lyapunov\(.*no unique solution"):
            stack.ops.discrete_lyapunov(*map(stack.asarray, (one, one))).numpy()
        with pytest.raises(RunError, match=r"care\(.*stabilises"):
            stack.ops.care(*map(stack.asarray, (one, np.zeros((2, 1)), one, np.eye(1)))).numpy()
    with pytest.raises(ShapeError, match="wants b of shape"):
        ops.care(*map(EAGER.asarray, (one, np.zeros((3, 1)), one, np.eye(1))))
    with pytest.raises(ShapeError, match="wants c of shape"):
        ops.sylvester(*map(EAGER.asarray, (one, np.eye(3), one)))


def test_without_scipy_what_needs_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("scipy"):
            raise ImportError("No module named 'scipy'")
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    one = EAGER.asarray(np.eye(2))
    for name, given_ in (("expm", (one,)), ("care", (one,) * 4), ("dare", (one,) * 4)):
        with pytest.raises(DeviceError, match=r"nnc_func\[scipy\]"):
            getattr(EAGER.ops, name)(*given_)
