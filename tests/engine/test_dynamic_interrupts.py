"""An interrupt at any moment, and finalisers at any allocation, leave a dynamic stack as it was (`engine/dynamic`)."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.dynamic.replay.sequence import Sequence
from tests.engine.dynamic_stacks import own_device
from tests.interrupts import interrupted
from tests.profiles import NIGHTLY

STACKS: dict[str, Callable[[Any], Any]] = {
    "plain": nnc.dynamic,
    "replay at once": lambda d: nnc.dynamic(d, replay_after=1),
    "replay": lambda d: nnc.dynamic(d, replay_after=3),
    "memoise": lambda d: nnc.dynamic(d, memoise=True),
    "evict": lambda d: nnc.dynamic(d, memory_limit=0),
    "ahead": lambda d: nnc.lazy(d).swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0)),
}
BETWEEN = 1 if NIGHTLY else 5  # moments from one interrupt to the next
POINT = np.array([0.4, 0.8])


def step(stack: Any, x: Any) -> Any:
    """A value and a gradient."""
    ops = stack.ops
    y = ops.sin(x) * x
    a, b = ops.split(y, sections=2)
    z = (a * b + y * 0.5).sum()
    (g,) = stack.gradients([z], [x])
    return np.array([z.item(), *g.numpy()])


@pytest.mark.parametrize("kind", STACKS)
def test_an_interrupt_at_any_moment(kind: str) -> None:
    stack = STACKS[kind](own_device())
    x = +stack.variable("x", POINT)
    for _ in range(8):
        wanted = step(stack, x)
    at, happened = 1, 0
    while True:
        try:
            with interrupted(at) as moments:
                step(stack, x)
            if moments[0] < at:
                break
        except KeyboardInterrupt:
            happened += 1
        for _ in range(2):
            np.testing.assert_allclose(step(stack, x), wanted, rtol=1e-12)
        at += BETWEEN * (7 if kind == "ahead" else 1)  # there each step waits for another thread
    assert happened > 5
    gc.collect()  # a traceback held what it was about
    for _ in range(200):
        if stack.live.nodes and kind == "ahead":  # the worker is on its way
            time.sleep(0.01)
    assert stack.live.nodes == 0 or kind == "evict", (
        "amid letting go, it leaves alive what it cannot know to be dropped"
    )


def test_an_interrupt_of_what_mends_an_interrupted_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replayed is mended by the next step that is not interrupted in turn."""
    stack = nnc.dynamic(own_device(), replay_after=1)
    x, w = stack.asarray(POINT), stack.asarray(POINT + 1)
    mend, left = Sequence.mend, [0]

    def mended(sequence: Sequence) -> None:
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt
        mend(sequence)

    monkeypatch.setattr(Sequence, "mend", mended)

    def chain() -> Any:
        y = stack.ops.sin(x * w) + x
        return (stack.ops.exp(y) * w - x).numpy()

    def other() -> Any:
        y = stack.ops.cos(w) * x
        return (y + w).numpy()

    for _ in range(6):
        wanted, others = chain(), other()
    at, is_over = 1, False
    while not is_over:
        left[0] = 2
        with suppress(KeyboardInterrupt), interrupted(at, "/replay/") as moments:
            chain()
        is_over = moments[0] < at
        for _ in range(2):
            with suppress(KeyboardInterrupt):
                other()
        left[0] = 0
        for _ in range(2):
            np.testing.assert_allclose(other(), others, rtol=1e-12)
            np.testing.assert_allclose(chain(), wanted, rtol=1e-12)
        at += 1
    assert at > 50


@pytest.mark.parametrize("memory_limit", [None, 0])
def test_what_an_interrupt_of_letting_go_leaves_is_let_go_of_next(memory_limit: int | None) -> None:
    """Each of many users of what is dropped is told of it, once."""
    at, is_over = 1, False
    while not is_over:
        stack = nnc.dynamic(own_device(), memory_limit=memory_limit)
        recording = stack.engine.recording
        x = +stack.variable("x", POINT)
        between = [x * float(n + 1) for n in range(4)]
        parts = stack.ops.split(between[0] + between[1] + between[2] + between[3], sections=2)
        with recording._lock:  # so that what is dropped waits
            del x
            between.clear()
        with suppress(KeyboardInterrupt), interrupted(at, "/records.py") as moments:
            recording._swept()
        is_over = moments[0] < at
        recording._swept()
        assert stack.live.nodes == 0, at
        del parts
        gc.collect()  # a traceback held some
        assert not recording.members(), at
        at += 1
    assert at > 20


def test_an_interrupt_leaves_no_result_of_a_memo_uncounted() -> None:
    at, is_over = 1, False
    while not is_over:
        stack = nnc.dynamic(own_device(), memoise=20_000 + at)  # equal ones share a memo
        memo, values = stack.engine.memo, [stack.asarray(np.arange(200.0) + n) for n in range(15)]
        with suppress(KeyboardInterrupt), interrupted(at, "/memoisation.py") as moments:
            for each in values:
                stack.ops.sin(each)
        is_over = moments[0] < at
        stack.ops.cos(values[0])
        assert sum(entry.nbytes for entry in memo._entries.values()) == memo.nbytes <= memo.limit, at
        memo.clear()
        assert (len(memo._entries), memo.nbytes, len(memo._heap)) == (0, 0, 0), at
        at += 1 if NIGHTLY else 13
    assert at > 50


def test_an_interrupt_leaves_the_account_of_saved_values_right() -> None:
    at, is_over = 1, False
    while not is_over:
        stack = nnc.dynamic(own_device(), memory_limit=3000)
        x = +stack.variable("x", np.linspace(0.0, 1.0, 100))
        recording = stack.engine.recording
        with recording._lock:  # so that what is dropped waits
            y = x
            for _ in range(8):
                y = stack.ops.sin(y) * x
            y = y.sum()
        with suppress(KeyboardInterrupt), interrupted(at, "/saved_values.py") as moments:
            recording._swept()
        is_over = moments[0] < at
        z = stack.ops.exp(x).sum()
        stack.gradients([z], [x])
        del x, y, z
        gc.collect()
        cache = stack.engine.cache
        assert (cache.bytes, cache.evicted, cache.evicted_bytes) == (0, 0, 0), (at, cache)
        at += 1 if NIGHTLY else 13
    assert at > 50


class Applies:
    """Garbage that the collector finds, whose finaliser applies an operator to what there is."""

    def __init__(self, values: Any) -> None:
        self.me, self.values = self, values

    def __del__(self) -> None:
        _ = self.values[0] * self.values[0]


@pytest.mark.parametrize("kind", STACKS)
def test_a_finaliser_that_applies_operators_comes_in_anywhere(kind: str) -> None:
    stack = STACKS[kind](own_device())
    x, c = +stack.variable("x", POINT), +stack.variable("c", POINT)

    def deep() -> Any:
        y = x
        held = [y]
        for _ in range(20):
            Applies([c])
            Applies(held)
            y = stack.ops.sin(y) + x
            held[0] = y
        z = y.sum()
        (g,) = stack.gradients([z], [x])
        return np.array([z.item(), *g.numpy()])

    wanted = deep()
    before = gc.get_threshold()
    try:
        for threshold in (1, 3, 7, 20, 50):
            gc.set_threshold(threshold)
            for _ in range(6):
                np.testing.assert_allclose(deep(), wanted, rtol=1e-12)
    finally:
        gc.set_threshold(*before)
