"""A run with poisoned memory shows what reads memory that nobody wrote, or that was given away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.plan import ARENA
from nnc_func.engine.running.program import Program
from nnc_func.errors import PlanError

LAZY = nnc.lazy()
OPS = LAZY.ops
N = 64


@pytest.fixture(autouse=True)
def _poisoned() -> Iterator[None]:
    before, config.spec = config.spec, 3
    yield
    config.spec = before


def branches() -> Any:
    x = LAZY.input("x", (N,), "float64")
    a, b = OPS.cumulative_sum(x, axis=0), OPS.cumulative_sum(x * 2.0, axis=0)
    return LAZY.compile([x], OPS.cumulative_sum(a * b, axis=0) + a)


def test_a_right_plan_gives_the_same() -> None:
    x = np.linspace(0, 1, N)
    a, b = np.cumsum(x), np.cumsum(x * 2)
    np.testing.assert_allclose(branches()(x), np.cumsum(a * b) + a, rtol=1e-12)


def test_a_plan_that_gives_memory_away_too_soon_gives_nan_and_does_not_verify() -> None:
    program = branches()
    plan = program.plan
    first = next(i for i, b in enumerate(plan.buffers) if b.kind == ARENA)
    buffers = list(plan.buffers)
    buffers[first] = evolve(buffers[first], upper=buffers[first].lower + 1)
    wrong = evolve(plan, buffers=tuple(buffers))
    broken = Program(wrong, LAZY.device, program._constants, [*program.variables.values()])
    assert np.isnan(broken(np.linspace(0, 1, N))).any()
    with pytest.raises(PlanError):
        wrong.verify()


def test_a_training_step_gives_the_same() -> None:
    x = LAZY.input("x", (8, 4), "float64")
    w = LAZY.variable("w", np.ones((4, 3)))

    def loss(w: Any) -> Any:
        return OPS.mean(OPS.square(OPS.tanh(x @ w) - 0.5))

    value, gradient = LAZY.value_and_grad(loss)(w)
    step = LAZY.compile([x], value, [(w, w - gradient * 0.1)])
    given, wanted = np.random.default_rng(0).normal(size=(8, 4)), np.ones((4, 3))
    for _ in range(3):
        t = np.tanh(given @ wanted)
        np.testing.assert_allclose(step(given), np.mean((t - 0.5) ** 2), rtol=1e-12)
        wanted = wanted - 0.1 * given.T @ (2 * (t - 0.5) / t.size * (1 - t**2))
        np.testing.assert_allclose(w.numpy(), wanted, rtol=1e-12, atol=1e-13)
