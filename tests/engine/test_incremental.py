"""Incremental programs on random graphs: the dirty cone runs, exactly, and nothing is stale (`engine/incremental`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.errors import RunError
from nnc_func.testing.programs import VARIABLE, Program, programs
from tests.conversions import spread
from tests.engine.changing import Counting, KernelFailedError, computes, cone
from tests.squares import random_program

GRAPHS = 1000
PARTS = 10
STACK = nnc.lazy(Counting())
COUNTING = STACK.device


@contextmanager
def checked(level: int) -> Iterator[None]:
    before, config.spec = config.spec, level
    try:
        yield
    finally:
        config.spec = before


class Watched:
    """An incremental program beside one that retains nothing and is called with everything."""

    def __init__(self, program: Program, retain: Any, stack: Any = STACK) -> None:
        self.program = program
        self.found, self.oracle = program.build(stack, retain), program.build(stack)
        self.values = {leaf.name: leaf.value() for leaf in program.inputs}
        self.variables = [leaf.name for leaf in program.leaves if leaf.kind == VARIABLE]
        self.read: list[int] = []  # the versions of the variables at the last evaluation

    def change(self, names: Any, seed: int) -> None:
        """New values for these leaves, in both."""
        for leaf in self.program.leaves:
            if leaf.name in names:
                value = leaf.value(seed)
                if leaf.kind == VARIABLE:
                    at = self.variables.index(leaf.name)
                    self.found.variables[at].value.assign(value)
                    self.oracle.variables[at].value.assign(value)
                else:
                    self.values[leaf.name] = value
                    self.found.program.assign({leaf.name: value})

    def dirty(self, names: Any) -> list[str]:
        """The cone of what was assigned, and of the variables that have another version than when last read."""
        moved = {v.value for v, n in zip(self.found.variables, self.read, strict=True) if v.value.version != n}
        return cone(self.found.program.graph, moved | set(names))

    def evaluate(self) -> list[str]:
        """Both evaluated, equal bit for bit; the kernels that the incremental one ran."""
        self.read = [v.value.version for v in self.found.variables]
        COUNTING.counted()
        with np.errstate(all="ignore"):
            found = self.found.program.evaluate()
            ran = sorted(COUNTING.counted())
            wanted = self.oracle(*self.values.values())
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(self.found.state(), self.oracle.state(), strict=True):
            np.testing.assert_array_equal(one, other)
        return ran


def followed(random: Any, retain: Any, rounds: int = 4, exact: bool = True) -> None:
    """A random graph through random assignments."""
    watched = Watched(random_program(random), retain)
    program = watched.found.program
    if program.plan is not None:
        program.plan.verify()
    names = [leaf.name for leaf in watched.program.leaves if leaf.kind != "constant"]
    watched.change([leaf.name for leaf in watched.program.inputs], 1)
    first = watched.evaluate()
    assert len(first) == len(computes(program.graph)) == program.evaluation.kernels
    for i in range(rounds):
        chosen = [n for n in names if random.random() < 0.4]
        watched.change(chosen, i + 2)
        wanted = watched.dirty(chosen)
        ran = watched.evaluate()
        assert program.evaluation.kernels == len(ran)
        assert program.evaluation.cone == len(wanted)
        if exact:
            assert ran == wanted


# --- exactly the cone -----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("retain", ["all", "frontier"])
def test_what_runs_is_the_dirty_cone(retain: str, part: int) -> None:
    for seed in range(part, GRAPHS, PARTS):
        followed(np.random.default_rng([seed, len(retain)]), retain)


@pytest.mark.slow
@pytest.mark.parametrize("retain", ["all", "frontier"])
def test_what_runs_is_the_dirty_cone_of_many_and_larger_graphs(retain: str) -> None:
    for seed in range(GRAPHS, 10 * GRAPHS):
        followed(np.random.default_rng([seed, len(retain)]), retain, rounds=8)


@pytest.mark.parametrize("retain", ["all", "frontier"])
def test_with_poisoned_memory_the_same(retain: str) -> None:
    with checked(3):
        for seed in range(100):
            followed(np.random.default_rng([seed, 3]), retain)


def test_with_named_values_nothing_is_stale() -> None:
    with checked(3):
        for seed in range(150):
            random = np.random.default_rng([seed, 4])
            program = random_program(random)
            count = len(program.leaves) + len(program.steps)
            names = [int(v) for v in random.integers(0, count, random.integers(0, 3))]
            followed(np.random.default_rng([seed, 4]), names, exact=False)


# --- programs over the catalogue ---------------------------------------------------------------------------

EAGER, LAZY = nnc.eager(), nnc.lazy()
UNSHIFTED = programs().filter(lambda p: not any("shift" in s.op.name for s in p.steps))  # Strict refuses negative ones
STACKS = {"eager": EAGER, "lazy": LAZY, "strict": nnc.lazy(nnc.Strict()), "over": EAGER.swap(device=LAZY)}


def rerun(program: Program, stack: Any, retain: Any, choices: list[list[int]]) -> None:
    """Rounds of assignments: a program that retains, and a fresh one for each round, called with everything."""
    built, state = program.build(stack, retain), [v.value() for v in program.variables]
    values = {leaf.name: leaf.value() for leaf in program.inputs}
    built.program.assign(values)
    for seed, chosen in enumerate([[], *choices]):
        for at in chosen:
            leaf = program.leaves[at % len(program.leaves)]
            if leaf.kind == "input":
                values[leaf.name] = leaf.value(seed)
                built.program.assign({leaf.name: values[leaf.name]})
            elif leaf.kind == VARIABLE:
                built.variables[program.variables.index(leaf)].value.assign(leaf.value(seed))
                state[program.variables.index(leaf)] = leaf.value(seed)
        fresh = program.build(stack)
        for variable, value in zip(fresh.variables, state, strict=True):
            variable.value.assign(value)
        with np.errstate(all="ignore"):
            found, wanted = built.program.evaluate(), fresh(*values.values())
        state = [np.asarray(v) for v in fresh.state()]
        for one, other in zip([*found, *built.state()], [*wanted, *state], strict=True):
            one, other = (a if isinstance(a, np.ndarray) else stack.to_numpy(a) for a in (one, other))
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("retain", ["all", "frontier", "named"])
@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@given(UNSHIFTED, st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=3))
def test_random_programs_equal_a_fresh_build(
    stack: Any, retain: str, program: Program, choices: list[list[int]]
) -> None:
    rerun(program, stack, program.outputs[:1] if retain == "named" else retain, choices)


PLACES = nnc.Places(one=nnc.NumPy(), two=nnc.NumPy())


@pytest.mark.parametrize("stack", [nnc.eager(PLACES), nnc.lazy(PLACES)], ids=["eager", "lazy"])
@given(spread(), st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=3))
def test_values_in_several_places_equal_a_fresh_build(stack: Any, both: Any, choices: list[list[int]]) -> None:
    for retain in ("all", "frontier"):
        rerun(both[1], stack, retain, choices)


# --- failures ----------------------------------------------------------------------------------------------


def fails(watched: Watched, at: int) -> bool:
    """Whether an evaluation whose kernel number `at` fails does; variables are then as they were."""
    before = [(v.value.version, v.numpy()) for v in watched.found.variables]
    COUNTING.counted()
    COUNTING.failing.append(at)
    try:
        with np.errstate(all="ignore"):
            watched.found.program.evaluate()
    except RunError as raised:
        error = raised
    else:
        return False
    finally:
        COUNTING.failing.clear()
    assert isinstance(error.__cause__, KernelFailedError)
    for variable, (version, array) in zip(watched.found.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), array)
        assert variable.value.version == version
    return True


@pytest.mark.parametrize("retain", ["all", "frontier", "named"])
def test_after_a_failure_anywhere_what_is_not_known_to_be_whole_is_computed_again(retain: str) -> None:
    for seed in range(12):
        random = np.random.default_rng([seed, 5])
        program = random_program(random)
        kept = [len(program.leaves)] if retain == "named" else retain
        names = [leaf.name for leaf in program.leaves if leaf.kind != "constant"]
        for at in range(len(computes(program.build(STACK, kept).program.graph))):
            watched = Watched(program, kept)
            watched.change(names, 1)
            if at % 2:
                watched.evaluate()
                watched.change(names[:1], 5)
                watched.evaluate()
                watched.change([n for n in names if random.random() < 0.6], 2)
            if not fails(watched, at):
                with np.errstate(all="ignore"):
                    watched.oracle(*watched.values.values())
            elif random.random() < 0.7:  # more may change before it is tried again
                watched.change(names[:1], 3)
            watched.evaluate()
            watched.change(names[-1:], 4)
            watched.evaluate()
