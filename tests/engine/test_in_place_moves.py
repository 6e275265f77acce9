"""What moves elements moves none: joins, splits and convolutions, counted in plans (`engine/planning/sub_buffers`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.plan import Plan
from nnc_func.errors import PlanError

LAZY, EAGER, NULL = nnc.lazy(), nnc.eager(), nnc.lazy(nnc.Null())
MOVES = ("copy", "concat", "stack", "pad", "assemble", "fill", "set_slice", "split")


def moved(program: Any) -> dict[str, int]:
    """Bytes written by operators that move elements and compute nothing."""
    found: dict[str, int] = {}
    for i in program.plan.instructions:
        if not i.view and i.op.name in MOVES:
            found[i.op.name] = found.get(i.op.name, 0) + sum(program.plan.slots[s].aval.nbytes for s in i.results)
    return found


def compared(f: Any, *shapes: tuple[int, ...]) -> Any:
    """The lazy program of a function of the operators and of tensors, checked against the eager one."""
    given = [np.random.default_rng(i).normal(size=s).astype("float32") for i, s in enumerate(shapes)]
    programs = []
    for stack in (LAZY, EAGER):
        inputs = [stack.input(f"x{i}", s, "float32") for i, s in enumerate(shapes)]
        programs.append(stack.compile(inputs, f(stack.ops, *inputs)))
    programs[0].plan.verify()
    for _ in range(2):
        for found, wanted in zip(programs[0](*given), programs[1](*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    return programs[0]


# --- networks: bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "training", "most"),
    [
        pytest.param("densenet-121", False, 0, marks=pytest.mark.slow),
        ("inception-v3", False, 0),
        pytest.param("densenet-121", True, 4, marks=pytest.mark.slow),  # the loss
        ("char-lstm", False, 0),
        pytest.param("char-lstm", True, 4, marks=pytest.mark.slow),  # the loss
        ("u-net", False, 78e6),  # what is cropped is a part of what is pooled: it is copied once, into the whole
        ("transformer-encoder", False, 0),
    ],
)
def test_networks_copy_nothing_to_put_together_or_take_apart(name: str, training: bool, most: float) -> None:
    model = models.get(name)
    graph = model.training(NULL, 1, seed=None) if training else model.inference(NULL, 1, seed=None)
    assert sum(moved(NULL.engine.compile(graph)).values()) <= most


# --- convolutions in windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_are_computed_where_they_are_put_together(axis: int, groups: int) -> None:
    def f(o: Any, x: Any, one: Any, two: Any) -> Any:
        parts = (o.conv2d(x, w, padding="SAME", groups=groups) for w in (one, two))
        return [o.sum(o.concat(*parts, axis=axis), axis=0)]

    kernel = (3, 3, 32 // groups, 8)
    assert moved(compared(f, (2, 9, 7, 32), kernel, kernel)) == {}


def test_convolutions_between_each_others_channels() -> None:
    """Channels with gaps, which BLAS does not write: they are computed beside, and copied block by block."""

    def f(o: Any, x: Any, one: Any, two: Any) -> Any:
        both = o.stack(o.relu(o.conv2d(x, one) + 1), o.conv2d(x, two), axis=-1)
        return [o.sum(both, axis=0)]

    assert moved(compared(f, (2, 9, 7, 32), (3, 3, 32, 8), (3, 3, 32, 8))) == {}


# --- splits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_of_a_split_are_views_of_what_is_split(axis: int) -> None:
    def f(o: Any, x: Any) -> Any:
        one, two, three = o.split(o.sin(x), sections=3, axis=axis)
        return [o.tanh(one) * o.exp(two) - three]

    program = compared(f, (6, 9, 12))
    assert moved(program) == {}
    assert "split" in {i.op.name for i in program.plan.instructions if i.view}


def test_parts_of_inputs_are_shown_anew_in_each_run() -> None:
    x = LAZY.input("x", (4, 6), "float64")
    one, two = LAZY.ops.split(x, sections=(2, 4), axis=1)
    program = LAZY.compile([x], [one * 2, two + 1])
    for given in (np.arange(24.0).reshape(4, 6), np.arange(48.0).reshape(4, 12)[:, ::2], np.ones((6, 4)).T):
        found = program(given)
        np.testing.assert_array_equal(found[0], given[:, :2] * 2)
        np.testing.assert_array_equal(found[1], given[:, 2:] + 1)


def test_what_is_split_is_not_written_over_while_a_part_is_wanted() -> None:
    def f(o: Any, x: Any) -> Any:
        y = o.sin(x)
        first, last = o.split(y, sections=2)
        return [o.exp(y), o.cos(first), o.tanh(last)]

    compared(f, (200, 30))


def test_parts_that_would_be_copied_one_by_one_are_copied_at_once() -> None:
    """A reshape shows no gaps."""

    def f(o: Any, x: Any) -> Any:
        return [o.tanh(o.reshape(part, shape=(12,))) for part in o.split(o.sin(x), sections=2, axis=1)]

    program = compared(f, (6, 4))
    assert [i.op.name for i in program.plan.instructions if not i.view and i.op.name in ("split", "reshape")] == [
        "split"
    ]


def test_outputs_that_are_parts_are_copies() -> None:
    x = LAZY.input("x", (4,), "float64")
    program = LAZY.compile([x], LAZY.ops.split(x, sections=2))
    given = np.arange(4.0)
    found = program(given)
    given[:] = 7
    assert [a.tolist() for a in found] == [[0, 1], [2, 3]]


def lying_elsewhere(plan: Plan, slot: int, there: int) -> Plan:
    """The plan with one slot in the buffer of another."""
    slots = list(plan.slots)
    slots[slot] = evolve(slots[slot], buffer=slots[there].buffer)
    return evolve(plan, slots=tuple(slots))


def test_a_damaged_plan_in_which_parts_lie_elsewhere_does_not_verify() -> None:
    plan = compared(lambda o, x: [o.exp(p) + 1 for p in o.split(o.sin(x), sections=2)], (6, 4)).plan
    (split,) = [i for i in plan.instructions if i.op.name == "split"]
    with pytest.raises(PlanError, match="is a view of slot"):
        lying_elsewhere(plan, split.results[1], plan.inputs[0]).verify()


# --- what NNC's planner gets wrong ---------------------------------------------------------------------------


def test_a_slice_beside_another_that_overlaps_it_is_not_written_over() -> None:
    """z = x[1:3] + x[0:2]: over x[1:3], the second element would be read after the first was written."""

    def f(o: Any, x: Any) -> Any:
        y = o.sort(x)
        return [o.sum(o.sort(y[1:900] + y[0:899]))]

    program = compared(f, (900,))
    (added,) = [i for i in program.plan.instructions if i.op.name == "add"]
    homes = program.plan.slots
    assert homes[added.results[0]].buffer not in {homes[s].buffer for s in added.operands}


def test_a_verifier_refuses_a_slice_written_over_beside_another() -> None:
    plan = compared(lambda o, x: [o.sum(o.sort((y := o.sort(x))[1:9] + y[0:8]))], (9,)).plan
    (added,) = [i for i in plan.instructions if i.op.name == "add"]
    with pytest.raises(PlanError, match="writes over its operand"):
        lying_elsewhere(plan, added.results[0], added.operands[0]).verify()
