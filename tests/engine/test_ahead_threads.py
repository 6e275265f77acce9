"""Work formed ahead amid threads, finalisers, forks, interrupts and the end (`engine/dynamic/ahead`)."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.dynamic.ahead.worker import WORKER, Worker
from nnc_func.errors import NncError
from tests.engine.together import together
from tests.profiles import NIGHTLY


def made() -> nnc.Stack:
    return nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))


STACK = made()
OPS = STACK.ops


@pytest.fixture(autouse=True)
def learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack of its own, so that what another test left is no part of one.

    The first operator of a stack, and the first after a function was traced, are never formed ahead.
    """
    stack = made()
    monkeypatch.setitem(globals(), "STACK", stack)
    monkeypatch.setitem(globals(), "OPS", stack.ops)
    (stack.asarray(1.0) * 1.0).item()


def called(x: Any, function: Any) -> Any:
    """A pure function of the host of a tensor without axes."""
    return OPS.callback(x, function=function, shapes=((),), dtypes=("float64",), pure=True)[0]


def restored() -> bool:
    """Whether the interpreter's switch interval is what it was, once the worker finds nothing to do."""
    until = time.perf_counter() + 20
    while abs(sys.getswitchinterval() - 0.005) > 1e-6 and time.perf_counter() < until:
        time.sleep(0.005)
    return abs(sys.getswitchinterval() - 0.005) < 1e-6


def test_inspections_from_callbacks_finalisers_and_threads_do_not_lock() -> None:
    shared: list[Any] = [STACK.asarray(1.0)]
    times, looked = (25_000 if NIGHTLY else 600), [0] * 4

    class Looks:
        """Looks at a value when it goes; and is part of a cycle, so that the collector comes upon it anywhere."""

        def __init__(self, tensor: Any) -> None:
            self.tensor, self.me = tensor, self

        def __del__(self) -> None:
            self.tensor.value  # noqa: B018 - it is waited for

    def run(n: int) -> None:
        y = STACK.asarray(float(n))
        for i in range(times):
            other = shared[0]

            def look(array: Any, other: Any = other) -> Any:
                return np.float64(array + 0.0 * min(other.item(), 1.0))

            y = OPS.tanh(y * 0.5 + float(n))
            if i % 7 == 0:
                y = called(y, look)
            shared[0] = y
            if i % 11 == 0:
                Looks(y * 2.0)
            y.item()
            looked[n] += 1
        alone = np.float64(n)
        for _ in range(times):
            alone = np.tanh(alone * 0.5 + float(n))
        assert y.item() == alone

    threshold = gc.get_threshold()
    gc.set_threshold(50)
    try:
        together(*[partial(run, n) for n in range(4)], seconds=240)
    finally:
        gc.set_threshold(*threshold)
    assert looked == [times] * 4
    assert restored()


def test_a_function_of_the_host_may_start_threads_that_look_at_what_is_ahead() -> None:
    found: list[float] = []
    other: list[Any] = []

    def look(array: Any) -> Any:
        thread = threading.Thread(target=lambda: found.append(other[0].item()))
        while not other:
            time.sleep(0.001)
        thread.start()
        thread.join(60)
        return array

    y = called(STACK.asarray(1.0), look)
    other.append(STACK.asarray(2.0) * 3.0)
    assert [y.item(), *found] == [1.0, 6.0]


def test_a_function_that_asks_for_what_is_made_of_it_is_told_so() -> None:
    later: list[Any] = []

    def look(array: Any) -> Any:
        while not later:
            time.sleep(0.001)
        return np.float64(later[0].item())

    y = called(STACK.asarray(1.0), look)
    later.append(y * 2.0)
    with pytest.raises(NncError, match="by a function that it is made of"):
        y.item()
    assert (STACK.asarray(1.0) * 2.0).item() == 2.0


def test_functions_that_ask_for_each_other_from_two_threads_are_told_so() -> None:
    made: dict[int, Any] = {}
    begun = threading.Event(), threading.Event()

    def asks(n: int, array: Any) -> Any:
        begun[n].set()
        assert begun[1 - n].wait(60)
        while len(made) < 2:
            time.sleep(0.001)
        return np.float64(made[1 - n].item())

    made[0] = called(STACK.asarray(1.0), partial(asks, 0))
    made[1] = called(STACK.asarray(1.0), partial(asks, 1))
    errors: list[str] = []

    def look(n: int) -> None:
        try:
            made[n].item()
        except NncError as error:
            errors.append(str(error))

    together(*[partial(look, n) for n in range(2)], seconds=240)
    assert len(errors) == 2
    assert "asked for" in "".join(errors)


