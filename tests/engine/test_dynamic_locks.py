"""Nobody waits for what the dynamic graph is at, if that may be amid a finaliser or gone (`engine/dynamic/records`)."""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.dynamic.replay import replay
from nnc_func.garbage_collection import NEVER, no_full_collections, uncollected
from nnc_func.graph.leaves import _assigning
from nnc_func.locks import cached_property, forkable_lock
from tests.engine.dynamic_stacks import own_device
from tests.engine.together import within


def asked(stack: Any, x: Any) -> Any:
    """Gradients, and the graph behind a value."""
    y = (stack.ops.sin(x) * x).sum()
    (g,) = stack.gradients([y], [x])
    assert len(stack.trace(y).nodes) > 2
    return g.numpy()


@pytest.fixture
def engaged() -> Any:
    """A stack, a variable and its gradient, while another thread sweeps what is recorded, and does not come back."""
    stack = nnc.dynamic(own_device())
    x = +stack.variable("x", np.ones(3))
    wanted = asked(stack, x)
    begun, ended = threading.Event(), threading.Event()

    def sweep() -> None:
        with stack.engine.recording._lock:
            begun.set()
            ended.wait(60)

    thread = threading.Thread(target=sweep)
    thread.start()
    assert begun.wait(60)
    yield stack, x, wanted
    ended.set()
    thread.join()
    del x
    assert stack.live.nodes == 0


