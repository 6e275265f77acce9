"""Memory of results computed ahead is used again, never while somebody shows it (`engine/dynamic/ahead`)."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.dynamic.ahead.storage import FROM, KEPT, STEP, STORAGE, Storage
from nnc_func.engine.dynamic.ahead.worker import LINGERING
from nnc_func.errors import RunError, ShapeError
from tests.engine.dynamic_stacks import own_device

SIZE = FROM // 8
F64 = np.dtype("float64")


def ahead() -> Any:
    """A stack that forms each operator ahead."""
    return nnc.lazy(own_device()).swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))


DO = st.tuples(
    st.sampled_from(["sin", "negative", "add", "multiply", "half", "part", "drop", "look"]),
    st.integers(0, 9),
    st.integers(0, 9),
)


@pytest.mark.parametrize("is_variable", [False, True])
@given(st.lists(DO, max_size=20))
def test_what_is_shown_is_never_written_over(is_variable: bool, program: Any) -> None:
    stack = ahead()
    start = np.linspace(-1.0, 1.0, SIZE)
    first = +stack.variable("x", start) if is_variable else stack.asarray(start)
    held: list[tuple[Any, Any]] = [(first, start)]
    shown: list[tuple[Any, Any]] = []
    for what, i, j in program:
        (x, a), (y, b) = held[i % len(held)], held[j % len(held)]
        if what in ("sin", "negative"):
            held.append((getattr(stack.ops, what)(x), getattr(np, what)(a)))
        elif what in ("add", "multiply"):
            held.append((getattr(stack.ops, what)(x, y), getattr(np, what)(a, b)))
        elif what == "half":
            held.append((x * 0.5, a * 0.5))
        elif what == "part":
            shown.append((x.numpy()[1:7], a[1:7]))
        elif what == "drop" and len(held) > 1:
            del held[i % len(held)]
        else:
            np.testing.assert_array_equal(x.numpy(), a)
    for x, a in held:
        np.testing.assert_array_equal(x.numpy(), a)
    for part, a in shown:
        np.testing.assert_array_equal(part, a)
    if is_variable:
        other = nnc.dynamic(own_device())
        found = []
        for at in (stack, other):
            v = first if at is stack else +other.variable("x", start)
            y = at.ops.sin(v * 0.5) * v
            z = at.ops.sin(y) + y * v
            found.append([*at.gradients([z.sum()], [v]), z])
        for x, y in zip(*found, strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_chains_use_their_memory_again() -> None:
    stack = ahead()
    x = stack.asarray(np.linspace(0.0, 1.0, SIZE))

    def chain() -> set[int]:
        found, y = set(), x
        for _ in range(12):
            y = stack.ops.sin(y)
            found.add(y.value.__array_interface__["data"][0])
        return found

    chain()
    assert len(chain()) <= 6
    ys = [stack.ops.sin(x) for _ in range(4)]
    assert any(y.value.base is not None for y in ys)


@pytest.mark.parametrize("once", [True, False])
def test_what_fails_is_not_tried_again(once: bool) -> None:
    """Found from outside: what a handler of NumPy's, or of a signal, raised once was dropped, and computed again."""
    stack = ahead()
    x = stack.asarray(np.linspace(-1.0, 1.0, SIZE))
    stack.ops.square(x).numpy()
    stack.ops.sqrt(stack.ops.square(x)).numpy()
    calls: list[Any] = []

    def handler(*told: Any) -> None:
        calls.append(told)
        if not once or len(calls) == 1:
            raise ValueError("as it was asked to")

    before = np.seterrcall(handler)
    try:
        with np.errstate(all="call"):
            ys = [stack.ops.sqrt(x) for _ in range(3)]
            failures = []
            for y in ys:
                try:
                    y.numpy()
                except RunError as error:
                    failures.append("\n".join([str(error), *getattr(error, "__notes__", ())]))
    finally:
        np.seterrcall(before)
    # whoever looks may have begun with the first while the worker is at the second: either is the one that fails
    assert (len(calls), len(failures)) == (3, 1 if once else 3)
    for each in failures:
        assert re.search(r"sqrt.*as it was asked to.*test_ahead_storage", each, re.DOTALL)