def test_threads_see_their_own_order_and_equal_gradients() -> None:
    def run(n: int) -> None:
        w = +STACK.variable("w", np.linspace(0.0, 1.0, 8) * (n + 1))
        wanted = w.numpy()
        for _ in range(20):
            (g,) = STACK.gradients([(OPS.sin(w) * w).sum()], [w])
            w = w - 0.1 * g
            wanted = wanted - 0.1 * (np.cos(wanted) * wanted + np.sin(wanted))
        np.testing.assert_allclose(w.numpy(), wanted, rtol=1e-9)

    together(*[partial(run, n) for n in range(4)], seconds=240)


def test_a_like_step_compiles_nothing(monkeypatch: Any) -> None:
    compiled: list[int] = []
    compile_ = nnc.Dynamic.compile
    monkeypatch.setattr(nnc.Dynamic, "compile", lambda self, *given: [compiled.append(1), compile_(self, *given)][1])
    stack = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))
    w, b = (+stack.variable(name, np.full(3, 0.5)) for name in "wb")
    for step in range(10):
        x = stack.asarray(np.ones(3)) if step % 2 else stack.asarray(np.ones(3)) * 1.0
        loss = (stack.ops.tanh(x * w) + stack.ops.sin(b * x) + w * b).sum()
        gradients = stack.gradients([loss], [w, b])
        w, b = (p - 0.1 * g for p, g in zip((w, b), gradients, strict=True))
        if step == 0:
            w.numpy()
            assert compiled
            compiled.clear()
    w.numpy(), b.numpy()
    assert not compiled


@pytest.mark.parametrize("is_by_worker", [True, False])
def test_an_interrupt_while_one_waits_leaves_a_stack_that_works(is_by_worker: bool) -> None:
    """Whether the worker computes what one waits for, or one does so oneself since the worker is at something else."""
    begun, opened, first = threading.Event(), threading.Event(), threading.Event()
    by: list[int] = []

    def wait(array: Any) -> Any:
        by.append(threading.get_ident())
        begun.set()
        assert opened.wait(60)
        return array

    def interrupt() -> None:
        assert begun.wait(60)
        time.sleep(0.05)
        first.set()
        # Of this thread: what another one raises does not end what this one is blocked in.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    if not is_by_worker:
        called(STACK.asarray(1.0), lambda a: [first.wait(60), a][1])
    y = called(STACK.asarray(1.0), wait)
    if is_by_worker:
        assert begun.wait(60)
    z = y * 2.0
    thread = threading.Thread(target=interrupt)
    thread.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        z.item()
    assert (STACK.asarray(2.0) * 2.0).item() == 4.0
    assert time.perf_counter() - start < 30  # nobody waited until `wait` gave up
    opened.set()
    thread.join()
    assert z.item() == 2.0
    assert (by[0] == WORKER.thread) is is_by_worker
    assert len(by) == 1  # it was not begun again
    assert threading.get_ident() not in by
    assert restored()


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_small_operand_does_not_ask_for_what_stands_behind_it(is_recorded: bool) -> None:
    """It is promised still, and so is what is made of both."""
    stack = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=1e-4))
    opened, number = threading.Event(), np.array(2.0)
    small = +stack.variable("small", number) if is_recorded else stack.asarray(number) * 1.0
    opened.set()

    def wait(array: Any) -> Any:
        time.sleep(0.01)
        assert opened.wait(60)
        return array

    def promised() -> Any:
        return stack.ops.callback(small, function=wait, shapes=((),), dtypes=("float64",), pure=True)[0]

    for _ in range(3):  # what these take is seen
        assert (small + promised()).item() == 4.0
    opened.clear()
    y = promised()
    threading.Timer(2.0, opened.set).start()
    start = time.perf_counter()
    z = small + y
    assert time.perf_counter() - start < 1.0
    assert z.item() == 4.0


@pytest.mark.parametrize("is_blocked", [True, False])
def test_what_a_function_raises_that_is_no_exception_is_told_who_looks(is_blocked: bool) -> None:
    """No thread of the user's computes it: so it ends none, whoever computes."""

    def ends(array: Any) -> Any:
        raise KeyboardInterrupt("by itself")

    first = threading.Event()
    blocked = called(STACK.asarray(0.0), lambda a: [first.wait(60), a][1]) if is_blocked else None
    try:
        y = called(STACK.asarray(1.0), ends)
        for _ in range(2):
            with pytest.raises(NncError, match="KeyboardInterrupt was raised by what was computed ahead: by itself"):
                y.item()
    finally:
        first.set()
    assert blocked is None or blocked.item() == 0.0