def test_gradients_and_graphs_do_not_wait_for_who_sweeps(engaged: Any) -> None:
    stack, x, wanted = engaged
    np.testing.assert_array_equal(within(20, partial(asked, stack, x)), wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_was_forked_meanwhile_computes_gradients(engaged: Any) -> None:
    stack, x, wanted = engaged
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        is_right = (asked(stack, x) == wanted).all()
        del x
        os._exit(0 if is_right and stack.live.nodes == 0 and not stack.engine.recording._dropped else 3)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_locks_are_free_in_a_process_that_was_forked_beside_a_thread_that_compiles() -> None:
    stack = nnc.dynamic(own_device())
    x, begun, ended = +stack.variable("x", np.ones(3)), threading.Event(), threading.Event()

    def compiles() -> None:
        with uncollected(), no_full_collections(), stack.symbol.table.walking, stack.symbol.table._lock, _assigning:
            begun.set()
            ended.wait(60)

    thread = threading.Thread(target=compiles)
    thread.start()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        is_right = (asked(stack, x) == asked(stack, x)).all()
        os._exit(0 if is_right and gc.isenabled() and gc.get_threshold()[2] < NEVER else 3)
    assert os.waitpid(child, 0)[1] == 0
    ended.set()
    thread.join()


def test_a_finaliser_comes_in_as_a_variable_is_read() -> None:
    stack = nnc.dynamic(own_device())
    w = stack.variable("w", np.ones(3))

    def amid() -> bool:
        with _assigning:
            w.value.assign(np.zeros(3))
            return len(stack.trace((w * 2.0).sum()).nodes) > 1

    assert within(20, amid)


class Slow:
    """Of which a cached property waits for that of another instance, in another thread."""

    def __init__(self, other: Slow | None = None) -> None:
        self.other = other

    @cached_property
    def value(self) -> int:
        return 1 if self.other is None else 1 + int(within(20, lambda: self.other.value))  # type: ignore[union-attr]


def test_cached_properties_of_a_class_do_not_wait_for_each_other() -> None:
    assert Slow(Slow(Slow())).value == 3


def test_a_finaliser_comes_in_as_replays_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = nnc.dynamic(own_device(), replay_after=1)
    x, told = stack.asarray(1.0), replay.Replays

    def made(**counts: int) -> Any:
        (x * 2.0 + 1.0).item()
        return told(**counts)

    monkeypatch.setattr(replay, "Replays", made)
    assert within(20, lambda: stack.replays).eager >= 0


FINALISERS = """
import gc, sys, threading
from functools import partial
import numpy as np
import nnc_func as nnc

stack = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))
x = +stack.variable("x", np.ones(3))

class Looks:
    def __init__(self):
        self.me = self

    def __del__(self):
        stack.gradients([(x * x).sum()], [x])[0].numpy()

def rounds():
    for _ in range(600):
        Looks()
        stack.gradients([(stack.ops.sin(x) * x).sum()], [x])[0].numpy()

gc.set_threshold(100)
thread = threading.Thread(target=rounds)
rounds()
thread.start()
thread.join()
"""


def test_a_finaliser_that_looks_at_gradients_does_not_wait_for_who_waits_for_it() -> None:
    """The collector calls it amid any line, of the main thread and of another, beside the worker."""
    found = subprocess.run([sys.executable, "-c", FINALISERS], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("replay_after", [None, 1])
def test_a_finaliser_amid_detach_has_gradients(replay_after: int | None) -> None:
    """The collector calls it at each allocation in turn: it does not see that nothing is recorded there."""
    stack = nnc.dynamic(own_device(), replay_after=replay_after)
    x, found = +stack.variable("x", np.array([1.0, 2.0])), list[Any]()

    class Asks:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            found.append(stack.gradients([(x * x * x).sum()], [x])[0].numpy().tolist())

    usual = gc.get_threshold()
    try:
        for n in range(1, 120):
            gc.set_threshold(0)
            gc.collect(0)
            y = x * 1.0
            Asks()
            gc.set_threshold(gc.get_count()[0] + n)
            y.detach()
    finally:
        gc.set_threshold(*usual)
    gc.collect()
    assert len(found) >= 100
    assert found == [[3.0, 12.0]] * len(found)


WAITING = """
import gc, os, threading
import numpy as np
import nnc_func as nnc

stack = nnc.dynamic()
x, stalled = +stack.variable("x", np.ones(3)), []

class Waits:
    def __init__(self):
        self.me = self

    def __del__(self):
        thread = threading.Thread(target=lambda: stack.trace(x * 2.0), daemon=True)
        thread.start()
        thread.join(20)
        stalled.append(thread.is_alive())

for n in range(400):
    Waits()
    stack.jit(lambda a: a * float(n))(x)
    if any(stalled):
        break
assert stalled and not any(stalled), stalled
os._exit(0)  # at the end of Python no thread begins any more
"""


def test_a_finaliser_that_waits_for_another_thread_comes_in_as_the_collector_is_switched_on() -> None:
    """From Python 3.12 on what is overdue comes right behind `gc.enable()`: no lock may be taken there."""
    found = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_was_forked_beside_a_thread_that_replays_is_not_waiting_for_it() -> None:
    """Python drops what was the thread's own before anything makes locks free there."""
    stack = nnc.dynamic(own_device(), replay_after=1)
    x, begun, ended = stack.asarray(np.ones(3)), threading.Event(), threading.Event()

    def replays() -> None:
        for _ in range(4):
            (x * 2.0 + 1.0).numpy()
        with stack._before._here.mine._lock:
            begun.set()
            ended.wait(60)

    thread = threading.Thread(target=replays)
    thread.start()
    assert begun.wait(60)
    signal.alarm(30)  # of this process: the other one hangs in `fork`, where nothing ends it
    child = os.fork()
    if child == 0:
        os._exit(0 if (x * 2.0 + 1.0).numpy().tolist() == [3.0] * 3 else 3)
    signal.alarm(0)
    assert within(20, lambda: os.waitpid(child, 0)[1]) == 0
    ended.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_until_no_other_thread_is_amid_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that is forked would wait for that thread's lock of the module; of the library's, which come late.

    Of others it would wait for a second where the program itself is a module that is being imported.
    """
    text = "import builtins, time\nbuiltins.begun.set()\nbuiltins.ended.wait({})\n"
    (tmp_path / "slowly_imported.py").write_text(text.format(0.3), encoding="utf-8")
    (tmp_path / "others_own.py").write_text(text.format(60), encoding="utf-8")
    monkeypatch.setattr(nnc, "__path__", [*nnc.__path__, str(tmp_path)])
    monkeypatch.syspath_prepend(tmp_path)
    for name in "nnc_func.slowly_imported", "others_own":
        begun, ended = threading.Event(), threading.Event()
        monkeypatch.setattr(builtins, "begun", begun, raising=False)
        monkeypatch.setattr(builtins, "ended", ended, raising=False)
        thread = threading.Thread(target=importlib.import_module, args=(name,))
        thread.start()
        assert begun.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            if name != "others_own":
                importlib.import_module(name)
            os._exit(0)
        ended.set()
        assert within(20, partial(status, child)) == 0
        thread.join()


def status(child: int) -> int:
    """How a process ended, once it has."""
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_finalisers_come_in_once_the_locks_of_threads_that_are_not_forked_are_free() -> None:
    """Found from outside: the collector came on first, and a finaliser of an overdue collection waited for ever."""
    lock, begun, ended, forked = forkable_lock(), threading.Event(), threading.Event(), []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if os.getpid() != parent:
                with lock:
                    forked.append(True)

    def compiles() -> None:
        with uncollected(), lock:
            begun.set()
            ended.wait(60)

    parent = os.getpid()
    thread = threading.Thread(target=compiles)
    thread.start()
    assert begun.wait(60)
    Cycle()
    for _ in range(4000):
        cycle: list[Any] = []
        cycle.append(cycle)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        [[] for _ in range(4000)]
        os._exit(0 if forked and gc.isenabled() else 3)
    assert within(20, partial(status, child)) == 0
    ended.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_the_collector_as_it_was() -> None:
    for is_on in True, False:
        (gc.enable if is_on else gc.disable)()
        try:
            child = os.fork()
            if child == 0:
                os._exit(0 if gc.isenabled() == is_on else 3)
            assert within(20, partial(status, child)) == 0
            assert gc.isenabled() == is_on
        finally:
            gc.enable()
