"""Results lend their memory before they are written, and nothing is clobbered (`engine/planning/output_borrowing`)."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.plan_rows import LENT
from nnc_func.engine.planning.output_borrowing import borrowers
from nnc_func.errors import PlanError

SIDE = 256  # a matrix of 256 KiB: worth lending


def chain(stack: nnc.Stack, length: int = 6) -> Any:
    h = stack.input("h", (SIDE, SIDE), "float32")
    out = h
    for _ in range(length):
        out = out @ h
    return stack.compile(inputs=[h], outputs=[out])


def test_every_other_value_of_a_chain_lives_in_the_result() -> None:
    plan = chain(nnc.lazy()).plan.verify()
    assert plan.arena_bytes == SIDE * SIDE * 4  # two are alive at a time; one of them is in the result's memory
    assert sum(b.kind == LENT for b in plan.buffers) >= 2


def test_results_are_right_and_stay_so() -> None:
    program, oracle = chain(nnc.lazy()), chain(nnc.eager())
    arrays = [np.random.default_rng(i).normal(size=(SIDE, SIDE)).astype("float32") / SIDE for i in range(3)]
    kept = [program(a)[0] for a in arrays]
    for a, found in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(found, oracle(a)[0])


def test_poisoned_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype("float32") / SIDE
    program = chain(nnc.lazy())
    plain = program(a)[0].copy()
    monkeypatch.setattr(config, "spec", 3)
    np.testing.assert_array_equal(program(a)[0], plain)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_the_callers_own_may_be_the_result(order: Any) -> None:
    a = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype("float32") / SIDE
    program = chain(nnc.lazy())
    out = np.empty((SIDE, SIDE), "float32", order=order)
    program(a, out=[out])
    np.testing.assert_array_equal(out, program(a)[0])


@pytest.mark.parametrize("change", ["overlap", "too late", "too large"])
def test_the_verifier_refuses_a_wrong_loan(change: str) -> None:
    plan = chain(nnc.lazy()).plan
    lent = [i for i, b in enumerate(plan.buffers) if b.kind == LENT]
    buffers = list(plan.buffers)
    if change == "overlap":
        buffers[lent[0]] = attrs.evolve(buffers[lent[0]], upper=buffers[lent[1]].upper)
    elif change == "too late":
        buffers[lent[-1]] = attrs.evolve(buffers[lent[-1]], upper=len(plan.instructions) + 1)
    else:
        buffers[lent[0]] = attrs.evolve(buffers[lent[0]], nbytes=2 * buffers[lent[0]].nbytes)
    with pytest.raises(PlanError, match="output 0"):
        attrs.evolve(plan, buffers=tuple(buffers)).verify()


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 20), st.integers(1, 8)), min_size=1, max_size=30),
    st.integers(1, 40),
    st.integers(0, 30),
)
def test_borrowers_fit_and_do_not_meet(buffers: list[tuple[int, int, int]], capacity: int, before: int) -> None:
    unit = 1 << 16
    sizes = [s * unit for s, _, _ in buffers]
    lower = [low for _, low, _ in buffers]
    upper = [low + length for _, low, length in buffers]
    chosen = borrowers(sizes, lower, upper, capacity * unit, before)
    assert len(set(chosen)) == len(chosen)
    for i in chosen:
        assert sizes[i] <= capacity * unit
        assert upper[i] <= before
        assert all(i == j or upper[i] <= lower[j] or upper[j] <= lower[i] for j in chosen)
