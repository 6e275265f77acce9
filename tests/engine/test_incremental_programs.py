"""Incremental programs: how they are assigned to, what they keep and say (`engine/incremental`)."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.incremental.dependencies import Dependencies, Step
from nnc_func.engine.plan_rows import ARENA
from nnc_func.errors import DTypeError, OperatorError, PlanError, RunError, ShapeError, UnboundError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.kernels import Kernel
from nnc_func.op import operator
from tests.engine.changing import Counting

LAZY = nnc.lazy(Counting())
OPS = LAZY.ops
COUNTING = LAZY.device
BOTH = [nnc.eager(), nnc.lazy()]
KEEPING = ["frontier", "all", []]
X = np.linspace(-1, 1, 12).reshape(3, 4)


def two(stack: Any = LAZY, retain: Any = "all") -> Any:
    """Two branches that meet: four kernels, two of either, and one of both."""
    o = stack.ops
    x, y = (stack.input(n, (3, 4), "float64") for n in "xy")
    a, b = o.cumulative_sum(o.cumulative_sum(x, axis=0), axis=1), o.cumulative_sum(y, axis=0)
    return stack.compile([x, y], {"sum": o.cumulative_sum(a * b, axis=1), "left": a}, retain=retain)


def wanted(x: Any, y: Any) -> dict[str, Any]:
    a = x.cumsum(0).cumsum(1)
    return {"sum": (a * y.cumsum(0)).cumsum(1), "left": a}


def agree(found: Any, expected: Any) -> None:
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_allclose(np.asarray(nnc.NumPy().asarray(found[name])), expected[name], rtol=1e-13, atol=1e-14)


# --- assigning and calling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", KEEPING)
@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_assigned_by_name_or_called_with_everything(stack: Any, retain: Any) -> None:
    program = two(stack, retain)
    program.assign(x=X, y=X)
    agree(program.evaluate(), wanted(X, X))
    program.assign({"y": X + 1})
    agree(program.evaluate(), wanted(X, X + 1))
    agree(program(X * 2, X + 1), wanted(X * 2, X + 1))
    agree(program.evaluate(), wanted(X * 2, X + 1))


def test_a_call_takes_what_has_the_same_bits_as_unchanged_and_an_assignment_never() -> None:
    program = two()
    x = X.copy()
    program(x, X)
    COUNTING.counted()
    program(X.copy(), np.asfortranarray(X))
    assert not COUNTING.counted()
    assert program.evaluation.kernels == program.evaluation.cone == 0
    x[0, 0] = 5.0  # the caller's own array, changed in place: a program that told it by identity would be stale
    agree(program(x, X), wanted(x, X))
    assert len(COUNTING.counted()) == program.evaluation.total - 1
    x[1, 1] = -0.0 if x[1, 1] == 0 else x[1, 1]
    program.assign(x=x)
    program.evaluate()
    assert len(COUNTING.counted()) == program.evaluation.total - 1


def test_negative_zero_is_another_value() -> None:
    x = LAZY.input("x", (1,), "float64")
    program = LAZY.compile([x], OPS.reciprocal(x), retain="all")
    assert program(np.array([0.0]))[0] == np.inf
    assert program(np.array([-0.0]))[0] == -np.inf


def test_what_is_assigned_is_copied() -> None:
    program, x = two(), X.copy()
    program.assign(x=x, y=x)
    x[:] = 7
    agree(program.evaluate(), wanted(X, X))


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_what_does_not_fit_is_refused_and_nothing_is_assigned(stack: Any) -> None:
    program = two(stack)
    program.assign(x=X, y=X)
    program.evaluate()
    with pytest.raises(OperatorError, match=r"no input 'z'; its inputs are 'x', 'y'"):
        program.assign(x=X + 1, z=X)
    with pytest.raises(ShapeError, match=r"input 'y' wants shape \(3, 4\), given \(3,\)"):
        program.assign(x=X + 1, y=X[:, 0])
    with pytest.raises(DTypeError, match="input 'y' wants float64, given int64"):
        program.assign(x=X + 1, y=np.ones((3, 4), "int64"))
    with pytest.raises(OperatorError, match="takes 2 inputs"):
        program(X)
    agree(program.evaluate(), wanted(X, X))
    assert program.evaluation.kernels == 0


@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_an_unassigned_input_is_named(stack: Any) -> None:
    """Owl read uninitialised memory here."""
    program = two(stack)
    program.assign(x=X)
    with pytest.raises(UnboundError, match="'y'"):
        program.evaluate()
    program.assign(y=X)
    agree(program.evaluate(), wanted(X, X))


@pytest.mark.parametrize("retain", [5, "some", None, {"all"}, ["x"], [3]])
@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_a_policy_that_is_none_is_refused(stack: Any, retain: Any) -> None:
    x = stack.input("x", (2,), "float64")
    with pytest.raises(OperatorError, match="retain= wants 'none', 'frontier', 'all' or a list of tensors"):
        stack.compile([x], x + 1, retain=retain)


# --- what is returned --------------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", KEEPING)
@pytest.mark.parametrize("stack", BOTH, ids=["eager", "lazy"])
def test_results_are_the_callers_own(stack: Any, retain: Any) -> None:
    x, w = stack.input("x", (3, 4), "float64"), stack.variable("w", X)
    y = stack.ops.tanh(x)
    program = stack.compile([x], [y, y, y.T, x, w, x.reshape(4, 3)], retain=retain)
    program.assign(x=X)
    first = program.evaluate()
    before = [f.copy() for f in first]
    for found in first:
        found[:] = 77
    second = program.evaluate()
    for found, expected in zip(second, before, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(w.numpy(), X)


def test_results_are_written_to_arrays_that_are_given() -> None:
    program = two()
    program.assign(x=X, y=X)
    out = [np.empty((3, 4)), np.empty((4, 3)).T]
    found = program.evaluate(out=out)
    assert found["sum"] is out[0]
    agree({"sum": out[0], "left": out[1]}, wanted(X, X))  # unnested they are in their order, as in `graph.outputs`
    with pytest.raises(ShapeError, match=r"out\[1\] wants"):
        program(X, X, out=[out[0], np.empty(3)])
    with pytest.raises(OperatorError, match="out= wants 2"):
        program.evaluate(out=out[:1])


# --- what is kept ------------------------------------------------------------------------------------------


def test_policies_differ_in_memory_and_in_what_runs_again() -> None:
    found = {}
    for name, retain in (("all", "all"), ("frontier", "frontier"), ("roots", [])):
        program = two(retain=retain)
        program.assign(x=X, y=X)
        program.evaluate()
        program.assign(y=X + 1)
        agree(program.evaluate(), wanted(X, X + 1))
        found[name] = program.evaluation
        assert program.evaluation.retained_bytes == program.retained_bytes
        assert program.evaluation.arena_bytes == program.plan.arena_bytes
        kept = sum(program.plan.buffers[b].nbytes for b in program.plan.retained)
        assert program.retained_bytes == kept + 2 * X.nbytes
    assert found["all"].retained_bytes > found["frontier"].retained_bytes > found["roots"].retained_bytes
    assert {e.cone for e in found.values()} == {found["all"].kernels} == {found["frontier"].kernels}
    assert "in the dirty cone" in str(found["roots"])


def test_a_clean_value_that_is_gone_is_computed_again() -> None:
    x, y = (LAZY.input(n, (3, 4), "float64") for n in "xy")
    hidden = OPS.cumulative_sum(OPS.cumulative_sum(x, axis=0), axis=0)
    outputs = OPS.cumulative_sum(hidden + y, axis=1)
    counts = {}
    for name, retain in (("roots", []), ("named", [hidden]), ("frontier", "frontier")):
        program = LAZY.compile([x, y], outputs, retain=retain)
        program(X, X)
        COUNTING.counted()
        np.testing.assert_allclose(program(X, X + 1), (X.cumsum(0).cumsum(0) + X + 1).cumsum(1))
        counts[name] = len(COUNTING.counted())
        assert program.evaluation.kernels == counts[name]
    assert counts == {"roots": 4, "named": 2, "frontier": 2}


def test_a_value_that_a_run_always_changes_is_not_on_the_frontier() -> None:
    """A training step: only what depends on no parameter is worth its memory."""
    x, y = (LAZY.input(n, (3, 4), "float64") for n in "xy")
    w = LAZY.variable("w", X)
    features, state = OPS.cumulative_sum(x, axis=0), OPS.cumulative_sum(w, axis=0)
    program = LAZY.compile([x, y], OPS.sum(features * state * y), [(w, w - features * state)], retain="frontier")
    kept = [program.plan.slots[s].aval.shape for s in sorted(program._steps.kept)]
    assert len(kept) == 3  # the features, the output, the update
    program(X, X)
    COUNTING.counted()
    program(X, X)
    assert len(COUNTING.counted()) == program.evaluation.cone == program.evaluation.total - 1


def test_nothing_extra_where_nothing_is_retained() -> None:
    x = LAZY.input("x", (3,), "float64")
    program = LAZY.compile([x], OPS.tanh(x + 1), retain="none")
    assert program.plan.retained is None
    assert type(program) is type(LAZY.compile([x], OPS.tanh(x + 1)))


def test_the_frontier_by_hand() -> None:
    steps = [Step((0,), (2,)), Step((2,), (3,), base=2), Step((3, 1), (4,)), Step((4,), (5,)), Step((5,), (6,))]
    leaves = Dependencies(steps, [0, 1])
    assert leaves.kept("frontier", [6], []) == {2, 6}
    assert leaves.kept("all", [6], []) == {2, 4, 5, 6}
    assert leaves.kept("roots", [3], []) == {2}
    assert leaves.section(frozenset({2, 6}), {6}) == [1, 2, 3, 4]
    assert leaves.section(frozenset({6}), {6}) == [0, 1, 2, 3, 4]
    assert (leaves.cone(1), leaves.cone(2), leaves.kernels) == (4, 3, 4)


def test_a_chain_of_a_hundred_thousand() -> None:
    steps = [Step((i,), (i + 1,)) for i in range(100_000)]
    leaves = Dependencies(steps, [0])
    assert len(leaves.section(frozenset({100_000}), {100_000})) == 100_000


# --- plans ---------------------------------------------------------------------------------------------------


def test_the_verifier_refuses_a_kept_value_that_shares_its_place() -> None:
    plan = two().plan.verify()
    kept = plan.retained[0]
    changes: list[Any] = [
        ("is alive in", {"buffers": tuple(
            attrs.evolve(b, lower=1) if i == kept else b for i, b in enumerate(plan.buffers)
        )}),
        ("does not outlive", {"retained": tuple(b for b in plan.retained if b != plan.slots[plan.outputs[0]].buffer)}),
        ("none of the arena", {"retained": (*plan.retained, plan.slots[plan.inputs[0]].buffer)}),
    ]  # fmt: skip
    for said, change in changes:
        with pytest.raises(PlanError, match=said):
            attrs.evolve(plan, **change).verify()
    loose = two(retain=[]).plan
    shared = next(
        i for i, b in enumerate(loose.buffers)
        if b.kind == ARENA and sum(s.buffer == i and not s.is_view for s in loose.slots) > 1
    )  # fmt: skip
    buffers = list(loose.buffers)
    buffers[shared] = attrs.evolve(
        buffers[shared], lower=0, upper=len(loose.instructions) + 1, offset=loose.arena_bytes
    )
    wrong = attrs.evolve(
        loose, buffers=tuple(buffers), retained=(*loose.retained, shared), arena_bytes=2 * loose.arena_bytes
    )
    with pytest.raises(PlanError, match="holds one value, not 2"):
        wrong.verify()


def test_a_checked_program_names_what_is_not_finite() -> None:
    stack = LAZY.swap(engine=LAZY.engine.checking_numerics())
    x, y = (stack.input(n, (2,), "float64") for n in "xy")
    program = stack.compile([x, y], stack.ops.log(x) + stack.ops.exp(y), retain="all")
    program(np.ones(2), np.ones(2))
    with pytest.raises(FloatingPointError, match=r"log.*test_incremental_programs.py"):
        program(np.zeros(2) - 1, np.ones(2))
    np.testing.assert_allclose(program(np.ones(2), np.zeros(2)), 1.0)


# --- threads -------------------------------------------------------------------------------------------------


def test_threads_take_turns() -> None:
    program = two(nnc.lazy())
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(30):
            x = X * (seed + i)
            found = program(x, X)
            if not np.allclose(found["sum"], wanted(x, X)["sum"]):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_program_that_calls_itself_is_refused() -> None:
    programs: list[Any] = []

    def compute(xp: Any, x: Any) -> Any:
        return programs[0].evaluate()

    @operator(
        shape=shapes.same, dtype=dtypes.first, derivative=Constant("a test"), kernels=Kernel("again", compute=compute)
    )
    def again(x: Any, /) -> Any:
        """Call the program again."""

    stack = LAZY.swap(type=LAZY.type.with_ops(again))
    x = stack.input("x", (3,), "float64")
    programs.append(stack.compile([x], again(x), retain="all"))
    with pytest.raises(RunError, match="is running in this thread"):
        programs[0](np.ones(3))
