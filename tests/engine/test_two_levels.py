"""Programs in two levels of memory compute the same bits (`engine/planning/levels`, `engine/planning/spills`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import models
from nnc_func.config import config
from nnc_func.engine.plan import Plan
from nnc_func.engine.planning.levels import FastMemory, fast_bytes
from nnc_func.engine.planning.overlap import estimated
from nnc_func.engine.planning.planner import smallest_draft
from nnc_func.engine.planning.spills import spillable
from nnc_func.engine.spilling import POLICIES, SpillProblem, simulated
from nnc_func.engine.spilling.exact import Exact
from nnc_func.engine.spilling.states import fewest
from nnc_func.errors import PlaceError, PlanError
from nnc_func.tree import flatten
from tests.engine.test_budgets import KINDS, trained

PLACES = nnc.Places(fast=nnc.NumPy(), slow=nnc.NumPy())
LAZY = nnc.lazy(PLACES)
WIDTH = 1024


def within(nbytes: Any, policy: Any = "cover", stack: Any = LAZY) -> Any:
    return stack.swap(engine=stack.engine.with_fast_memory(nbytes, policy=policy))


@contextmanager
def poisoned() -> Iterator[None]:
    """Memory that nobody uses is filled while programs run."""
    before, config.spec = config.spec, 3
    try:
        yield
    finally:
        config.spec = before


def moves(plan: Plan) -> list[tuple[Any, int]]:
    """Whereto each transfer goes, and of how many bytes."""
    rows = [plan.slots[i.results[0]].aval for i in plan.instructions if i.op.name == "transfer"]
    return [(aval.place, aval.nbytes) for aval in rows]


def there_and_back(stack: Any, depth: int = 8) -> Any:
    """Sorted again and again, then multiplied with all that was sorted, the last first."""
    o, x = stack.ops, stack.input("x", (WIDTH,), "float64")
    y, kept = x, []
    for _ in range(depth):
        y = o.sort(o.sin(y))
        kept.append(y)
    for each in reversed(kept):
        y = o.cumulative_sum(y * each, axis=0)
    return stack.compile([x], [o.sum(y), o.max(y)])


def bits(found: Any) -> list[bytes]:
    return [np.ascontiguousarray(np.asarray(each)).tobytes() for each in flatten(found)[0]]


@cache
def least_of(make: Any) -> int:
    """The least fast memory, as a refusal says."""
    with pytest.raises(PlanError) as refused:
        make(within(0))
    return int(re.search(r"the least found is (\d+) bytes", str(refused.value))[1])  # type: ignore[index]


# --- values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["cover", "furthest"])
@pytest.mark.parametrize("part", [0.9, 0.7, 0.5, 0.3])
def test_a_program_in_less_fast_memory_computes_the_same_bits(part: float, policy: str) -> None:
    x, plain = np.linspace(0, 9, WIDTH), there_and_back(LAZY)
    capacity = int(part * fast_bytes(plain.plan))
    program = there_and_back(within(capacity, policy))
    told = program.stats.traffic
    assert fast_bytes(program.plan.verify()) == told.fast_bytes <= capacity
    assert sum(nbytes for _, nbytes in moves(program.plan)) == told.moved > 0
    assert len(moves(program.plan)) == told.spills + told.fetches
    assert told.slow_bytes == dict(program.plan.elsewhere)["slow"]
    assert told.without == fast_bytes(plain.plan)
    with poisoned():
        assert bits(program(x)) == bits(program(x)) == bits(plain(x))


@example(("dense", "tanh", "dense", "tanh", "concat", "sort", "skip", "dense"), 0, 0.5)
@settings(deadline=None, max_examples=8)
@given(
    st.lists(st.sampled_from(KINDS), min_size=3, max_size=10).map(tuple),
    st.integers(0, 1 << 16),
    st.sampled_from([0.3, 0.5, 0.7, 0.9]),
)
def test_training_steps_in_less_fast_memory_compute_the_same_bits(kinds: Any, seed: int, part: float) -> None:
    plain, weights, x = trained(LAZY, kinds, seed)
    capacity = int(part * fast_bytes(plain.plan))
    try:
        program, moved, _ = trained(within(capacity), kinds, seed)
    except PlanError as error:
        capacity = int(re.search(r"Give (\d+) bytes", str(error))[1])  # type: ignore[index]
        program, moved, _ = trained(within(capacity), kinds, seed)
    assert fast_bytes(program.plan.verify()) <= capacity
    for _ in range(2):
        wanted = bits(plain(x))
        with poisoned():
            assert bits(program(x)) == wanted
    for one, other in zip(weights, moved, strict=True):
        assert bits(np.asarray(one)) == bits(np.asarray(other))


@pytest.mark.parametrize(
    "name",
    [
        "transformer-encoder",
        "gpt-2",
        pytest.param("mobilenet-v2", marks=pytest.mark.slow),
        pytest.param("darts", marks=pytest.mark.slow),
    ],
)
def test_networks_of_the_zoo_train_to_the_same_bits(name: str) -> None:
    model = models.get(name).reduced()
    x, y = model.examples(2)
    found = []
    for capacity in (None, 0.6):
        stack = nnc.lazy(PLACES)
        nbytes = None if capacity is None else int(capacity * found[0][2])
        engine = stack.engine.with_fast_memory(nbytes)
        program = engine.compile(model.training(stack, 2, seed=0))
        with poisoned():
            results = [bits(program(x, y, np.int64(i), np.float32(0.01))) for i in range(2)]
        found.append((results, [bits(v.array) for v in program.variables.values()], fast_bytes(program.plan)))
    assert found[0][:2] == found[1][:2]
    assert found[1][2] <= 0.6 * found[0][2]


def test_loops_and_branches_in_less_fast_memory_compute_the_same_bits() -> None:
    def make(stack: Any) -> Any:
        o, x = stack.ops, stack.input("x", (WIDTH,), "float64")
        kept = [o.sort(x * k) for k in (1.0, 2.0, 3.0)]
        y = stack.fori(0, 3, lambda i, y: o.sort(o.sin(y)) + kept[0], o.sort(x + 1))
        z = stack.cond(o.sum(y) > 0, lambda y: o.cumulative_sum(y, axis=0), lambda y: -y, y)
        for each in kept:
            z = o.cumulative_sum(z * each, axis=0)
        return stack.compile([x], z)

    x, plain = np.linspace(-1, 1, WIDTH), make(LAZY)
    capacity = int(0.8 * fast_bytes(plain.plan))
    program = make(within(capacity))
    assert program.stats.traffic.moved
    assert fast_bytes(program.plan.verify()) <= capacity
    with poisoned():
        assert bits(program(x)) == bits(plain(x))


# --- what is moved ------------------------------------------------------------------------------------------


def test_a_value_is_written_to_slow_memory_once_however_often_it_is_brought_back() -> None:
    def make(stack: Any) -> Any:
        o, x = stack.ops, stack.input("x", (WIDTH,), "float64")
        kept, y = o.sort(x), o.sort(x * 2)
        for _ in range(3):
            wide = o.sort(o.concat(y, y, y, axis=0))
            y = o.cumulative_sum(wide[:WIDTH] * wide[WIDTH : 2 * WIDTH] + wide[2 * WIDTH :], axis=0) * kept
        return stack.compile([x], o.sum(y))

    program = make(within(least_of(make)))
    told = program.stats.traffic
    assert told.fetches > told.spills > 0
    sources = [i.operands[0] for i in program.plan.instructions if i.op.name == "transfer"]
    spilled = [s for s in sources if program.plan.slots[s].aval.place is None]
    assert len({*spilled}) == len(spilled)
    x = np.linspace(0, 1, WIDTH)
    with poisoned():
        assert bits(program(x)) == bits(make(LAZY)(x))


def test_what_lies_in_slow_memory_is_dropped_and_brought_again_without_being_written() -> None:
    """Inputs and variables of slow memory: the graph itself brings them, and they are there still."""

    def make(stack: Any) -> Any:
        o = stack.ops
        x = stack.input("x", (WIDTH,), "float64")
        w = stack.variable("w", np.linspace(1, 2, WIDTH), place="slow")
        z = stack.input("z", (WIDTH,), "float64", place="slow")
        here = [o.transfer(each, place="fast") for each in (w, z)]
        y = o.sort(x * here[0] * here[1])
        for _ in range(2):
            wide = o.sort(o.concat(y, y + 1, y + 2, axis=0))
            y = o.cumulative_sum(wide[:WIDTH] * wide[WIDTH : 2 * WIDTH] + wide[2 * WIDTH :], axis=0)
        return stack.compile([x, z], o.sum(y * here[0] * here[1])), w

    plain, _ = make(LAZY)
    own = len(moves(plain.plan))
    program, _ = make(within(int(0.85 * fast_bytes(plain.plan))))
    told = program.stats.traffic
    assert (own, told.spills, told.spilled) == (2, 0, 0)
    assert told.fetches > 0
    assert len(moves(program.plan)) == own + told.fetches
    x, z = np.linspace(0, 1, WIDTH), LAZY.device.asarray(np.linspace(2, 3, WIDTH), place="slow")
    with poisoned():
        assert bits(program(x, z)) == bits(plain(x, z))


def test_a_donated_input_is_written_over_as_before() -> None:
    def make(stack: Any) -> Any:
        o, x = stack.ops, stack.input("x", (WIDTH,), "float64")
        y, kept = x, []
        for _ in range(5):
            y = o.sort(o.sin(y) + x)
            kept.append(y)
        y = o.sort(x)
        for each in reversed(kept):
            y = o.cumulative_sum(y * each, axis=0)
        return stack.compile([x], o.sum(y), donate=[x])

    plain = make(LAZY)
    program = make(within(int(0.7 * fast_bytes(plain.plan))))
    assert program.stats.traffic.moved
    program.plan.verify()
    x = np.linspace(0, 1, WIDTH)
    with poisoned():
        assert bits(program(PLACES.asarray(x.copy()))) == bits(plain(PLACES.asarray(x.copy())))


def test_enough_fast_memory_changes_nothing() -> None:
    plain = there_and_back(LAZY)
    program = there_and_back(within(fast_bytes(plain.plan)))
    assert program.plan == plain.plan
    assert program.stats.traffic.moved == 0


def test_unknown_extents_are_planned_in_two_levels_each() -> None:
    def make(stack: Any) -> Any:
        o, y = stack.ops, stack.input("x", (None,), "float64")
        inputs, kept = [y], []
        for _ in range(6):
            y = o.sort(o.sin(y))
            kept.append(y)
        for each in reversed(kept):
            y = o.cumulative_sum(y * each, axis=0)
        return stack.compile(inputs, o.sum(y))

    program, plain = make(within(3 * 8 * WIDTH)), make(LAZY)
    for count in (8, WIDTH):
        x = np.linspace(0, 1, count)
        assert bits(program(x)) == bits(plain(x))
    small, large = (each.stats.traffic for each in program.programs.values())
    assert small.moved == 0 < large.moved
    assert large.fast_bytes <= 3 * 8 * WIDTH


# --- how few ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.5, 0.7])
def test_few_bytes_are_moved_beside_the_fewest(part: float) -> None:
    """Of the plan, with its gaps in memory: as the search says, without."""
    plain = there_and_back(LAZY, depth=6)
    capacity = int(part * fast_bytes(plain.plan))
    program = there_and_back(within(capacity), depth=6)
    problem = spillable(smallest_draft(LAZY.engine.request(plain.graph))).problem
    assert program.stats.traffic.moved <= 1.2 * simulated(problem, fewest(problem, capacity)).moved


@pytest.mark.parametrize(("name", "batch", "reduced"), [("vgg-16", 8, False), ("u-net", 2, False), ("gpt-2", 16, True)])
def test_networks_in_half_of_their_fast_memory_move_at_most_a_fifth_more_than_is_proven(
    name: str, batch: int, reduced: bool
) -> None:
    pytest.importorskip("scipy")
    stack = nnc.lazy(nnc.Places(fast=nnc.Null(), slow=nnc.Null()))
    model = models.get(name).reduced() if reduced else models.get(name)
    graph = model.training(stack, batch, seed=None)
    plain = stack.engine.compile(graph)
    capacity = fast_bytes(plain.plan) // 2
    program = stack.engine.with_fast_memory(capacity).compile(graph)
    assert fast_bytes(program.plan.verify()) <= capacity
    best = Exact().solved(spillable(smallest_draft(stack.engine.request(plain.graph))).problem, capacity)
    assert best.optimal
    assert program.stats.traffic.moved <= 1.2 * best.bound


def test_one_policy_is_a_function_of_ones_own() -> None:
    asked: list[SpillProblem] = []

    def everything(problem: SpillProblem, capacity: int) -> Any:
        asked.append(problem)
        return range(len(problem.gaps))

    plain = there_and_back(LAZY)
    program = there_and_back(within(int(0.6 * fast_bytes(plain.plan)), everything))
    assert asked
    assert program.stats.traffic.policy == "everything"
    assert program.stats.traffic.fetches == len(asked[0].gaps)
    x = np.linspace(0, 1, WIDTH)
    with poisoned():
        assert bits(program(x)) == bits(plain(x))


def test_exact_is_a_policy() -> None:
    pytest.importorskip("scipy")
    capacity = int(0.5 * fast_bytes(there_and_back(LAZY).plan))
    best, default = (there_and_back(within(capacity, name)).stats.traffic for name in ("exact", "cover"))
    assert best.moved <= default.moved


# --- devices ------------------------------------------------------------------------------------------------


def test_where_nothing_is_computed_plans_are_the_same_and_run() -> None:
    null = nnc.lazy(nnc.Places(fast=nnc.Null(), slow=nnc.Null()))
    capacity = int(0.5 * fast_bytes(there_and_back(LAZY).plan))
    program = there_and_back(within(capacity, stack=null))
    assert program.plan == there_and_back(within(capacity)).plan
    program(null.device.empty((WIDTH,), "float64"))
    fast, slow = (device.counts for _, device in null.device.devices)
    told = program.stats.traffic
    assert (slow.by_operator["transfer"], fast.by_operator["transfer"]) == (told.spills, told.fetches)
    assert slow.allocated_bytes == told.slow_bytes


def test_estimates_read_the_bandwidth_of_both_machines() -> None:
    found = []
    for rate in (1e10, 1e8):
        far = nnc.Places(fast=nnc.Null(), slow=nnc.Null(machine=nnc.Machine(bandwidth=rate)))
        stack = nnc.lazy(far)
        capacity = int(0.5 * fast_bytes(there_and_back(stack).plan))
        told = there_and_back(within(capacity, stack=stack)).stats.traffic
        found.append(told.estimate)
        assert max(told.estimate.computing, told.estimate.moving) <= told.estimate.together
        assert told.estimate.together <= told.estimate.computing + told.estimate.moving
    near, distant = found
    assert distant.moving > 20 * near.moving
    assert distant.computing == near.computing


def test_values_are_brought_back_before_they_are_wanted_where_there_is_room() -> None:
    """So a copy runs beside kernels: the estimate is less than that of copies in the last moment."""
    far = nnc.Places(fast=nnc.Null(), slow=nnc.Null(machine=nnc.Machine(bandwidth=1e9)))
    stack = nnc.lazy(far)
    plain = there_and_back(stack, depth=12)
    program = there_and_back(within(int(0.6 * fast_bytes(plain.plan)), stack=stack), depth=12)
    plan = program.plan
    made = {slot: t for t, i in enumerate(plan.instructions) for slot in i.results}
    early = [
        t
        for t, i in enumerate(plan.instructions)
        for slot in i.operands
        if plan.instructions[made.get(slot, 0)].op.name == "transfer" and i.op.name != "transfer" and t > made[slot] + 1
    ]
    assert early
    told = program.stats.traffic.estimate
    assert told == estimated(plan, far)
    assert told.together < told.computing + 0.9 * told.moving


# --- words --------------------------------------------------------------------------------------------------


def test_a_refusal_names_the_instruction_and_the_least_which_is_kept() -> None:
    least = least_of(there_and_back)
    program = there_and_back(within(least))
    assert fast_bytes(program.plan.verify()) <= least
    said = (
        rf"the fast memory of 'program' is {least - 1} bytes \(.*\); the least found is {least} bytes .*, with all "
        rf"else moved to 'slow': instruction "
        rf"\d+, \w+ \(built at test_two_levels.py:\d+.*\), reads and makes \d+ bytes .* Give {least} bytes or more"
    )
    with pytest.raises(PlanError, match=said):
        there_and_back(within(least - 1))


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 3000))
def test_whatever_is_more_than_the_least_is_kept(more: int) -> None:
    least = least_of(there_and_back)
    assert fast_bytes(there_and_back(within(least + 8 * more)).plan) <= least + 8 * more


def test_settings_that_are_none_are_refused() -> None:
    engine = LAZY.engine
    for nbytes in (-1, 0.5, "much", True):
        with pytest.raises(PlanError, match="is a number of bytes"):
            engine.with_fast_memory(nbytes)
    with pytest.raises(PlanError, match="no policy named 'covers'; there are: cover, furthest, exact; did you mean"):
        engine.with_fast_memory(64, policy="covers")
    with pytest.raises(PlanError, match="a policy is a name or a function, given 3"):
        engine.with_fast_memory(64, policy=3)
    with pytest.raises(PlanError, match="slow memory is a place, by its name, given 1"):
        engine.with_fast_memory(64, 1)
    with pytest.raises(PlanError, match=r"is a FastMemory, given 64; with_fast_memory\('500MB'\) makes one"):
        nnc.Lazy(LAZY.graph, fast_memory=64)
    with pytest.raises(PlanError, match="an engine has a budget or a fast memory"):
        engine.with_memory_budget("1MB").with_fast_memory("1MB")
    assert engine.with_fast_memory("1 KiB").fast_memory == FastMemory(1024)
    assert engine.with_fast_memory("1 KiB").with_fast_memory(None) == engine


def test_places_that_are_none_are_told() -> None:
    with pytest.raises(PlanError, match=r"two levels of memory are two places, .* Places\(fast=NumPy\(\), slow=NumPy"):
        there_and_back(within(64, stack=nnc.lazy()))
    with pytest.raises(PlaceError, match="the device has no place 'far'"):
        there_and_back(LAZY.swap(engine=LAZY.engine.with_fast_memory(64, "far")))
    with pytest.raises(PlanError, match="slow memory is another place than the first one, 'fast'"):
        there_and_back(LAZY.swap(engine=LAZY.engine.with_fast_memory(64, "fast")))
    assert [*POLICIES] == ["cover", "furthest", "exact"]


def test_the_third_place_may_be_slow_memory() -> None:
    stack = nnc.lazy(nnc.Places(fast=nnc.NumPy(), other=nnc.NumPy(), far=nnc.NumPy()))
    capacity = int(0.5 * fast_bytes(there_and_back(stack).plan))
    program = there_and_back(stack.swap(engine=stack.engine.with_fast_memory(capacity, "far")))
    assert [place for place, _ in program.plan.elsewhere] == ["far"]
    x = np.linspace(0, 1, WIDTH)
    assert bits(program(x)) == bits(there_and_back(LAZY)(x))
