"""A stream that fails stops the others (`engine/running/parallel`, `engine/running/interrupts`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.device.shared import workers
from nnc_func.errors import RunError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import Constant
from nnc_func.facets.kernels import Kernel
from nnc_func.op import operator

ACTIONS: dict[int, Callable[[], None]] = {}
CALLED: list[tuple[int, int]] = []


def _into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, number: int) -> None:
    CALLED.append((number, threading.get_ident()))
    ACTIONS.get(number, lambda: None)()
    xp.add(arrays[0], number, outs[0])


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    derivative=Constant("a test"),
    kernels=Kernel("touchy", compute=lambda xp, x, *, number: x + number, into=_into),
)
def touchy(x: Any, /, *, number: int) -> Any:
    """x + number, and whatever a test wants to happen meanwhile."""


BASE = nnc.lazy()
BASE = BASE.swap(type=BASE.type.with_ops(touchy))
X = np.arange(3.0)


@pytest.fixture(autouse=True)
def _calm() -> Iterator[None]:
    ACTIONS.clear()
    CALLED.clear()
    yield
    ACTIONS.clear()
    assert not [t for t in threading.enumerate() if t.name == "nnc_func stream" and not t.daemon]


def dealt(streams: list[list[int]]) -> Any:
    """A stack whose tasks run in these streams; tasks are numbered in the order of the graph."""
    where = {task: s for s, tasks in enumerate(streams) for task in tasks}

    def scheduler(tasks: Any, count: int) -> Any:
        return [(t, where[t]) for t in range(len(tasks))]

    return BASE.swap(engine=BASE.engine.with_streams(len(streams), scheduler))


def chains(stack: Any) -> Any:
    """Two chains of three: 0 1 2 and 3 4 5, and their sum."""
    x = stack.input("x", (3,), "float64")
    ends = []
    for first in (0, 3):
        v = x
        for number in range(first, first + 3):
            v = stack.bind(touchy, v, number=number)
        ends.append(v)
    return stack.compile([x], [*ends, ends[0] + ends[1]])


def two_streams() -> Any:
    program = chains(dealt([[0, 1, 2, 6], [3, 4, 5]]))
    assert program.plan.streams == 2
    assert [i.waits for i in program.plan.instructions if i.op.name == "add"] == [(5,)]
    return program


def right(program: Any) -> None:
    one, other, both = program(X)
    np.testing.assert_array_equal(one, X + 3)
    np.testing.assert_array_equal(other, X + 12)
    np.testing.assert_array_equal(both, 2 * X + 15)


def broken() -> None:
    raise ValueError("broken here")


@pytest.mark.parametrize("number", range(6))
def test_a_kernel_that_fails_is_named_and_the_next_run_works(number: int) -> None:
    program = two_streams()
    for _ in range(3):
        ACTIONS[number] = broken
        with pytest.raises(RunError, match=rf"touchy\(.*number={number}\) failed \(built at .*broken here"):
            program(X)
        ACTIONS.clear()
        right(program)


def test_both_streams_fail_at_once() -> None:
    program = two_streams()
    gate = threading.Barrier(2)

    def both() -> None:
        gate.wait()
        broken()

    ACTIONS.update({1: both, 4: both})
    for _ in range(20):
        with pytest.raises(RunError, match=r"number=[14]\) failed"):
            program(X)
    ACTIONS.clear()
    right(program)


def test_the_other_stream_stops_after_the_kernel_that_it_is_in() -> None:
    program = two_streams()
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        broken()

    def slow() -> None:
        failed.wait(10)
        time.sleep(0.1)

    ACTIONS.update({0: fail, 3: slow})
    with pytest.raises(RunError, match="number=0"):
        program(X)
    assert 4 not in {number for number, _ in CALLED}
    ACTIONS.clear()
    right(program)


def test_variables_are_as_they_were_when_a_stream_fails() -> None:
    stack = dealt([[0, 2], [1, 3]])
    w = [stack.variable(f"w{i}", np.full(3, float(i))) for i in range(2)]
    values = [stack.bind(touchy, v, number=i) for i, v in enumerate(w)]
    program = stack.compile([], values, [(w[0], values[1] + 1), (w[1], values[0] + 1)])
    for number in (0, 1):
        ACTIONS[number] = broken
        with pytest.raises(RunError):
            program()
        assert [v.numpy()[0] for v in w] == [0.0, 1.0]
        ACTIONS.clear()
    program()
    assert [v.numpy()[0] for v in w] == [3.0, 1.0]


@pytest.mark.parametrize("number", [0, 2, 3, 5])
def test_an_interrupt_of_the_main_thread_ends_every_stream(number: int) -> None:
    """Whichever stream runs when it comes: Python raises it in the main thread, which may be waiting for the other."""
    program = two_streams()
    ran: list[int] = []

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        ran.append(number)

    for _ in range(3):
        ACTIONS[number] = interrupt
        with pytest.raises(KeyboardInterrupt):
            program(X)
        after = len(CALLED)
        time.sleep(0.02)
        assert len(CALLED) == after  # nothing runs any more
        ACTIONS.clear()
        right(program)


def test_a_program_within_a_kernel_of_another() -> None:
    outer, inner = two_streams(), two_streams()
    busy: list[bool] = []

    def nested() -> None:
        if not busy:
            busy.append(True)
            right(inner)

    ACTIONS[4] = nested
    right(outer)
    assert busy


def test_workers_are_kept_and_shared() -> None:
    program, other = two_streams(), two_streams()
    right(program)
    right(other)
    before = {t.ident for t in threading.enumerate() if t.name == "nnc_func stream"}
    for _ in range(20):
        right(program)
        right(other)
    assert {t.ident for t in threading.enumerate() if t.name == "nnc_func stream"} == before


def test_errors_that_are_no_exceptions_come_through() -> None:
    class Stop(BaseException):
        pass

    def stop() -> None:
        raise Stop

    program = two_streams()
    for number in (1, 4):
        ACTIONS[number] = stop
        with pytest.raises(Stop):
            program(X)
        ACTIONS.clear()
        right(program)


# --- processes -------------------------------------------------------------------------------------------


def test_after_a_fork_the_child_has_threads_of_its_own() -> None:
    if not hasattr(os, "fork"):  # Windows starts processes anew
        pytest.skip("no fork here")
    program = two_streams()
    right(program)
    code = f"""
