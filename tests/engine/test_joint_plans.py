"""Joint plans take no more than the chain's, and compute the same (`engine/planning/joint_plan`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import models
from nnc_func.config import config
from nnc_func.engine.allocators.no_reuse import NoReuse
from nnc_func.engine.joint_choice import cp_sat
from nnc_func.engine.joint_choice.generators import cut
from nnc_func.engine.joint_choice.search import JointSearch
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import LENT, OUTPUT
from nnc_func.engine.planning.answers import footprint
from nnc_func.engine.planning.passes import PASSES
from nnc_func.errors import PlanError
from nnc_func.layer import evolved
from nnc_func.testing import differential
from nnc_func.testing.programs import programs
from nnc_func.tree import flatten
from tests.engine.test_budgets import trained

LAZY = nnc.lazy()
NULL = nnc.lazy(nnc.Null())


def jointly(stack: Any, work: float = 1.1, steps: int = 1_000) -> Any:
    return stack.swap(engine=stack.engine.with_joint_choice(work, steps=steps))


def same(found: Any, wanted: Any, to_the_bit: bool) -> None:
    for one, other in zip(found, wanted, strict=True):
        if to_the_bit:
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("control_flow", [False, True])
def test_drawn_programs_compute_the_same_in_poisoned_memory(control_flow: bool) -> None:
    drawn = programs(control_flow=control_flow, most_steps=12)
    assert differential(drawn, jointly(LAZY, 1.5, 200), examples=15, spec=3) == 15


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(("dense", "relu", "tanh", "dropout", "skip", "sort", "concat")), min_size=1, max_size=8),
    st.integers(0, 99),
    st.sampled_from((1.0, 1.1, 2.0)),
)
def test_training_takes_no_more_and_gives_the_same_bits(kinds: list[str], seed: int, work: float) -> None:
    plain, weights, x = trained(LAZY, tuple(kinds), seed)
    small, others, _ = trained(jointly(LAZY, work, 300), tuple(kinds), seed)
    assert footprint(small.plan.verify()) <= footprint(plain.plan)
    report = small.stats.joint
    assert report is not None
    assert report.chain == footprint(plain.plan)
    assert report.nbytes == footprint(small.plan) <= report.in_time
    for _ in range(2):
        same(small(x), plain(x), report.kernels == 0)
    same(map(np.asarray, others), map(np.asarray, weights), report.kernels == 0)


def sorted_values(stack: Any) -> Any:
    """What is read again in the reverse order."""
    x = stack.input("x", (1000,), "float64")
    layers = [x]
    for _ in range(6):
        layers.append(stack.ops.sort(layers[-1] * 0.5))
    return stack.compile([x], sum(stack.ops.sum(layer * layers[-1]) for layer in reversed(layers[:-1])))


def test_values_are_computed_again_for_less_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain, small = sorted_values(LAZY), sorted_values(jointly(LAZY, 1.5, 4_000))
    assert small.stats.joint.again > 0
    assert small.plan.verify().arena_bytes < plain.plan.arena_bytes
    assert len(small.plan.instructions) > len(plain.plan.instructions)
    assert Plan.parse(small.plan.text()) == small.plan
    small.save(tmp_path / "joint.nnc")
    x = np.random.default_rng(0).normal(size=1000)
    for program in (small, nnc.load_program(tmp_path / "joint.nnc", nnc.lazy())):
        for spec in (config.spec, 3):
            monkeypatch.setattr(config, "spec", spec)
            assert program(x) == plain(x)


def test_without_time_nothing_is_computed_again_and_no_kernel_is_slower() -> None:
    found = sorted_values(jointly(LAZY, 1.0)).stats.joint
    assert found.again == found.kernels == 0
    assert found.work == 1.0


@pytest.mark.parametrize("name", ["lenet-5", "mnist", "char-lstm"])
@pytest.mark.parametrize("training", [False, True])
def test_small_networks_take_no_more(name: str, training: bool) -> None:
    model = models.get(name)
    graph = (model.training if training else model.make)(NULL, 1, seed=None)
    chain = NULL.engine.compile(graph).plan
    program = jointly(NULL).engine.compile(graph)
    report = program.stats.joint
    assert footprint(program.plan.verify()) <= footprint(chain) == report.chain
    assert report.bound is not None
    assert report.bound <= max(report.joint, report.chain)
    assert report.work <= 1.1001


def test_a_training_step_takes_what_is_proven_to_be_least() -> None:
    graph = models.get("lenet-5").training(NULL, seed=None)
    found = jointly(NULL).engine.compile(graph).stats.joint
    assert found.is_proven
    assert found.joint < 0.7 * found.chain
    assert str(found).startswith("chain 379 KiB, in as much time 379 KiB, joint 254 KiB, proven, ")
    assert f"{found.joint:,} bytes" in found._repr_html_()


def test_a_network_computes_the_same() -> None:
    model = models.get("lenet-5")
    plain = LAZY.engine.compile(model.training(LAZY, 2, seed=0))
    small = jointly(LAZY).engine.compile(model.training(LAZY, 2, seed=0))
    assert footprint(small.plan.verify()) < footprint(plain.plan)
    rng = np.random.default_rng(0)
    arrays = []
    for slot in plain.plan.inputs:
        aval = plain.plan.slots[slot].aval
        drawn = rng.random(aval.shape) if aval.dtype.kind == "f" else rng.integers(0, 2, aval.shape)
        arrays.append(drawn.astype(aval.dtype))
    for _ in range(2):
        same(flatten(small(*arrays))[0], flatten(plain(*arrays))[0], False)


@pytest.mark.parametrize(("name", "training"), [("lenet-5", False), ("mnist", True)])
def test_cp_sat_finds_nothing_smaller_of_networks(name: str, training: bool) -> None:
    pytest.importorskip("ortools")
    model = models.get(name)
    graph = (model.training if training else model.make)(NULL, 1, seed=None)
    problem = NULL.engine.joint_problem(graph)
    assert len(problem) <= 60
    found = JointSearch(2_000).solved(problem)
    assert found.is_proven
    assert cp_sat.solve(problem, below=found.nbytes, steps=5_000).choice is None


@pytest.mark.parametrize("start", [0, 16, 32])
def test_cp_sat_finds_the_same_of_parts_of_networks(start: int) -> None:
    pytest.importorskip("ortools")
    whole = NULL.engine.joint_problem(models.get("lenet-5").training(NULL, 1, seed=None))
    part = cut(whole, start, start + 12)
    found, peer = JointSearch().solved(part), cp_sat.solve(part)
    assert found.is_proven
    assert peer.is_proven
    assert found.nbytes == peer.nbytes


def test_a_budget_of_time_is_the_joint_choices_too() -> None:
    chain = LAZY.swap(engine=LAZY.engine.with_time_budget(1.5))
    both = jointly(chain, 1.0)
    found, alone = sorted_values(both), sorted_values(chain)
    assert footprint(found.plan.verify()) <= footprint(alone.plan)
    assert found.stats.joint.in_time == footprint(alone.plan)
    x = np.random.default_rng(0).normal(size=1000)
    assert found(x) == alone(x) == sorted_values(LAZY)(x)


def test_a_budget_of_memory_is_kept() -> None:
    takes = footprint(sorted_values(jointly(LAZY, 1.5, 1_000)).plan)
    stack = LAZY.swap(engine=LAZY.engine.with_memory_budget(takes))
    for work in (1.5, 1.0):  # without time for it, the budget's strategy computes values again
        found = sorted_values(jointly(stack, work, 1_000))
        assert footprint(found.plan.verify()) <= takes
        assert work > 1 or found.stats.recomputation is not None
    with pytest.raises(PlanError, match="memory budget"):
        sorted_values(jointly(LAZY.swap(engine=LAZY.engine.with_memory_budget(8_000))))


def test_inputs_that_are_given_up_and_streams_and_extents_that_are_not_known() -> None:
    x = np.random.default_rng(0).normal(size=(64, 64))
    for stack in (LAZY, LAZY.swap(engine=LAZY.engine.with_streams(2))):
        joint = jointly(stack)
        a = joint.input("a", (64, 64), "float64")
        found = joint.compile([a], joint.ops.sort(joint.ops.exp(a @ a)) @ a, donate=[a])
        b = stack.input("a", (64, 64), "float64")
        wanted = stack.compile([b], stack.ops.sort(stack.ops.exp(b @ b)) @ b, donate=[b])
        assert footprint(found.plan.verify()) <= footprint(wanted.plan)
        np.testing.assert_array_equal(found(x.copy()), wanted(x.copy()))
        c = joint.input("c", ("n", 64), "float64")
        np.testing.assert_allclose(joint.compile([c], joint.ops.sum(joint.ops.exp(c) * c))(x), np.sum(np.exp(x) * x))


def test_what_a_joint_choice_may_be() -> None:
    for wrong in (
        {"work": 0.9},
        {"work": "much"},
        {"work": float("nan")},
        {"steps": -1},
        {"steps": 1.5},
        {"seed": None},
    ):
        with pytest.raises(PlanError, match="wanted"):
            LAZY.engine.with_joint_choice(**wrong)
    with pytest.raises(PlanError, match="with_joint_choice"):
        evolved(LAZY.engine, joint=3)
    mine = LAZY.engine.with_passes(in_place=lambda draft: draft)
    with pytest.raises(PlanError, match="in_place"):
        mine.with_joint_choice()
    with pytest.raises(PlanError, match="fast memory"):
        LAZY.engine.with_fast_memory("1MB").with_joint_choice()
    LAZY.engine.with_passes(alias=PASSES.alias).with_joint_choice()
    assert LAZY.engine.joint is None


def test_orders_and_allocators_of_ones_own_are_asked_too() -> None:
    asked: list[int] = []

    def order(problem: Any) -> Any:
        asked.append(len(problem))
        return range(len(problem))

    def allocator(problem: Any) -> Any:
        asked.append(-1)
        return NoReuse()(problem)

    stack = LAZY.swap(engine=LAZY.engine.with_orders(order).with_allocator(allocator))
    found, wanted = sorted_values(jointly(stack, 1.5)), sorted_values(stack)
    assert {n for n in asked if n >= 0}
    assert -1 in asked
    assert footprint(found.plan.verify()) < footprint(wanted.plan)
    x = np.random.default_rng(0).normal(size=1000)
    assert found(x) == wanted(x)


def test_a_result_houses_no_more_than_its_own_bytes() -> None:
    """Rounded up to the alignment both are alike; but the value has a few bytes more than the result."""
    joint = jointly(LAZY)
    x = joint.input("x", (130, 130), "float32")
    y = x
    for _ in range(5):
        y = y @ x
    program = joint.compile([x], joint.ops.sort(joint.ops.reshape(y, shape=(16900,))[:16897]))
    plan = program.plan.verify()
    result = next(b.nbytes for b in plan.buffers if b.kind == OUTPUT)
    assert result % 64
    assert all(b.offset + b.nbytes <= result for b in plan.buffers if b.kind == LENT)
