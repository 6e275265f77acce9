"""Kernels with less scratch are taken at the peak (`engine/planning/negotiation`, `engine/planning/variants`)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import MEMORY
from nnc_func.engine.planning import negotiation
from nnc_func.engine.planning.kernel_table import Entry, KernelTable
from nnc_func.engine.planning.variants import variants
from nnc_func.errors import OperatorError, PlanError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.views import Cost

MEGABYTE = 1 << 20
FLOPS = 10_000_000  # a millisecond of a core, as it is estimated


def _into(factor: float, xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    for each in scratch:
        each.fill(255)
    np.multiply(arrays[0], factor, out=outs[0])


def kernel(name: str, megabytes: float, milliseconds: Any, count: int = 1, **facts: Any) -> Kernel:
    """One that doubles, wants scratch in so many arrays, and says that it takes so long."""

    def cost(args: Any, results: Any) -> Any:
        return Cost(round(FLOPS * milliseconds)) if isinstance(milliseconds, int | float) and milliseconds < 1e9 and (
            milliseconds >= 0
        ) else Cost(milliseconds)  # fmt: skip

    wanted = tuple(((int(megabytes * MEGABYTE / count),), np.dtype("uint8")) for _ in range(count))
    return Kernel(
        name, compute=lambda xp, x: x * 2, into=partial(_into, 2.0), scratch=lambda avals: wanted if megabytes else (),
        cost=None if milliseconds is None else cost, **facts,
    )  # fmt: skip


def stack_with(*kernels: Kernel, device: Any = None) -> tuple[Any, Any]:
    """A lazy stack, and an operator that doubles by these kernels."""

    @nnc.operator(
        shape=shapes.same, dtype=dtypes.first, derivative=NOT_DIFFERENTIABLE("it is only planned"), kernels=kernels
    )
    def doubled(x: Any, /) -> Any:
        """Twice that."""

    lazy = nnc.lazy() if device is None else nnc.lazy(device)
    return lazy.swap(type=lazy.type.with_ops(doubled)), doubled


def program_of(*kernels: Kernel, times: int = 3, count: int = 1000, table: KernelTable | None = None) -> Any:
    stack, op = stack_with(*kernels)
    x = stack.input("x", (count,), "float64")
    if table is not None:
        stack = stack.swap(engine=stack.engine.with_kernels(table))
    y = x
    for _ in range(times):
        y = stack.ops.sort(stack.bind(op, y))
    return stack.compile([x], [y])


def chosen(program: Any) -> list[tuple[str, str]]:
    return [(i.kernel, i.choice) for i in program.plan.instructions if i.op.name == "doubled"]


WIDE, NARROW = kernel("wide", 8, 10), kernel("narrow", 1, 10.2)


def test_what_saves_much_for_little_is_taken() -> None:
    program = program_of(WIDE, NARROW)
    assert chosen(program) == [("narrow", MEMORY)] * 3
    assert program.plan.arena_bytes < 1.1 * MEGABYTE
    x = np.random.default_rng(0).standard_normal(1000)
    np.testing.assert_array_equal(program(x)[0], 8 * np.sort(x))
    program.plan.verify()


def test_the_plan_is_read_back_from_its_text() -> None:
    stack, op = stack_with(WIDE, NARROW)
    x = stack.input("x", (1000,), "float64")
    plan = stack.compile([x], [stack.bind(op, x)]).plan
    assert "narrow" in str(plan)
    again = Plan.parse(str(plan), stack)
    assert again == plan
    assert again.instructions[0].choice == MEMORY


def test_it_is_read_back_from_a_file(tmp_path: Any) -> None:
    stack, op = stack_with(WIDE, NARROW)
    x = stack.input("x", (1000,), "float64")
    program = stack.compile([x], [stack.bind(op, x)])
    program.save(tmp_path / "it")
    again = nnc.load_program(tmp_path / "it", stack, allow=["doubled"])
    assert again.plan == program.plan
    given = np.arange(1000.0)
    np.testing.assert_array_equal(again(given)[0], 2 * given)


@pytest.mark.parametrize(
    ("others", "wanted"),
    [
        ([kernel("dear", 1, 20)], "wide"),  # twice as slow
        ([kernel("more", 16, 1)], "wide"),  # more scratch, however fast
        ([kernel("same", 8, 1)], "wide"),
        ([kernel("infinite", 1, math.inf)], "wide"),
        ([kernel("unknown", 1, None)], "wide"),  # it does not say what it costs
        ([kernel("free", 1, 0)], "free"),
        ([kernel("free", 4, 9.9), NARROW], "narrow"),  # what is left over is negotiated in the next turn
        ([NARROW, kernel("none", 0, 10.3)], "none"),
        ([kernel("none", 0, 10.3, count=1), kernel("two", 0.5, 10.1, count=2)], "none"),
        ([kernel("parts", 4, 10, count=3)], "parts"),
    ],
)
def test_a_variant_is_taken_for_what_it_saves_and_costs(others: list[Kernel], wanted: str) -> None:
    program = program_of(kernel("wide", 8, 10), *others)
    assert {name for name, _ in chosen(program)} == {wanted}
    program.plan.verify()
    x = np.random.default_rng(0).standard_normal(1000)
    np.testing.assert_array_equal(program(x)[0], 8 * np.sort(x))


@pytest.mark.parametrize("said", [math.nan, -1, "much"])
def test_a_cost_that_is_none_is_refused(said: Any) -> None:
    with pytest.raises(PlanError, match=r"the kernel 'wrong' of doubled says that it costs"):
        program_of(WIDE, kernel("wrong", 1, said))


def test_names_that_clash_are_refused() -> None:
    with pytest.raises(OperatorError, match="doubled has two kernels named 'wide'"):
        stack_with(WIDE, kernel("wide", 1, 1))


def test_where_scratch_is_not_at_the_peak_nothing_is_taken() -> None:
    stack, op = stack_with(WIDE, NARROW)
    x = stack.input("x", (4 * MEGABYTE,), "float64")
    large = stack.ops.sort(stack.ops.cumulative_sum(stack.ops.sort(x), axis=0))
    program = stack.compile([x], [stack.bind(op, large[:1000])])
    assert chosen(program) == [("wide", "default")]


def test_no_more_than_a_tenth_of_the_time_is_spent() -> None:
    """Each saves more than it costs, for its part; ten of them would take a fifth more time."""
    dear = [kernel("wide", 8, 10), kernel("dear", 4, 12)]
    assert {name for name, _ in chosen(program_of(*dear))} == {"wide"}  # all three are at the peak: 6 of 30 ms
    stack, op = stack_with(kernel("wide", 8, 1), kernel("narrow", 4, 1.05))
    y = x = stack.input("x", (1000,), "float64")
    for _ in range(10):
        y = stack.bind(op, y)
    assert {n for n, _ in chosen(stack.compile([x], [y]))} == {"narrow"}


def test_a_table_has_the_last_word() -> None:
    stack, op = stack_with(WIDE, NARROW)
    aval = stack.input("x", (1000,), "float64").aval
    table = KernelTable([Entry.of(op, op.canonical({}), (aval,), "wide")])
    y = x = stack.swap(engine=stack.engine.with_kernels(table)).input("x", (1000,), "float64")
    program = y.stack.compile([x], [y.stack.bind(op, y)])
    assert chosen(program) == [("wide", "table")]


def test_no_more_than_so_many_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "TURNS", 2)
    assert {name for name, _ in chosen(program_of(WIDE, NARROW))} == {"wide"}  # three are at the peak
    monkeypatch.setattr(negotiation, "TURNS", 3)
    assert {name for name, _ in chosen(program_of(WIDE, NARROW))} == {"narrow"}


def test_what_a_result_was_written_over_is_kept() -> None:
    """The default kernel writes over its operand; one that must not is no variant there."""
    over = kernel("over", 8, 10, overwrites=(0,))
    assert {name for name, _ in chosen(program_of(over, NARROW))} == {"over"}
    other = kernel("other", 1, 10, overwrites=(0,))
    assert {name for name, _ in chosen(program_of(over, other))} == {"other"}


def test_a_budget_takes_them_at_any_cost() -> None:
    stack, op = stack_with(kernel("wide", 8, 10), kernel("dear", 1, 50))
    budgeted = stack.swap(engine=stack.engine.with_memory_budget("2 MiB"))
    for each, wanted in ((stack, "wide"), (budgeted, "dear")):
        x = each.input("x", (1000,), "float64")
        program = each.compile([x], [each.bind(op, x)])
        assert [name for name, _ in chosen(program)] == [wanted]
    small = stack.swap(engine=stack.engine.with_memory_budget("0.5 MiB"))
    x = small.input("x", (1000,), "float64")
    y = small.bind(op, x)
    with pytest.raises(PlanError, match="the least found"):
        small.compile([x], [y])


def test_variants_of_an_application_are_told() -> None:
    stack, op = stack_with(WIDE, kernel("unsaid", 2, None), NARROW)
    x = stack.input("x", (1000,), "float64")
    found = variants(stack.device, stack.bind(op, x).value.node, stack.device.machine)
    assert [(each.name, each.scratch) for each in found] == [("wide", 8 * MEGABYTE), ("narrow", MEGABYTE)]
    assert found[0].seconds == pytest.approx(0.01, rel=0.01)


def test_in_the_body_of_a_loop() -> None:
    stack, op = stack_with(WIDE, NARROW)
    x = stack.input("x", (1000,), "float64")
    _, (total,), _ = stack.while_loop(
        lambda s: s[0] < 100, lambda s: (None, stack.ops.sort(stack.bind(op, s))), [x], max_iterations=100
    )
    program = stack.compile([x], [total])
    bodies = [p for i in program.plan.instructions for loop in i.loops for p in (loop.plan,)]
    assert "narrow" in {i.kernel for plan in bodies for i in plan.instructions}
    program.plan.verify()
    np.testing.assert_array_equal(program(np.full(1000, 3.0))[0], np.full(1000, 192.0))


@pytest.mark.parametrize("streams", [1, 3])
def test_with_streams(streams: int) -> None:
    stack, op = stack_with(WIDE, NARROW)
    stack = stack.swap(engine=stack.engine.with_streams(streams))
    x = stack.input("x", (1000,), "float64")
    program = stack.compile([x], [stack.bind(op, x), stack.bind(op, stack.ops.sort(x))])
    program.plan.verify()
    given = np.random.default_rng(0).standard_normal(1000)
    for found, wanted in zip(program(given), (2 * given, 2 * np.sort(given)), strict=True):
        np.testing.assert_array_equal(found, wanted)