def test_what_is_sent_to_a_thread_that_computes_is_raised_there_and_the_value_stays_to_be_computed() -> None:
    """Found from outside: it became the value's error, for everybody, and the thread went on."""

    class Stop(BaseException):
        """No exception that a thread's loop would catch."""

    begun, gate, told = threading.Event(), threading.Event(), []

    def slowly(array: Any) -> Any:
        begun.set()
        for _ in range(200 if not told else 0):
            time.sleep(0.01)
        return array * 2.0

    blocked = called(STACK.asarray(0.0), lambda a: [gate.wait(60), a][1])  # which the worker is at
    y = called(STACK.asarray(1.0), slowly)

    def look() -> None:
        try:
            y.item()
        except BaseException as error:
            told.append(type(error))

    thread = threading.Thread(target=look)
    thread.start()
    assert begun.wait(60)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stop))
    thread.join()
    gate.set()
    assert (told, y.item(), blocked.item()) == ([Stop], 2.0, 0.0)


def test_a_worker_that_has_ended_does_nothing_more() -> None:
    """The switch interval stayed short for functions that `atexit` calls later."""
    worker, interval = Worker(), sys.getswitchinterval()
    worker.has_ended = True
    worker.give(object())
    assert (worker.thread, worker.jobs.empty(), sys.getswitchinterval()) == (None, True, interval)


def test_the_switch_interval_is_restored_after_errors_and_left_if_somebody_else_changed_it() -> None:
    assert restored()
    bad = OPS.take(STACK.asarray([1.0]), STACK.asarray([5]) * 1)
    with pytest.raises(NncError):
        bad.numpy()
    assert restored()
    opened = threading.Event()
    y = called(STACK.asarray(1.0), lambda a: [opened.wait(60), a][1])
    try:
        sys.setswitchinterval(0.002)
        opened.set()
        assert y.item() == 1.0
        STACK.live  # noqa: B018 - it waits
        while WORKER.is_busy:
            time.sleep(0.001)
        assert abs(sys.getswitchinterval() - 0.002) < 1e-6
    finally:
        sys.setswitchinterval(0.005)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_was_forked_computes_what_was_ahead_itself() -> None:
    opened = threading.Event()
    started = threading.Event()

    def wait(array: Any) -> Any:
        started.set()
        opened.wait(0.5)
        return array

    y = called(STACK.asarray(1.0), wait)
    z = y * 2.0
    assert started.wait(60)
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if z.item() == 2.0 and (STACK.asarray(3.0) * 2.0).item() == 6.0 and restored() else 2
        finally:
            os._exit(code)
    until, status = time.perf_counter() + 60, (0, 0)
    while status[0] == 0 and time.perf_counter() < until:
        status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    assert status[0] == child, "a deadlock"
    assert os.waitstatus_to_exitcode(status[1]) == 0
    opened.set()
    assert z.item() == 2.0


@pytest.mark.parametrize("last", ["pass", "raise SystemExit(3)", "held.value"])
def test_the_interpreter_ends_with_work_ahead(last: str) -> None:
    code = f"""
        import time
        from functools import partial
        import numpy as np
        import nnc_func as nnc
        stack = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))
        y = stack.asarray(np.ones(20_000))
        y = stack.ops.callback(y, function=lambda a: [time.sleep(0.3), a][1], shapes=((20_000,),),
                               dtypes=("float64",), pure=True)[0]
        for _ in range(100):
            y = stack.ops.erfinv(y * 0.5)
        held = y
        class Looks:
            def __del__(self):
                self.tensor.value
        looks = Looks()
        looks.tensor = stack.asarray(1.0) * 2.0
        {last}
    """
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, timeout=120, check=False)
    assert done.returncode == (3 if "3" in last else 0), done.stderr.decode()
    assert not done.stderr, done.stderr.decode()
    assert time.perf_counter() - start < 100


def test_what_is_computed_ahead_may_lose_its_history_meanwhile() -> None:
    for attempt in range(30):
        w = +STACK.variable("w", np.float64(0.5))
        y = w
        for _ in range(40):
            y = called(y, np.sin)
        wanted = np.sin(y.item())
        z = called(y, np.sin)
        time.sleep(0.0001 * attempt)
        del w
        assert abs(z.item() - wanted) < 1e-12
