"""Calls that are written out: few frames, same guarantees (`engine/running/unrolled_call`)."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.running.results import KEPT as BUFFERS
from nnc_func.engine.running.results import Recycled
from nnc_func.errors import CancelledError, DTypeError, NncError, OperatorError, ShapeError
from nnc_func.testing import schedules
from nnc_func.testing.programs import Program, programs

LAZY = nnc.lazy()
OPS = LAZY.ops
X = np.linspace(0.1, 1, 4, dtype="float32")


def entered(call: Callable[[], Any]) -> int:
    """How many functions of Python's a call enters, the given one not counted; the least of three times.

    Garbage that is collected meanwhile may call functions too. Later versions of Python enter fewer, never more.
    """
    counts = [-1, -1, -1]
    for at in range(len(counts)):

        def see(frame: Any, event: str, arg: Any, at: int = at) -> None:
            counts[at] += event == "call"

        sys.setprofile(see)
        try:
            call()
        finally:
            sys.setprofile(None)
    return min(counts)


def at_once(act: Callable[[int], None], numbers: range) -> None:
    """Call a function of each of these numbers, each in a thread of its own."""
    threads = [threading.Thread(target=act, args=(n,)) for n in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def warm(program: Any, *inputs: Any) -> Any:
    """The program after two runs: from the third one on, its call is written out."""
    for _ in range(2):
        program(*inputs)
    return program


def compiled(f: Any, *avals: Any) -> Any:
    inputs = [LAZY.input(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(avals)]
    return LAZY.compile(inputs, f(*inputs))


# --- how much is entered -----------------------------------------------------------------------------------


def test_a_call_of_a_program_of_one_kernel_enters_four_functions() -> None:
    for outputs in (lambda x: [x + 1], lambda x: x + 1, lambda x: {"y": x + 1}):
        program = warm(compiled(outputs, ((4,), "float32")), X)
        assert program.plan.kernels == 1
        assert entered(lambda program=program: program(X)) <= 4 + (outputs(1) == {"y": 2})


def test_a_call_of_a_jitted_function_enters_ten_functions() -> None:
    one, two = LAZY.jit(lambda x: x + 1), LAZY.jit(lambda x, y: x * y)
    many = LAZY.jit(lambda tree: {k: v + 1 for k, v in tree.items()})
    tensor, tree = LAZY.asarray(X), {f"key {i}": X + i for i in range(20)}
    for call in (lambda: one(X), lambda: one(tensor), lambda: two(X, tensor), lambda: many(tree)):
        warm(call)
        assert entered(call) <= 10


# --- the same values ---------------------------------------------------------------------------------------


@given(programs(most_steps=8))
def test_later_runs_of_random_programs_are_as_the_first_and_as_eager(drawn: Program) -> None:
    stacks = [LAZY, LAZY.swap(optimiser=LAZY.optimiser.without_rules()), nnc.eager()]
    with np.errstate(all="ignore"):
        ours, plain, eager = [drawn.build(stack) for stack in stacks]
        first = [ours(*drawn.feeds(seed)) for seed in range(2)]
        later = [ours(*drawn.feeds(seed)) for seed in range(4)]
        if drawn.updates:  # each run is another
            return
        for one, other in zip(first, later, strict=False):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b, strict=True)
        for seed in range(4):
            for a, b in zip(plain(*drawn.feeds(seed)), eager(*drawn.feeds(seed)), strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)


def test_views_of_inputs_of_any_layout_and_memory_that_is_lent() -> None:
    def f(x: Any) -> Any:
        part = x[1:].T
        sums = [OPS.cumulative_sum(part * n, axis=0) for n in (1, 2)]
        return [*sums, sums[0] * sums[1], OPS.split(x, sections=2, axis=1)[1] + 1]

    program = compiled(f, ((5, 6), "float64"))
    x = np.arange(30.0).reshape(5, 6)
    frozen_x = x.copy()
    frozen_x.flags.writeable = False
    wide = np.zeros((5, 12))
    wide[:, ::2] = x
    wanted = program(x)
    for given_x in (x, x.copy("F"), frozen_x, wide[:, ::2], x[::-1][::-1], x.tolist()) * 2:
        for a, b in zip(program(given_x), wanted, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def test_variables_are_read_at_each_call() -> None:
    w = LAZY.variable("w", np.ones((2, 2)))
    x = LAZY.input("x", (2, 2), "float64")
    program = warm(LAZY.compile([x], [x @ w.T + w[0]]), np.eye(2))
    for n in (2.0, 3.0):
        w.value.assign(np.full((2, 2), n))
        np.testing.assert_array_equal(program(np.eye(2))[0], np.full((2, 2), 2 * n))
    assert len(w.value.turns.readers) == 1  # nobody


# --- fresh results -----------------------------------------------------------------------------------------


def test_results_are_fresh_while_they_are_held_and_recycled_after() -> None:
    program = warm(compiled(lambda x: [x + 1], ((4,), "float32")), X)
    held = [program(X * n)[0] for n in range(10)]
    assert len({each.ctypes.data for each in held}) == 10
    for n, each in enumerate(held):
        np.testing.assert_array_equal(each, X * np.float32(n) + 1)
    views = [program(X)[0][1:] for _ in range(3)]
    program(-X)
    assert all((each == X[1:] + 1).all() for each in views)
    del held, views
    seen = {program(X)[0].ctypes.data for _ in range(20)}
    assert len(seen) <= BUFFERS
    y = X
    for n in range(1, 6):  # its own results are its inputs
        (y,) = program(y)
        np.testing.assert_allclose(y, X + n, rtol=1e-6)
    assert program(program(program(X)[0])[0])[0].tolist() == (X + 1 + 1 + 1).tolist()


def test_what_a_caller_gave_and_got_is_let_go() -> None:
    program = warm(compiled(lambda x: [x[1:] + 1], ((4,), "float32")), X)
    fast = warm(LAZY.jit(lambda tree: [tree["x"] + 1]), {"x": X})
    for call in (lambda x: program(x), lambda x: fast({"x": x})):
        x = X.copy()
        alone = X.copy()  # one variable holds it: how many references that is depends on the version of Python
        call(x)
        assert sys.getrefcount(x) == sys.getrefcount(alone)


def test_frames_that_are_dropped_are_freed_without_the_collector() -> None:
    program = warm(compiled(lambda x: [OPS.sum(x * 2) + x], ((4,), "float32")), X)
    (arena,) = program.arenas.arenas
    (lease,) = arena.leases.values()
    assert lease.call is not None
    gc.disable()
    try:
        gone = weakref.ref(lease.call)
        del lease
        program.arenas.forget(program)
        assert gone() is None
    finally:
        gc.enable()
    np.testing.assert_array_equal(program(X)[0], compiled(lambda x: [OPS.sum(x * 2) + x], ((4,), "float32"))(X)[0])


def test_a_buffer_is_given_to_one_thread_only() -> None:
    buffers = Recycled(lambda: np.empty(3))
    before, wrong = sys.getswitchinterval(), []

    def act(number: int) -> None:
        for _ in range(3000):
            mine = buffers.take()
            mine[:] = number
            if (mine != number).any():
                wrong.append(number)

    sys.setswitchinterval(1e-6)
    try:
        at_once(act, range(4))
    finally:
        sys.setswitchinterval(before)
    assert not wrong
    assert len(buffers.buffers) <= BUFFERS


def test_calls_at_once_and_within_each_other_have_memory_of_their_own() -> None:
    depth: list[int] = []

    def again(x: Any) -> Any:
        depth.append(len(depth))
        return program(x)[0] if len(depth) < 4 else np.zeros(4, "float32")

    x = LAZY.input("x", (4,), "float32")
    shape, dtype = ((4,),), ("float32",)
    program = LAZY.compile(
        [x], [x + OPS.callback(x * 2, function=again, shapes=shape, dtypes=dtype, after=LAZY.token())[1]]
    )
    for _ in range(3):
        depth.clear()
        np.testing.assert_allclose(program(X)[0], X * 15, rtol=1e-6)
    assert program.arenas.made == 4
    one = warm(compiled(lambda x: [OPS.cumulative_sum(x * 2, axis=0) + x], ((4,), "float32")), X)
    results: dict[int, list[Any]] = {}

    def act(number: int) -> None:
        results[number] = [one(X + number)[0] for _ in range(200)]

    at_once(act, range(4))
    for number, found in results.items():
        for each in found:
            np.testing.assert_allclose(each, np.cumsum((X + number) * 2) + X + number, rtol=1e-5)


# --- refusals and failures ---------------------------------------------------------------------------------


def test_later_calls_refuse_in_the_words_of_the_first() -> None:
    class Own(np.ndarray):
        """A subclass, whose elements are taken."""

    def program() -> Any:
        return compiled(lambda x, y: [x + 1, y * 2], ((4,), "float32"), ((2, 2), "int64"))

    y = np.ones((2, 2), "int64")
    later = warm(program(), X, y)
    wrong: list[tuple[Any, ...]] = [
        (X,), (X, y, y), (X[:3], y), (X.astype("float64"), y), (X, y.astype("float32")), (X, y[0]), (X, None),
        ("no", y), (X, [[1, 2], [3]]), (X, {}), ([1, 2, 3], y),
    ]  # fmt: skip
    for inputs in wrong:
        said = []
        for each in (program(), later):
            with pytest.raises((OperatorError, ShapeError, DTypeError, NncError)) as caught:
                each(*inputs)
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]
    for inputs in ((X.view(Own), y), (X.tolist(), y.tolist()), (np.ma.masked_array(X), y), (X[::-1][::-1], y.T)):
        for a, b in zip(later(*inputs), program()(*inputs), strict=True):
            assert type(a) is np.ndarray
            np.testing.assert_array_equal(a, b, strict=True)


def test_a_failure_names_the_line_and_the_program_goes_on() -> None:
    fails: list[int] = []

    def kernel(at: int) -> Any:
        def function(x: Any) -> Any:
            if at in fails:
                raise ValueError(f"number {at}")
            return x

        return function

    x = LAZY.input("x", (4,), "float32")
    y, token, lines = x, LAZY.token(), []
    for at in range(3):
        token, y = OPS.callback(y * 2, function=kernel(at), shapes=((4,),), dtypes=("float32",), after=token)
        lines.append(sys._getframe().f_lineno - 1)
    program = warm(LAZY.compile([x], [y], effects=[token]), X)
    for at in range(3):
        fails[:] = [at]
        with pytest.raises(NncError, match=f"number {at}") as caught:
            program(X)
        assert f"test_unrolled_calls.py:{lines[at]} in" in str(caught.value)
        assert caught.value.instruction == next(
            t for t, i in enumerate(program.plan.instructions)
            if i.op.name == "callback" and sum(j.op.name == "callback" for j in program.plan.instructions[:t]) == at
        )  # fmt: skip
        fails.clear()
        np.testing.assert_array_equal(program(X)[0], X * 8)


def test_settings_and_cancellation_are_asked_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    program = warm(compiled(lambda x: [x + 1], ((4,), "float32")), X)
    fast = LAZY.jit(lambda x: x + 1)
    for _ in range(3):
        fast(X)
    cancellation = nnc.Cancellation()
    cancellation.cancel("enough")
    for call in (program, fast):
        with cancellation, pytest.raises(CancelledError, match="enough"):
            call(X)
        walked: list[int] = []
        monkeypatch.setattr(config, "spec", 3)
        monkeypatch.setattr(type(program), "walk", _counted(type(program).walk, walked))
        call(X)
        assert walked
        monkeypatch.undo()
    out = np.empty(4, "float32")
    assert program(X, out=[out])[0] is out
    np.testing.assert_array_equal(out, X + 1)


def _counted(walk: Any, calls: list[int]) -> Any:
    def counted(self: Any, *args: Any, **keywords: Any) -> Any:
        calls.append(1)
        return walk(self, *args, **keywords)

    return counted


def test_what_replays_and_delays_is_not_passed_by() -> None:
    program = warm(compiled(lambda x: [OPS.cumulative_sum(x, axis=0), OPS.sort(x)], ((4,), "float32")), X)
    waited: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules.time, "sleep", waited.append)
        schedules.delayed(program, share=1.0)
        for runs in range(1, 4):
            program(X)
            assert len(waited) == 2 * runs
    replay = schedules.Replay.of(program)
    replay.sequence = range(len(replay.plan.instructions))
    for _ in range(3):
        np.testing.assert_array_equal(replay(X)[1], X)
    replay.sequence = []  # nothing runs
    assert not (replay(X * 2)[1] == X * 2).any()
