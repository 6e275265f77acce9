"""One stack from several threads: what docs/threads.md promises (`engine/running`, `graph/reader_writer_lock`)."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.testing.programs import Program, programs
from tests.engine.together import together

THREADS = 4
SHARED, ORACLE = nnc.lazy(), nnc.lazy()


@pytest.fixture(autouse=True)
def _switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# --- building and compiling --------------------------------------------------------------------------------


def test_nodes_are_made_while_keys_of_others_are_swept() -> None:
    """The collector may run within a sweep, and a finaliser then makes nodes; other threads go on beside it."""
    x = nnc.lazy().input("x", (), "float64")
    table = x.value.node.table
    alive = [(x + float(i)).value for i in range(900)]
    made = []

    def make(phase: str, _: Any) -> None:
        made.append((x * float(len(made))).value)

    before = gc.get_threshold()
    gc.callbacks.append(make)
    gc.set_threshold(10)
    try:
        for _ in range(20):
            count = len(table)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(make)
    assert made
    assert len(alive) <= count <= len(table)


def test_equal_expressions_are_one_node_whichever_thread_builds_them() -> None:
    stack = nnc.lazy()
    x = stack.input("x", (3,), "float64")
    w = stack.variable("w", np.ones(3))
    for round_number in range(30):

        def build(n: int = round_number) -> list[Any]:
            values = [x * (n + 0.25) + 1, stack.ops.split(x + n, sections=3, axis=0)[1], w + n]
            return [v.value for v in values]

        first, *others = together(*[build] * THREADS)
        for other in others:
            assert all(a is b for a, b in zip(first, other, strict=True))


def test_equal_stacks_made_at_once_share_their_nodes() -> None:
    class Own(nnc.NumPy):
        """A device of this test's own."""

    for _ in range(20):
        stacks = together(*[lambda: nnc.lazy(Own())] * THREADS)
        assert len({id(s.symbol.table) for s in stacks}) == 1
        del stacks


