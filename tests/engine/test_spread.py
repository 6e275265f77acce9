"""Programs with values at random places, and transfers, are as in one place (`facets/places`, `engine/verifying`)."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, example, given, settings

import nnc_func as nnc
from nnc_func.errors import NncError, PlaceError
from nnc_func.graph.ops.memory import after, transfer
from nnc_func.testing.agreement import agree, follow
from nnc_func.testing.program import CONSTANT, INPUT, PLACES, Leaf, Program, Step, inferred
from nnc_func.testing.programs import LARGEST
from tests.conversions import spread
from tests.device.test_places import DEVICES, EAGER, PLANNED, PRETENDED, STACKS, TWO

FEW = settings(max_examples=max(5, settings().max_examples // 2))


@pytest.mark.parametrize("name", STACKS)
@given(spread())
def test_values_at_random_places_are_those_of_one_place(name: str, both: tuple[Program, Program]) -> None:
    plain, moved = both
    state = [v.value() for v in plain.variables]
    wanted, following, largest = plain.run_numpy(plain.feeds(), state)
    assume(largest < LARGEST)
    found, after, _ = moved.run_numpy(moved.feeds(), state)
    agree([*found, *after], [*wanted, *following], plain, largest, "reference")
    follow(moved, STACKS[name])
    with np.errstate(all="ignore"):
        found, after = moved.immediate(STACKS[name], moved.feeds(), state)
    agree([*found, *after], [*wanted, *following], plain, largest, f"{name}, at once")


def folds(program: Program) -> bool:
    """Whether all that is computed of constants alone is finite; if not, it is left to the run.

    In a place without elements nobody knows.
    """
    values, _ = program.on_arrays([leaf.value() for leaf in program.leaves])
    fixed = {n for n, leaf in enumerate(program.leaves) if leaf.kind == CONSTANT}
    for step, results in zip(program.steps, program.results(), strict=True):
        if isinstance(step, Step) and fixed.issuperset(step.args):
            fixed.update(results)
    return all(np.isfinite(values[n]).all() for n in fixed if values[n].dtype.kind in "fc")


@FEW
@given(spread())
def test_places_without_elements_plan_as_places_with_them(both: tuple[Program, Program]) -> None:
    assume(folds(both[0]))
    plans = []
    for device in (TWO, PLANNED):
        built = both[1].build(nnc.lazy(device)).program
        plans.append(re.sub(" *#.*", "", str(built.plan.verify())))  # without the lines that asked for it
        built(*both[1].feeds())
    assert plans[0] == plans[1]


@FEW
@given(spread())
def test_places_of_the_strict_device_give_what_one_gives(both: tuple[Program, Program]) -> None:
    plain, moved = both
    with np.errstate(all="ignore"):
        try:
            wanted = plain.build(nnc.lazy(nnc.Strict()))(*plain.feeds())
        except NncError:  # more than the standard has
            assume(False)
        found = moved.build(nnc.lazy(PRETENDED))(*moved.feeds())
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(one), nnc.Strict().to_numpy(other))


X, THERE = Leaf(INPUT, "x", (2,), "float64"), Leaf(INPUT, "y", (2,), "float64", place=PLACES[1])
BARRIER = Program((X, THERE), (Step(transfer, (0,), {"place": PLACES[1]}), Step(after, (2, 1), {})), (3,), ())


@FEW
@given(spread())
@example((BARRIER, BARRIER))  # found by a fresh seed
def test_without_one_of_its_transfers_a_program_is_refused_with_words(both: tuple[Program, Program]) -> None:
    for broken in without_one(both[1]):
        for device in DEVICES.values():
            with pytest.raises(PlaceError, match=r"different places: .*; bring them together with transfer\(x, place="):
                broken.build(nnc.lazy(device))
        with pytest.raises(PlaceError, match=r"different places: .*transfer\(x, place="), np.errstate(all="ignore"):
            broken.applied(EAGER, [EAGER.asarray(n.value(), place=n.place) for n in broken.leaves])


def without_one(program: Program) -> list[Program]:
    """The program without one transfer whose user has another operand, in that place."""
    avals, numbers, at = program.avals(), [], len(program.leaves)
    found = []
    for step in program.steps:  # which value each step's first result is
        numbers.append(at)
        at += len(inferred(step.op, [avals[a] for a in step.args], step.params))
    for k, step in enumerate(program.steps):
        if step.op.name != "transfer" or step.params["place"] is None or k + 1 >= len(program.steps):
            continue
        mine, was = numbers[k], step.args[0]
        user = next((u for u in program.steps[k + 1 :] if mine in u.args), None)
        if user is None or user.op.name == "transfer" or all(a == mine for a in user.args):
            continue
        if avals[mine].place == avals[was].place:
            continue
        steps = [
            Step(s.op, tuple(was if a == mine and s is user else a for a in s.args), s.params) for s in program.steps
        ]
        found.append(Program(program.leaves, tuple(steps), program.outputs, ()))
    return found
