"""Work ahead after interrupts at any moment, forks, and looks from deep calls (`engine/dynamic/ahead/jobs`)."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.dynamic.ahead.costs import Costs
from nnc_func.engine.dynamic.ahead.jobs import PATIENCE, PROCESS, Job, over
from nnc_func.engine.dynamic.ahead.worker import WORKER
from nnc_func.errors import NncError
from nnc_func.memo import FEW
from tests.engine.together import within
from tests.profiles import NIGHTLY


@pytest.fixture
def stack() -> nnc.Stack:
    found = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))
    (found.asarray(1.0) * 1.0).item()  # the first operator of a stack is never formed ahead
    return found


def called(x: Any, function: Any) -> Any:
    """A pure function of the host of a tensor without axes."""
    return x.stack.ops.callback(x, function=function, shapes=((),), dtypes=("float64",), pure=True)[0]


@pytest.fixture
def blocked(stack: nnc.Stack) -> Iterator[Any]:
    """The worker is at a function of this thread's until the test ends."""
    begun, opened = threading.Event(), threading.Event()

    def wait(array: Any) -> Any:
        begun.set()
        assert opened.wait(120)
        return array

    y = called(stack.asarray(0.0), wait)
    assert begun.wait(60)
    yield y
    opened.set()
    assert y.item() == 0.0


def job_of(tensor: Any) -> Job:
    return tensor.hold.sequence  # type: ignore[no-any-return]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="there are no signals of threads here")