import os, sys, warnings
sys.path[:0] = {sys.path!r}
import numpy as np, nnc_func as nnc
from nnc_func.testing.schedules import RandomScheduler
warnings.simplefilter("ignore")
lazy = nnc.lazy()
lazy = lazy.swap(engine=lazy.engine.with_streams(2, RandomScheduler(1)))
x = lazy.input("x", (3, 3), "float64")
program = lazy.compile([x], [x @ x, lazy.ops.tanh(x)])
assert program.plan.streams == 2
wanted = [a.tolist() for a in program(np.eye(3))]
child = os.fork()
if not child:
    os._exit(0 if [a.tolist() for a in program(np.eye(3))] == wanted else 1)
assert os.waitpid(child, 0)[1] == 0
assert [a.tolist() for a in program(np.eye(3))] == wanted
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_starts_no_thread_and_exit_waits_for_none() -> None:
    code = f"""
import sys, threading
sys.path[:0] = {sys.path!r}
import numpy as np, nnc_func as nnc
from nnc_func.testing.schedules import RandomScheduler
assert threading.active_count() == 1
lazy = nnc.lazy()
lazy = lazy.swap(engine=lazy.engine.with_streams(2, RandomScheduler(1)))
x = lazy.input("x", (3, 3), "float64")
program = lazy.compile([x], [x @ x, lazy.ops.tanh(x)])
assert threading.active_count() == 1
program(np.eye(3))
assert threading.active_count() == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- BLAS ------------------------------------------------------------------------------------------------


def test_blas_has_its_share_of_the_cores_while_streams_run() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads() -> list[int]:
        return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]

    program, seen = two_streams(), []
    before = threads()
    ACTIONS[1] = lambda: seen.append(threads())
    right(program)
    assert seen == [[min(had, max(1, workers.cores() // 2)) for had in before]]
    assert threads() == before
    ACTIONS[1] = broken
    with pytest.raises(RunError):
        program(X)
    assert threads() == before