@settings(max_examples=15)
@given(st.lists(programs(most_steps=6), min_size=THREADS, max_size=THREADS))
def test_random_programs_built_compiled_and_run_at_once(drawn: list[Program]) -> None:
    stack = SHARED
    with np.errstate(all="ignore"):
        wanted = [(d.build(ORACLE), d) for d in drawn]
        results = [[built(*d.feeds(seed)) for seed in range(3)] for built, d in wanted]

        def act(one: Program) -> tuple[list[Any], list[Any]]:
            with np.errstate(all="ignore"):
                built = one.build(stack)
                return [built(*one.feeds(seed)) for seed in range(3)], built.state()

        found = together(*[lambda d=d: act(d) for d in drawn])
    for (outputs, state), right, (built, _) in zip(found, results, wanted, strict=True):
        for one, other in zip([*chain(*outputs), *state], [*chain(*right), *built.state()], strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


def test_one_jitted_function_traced_by_all_at_once() -> None:
    stack = nnc.lazy()
    for size in range(1, 15):
        f = stack.jit(lambda x: stack.ops.tanh(x) * 2 + 1)
        x = np.linspace(-1, 1, size)
        for found in together(*[lambda f=f, x=x: [f(x).numpy() for _ in range(5)]] * THREADS):
            for each in found:
                np.testing.assert_array_equal(each, np.tanh(x) * 2 + 1)
        assert len(f.programs) == 1


def test_more_signatures_than_are_remembered_from_all_threads() -> None:
    f = nnc.lazy().jit(lambda x: x + 1)

    def act(start: int) -> None:
        for i in range(40):
            size = (start + i) % 90 + 1
            np.testing.assert_array_equal(f(np.zeros(size)).numpy(), np.ones(size))

    with pytest.warns(UserWarning, match="traced for"):
        together(*[lambda s=s: act(s) for s in (0, 20, 40, 60)])


# --- running -----------------------------------------------------------------------------------------------


def test_one_program_run_by_all_at_once() -> None:
    stack = nnc.lazy()
    x = stack.input("x", (50,), "float64")
    ops = stack.ops
    program = stack.compile([x], [ops.cumulative_sum(ops.exp(x) * x, axis=0), x + 1])

    def act(seed: int) -> None:
        given = np.random.default_rng(seed).normal(size=50)
        wanted = np.cumsum(np.exp(given) * given)
        kept = [program(given) for _ in range(30)]
        for one, other in kept:
            np.testing.assert_array_equal(one, wanted)
            np.testing.assert_array_equal(other, given + 1)

    together(*[lambda s=s: act(s) for s in range(THREADS)])


def test_updates_of_one_variable_follow_one_another() -> None:
    """Each call reads what the one before it wrote: none is lost, and nobody sees half of one."""
    stack = nnc.lazy()
    w, m = stack.variable("w", np.zeros(2000)), stack.variable("m", np.zeros((2, 2)))
    count = stack.compile([], [w, stack.ops.sum(m)], [(w, w + 1), (m, m @ np.eye(2) + 1)])
    look = stack.compile([], [w * 1, stack.ops.sum(m)])
    stop = threading.Event()

    def update() -> list[float]:
        seen = []
        for _ in range(100):
            found, total = count()
            assert found.min() == found.max()
            assert total == 4 * found[0]
            seen.append(float(found[0]))
        return seen

    def watch() -> int:
        looked, last = 0, -1.0
        while not stop.is_set():
            found, total = look()
            assert found.min() == found.max() >= last
            assert total == 4 * found[0]
            copied = w.numpy()
            assert copied.min() == copied.max() >= found[0]
            last, looked = float(found[0]), looked + 1
        return looked

    def updates() -> list[list[float]]:
        try:
            return together(update, update, update)
        finally:
            stop.set()

    seen, looked = together(updates, watch)
    assert sorted(chain(*seen)) == [float(i) for i in range(300)]
    assert looked > 0
    np.testing.assert_array_equal(w.numpy(), 300.0)
    assert w.value.version == 300


def test_a_variable_assigned_while_programs_run_is_one_value_or_the_other() -> None:
    stack = nnc.lazy()
    w = stack.variable("w", np.zeros(2000))
    step = stack.compile([], w * 1, [(w, w + 1)])

    def assign() -> None:
        for i in range(1, 60):
            w.value.assign(np.full(2000, 1000.0 * i))

    def run() -> None:
        for _ in range(200):
            found = step()
            assert found.min() == found.max()

    together(assign, run, run)
    assert w.value.version == 59 + 400


def test_programs_that_update_and_read_each_others_variables_do_not_wait_for_ever() -> None:
    stack = nnc.lazy()
    a, b = stack.variable("a", np.zeros(10)), stack.variable("b", np.zeros(10))
    first = stack.compile([], [], [(a, a + b * 0 + 1)])
    second = stack.compile([], [], [(b, b + a * 0 + 1)])
    both = stack.compile([], [], [(b, b + 1), (a, a + 1)])
    together(*[lambda p=p: [p() for _ in range(100)] for p in (first, second, both, first)])
    np.testing.assert_array_equal(a.numpy(), 300.0)
    np.testing.assert_array_equal(b.numpy(), 200.0)


def test_a_run_that_waits_goes_on_when_steps_are_let_go() -> None:
    stack = nnc.lazy()
    w = stack.variable("w", np.zeros(3))
    program = stack.compile([], [], [(w, w + 1)])
    steps = program.steps()
    next(steps)
    thread = threading.Thread(target=program)
    thread.start()
    time.sleep(0.05)
    assert w.value.version == 0
    del steps
    thread.join(20)
    assert not thread.is_alive()
    np.testing.assert_array_equal(w.numpy(), 1.0)


# --- forcing -----------------------------------------------------------------------------------------------


def test_values_forced_compiled_and_built_upon_by_all_at_once() -> None:
    stack = nnc.lazy()
    ops = stack.ops
    for seed in range(15):
        x = stack.asarray(np.random.default_rng(seed).normal(size=100))
        shared = [ops.exp(x) * x, ops.sin(x)]
        shared.append(shared[0] + shared[1])
        parts = ops.split(shared[2], sections=2, axis=0)
        host = x.numpy()
        wanted = [np.exp(host) * host, np.sin(host), np.exp(host) * host + np.sin(host)]

        def force(order: list[int], shared: Any = shared, parts: Any = parts, wanted: Any = wanted) -> None:
            for i in order:
                np.testing.assert_array_equal(shared[i].numpy(), wanted[i])
            np.testing.assert_array_equal(parts[1].numpy(), wanted[2][50:])

        def compile_and_run(shared: Any = shared, parts: Any = parts, wanted: Any = wanted) -> None:
            program = stack.compile([], [shared[2] * 2, parts[0] + 1, shared[0]])
            one, other, third = program()
            np.testing.assert_array_equal(one, wanted[2] * 2)
            np.testing.assert_array_equal(other, wanted[2][:50] + 1)
            np.testing.assert_array_equal(third, wanted[0])

        together(lambda: force([0, 1, 2]), lambda: force([2, 0, 1]), compile_and_run, compile_and_run)


def test_gradients_taken_by_all_at_once_are_each_ones_own() -> None:
    for stack in (nnc.eager(), nnc.lazy()):
        ops = stack.ops

        def act(power: int, stack: Any = stack, ops: Any = ops) -> None:
            f = stack.grad(lambda x: ops.sum(ops.sin(x) ** power))
            for _ in range(10):
                x = np.linspace(0.1, 1, 7)
                found = f(x).numpy()
                np.testing.assert_allclose(found, power * np.sin(x) ** (power - 1) * np.cos(x), rtol=1e-12)

        together(*[lambda p=p, act=act: act(p) for p in (1, 2, 3, 4)])


def test_two_models_trained_at_once_are_as_one_after_the_other() -> None:
    x = np.linspace(-1, 1, 64, dtype="float32").reshape(64, 1)
    stack = nnc.lazy()

    def train(seed: int, on: Any) -> Any:
        model = nn.Sequential(nn.Dense(8), nn.relu, nn.Dense(1)).init(seed, (None, 1))
        batches = nn.Batches(x, x * seed, size=16)
        return nn.train(on, model, nn.quadratic, nn.Adam(), batches, rate=0.01, epochs=5, progress=False).losses

    alone = [train(seed, nnc.lazy()) for seed in (1, 2, 3)]
    for one, other in zip(together(*[lambda s=s: train(s, stack) for s in (1, 2, 3)]), alone, strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_of_many_structures_in_two_threads() -> None:
    sine = nnc.HostFunction(np.sin, vjp=lambda x, y, g: g * np.cos(x))
    stack, before = nnc.dynamic(), sys.getswitchinterval()

    def work(me: int) -> None:
        x = +stack.variable("x", np.array([0.5, 1.7]))
        for t in range(30):
            k = me * 1000.0 + t + 1  # a structure of its own each time
            (y,) = stack.ops.callback(x * k, function=sine, shapes=((2,),), dtypes=("float64",), pure=True)
            (g,) = stack.gradients([y.sum()], [x])
            np.testing.assert_allclose(g.numpy(), k * np.cos(x.numpy() * k))

    sys.setswitchinterval(1e-5)
    try:
        together(partial(work, 0), partial(work, 1))
    finally:
        sys.setswitchinterval(before)
