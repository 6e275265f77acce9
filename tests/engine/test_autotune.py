"""Autotuning chooses what is faster, on copies, and leaves out what is wrong or fails (`engine/tuning`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.plan_rows import TABLE
from nnc_func.engine.planning.kernel_table import Entry, KernelTable
from nnc_func.engine.running.program import Program
from nnc_func.engine.tuning import trials
from nnc_func.errors import DeviceError, GraphError, OperatorError, PlanError
from nnc_func.facets import dtypes, layouts, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import Kernel
from nnc_func.graph.leaves import LEAVES
from nnc_func.testing.agreement import follow
from nnc_func.testing.programs import programs

PAUSE = 2e-3  # seconds: many times what the machine's noise is


def twice(pause: float = 0.0, factor: float = 2.0, after: int = 0, scribbles: bool = False) -> Any:
    """A kernel's `into` that doubles; after so many calls it pauses."""
    calls = [0]

    def into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
        calls[0] += 1
        if pause and calls[0] > after:
            time.sleep(pause)
        np.multiply(arrays[0], factor, out=outs[0])
        if scribbles:
            arrays[0][...] = -1

    return into


def fails(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    raise ArithmeticError("no such luck")


def plenty(avals: Any) -> Any:
    return (((1 << 20,), np.dtype("uint8")),)


def kernel(name: str, into: Any, **facts: Any) -> Kernel:
    return Kernel(name, compute=lambda xp, x: x * 2, into=into, **facts)


def stack_with(*kernels: Kernel, pure: bool = True, layout: Any = layouts.row_major) -> Any:
    """A lazy stack, and an operator that doubles, with these kernels."""

    @nnc.operator(
        shape=shapes.same, dtype=dtypes.first, derivative=NOT_DIFFERENTIABLE("it is only timed"), kernels=kernels,
        pure=pure, layout=layout,
    )  # fmt: skip
    def doubled(x: Any, /) -> Any:
        """Twice that."""

    lazy = nnc.lazy()
    return lazy.swap(type=lazy.type.with_ops(doubled)), doubled


def program_of(*kernels: Kernel, count: int = 3, **facts: Any) -> Any:
    stack, op = stack_with(*kernels, **facts)
    x = stack.input("x", (count,), "float64")
    return stack.compile([x], [stack.bind(op, x)])


SLOW, SLOWER = kernel("slow", twice(PAUSE)), kernel("slow", twice(5 * PAUSE))
X = np.arange(1.0, 4.0)


def verdicts(tuning: Any) -> dict[str, str]:
    return {t.kernel: t.verdict for t in tuning.trials}


def test_a_faster_kernel_is_chosen_and_named_in_the_plan() -> None:
    program = program_of(SLOW, kernel("fast", twice()))
    tuning = program.autotune(X, budget=1.0)
    assert verdicts(tuning) == {"slow": "default", "fast": "chosen"}
    assert [(i.kernel, i.choice) for i in tuning.program.plan.instructions] == [("fast", TABLE)]
    assert [(i.kernel, i.choice) for i in program.plan.instructions] == [("slow", "default")]
    np.testing.assert_array_equal(tuning.program(X)[0], program(X)[0])
    assert tuning.ratio < 0.5
    assert [e.kernel for e in tuning.table.entries] == ["fast"]
    assert tuning.table.environment is not None
    assert "fast: chosen" in str(tuning)


def test_the_table_tunes_what_is_compiled_with_it() -> None:
    stack, op = stack_with(SLOW, kernel("fast", twice()))
    x = stack.input("x", (3,), "float64")
    table = stack.compile([x], [stack.bind(op, x)]).autotune(X, budget=1.0).table
    tuned = stack.swap(engine=stack.engine.with_kernels(table))
    y = tuned.input("y", (3,), "float64")
    again = tuned.compile([y], [tuned.bind(op, y)])
    assert [i.kernel for i in again.plan.instructions] == ["fast"]
    assert again.autotune(X, budget=0.2).program is again  # nothing is faster than the table's choice


@pytest.mark.parametrize(
    ("into", "said"),
    [
        (twice(factor=2.001), "differs"),
        (twice(factor=np.nan), "differs"),
        (fails, "failed: ArithmeticError: no such luck"),
        (twice(scribbles=True), "writes over its operands"),
        (twice(60 * PAUSE), "much slower"),
        (twice(PAUSE), "not faster"),
    ],
    ids=["wrong", "nan", "fails", "scribbles", "much slower", "as slow"],
)
def test_what_must_not_be_chosen_is_told(into: Any, said: str) -> None:
    program = program_of(SLOW, kernel("other", into))
    tuning = program.autotune(X, budget=0.5)
    assert verdicts(tuning)["other"].startswith(said)
    assert tuning.program is program
    assert tuning.table == KernelTable()


def test_a_good_kernel_is_found_beside_bad_ones() -> None:
    others = [kernel("fails", fails), kernel("scribbles", twice(scribbles=True)), kernel("fast", twice())]
    assert verdicts(program_of(SLOW, *others).autotune(X, budget=1.0))["fast"] == "chosen"


def test_scratch_is_limited() -> None:
    program = program_of(SLOW, kernel("hungry", twice(), scratch=plenty))
    assert verdicts(program.autotune(X, budget=0.5))["hungry"] == "chosen"
    assert verdicts(program.autotune(X, budget=0.5, workspace=1 << 20))["hungry"] == "chosen"
    tuning = program.autotune(X, budget=0.5, workspace=(1 << 20) - 1)
    assert verdicts(tuning)["hungry"] == "wants 1048576 bytes of scratch"
    assert tuning.program is program


def test_what_a_kernel_takes_for_itself_is_limited_with_its_scratch() -> None:
    program = program_of(SLOW, kernel("hungry", twice(), scratch=plenty, private=lambda avals, **_: 64))
    assert verdicts(program.autotune(X, budget=0.5, workspace=(1 << 20) + 64))["hungry"] == "chosen"
    tuning = program.autotune(X, budget=0.5, workspace=(1 << 20) + 63)
    assert verdicts(tuning)["hungry"] == "wants 1048640 bytes of scratch"
    assert tuning.program is program


def test_a_relayout_is_traded_for_a_faster_kernel_where_one_sees_it() -> None:
    slow = kernel("slow", twice(PAUSE), layouts=("row-major",))
    fast = kernel("fast", twice(), layouts=("NCHW",))
    stack, op = stack_with(slow, fast, layout=layouts.first)
    x = stack.input("x", (2, 3, 4, 5), "float64")
    program = stack.compile([x], [stack.bind(op, x)])
    given_ = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    tuning = program.autotune(given_, budget=1.0)
    assert [(i.op.name, i.kernel) for i in tuning.program.plan.instructions] == [
        ("relayout", "reference"), ("doubled", "fast"), ("relayout", "reference"),
    ]  # fmt: skip
    assert [t.layouts for t in tuning.trials if t.verdict == "chosen"] == [((0, 3, 1, 2),)]
    tuning.program.plan.verify()
    np.testing.assert_array_equal(tuning.program(given_)[0], given_ * 2)
    assert tuning.program(given_)[0].flags.c_contiguous
    assert tuning.trials[1].scratch == 2 * given_.nbytes
    assert verdicts(program.autotune(given_, budget=1.0, workspace=given_.nbytes))["fast"].startswith("wants")
    plan = stack.swap(device=nnc.Null(), engine=stack.engine.with_kernels(tuning.table))
    graph = program.source.to(plan)
    assert [i.op.name for i in plan.engine.compile(graph).plan.instructions] == ["relayout", "doubled", "relayout"]


def test_a_program_that_is_not_faster_as_a_whole_is_kept_as_it_was() -> None:
    program = program_of(SLOW, kernel("fickle", twice(10 * PAUSE, after=trials.MOST + 1)))
    tuning = program.autotune(X, budget=1.0)
    assert verdicts(tuning)["fickle"] == "chosen"
    assert tuning.program is program
    assert tuning.ratio == 1.0
    assert "kept as it was" in tuning.verdict


@pytest.mark.parametrize("budget", [0.0, 1e-4])
def test_a_budget_that_is_too_small_says_so(budget: float) -> None:
    program = program_of(SLOW, kernel("fast", twice()))
    tuning = program.autotune(X, budget=budget)
    assert tuning.program is program
    assert "too small" in tuning.verdict
    assert verdicts(tuning) == {"slow": "default", "fast": "no time left"}


def test_the_budget_is_kept() -> None:
    program = program_of(kernel("slow", twice(10 * PAUSE)), *(kernel(f"like {i}", twice(10 * PAUSE)) for i in range(9)))
    start = time.perf_counter()
    program.autotune(X, budget=0.5)
    assert time.perf_counter() - start < 10  # 10 kernels, 25 rounds each, would take longer on their own


# --- nothing live is touched -------------------------------------------------------------------------


def training() -> tuple[Any, Any, Any, Any]:
    lazy = nnc.lazy()
    rng = np.random.default_rng(0)
    x, y = lazy.input("x", (8, 6, 6, 2), "float32"), lazy.input("y", (8, 5), "float32")
    w = lazy.variable("w", rng.standard_normal((3, 3, 2, 4)).astype("float32"))
    v = lazy.variable("v", rng.standard_normal((36, 5)).astype("float32"))

    def loss(w: Any, v: Any) -> Any:
        seen = lazy.ops.max_pool2d(lazy.ops.relu(lazy.ops.conv2d(x, w, padding="SAME")), window=2)
        return lazy.ops.mean(lazy.ops.square(seen.reshape((8, 36)) @ v - y))

    value, (dw, dv) = lazy.value_and_grad(loss, argnums=(0, 1))(w, v)
    program = lazy.compile([x, y], [value], [(w, w - 0.1 * dw), (v, v - 0.1 * dv)])
    batch = rng.standard_normal((8, 6, 6, 2)).astype("float32"), rng.standard_normal((8, 5)).astype("float32")
    return lazy, program, (w.value, v.value), batch


def test_inputs_and_variables_are_as_they_were_and_results_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FASTER", "SLOWER", "HOPELESS"):  # whatever is right is chosen
        monkeypatch.setattr(trials, name, np.inf)
    monkeypatch.setattr(trials, "OFTEN", 0.0)
    monkeypatch.setattr("nnc_func.engine.tuning.autotune.BETTER", np.inf)  # and kept
    _, program, variables, batch = training()
    program(*batch)
    arrays, versions = [v.array for v in variables], [v.version for v in variables]
    kept = [a.tobytes() for a in (*arrays, *batch)]
    tuning = program.autotune(*batch, budget=3.0)
    assert all(v.array is a for v, a in zip(variables, arrays, strict=True))
    assert [v.version for v in variables] == versions
    assert [a.tobytes() for a in (*arrays, *batch)] == kept
    assert len(tuning.table)
    tuning.program.plan.verify()
    values = [a.copy() for a in arrays]
    (wanted,), after = program(*batch), [v.array.copy() for v in variables]
    for v, value in zip(variables, values, strict=True):
        v.assign(value)
    (found,) = tuning.program(*batch)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for v, a in zip(variables, after, strict=True):
        np.testing.assert_allclose(v.array, a, rtol=1e-4, atol=1e-6)


@settings(max_examples=max(5, settings().max_examples // 3))
@given(program=programs(), number=st.integers(0, 3))
def test_programs_with_any_table_of_kernels_are_right(program: Any, number: int) -> None:
    lazy = nnc.lazy()
    entries = {}
    for node in program.build(lazy).program.graph.nodes:
        avals = tuple(a.aval for a in node.args)
        able = lazy.device.candidates(node.op, avals, node.items) if node.op not in LEAVES or avals else ()
        if able:
            entry = Entry.of(node.op, node.items, avals, able[number % len(able)].name)
            entries[entry.operator, entry.parameters, entry.operands] = entry
    tuned = lazy.swap(engine=lazy.engine.with_kernels(KernelTable(entries.values())))
    follow(program, tuned)


@settings(max_examples=max(5, settings().max_examples // 5))
@given(program=programs())
def test_tuning_any_program_changes_no_value(program: Any) -> None:
    built = program.build(nnc.lazy())
    feeds = program.feeds(0)
    kept = [v.value.array.tobytes() for v in built.variables] + [f.tobytes() for f in feeds]
    tuning = built.program.autotune(*feeds, budget=0.05)
    tuning.program.plan.verify()
    assert kept == [v.value.array.tobytes() for v in built.variables] + [f.tobytes() for f in feeds]


# --- refusals ----------------------------------------------------------------------------------------


def test_effects_are_refused() -> None:
    program = program_of(SLOW, kernel("fast", twice()), pure=False)
    with pytest.raises(GraphError, match="has effects"):
        program.autotune(X)


def test_a_device_without_elements_is_refused() -> None:
    plan = nnc.lazy().swap(device=nnc.Null())
    x = plan.input("x", (3,), "float32")
    with pytest.raises(DeviceError, match="computes nothing"):
        plan.compile([x], [x + 1]).autotune(np.ones(3, "float32"))


def test_a_plan_without_a_graph_is_refused() -> None:
    program = program_of(SLOW)
    bare = Program(program.plan, nnc.NumPy(), [], [])
    with pytest.raises(GraphError, match="no graph"):
        bare.autotune(X)


def test_the_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(OperatorError, match="takes 1 inputs, given 2"):
        program_of(SLOW).autotune(X, X)


# --- other programs ----------------------------------------------------------------------------------


def test_a_program_of_unknown_extents_is_tuned_for_those_it_is_given() -> None:
    stack, op = stack_with(SLOW, kernel("fast", twice()))
    x = stack.input("x", ("n",), "float64")
    program = stack.compile([x], [stack.bind(op, x)])
    tuned = program.autotune(X, budget=1.0).program
    for given_, kernels in ((X, ["fast"]), (np.ones(5), ["slow"]), (X, ["fast"])):
        np.testing.assert_array_equal(tuned(given_)[0], given_ * 2)
        assert [i.kernel for i in tuned.plan.instructions] == kernels
    program(X)
    assert [i.kernel for i in program.plan.instructions] == ["slow"]


@pytest.mark.parametrize("extent", [3, "n"])
def test_a_program_from_a_file_is_tuned_where_the_stack_plans(tmp_path: Path, extent: Any) -> None:
    stack, op = stack_with(SLOWER, kernel("fast", twice()))
    x = stack.input("x", (extent,), "float64")
    made = stack.compile([x], [stack.bind(op, x)])
    made(X)
    made.save(tmp_path / "doubled")
    tuning = nnc.load_program(tmp_path / "doubled", stack, allow=["doubled"]).autotune(X, budget=1.0)
    np.testing.assert_array_equal(tuning.program(X)[0], X * 2)
    assert [i.kernel for i in tuning.program.plan.instructions] == ["fast"]
    if extent == 3:
        eager = nnc.eager().swap(type=stack.type)
        with pytest.raises(GraphError, match="was read in a stack that plans nothing: read it in a lazy one, and"):
            nnc.load_program(tmp_path / "doubled", eager, allow=["doubled"]).autotune(X)


def test_later_calls_of_a_jitted_function_run_the_tuned_program() -> None:
    stack, op = stack_with(SLOWER, kernel("fast", twice()))
    doubling = stack.jit(lambda x: stack.bind(op, x))
    np.testing.assert_array_equal(doubling(X).numpy(), X * 2)
    assert [i.kernel for i in doubling.program(X).plan.instructions] == ["slow"]
    tuning = doubling.autotune(X, budget=1.0)
    assert doubling.program(X) is tuning.program
    assert [i.kernel for i in tuning.program.plan.instructions] == ["fast"]
    np.testing.assert_array_equal(doubling(X).numpy(), X * 2)
    assert doubling.traces == 1


def test_programs_of_other_kinds_say_what_to_tune() -> None:
    for stack, facts in ((nnc.eager(), {}), (nnc.lazy(), {"retain": "all"})):
        x = stack.input("x", (3,), "float64")
        with pytest.raises(PlanError, match="with_kernels"):
            stack.compile([x], [x + 1], **facts).autotune(X)


def test_programs_of_several_streams_are_tuned() -> None:
    stack, op = stack_with(kernel("slow", twice(PAUSE)), kernel("fast", twice()))
    stack = stack.swap(engine=stack.engine.with_streams(2))
    x, y = stack.input("x", (3,), "float64"), stack.input("y", (4,), "float64")
    program = stack.compile([x, y], [stack.bind(op, x), stack.bind(op, y)])
    tuned = program.autotune(X, np.ones(4), budget=1.0).program
    assert [i.kernel for i in tuned.plan.instructions] == ["fast", "fast"]
    np.testing.assert_array_equal(tuned(X, np.ones(4))[0], X * 2)
