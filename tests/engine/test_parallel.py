"""Programs on threads: the same values whatever the delays, and no thread left behind (`engine/running/parallel`)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.linkers.kernel_calls import Frame
from nnc_func.engine.running.program import Program
from nnc_func.errors import RunError
from nnc_func.testing.programs import LARGEST, programs
from nnc_func.testing.programs import Program as Random
from nnc_func.testing.schedules import RandomScheduler, delayed

LAZY = nnc.lazy()


def streaming(seed: int = 1, streams: int = 2) -> Any:
    stack = LAZY.swap(optimiser=LAZY.optimiser.without_rules("fuse_elementwise"))
    return stack.swap(engine=stack.engine.with_streams(streams, RandomScheduler(seed)))


def branches(stack: Any, count: int = 4, size: int = 64) -> Program:
    """Chains that meet at the end."""
    o, x = stack.ops, stack.input("x", (size,), "float64")
    ends = []
    for i in range(count):
        v = o.cumulative_sum(x * float(i + 1), axis=0)
        ends.append(o.flip(o.tanh(v), axis=0))
    total = ends[0]
    for end in ends[1:]:
        total = o.cumulative_sum(total + end, axis=0)
    program = stack.compile([x], [total, *ends])
    assert isinstance(program, Program)
    return program


X = np.linspace(-1, 1, 64)
WANTED = [a.tobytes() for a in branches(LAZY)(X)]


def bits(found: Any) -> list[bytes]:
    return [a.tobytes() for a in found]


# --- the same values -------------------------------------------------------------------------------------


@given(programs(most_steps=12), st.integers(0, 2**20), st.integers(2, 4))
def test_with_random_delays_the_same(program: Random, seed: int, streams: int) -> None:
    state = [v.value() for v in program.variables]
    assume(program.run_numpy(program.feeds(), state)[2] < LARGEST)
    found = []
    for stack in (streaming(seed, 1), streaming(seed, streams)):
        built = program.build(stack)
        if built.program.plan.streams > 1:
            delayed(built.program, seed)
        with np.errstate(all="ignore"):
            for _ in range(3):
                found.append(bits([*built(*program.feeds()), *(v.value.array for v in built.variables)]))
    assert found[:3] == found[3:]


@pytest.mark.parametrize("streams", [2, 3, 8])
def test_a_graph_of_branches_with_delays(streams: int) -> None:
    for seed in range(12):
        program = branches(streaming(seed, streams))
        assert program.plan.streams > streams // 2
        delayed(program, seed)
        for _ in range(3):
            assert bits(program(X)) == WANTED


def test_one_program_from_many_threads_and_within_itself() -> None:
    program = branches(streaming(2, 3))
    wrong: list[Any] = []

    def call() -> None:
        for _ in range(20):
            if bits(program(X)) != WANTED:
                wrong.append("other values")

    threads = [threading.Thread(target=call) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_variables_are_updated_side_by_side() -> None:
    stack = streaming(5, 3)
    w = [stack.variable(f"w{i}", np.full(9, float(i))) for i in range(6)]
    x = stack.input("x", (9,), "float64")
    o = stack.ops
    program = stack.compile([x], o.sum(x), [(w[i], w[(i + 1) % 6] * 0.5 + x) for i in range(6)])
    assert program.plan.streams > 1
    delayed(program)
    wanted = [np.full(9, float(i)) for i in range(6)]
    for _ in range(5):
        program(np.ones(9))
        wanted = [wanted[(i + 1) % 6] * 0.5 + 1 for i in range(6)]
        for mine, theirs in zip(w, wanted, strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)


def test_a_device_without_threads_runs_the_streams_in_the_plans_order() -> None:
    stack = streaming(1).swap(device=nnc.Null())
    program = branches(stack)
    assert program.plan.streams == 2
    program(program._device.empty((64,), "float64"))
    (lease,) = program.arenas.arenas[0].leases.values()
    assert isinstance(lease.executable, Frame)
    assert lease.executable.together is None


def test_checks_of_numerics_and_poisoned_memory_still_apply() -> None:
    stack = streaming(1)
    stack = stack.swap(engine=stack.engine.checking_numerics())
    x = stack.input("x", (4,), "float64")
    program = stack.compile([x], [stack.ops.log(x), stack.ops.cumulative_sum(x, axis=0)])
    with pytest.raises(nnc.errors.NumericsError, match="log"), np.errstate(all="ignore"):
        program(np.zeros(4))


def test_a_callers_error_state_holds_in_all_streams() -> None:
    stack = streaming(1, 2)
    x = stack.input("x", (4,), "float64")
    program = stack.compile([x], [stack.ops.exp(x * float(i)) for i in range(1, 6)])
    assert {i.stream for i in program.plan.instructions if i.op.name == "exp"} == {0, 1}
    with np.errstate(over="ignore"):
        program(np.full(4, 1000.0))  # a warning would be an error here
    with np.errstate(over="raise"), pytest.raises(RunError, match=r"exp.*failed"):
        program(np.full(4, 1000.0))