FORKED = """
import os
from functools import partial
import numpy as np
import nnc_func as nnc
from nnc_func.engine.dynamic.ahead.storage import FROM, STORAGE

stack = nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))
x = stack.asarray(np.linspace(0.0, 1.0, FROM // 8))
ys = [stack.ops.sin(x) for _ in range(6)]
for y in ys:
    y.numpy()
before = STORAGE.nbytes
child = os.fork()
if not child:
    ys.clear()
    os._exit(bool(STORAGE.nbytes))
print(before > 0, os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_is_forked_keeps_nothing() -> None:
    """In a process of its own: other tests' threads are none of it."""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "0"]


def test_errors_are_those_of_a_stack_that_computes_at_once() -> None:
    stack, other = ahead(), nnc.dynamic(own_device())
    given_ = np.ones((4, SIZE // 4), "int64")
    for at in (other, stack):
        x = at.asarray(given_)
        assert (x + x).dtype == "int64"
        with pytest.raises(ShapeError, match="add"):
            (x + at.asarray(np.ones((3, 1)))).numpy()


def test_what_lies_otherwise_stays_so() -> None:
    stack = ahead()
    a = np.asfortranarray(np.random.default_rng(0).normal(size=(1024, 512)))
    x = stack.asarray(a)
    for _ in range(3):
        y = stack.ops.sin(x)
        assert y.value.flags.f_contiguous == np.sin(x.value).flags.f_contiguous
        np.testing.assert_array_equal(y.numpy(), np.sin(a))


def opened() -> Storage:
    found = Storage()
    found.open()
    return found


def test_little_is_kept() -> None:
    storage = opened()
    each = KEPT // 4
    held = [storage.empty((each,), np.dtype("uint8")) for _ in range(8)]
    assert sum(x.base is not None for x in held) == 4, "beyond that it is an array like others"
    held.clear()
    storage.empty((SIZE,), F64)
    assert storage.nbytes <= KEPT
    storage.close()
    assert not storage.nbytes
    storage.empty((SIZE,), F64)
    assert not storage.nbytes, "it is closed"
    assert storage.empty((3,), F64).base is None


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9)), max_size=60))
def test_it_is_bounded_whatever_sizes_there_are(program: list[tuple[int, int]]) -> None:
    storage, held = opened(), list[Any]()
    for size, drops in program:
        held.append(storage.empty((size * (FROM // 2),), np.dtype("uint8")))
        assert storage.nbytes <= KEPT
        del held[: drops // 3]
    addresses = sorted((x.ctypes.data, x.nbytes) for x in held)
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(addresses))


def test_what_is_free_is_given_back_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = opened()
    storage.empty((SIZE,), F64)
    assert storage.nbytes > 0
    failed: list[int] = []
    new = np.empty

    def empty(*of: Any) -> Any:
        if not failed:
            failed.append(1)
            raise MemoryError("as it was asked to")
        return new(*of)

    monkeypatch.setattr(np, "empty", empty)
    x = storage.empty((3 * SIZE,), F64)
    monkeypatch.undo()
    assert failed
    assert storage.nbytes == x.nbytes


def test_what_is_shown_when_it_is_cleared_is_kept_by_who_shows_it() -> None:
    storage = opened()
    x = storage.empty((SIZE,), F64)
    x[:] = 1.0
    storage.close()
    storage.open()
    others = [storage.empty((SIZE,), F64) for _ in range(4)]
    for other in others:
        other[:] = 2.0
    assert (x == 1.0).all()
    before = storage.nbytes
    del x
    storage.empty((SIZE,), F64)
    assert storage.nbytes <= before + 8 * SIZE + STEP, "what was leased before it was closed is none of its"


def test_threads_lease_different_memory() -> None:
    storage, failed = opened(), []

    def run(number: float) -> None:
        mine: list[Any] = []
        for n in range(200):
            x = storage.empty((SIZE + STEP * (n % 3),), F64)
            x[::4096] = number
            mine.append(x)
            if len(mine) > n % 4:
                if not all((y[::4096] == number).all() for y in mine):
                    failed.append(number)
                mine.clear()

    threads = [threading.Thread(target=run, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_nothing_is_kept_once_there_is_no_work() -> None:
    stack = ahead()
    x = stack.asarray(np.linspace(0.0, 1.0, SIZE))
    for _ in range(3):
        y = stack.ops.sin(x)
        y.numpy()
    del y
    until = time.perf_counter() + 20 * LINGERING
    while STORAGE.nbytes and time.perf_counter() < until:
        time.sleep(0.05)
    assert not STORAGE.nbytes
