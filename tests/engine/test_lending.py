"""Results lend their memory before they are written, and nothing is clobbered (`engine/planning/output_borrowing`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.allocators.placement.housing import borrowers
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import DONATED, LENT
from nnc_func.engine.planning import output_borrowing
from nnc_func.errors import PlanError
from nnc_func.testing import differential
from nnc_func.testing.programs import programs

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


def wide(stack: nnc.Stack, values: int = 4) -> Any:
    """So many values that are alive together, and a result that is as large as three of them."""
    h = stack.input("h", (SIDE, SIDE), "float32")
    powers = [h @ h]
    for _ in range(values - 1):
        powers.append(powers[-1] @ h)
    mixed = [a @ b for a, b in zip(powers, reversed(powers), strict=True)]
    total = mixed[0]
    for each in mixed[1:]:
        total = total + each
    return stack.compile(inputs=[h], outputs=[stack.ops.concat(total, total @ h, total @ total, axis=0)])


def test_several_values_live_in_a_result_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = wide(nnc.lazy())
    plan = program.plan.verify()
    lent = [b for b in plan.buffers if b.kind == LENT]
    assert len({b.offset for b in lent}) > 1
    assert any(a is not b and a.lower < b.upper and b.lower < a.upper for a in lent for b in lent)
    assert Plan.parse(plan.text()) == plan
    program.save(tmp_path / "wide.nnc")
    h = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype("float32") / SIDE
    wanted = wide(nnc.eager())(h)[0]
    out = np.empty((3 * SIDE, SIDE), "float32")
    for each in (program, nnc.load_program(tmp_path / "wide.nnc", nnc.lazy())):
        for spec in (config.spec, 3):
            monkeypatch.setattr(config, "spec", spec)
            np.testing.assert_allclose(each(h)[0], wanted, rtol=1e-5)
            each(h, out=[out])
            np.testing.assert_allclose(out, wanted, rtol=1e-5)


def test_several_values_live_in_an_input_that_was_given_up() -> None:
    """And nothing is clobbered, in memory that is poisoned."""
    stack = nnc.lazy()
    h = stack.input("h", (3 * SIDE, SIDE), "float32")
    first = h[:SIDE] @ h[SIDE : 2 * SIDE]
    start = first @ h[2 * SIDE :]
    values = [start @ start]
    for _ in range(4):
        values.append(values[-1] @ start)
    found = values[0]
    for a, b in zip(values, reversed(values), strict=True):
        found = found + a @ b
    program, plain = stack.compile([h], [found.sum()], donate=[h]), stack.compile([h], [found.sum()])
    plan = program.plan.verify()
    housed = [b for b in plan.buffers if b.kind == DONATED and b.lower]
    assert any(a is not b and a.lower < b.upper and b.lower < a.upper for a in housed for b in housed)
    given = np.random.default_rng(0).normal(size=(3 * SIDE, SIDE)).astype("float32") / SIDE
    wanted = plain(given.copy())[0]
    np.testing.assert_array_equal(program(given)[0], wanted)


@pytest.mark.parametrize("change", ["below", "beyond", "between", "on another"])
def test_the_verifier_refuses_a_wrong_place(change: str) -> None:
    plan = wide(nnc.lazy()).plan
    rows = [(n, b) for n, b in enumerate(plan.buffers) if b.kind == LENT]
    number, row = next((n, b) for n, b in rows if b.offset)
    under = next(b for n, b in rows if n != number and b.lower < row.upper and row.lower < b.upper)
    wrong = {"below": -64, "beyond": 3 * SIDE * SIDE * 4, "between": row.offset + 1, "on another": under.offset}
    buffers = list(plan.buffers)
    buffers[number] = attrs.evolve(row, offset=wrong[change])
    with pytest.raises(PlanError, match="output 0"):
        attrs.evolve(plan, buffers=tuple(buffers)).verify()


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
    chosen = borrowers(sizes, lower, upper, capacity * unit, before, alignment=3 * unit)
    for i, at in chosen.items():
        assert at % (3 * unit) == 0
        assert 0 <= at <= capacity * unit - sizes[i]
        assert upper[i] <= before
        for j, other in chosen.items():
            meet = upper[i] > lower[j] and upper[j] > lower[i]
            assert i == j or not meet or at + sizes[i] <= other or other + sizes[j] <= at


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("control_flow", [False, True], ids=["straight", "with loops"])
def test_drawn_programs_whose_results_lend_every_byte(
    control_flow: bool, streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory that is poisoned."""
    monkeypatch.setattr(output_borrowing, "WORTHWHILE", 1)
    lazy = nnc.lazy()
    stack = lazy if streams == 1 else lazy.swap(engine=lazy.engine.with_streams(streams))
    drawn = programs(control_flow=control_flow, most_steps=12)
    assert differential(drawn, stack, examples=25, spec=3) == 25
