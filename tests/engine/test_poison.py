"""A run with poisoned memory shows what reads memory that nobody wrote, or that was given away (`engine/running`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.allocators import ALLOCATORS
from nnc_func.engine.plan_rows import ARENA, LENT
from nnc_func.engine.running.checking_observers import Poison
from nnc_func.engine.running.observers import Application
from nnc_func.engine.running.program import Program
from nnc_func.errors import PlanError
from nnc_func.testing.agreement import differential
from nnc_func.testing.programs import programs

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


def test_a_plan_that_gives_memory_away_too_soon_names_who_reads_it_and_does_not_verify() -> None:
    program = branches()
    plan = program.plan
    first = next(i for i, b in enumerate(plan.buffers) if b.kind == ARENA)
    buffers = list(plan.buffers)
    buffers[first] = evolve(buffers[first], upper=buffers[first].lower + 1)
    wrong = evolve(plan, buffers=tuple(buffers))
    broken = Program(wrong, LAZY.device, program._constants, [*program.variables.values()])
    said = r"instruction \d+, \w+.* \(built at .*test_poison.py:\d+.*\), reads memory that nobody has written: element"
    with pytest.raises(PlanError, match=said):
        broken(np.linspace(0, 1, N))
    with pytest.raises(PlanError):
        wrong.verify()
    given = np.full(N, 0xFF, np.uint8).repeat(8).view("float64")  # what looks like poison, and is not
    assert np.isnan(branches()(given)).all()


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


def test_lent_memory_and_fresh_results_are_poisoned() -> None:
    """What an output's memory housed before it is written, and what was in it from the run before."""
    side = 4 * N
    x = LAZY.input("x", (side, side), "float32")
    out = x
    for _ in range(6):
        out = out @ x
    program = LAZY.compile([x], out)
    plan = program.plan
    lent = [n for n, b in enumerate(plan.buffers) if b.kind == LENT]
    assert lent
    given = np.random.default_rng(0).normal(size=(side, side)).astype("float32") / side
    assert np.isfinite(program(given)).all()
    buffers = list(plan.buffers)
    buffers[lent[0]] = evolve(buffers[lent[0]], upper=buffers[lent[0]].lower + 1)
    broken = Program(evolve(plan, buffers=tuple(buffers)), LAZY.device, program._constants, [])
    with pytest.raises(PlanError, match=r"instruction \d+, matmul.*, reads memory that nobody has written: element"):
        broken(given)


def test_a_kernel_that_leaves_some_of_its_result_unwritten_is_named() -> None:
    x = LAZY.input("x", (4, N), "float64")
    program = LAZY.compile([x], OPS.sort(OPS.sort(x, axis=1), axis=0))
    i = program.plan.instructions[0]
    poison = Poison(program.plan, LAZY.device, {None: np.zeros(program.plan.arena_bytes, np.uint8)})
    seen = Application(LAZY.device, 0, 0, i.op, i.items, i.origin, "quick")
    seen.arguments, seen.outs = [np.ones((4, N))], [np.ones((4, N))]
    poison.after(seen)
    seen.outs[0][2, 5:].view(np.uint8)[...] = 0xFF
    said = r"instruction 0, sort \[quick\] \(built at .*\), leaves element \[2, 5\] of result 0 unwritten"
    with pytest.raises(PlanError, match=said):
        poison.after(seen)
    seen.arguments = [np.full(N, -1)]  # of which an operator could make it, bit by bit
    poison.after(seen)


def test_what_an_instruction_leaves_out_is_no_number_of_the_last_run() -> None:
    x = LAZY.input("x", (N,), "float64")
    program = LAZY.compile([x], OPS.concat(OPS.sin(x), OPS.cos(x), axis=0))
    given = np.linspace(0, 1, N)
    program(given)
    instructions = [i for i in program.plan.instructions if i.op.name != "cos"]
    broken = Program(evolve(program.plan, instructions=tuple(instructions)), LAZY.device, program._constants, [])
    broken._results = program._results  # fresh memory of its, which has the right numbers
    found = broken(given)  # nobody reads it
    np.testing.assert_array_equal(found[:N], np.sin(given))
    assert np.isnan(found[N:]).all()


STACKS = {"lazy": LAZY, "without reuse": LAZY.swap(engine=LAZY.engine.with_allocator(ALLOCATORS["no_reuse"]))}


@pytest.mark.draws
def test_random_programs_run_poisoned_as_operators_one_by_one() -> None:
    assert differential(programs(), LAZY, examples=20, spec=3) == 20


@pytest.mark.slow
def test_three_thousand_programs_run_poisoned_as_operators_one_by_one() -> None:
    assert differential(programs(), STACKS, examples=3000, spec=3) == 3000


@pytest.mark.slow
def test_programs_on_streams_and_within_budgets_run_poisoned() -> None:
    streams = LAZY.swap(engine=LAZY.engine.with_streams(2))
    others = {name: LAZY.swap(engine=LAZY.engine.with_orders(name)) for name in ("breadth_first", "least_peak")}
    assert differential(programs(), {"two streams": streams, **others}, examples=500, spec=3) == 500
