"""Loops, branches, drawn programs and networks compute on a GPU as on the host; marked gpu (`device/gpu`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.config import config
from nnc_func.graph.ops import CATALOGUE
from nnc_func.nn import SGD
from nnc_func.op import Catalogue
from nnc_func.testing import differential
from nnc_func.testing.programs import programs
from nnc_func.tree import flatten
from tests.control_flow.test_nnc import CASES
from tests.device.test_gpu import REASON
from tests.models.networks import networks

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(REASON), reason=REASON)]
STACKS = {"eager": nnc.eager(nnc.CuPy()), "lazy": nnc.lazy(nnc.CuPy())}
SIGNS = ("eigh", "qr", "svd")  # their vectors have the signs that the device gives them
OPERATORS = Catalogue(tuple(op for op in CATALOGUE.values() if op.name not in SIGNS))
stacks = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


# --- loops and branches ------------------------------------------------------------------------------------


@stacks
@pytest.mark.parametrize("checkpoint", [None, "full", "sqrt", "budget:1MB"], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_loops_and_branches_with_their_derivatives(name: str, checkpoint: Any, stack: Any) -> None:
    case = CASES[name]
    given = [np.asarray(value, "float64") for value in case.inputs.values()]
    found = case.all_of(stack, *given, checkpoint=checkpoint)
    np.testing.assert_allclose([float(each) for each in found], case.wanted(), rtol=1e-9, atol=1e-12)


def test_a_plan_with_a_loop_is_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "spec", 3)  # in memory that is filled with NaN
    stack = STACKS["lazy"]
    x = stack.input("x", (5, 3), "float64")

    def loss(x: Any) -> Any:
        return stack.foreach(lambda row, state: (state * row, state + row.sum()), x, x[0])[0].sum()

    program = stack.compile([x], [loss(x), stack.grad(loss)(x)])
    program.plan.verify()
    program.save(tmp_path / "loop.nnc")
    given, host = np.random.default_rng(0).normal(size=(5, 3)), nnc.eager()

    def wanted(x: Any) -> Any:
        return host.foreach(lambda row, state: (state * row, state + row.sum()), x, x[0])[0].sum()

    for each in (program, nnc.load_program(tmp_path / "loop.nnc", stack)):
        value, slope = map(stack.device.to_numpy, each(given))
        np.testing.assert_allclose(value, np.asarray(wanted(host.asarray(given))), rtol=1e-12)
        np.testing.assert_allclose(slope, np.asarray(host.grad(wanted)(given)), rtol=1e-12)


@pytest.mark.parametrize("stack", [STACKS["lazy"]], ids=["lazy"])
def test_python_that_tensors_steer(stack: Any) -> None:
    def collatz(n: Any) -> Any:
        count = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            count += 1
        return count

    assert int(stack.jit(collatz, control_flow=True)(np.int64(27))) == 111


# --- drawn programs, and networks --------------------------------------------------------------------------


@pytest.mark.parametrize("control_flow", [False, True], ids=["straight", "with loops"])
def test_drawn_programs(control_flow: bool) -> None:
    assert (
        differential(programs(control_flow=control_flow, most_steps=8, operators=OPERATORS), STACKS, examples=20) == 20
    )


@pytest.mark.parametrize("control_flow", [False, True], ids=["straight", "with loops"])
def test_gradients_of_drawn_programs(control_flow: bool) -> None:
    drawn = programs(control_flow=control_flow, smooth=True, most_steps=6, operators=OPERATORS)
    assert differential(drawn, STACKS, examples=10, gradients=True) == 10


def test_drawn_programs_in_memory_that_is_poisoned() -> None:
    drawn = programs(control_flow=True, most_steps=8, operators=OPERATORS)
    assert differential(drawn, STACKS["lazy"], examples=10, spec=3) == 10


@networks(trains=True)
def test_networks_train_as_on_the_host(name: str) -> None:
    model = models.get(name).reduced()
    batch = model.examples(batch=4, seed=2)
    losses = []
    for stack in (nnc.eager(), STACKS["lazy"]):
        step = model.step(stack, seed=3, update=SGD())
        losses.append([_loss(step, batch) for _ in range(2)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-3)


@networks()
def test_networks_infer_as_on_the_host(name: str) -> None:
    model = models.get(name).reduced()
    x, _ = model.examples(batch=2, seed=1)
    wanted, found = (
        [
            stack.device.to_numpy(each)
            for each in flatten(stack.engine.compile(model.make(stack, batch=2, seed=1))(x))[0]
        ]
        for stack in (nnc.eager(), STACKS["lazy"])
    )
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3)


def _loss(step: Any, batch: Any) -> float:
    step.iteration = 0
    return float(step(*batch, 0.003)[0])