def test_interrupts_at_any_moment_lose_nothing(stack: nnc.Stack) -> None:
    """Often two, one after the other: values come, nobody waits for ever, and the interval is what it was."""
    times, left, stop = (4000 if NIGHTLY else 150), [0], threading.Event()
    main, before = threading.main_thread().ident or 0, signal.getsignal(signal.SIGINT)

    def interrupt(*_: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt

    def sending() -> None:
        draw = random.Random(0)
        while not stop.is_set():
            time.sleep(draw.random() * 1e-3)
            signal.pthread_kill(main, signal.SIGINT)

    def formed(k: int) -> list[tuple[Any, float]]:
        found, x = [], stack.asarray(float(k))
        for n in range(10):
            y = x * 2.0
            found.append((called(y, lambda a: np.float64(a + 1)) if n % 3 == 0 else y + 1.0, 2.0 * k + 1))
        return found

    sender = threading.Thread(target=sending)
    signal.signal(signal.SIGINT, interrupt)
    sender.start()
    kept, interrupts = [], 0
    try:
        for k in range(times):
            values = within(60, partial(formed, k))
            kept += values[:2]
            for value, wanted in reversed(values):
                try:
                    try:
                        left[0] = 2  # more would end the test
                        found = value.item()
                        left[0] = 0
                        assert found == wanted
                    except KeyboardInterrupt:
                        left[0] = 0
                        interrupts += 1
                except KeyboardInterrupt:
                    interrupts += 1
            if k % 20 == 0:
                within(60, lambda: stack.live)  # which waits for what another thread has formed
    finally:
        left[0] = 0
        stop.set()
        sender.join()
        signal.signal(signal.SIGINT, before)
    assert interrupts
    assert all(value.item() == wanted for value, wanted in kept)
    until = time.perf_counter() + 20
    while abs(sys.getswitchinterval() - 0.005) > 1e-6 and time.perf_counter() < until:
        time.sleep(0.01)
    assert abs(sys.getswitchinterval() - 0.005) < 1e-6


def test_what_has_values_is_over_for_whoever_asks(stack: nnc.Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt came before its operands were let go."""
    let_go = Job.let_go
    monkeypatch.setattr(Job, "let_go", lambda self: None)
    y = stack.asarray(2.0) * 3.0
    job = job_of(y)
    assert y.item() == 6.0
    monkeypatch.setattr(Job, "let_go", let_go)
    assert not job.is_over
    job._claim[0] = threading.get_ident(), PROCESS.mark  # as if this thread had computed it
    within(20, lambda: [over(job)])
    assert job.is_over


def test_the_main_thread_claims_nothing(stack: nnc.Stack, blocked: Any) -> None:
    by: list[Any] = []
    y = called(stack.asarray(1.0), lambda a: [by.append(threading.get_ident()), a][1])
    assert y.item() == 1.0
    assert by
    assert by[0] not in (threading.get_ident(), WORKER.thread)


def test_claims_of_another_process_are_none(stack: nnc.Stack, blocked: Any) -> None:
    """As after a fork: who had claimed a job, or was about to make its values known, is not here."""
    for is_made in (False, True):
        y = stack.asarray(2.0) * 3.0
        job = job_of(y)
        job._claim[0] = 1, object()
        if is_made:
            job._made[0] = [np.array(7.0)]
        assert job.runner is None
        assert y.item() == (7.0 if is_made else 6.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_at_any_moment(stack: nnc.Stack) -> None:
    draw = random.Random(0)
    for k in range(400 if NIGHTLY else 25):
        x = stack.asarray(float(k))
        values = [called(x * 2.0, lambda a: np.float64(a + 1)) for _ in range(30)]
        time.sleep(draw.random() * 1e-3)
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            is_right = all(value.item() == 2.0 * k + 1 for value in values)
            until = time.perf_counter() + 5
            while abs(sys.getswitchinterval() - 0.005) > 1e-6 and time.perf_counter() < until:
                time.sleep(0.01)
            os._exit(0 if is_right and abs(sys.getswitchinterval() - 0.005) < 1e-6 else 3)
        assert os.waitpid(child, 0)[1] == 0
        assert all(value.item() == 2.0 * k + 1 for value in values)
    assert PROCESS.mark is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_while_the_worker_compiles(stack: nnc.Stack) -> None:
    """A fork waits until the worker is not amid a job: a lock that it has would never be free in the other process."""
    draw, x = random.Random(0), +stack.variable("x", np.ones(3))

    def gradient(k: int) -> Any:
        return stack.gradients([stack.ops.sum(stack.ops.sin(x * float(k + 2)) ** (k % 5 + 1))], [x])[0]

    gradient(0).numpy()
    for k in range(1, 400 if NIGHTLY else 25):
        ahead = gradient(k)
        time.sleep(draw.random() * 5e-3)
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(0 if np.isfinite(gradient(-k).numpy()).all() and gc.isenabled() else 3)
        assert os.waitpid(child, 0)[1] == 0
        del ahead
    assert not WORKER._computing._is_owned()  # type: ignore[attr-defined]


def test_an_interrupt_between_two_steps_of_giving_leaves_the_interval_as_it_was(
    stack: nnc.Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten, x = WORKER.hasten, stack.asarray(2.0)
    while WORKER.is_busy:
        time.sleep(0.001)

    def interrupted() -> None:
        if threading.get_ident() == WORKER.thread:
            return
        hasten()
        raise KeyboardInterrupt

    monkeypatch.setattr(WORKER, "hasten", interrupted)
    with pytest.raises(KeyboardInterrupt):
        x * 3.0
    monkeypatch.undo()
    until = time.perf_counter() + 10
    while abs(sys.getswitchinterval() - 0.005) > 1e-6 and time.perf_counter() < until:
        time.sleep(0.01)
    assert abs(sys.getswitchinterval() - 0.005) < 1e-6


def test_calls_that_are_too_many_are_the_fault_of_whoever_looks(stack: nnc.Stack, blocked: Any) -> None:
    def look(value: Any, deep: int) -> Any:
        return look(value, deep - 1) if deep else value.item()

    for is_main in (True, False):
        failed = 0
        for deep in range(860, sys.getrecursionlimit()):
            y = called(stack.asarray(1.0), lambda a: a) + 1.0
            within_calls = partial(look, y, deep)
            try:
                (within_calls if is_main else partial(within, 60, partial(caught, within_calls)))()
            except RecursionError:
                failed += 1
            assert y.item() == 2.0, deep
        assert failed or not is_main


def caught(function: Callable[[], Any]) -> bool:
    try:
        function()
    except RecursionError:
        return False
    return True


def test_a_value_does_not_wait_for_what_other_threads_have_formed(stack: nnc.Stack) -> None:
    formed, stop = threading.Event(), threading.Event()

    def slowly(array: Any) -> Any:
        if not stop.is_set():
            time.sleep(0.004)
        return array

    def other() -> None:
        kept = [called(stack.asarray(float(n)), slowly) for n in range(900)]
        formed.set()
        stop.wait(60)
        del kept

    thread = threading.Thread(target=other)
    thread.start()
    assert formed.wait(60)
    begun, done = time.perf_counter(), WORKER.done
    assert (stack.asarray(2.0) * 3.0).item() == 6.0
    taken, between = time.perf_counter() - begun, WORKER.done - done
    stop.set()
    thread.join()
    assert between < 300, (taken, between)  # all of them, as long as the worker got on with these


def test_functions_of_the_host_are_not_kept_by_what_they_took(stack: nnc.Stack) -> None:
    costs = Costs()
    for n in range(100):
        costs.of(n, lambda: (), holds_functions=n % 2 == 0)
    assert len(costs._known) == 50 + FEW

    class Large:
        """What a function of a round's own holds."""

    held: list[weakref.ref[Any]] = []
    for _ in range(20 * FEW):
        large = Large()
        held.append(weakref.ref(large))
        y = called(stack.asarray(1.0), lambda a, large=large: a + 1.0)
        assert y.item() == 2.0
        del large, y
    gc.collect()
    assert sum(each() is not None for each in held) <= 6 * FEW  # several memos keep the last few


# --- what functions of the host raise ----------------------------------------------------------------------


@dataclass(frozen=True)
class FrozenError(Exception):
    """An exception that may not be written to."""

    code: int = 1


class UnequalError(Exception):
    def __eq__(self, other: object) -> bool:
        raise ValueError("eq")

    __hash__ = Exception.__hash__


class Mute(BaseException):
    def __str__(self) -> str:
        raise ValueError("str")


def frozen(array: Any) -> Any:
    raise FrozenError


def unequal(array: Any) -> Any:
    try:
        raise UnequalError
    except UnequalError:
        raise UnequalError from UnequalError()


def mute(array: Any) -> Any:
    raise Mute


def ends(array: Any) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize("function", [frozen, unequal, mute, ends])
@pytest.mark.parametrize("looks", ["main", "another thread", "beside a blocked worker"])
def test_whatever_they_raise_is_told_whoever_looks(
    function: Callable[[Any], Any], looks: str, stack: nnc.Stack, request: pytest.FixtureRequest
) -> None:
    if looks == "beside a blocked worker":
        request.getfixturevalue("blocked")
    y = called(stack.asarray(1.0), function)

    def look() -> str:
        with pytest.raises(NncError) as error:
            y.item()
        return f"{error.value} {getattr(error.value, '__notes__', '')}"

    for _ in range(2):
        said = within(20, look) if looks == "another thread" else look()
        assert "test_ahead_interrupts.py" in said
    assert within(20, lambda: (stack.asarray(2.0) * 3.0).item()) == 6.0


def test_who_is_ahead_of_one_that_waits_goes_on(stack: nnc.Stack, blocked: Any) -> None:
    """What is over behind it is no work ahead."""

    def many() -> bool:
        return all((stack.asarray(float(n)) * 2.0 + 1.0).item() == 2.0 * n + 1 for n in range(1500))

    first = blocked + 1.0  # formed by this thread, as the blocked one
    assert many()
    assert within(60, many)
    assert threading.active_count() < 20
    del first


def test_a_worker_that_stands_still_is_waited_for_once(stack: nnc.Stack, blocked: Any) -> None:
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        for n in range(100):
            assert (stack.asarray(float(n)) * 2.0).item() == 2.0 * n
        taken.append(time.perf_counter() - begun)
    assert min(taken) < 50 * PATIENCE


ENDING = """
import builtins, threading, time
from functools import partial
import numpy as np
import nnc_func as nnc

stack = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))
(stack.asarray(1.0) * 1.0).item()
begun = threading.Event()

class Looks:
    def __del__(self):
        print("value", self.y.item())

def slowly(array):
    begun.set()
    if threading.current_thread() is not threading.main_thread():
        time.sleep(1000)
    return array

y = stack.ops.callback(stack.asarray(1.0), function=slowly, shapes=((),), dtypes=("float64",), pure=True)[0]
builtins.looks = Looks()
builtins.looks.y = y
del y
assert begun.wait(60)
"""


def test_a_finaliser_at_the_interpreters_end_does_not_wait_for_threads_that_stand_still() -> None:
    found = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
