"""Programs within budgets compute the same (`engine/planning/budgets`, `engine/planning/recomputed`)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.files.text import repeated
from nnc_func.engine.plan import Plan
from nnc_func.engine.planning.answers import footprint
from nnc_func.engine.planning.budgets import as_bytes
from nnc_func.engine.rematerialising import RematerialisationProblem
from nnc_func.errors import PlanError
from nnc_func.nn.modules import key_of
from tests.device.test_places import TWO

LAZY = nnc.lazy()
WIDTH = 16
KINDS = ("dense", "relu", "tanh", "dropout", "skip", "sort", "concat")


def within(nbytes: Any, strategy: Any = "greedy") -> Any:
    return LAZY.swap(engine=LAZY.engine.with_memory_budget(nbytes, strategy))


def trained(stack: Any, kinds: tuple[str, ...], seed: int) -> Any:
    """A program of a loss, its gradients and an update of every weight, and what it is called with."""
    rng, ops = np.random.default_rng(seed), stack.ops
    weights = [
        stack.variable(f"w{i}", rng.normal(size=(WIDTH, WIDTH)) / 4) for i, k in enumerate(kinds) if k == "dense"
    ]

    def loss(x: Any, *params: Any) -> Any:
        rest = iter(params)
        before = x
        for i, kind in enumerate(kinds):
            y = x
            if kind == "dense":
                y = x @ next(rest)
            elif kind == "dropout":
                y = ops.dropout(x, key_of(i), probability=0.3)
            elif kind == "skip":
                y = x + before
            elif kind == "sort":
                y = ops.sort(x)
            elif kind == "concat":
                y = ops.concat(x[:, : WIDTH // 2], before[:, WIDTH // 2 :], axis=1)
            else:
                y = getattr(ops, kind)(x)
            before, x = x, y
        return ops.sum(x * x)

    x = stack.input("x", (8, WIDTH), "float64")
    value, grads = stack.value_and_grad(loss, tuple(range(1 + len(weights))))(x, *weights)
    updates = [(w, w - 0.01 * g) for w, g in zip(weights, grads[1:], strict=True)]
    return stack.compile([x], [value, grads[0]], updates), weights, rng.normal(size=(8, WIDTH))


def in_two_places(stack: Any) -> Any:
    """A program that goes to another place and back, and needs in the end what it began with, and all on the way."""
    ops = stack.ops
    x = stack.input("x", (256,), "float64")
    there = ops.transfer(x, place="two")
    on_the_way, y = [], there
    for _ in range(6):
        y = ops.sort(ops.sin(y))
        on_the_way += [y, ops.transfer(ops.transfer(y, place="one") * 2, place="two")]
    found = y
    for each in reversed(on_the_way):
        found = ops.cumulative_sum(found * each, axis=0)
    return stack.compile([x], [ops.sum(found), ops.sum(ops.transfer(found + there, place="one"))])


@pytest.mark.parametrize("part", [0.8, 0.6])
def test_values_are_computed_again_in_the_place_where_they_were(part: float) -> None:
    stack = nnc.lazy(TWO)
    plain, x = in_two_places(stack), np.linspace(-1, 1, 256)
    takes = footprint(plain.plan)
    small = in_two_places(stack.swap(engine=stack.engine.with_memory_budget(int(part * takes))))
    assert footprint(small.plan.verify()) <= part * takes
    assert len(small.plan.instructions) > len(plain.plan.instructions)
    host = stack.device.to_numpy
    assert [host(each).tobytes() for each in small(x)] == [host(each).tobytes() for each in plain(x)]


SORTED = [
    "sort",
    "skip",
    "skip",
    "sort",
    "concat",
    "relu",
    "concat",
    "tanh",
    "skip",
    "dropout",
    "skip",
    "sort",
    "skip",
    "skip",
]


@given(st.lists(st.sampled_from(KINDS), min_size=4, max_size=14), st.integers(0, 99), st.floats(0.3, 0.9))
@settings(max_examples=8)
@example(["dense", "dense", "dense", "dense", "relu", "skip"], 0, 0.5)
@example(SORTED, 0, 0.3)
def test_training_within_a_budget_gives_the_same_bits(kinds: list[str], seed: int, part: float) -> None:
    plain, weights, x = trained(LAZY, (*kinds, "dense"), seed)
    takes = footprint(plain.plan)
    budget = int(part * takes)
    try:
        small, others, _ = trained(within(budget), (*kinds, "dense"), seed)
    except PlanError as error:
        budget = int(re.search(r"least (?:found )?is (\d+)", str(error))[1])  # type: ignore[index]
        assert budget <= takes
        small, others, _ = trained(within(budget), (*kinds, "dense"), seed)
    assert footprint(small.plan.verify()) <= budget
    for _ in range(2):
        for a, b in zip(plain(x), small(x), strict=True):
            np.testing.assert_array_equal(a, b)
        for v, w in zip(weights, others, strict=True):
            np.testing.assert_array_equal(np.asarray(v), np.asarray(w))


def chained(stack: Any, count: int = 24) -> Any:
    """Layers of sorting, each of which is read again, in the reverse order."""
    x = stack.input("x", (500,), "float64")
    layers = [x]
    for _ in range(count):
        layers.append(stack.ops.sort(layers[-1] * 0.5))
    total = sum(stack.ops.sum(layer * layers[-1]) for layer in reversed(layers[:-1]))
    return stack.compile([x], total)


@pytest.mark.parametrize("strategy", ["greedy", "square_root"])
def test_a_chain_takes_half(strategy: str) -> None:
    plain = chained(LAZY)
    half = footprint(plain.plan) // 2
    found = chained(within(half, strategy))
    assert footprint(found.plan.verify()) <= half
    told = found.stats.recomputation
    assert told.nbytes == footprint(found.plan)
    assert told.nbytes_without == footprint(plain.plan)
    assert told.again == len(found.plan.instructions) - len(plain.plan.instructions) > 0
    x = np.arange(500.0)
    np.testing.assert_array_equal(found(x), plain(x))
    assert found.plan.order == "recomputing"


def test_a_printed_plan_says_what_is_computed_again() -> None:
    plain = chained(LAZY, 12)
    found = chained(within(footprint(plain.plan) // 2), 12).plan
    again = repeated(found)
    assert len(again) == len(found.instructions) - len(plain.plan.instructions) > 0
    for t, first in again.items():
        one, other = found.instructions[t], found.instructions[first]
        assert first < t
        assert (one.op, one.items) == (other.op, other.items)
    lines = found.text().splitlines()
    assert sum("# again, as " in line for line in lines) == len(again)
    assert Plan.parse(found.text()) == found
    assert "# again" not in plain.plan.text()


def test_what_fits_is_left_as_it_is() -> None:
    plain, found = chained(LAZY), chained(within("1 GB"))
    assert found.plan == plain.plan
    assert found.stats.recomputation.again == 0


def test_a_budget_that_cannot_be_kept_says_the_least_that_can() -> None:
    with pytest.raises(
        PlanError, match=r"memory budget of 'program' is 64 bytes .* the least (found )?is \d+ "
    ) as caught:
        chained(within(64), 16)
    least = int(re.search(r"least (?:found )?is (\d+)", str(caught.value))[1])  # type: ignore[index]
    assert footprint(chained(within(least), 16).plan) <= least


def test_a_budget_of_time_gives_as_little_memory_as_it_can() -> None:
    plain = chained(LAZY, 16)
    sizes = [footprint(plain.plan)]
    for factor in (1.0, 1.1, 2.0):
        found = chained(LAZY.swap(engine=LAZY.engine.with_time_budget(factor)), 16)
        told = found.stats.recomputation
        assert told.extra_seconds <= (factor - 1) * told.seconds + 1e-12
        sizes.append(footprint(found.plan.verify()))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.5 * sizes[0]


def test_what_a_budget_may_be() -> None:
    assert as_bytes("500MB") == as_bytes(" 0.5 gb") == 500_000_000
    assert as_bytes("1.5 GiB") == 3 << 29
    assert type(as_bytes(np.int64(64))) is int  # type: ignore[arg-type]
    for wrong in ("", "MB", "5 parsecs", -1, 1.5, None, True, "-3MB"):
        with pytest.raises(PlanError, match="a memory budget is a number of bytes"):
            as_bytes(wrong)  # type: ignore[arg-type]
    assert LAZY.engine.with_memory_budget(5).with_memory_budget(None) == LAZY.engine
    for factor in (0.5, float("nan"), float("inf"), "2"):
        with pytest.raises(PlanError, match="a time budget is 1 or more"):
            LAZY.engine.with_time_budget(factor)
    with pytest.raises(PlanError, match="no strategy named 'wishing'; there are"):
        LAZY.engine.with_memory_budget(5, "wishing")
    with pytest.raises(PlanError, match="a strategy is a name or a function"):
        LAZY.engine.with_memory_budget(5, 7)


def test_where_there_is_no_budget() -> None:
    interpreted = nnc.lazy(nnc.Strict())
    small = interpreted.swap(engine=interpreted.engine.with_memory_budget(5))
    x = small.input("x", (2,), "float32")
    with pytest.raises(PlanError, match="no memory to plan"):
        small.compile([x], x + 1)
    kept = within(5)
    y = kept.input("y", (2,), "float32")
    with pytest.raises(PlanError, match="keeps values from run to run"):
        kept.compile([y], y + 1, retain="all")


def test_a_strategy_of_ones_own_is_checked() -> None:
    def forgetful(problem: RematerialisationProblem, budget: int) -> list[int]:
        return [*range(len(problem) - 1)]

    with pytest.raises(PlanError, match="the strategy forgetful never runs task"):
        chained(within(9000, forgetful))


def test_a_training_step_with_dropout_within_a_budget() -> None:
    model = nn.Sequential(*(part for _ in range(6) for part in (nn.Dense(64), nn.relu, nn.Dropout(0.2))), nn.Dense(3))
    x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
    y = np.arange(512) % 3
    plain = nn.Step(LAZY, model.init(0, x.shape), nn.softmax_cross_entropy, nn.Adam())
    takes = footprint(plain.program(x, y).plan)
    small = nn.Step(within(int(0.7 * takes)), model.init(0, x.shape), nn.softmax_cross_entropy, nn.Adam())
    assert footprint(small.program(x, y).plan.verify()) <= 0.7 * takes
    for _ in range(3):
        np.testing.assert_array_equal(plain(x, y, rate=0.1)[0], small(x, y, rate=0.1)[0])
