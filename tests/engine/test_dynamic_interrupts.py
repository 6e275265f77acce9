"""An interrupt at any moment, and finalisers at any allocation, leave a dynamic stack as it was (`engine/dynamic`)."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dis import get_instructions
from functools import cache, partial
from types import CodeType
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from tests.engine.dynamic_stacks import own_device
from tests.profiles import NIGHTLY

STACKS: dict[str, Callable[[Any], Any]] = {
    "plain": nnc.dynamic,
    "replay at once": lambda d: nnc.dynamic(d, replay_after=1),
    "replay": lambda d: nnc.dynamic(d, replay_after=3),
    "memoise": lambda d: nnc.dynamic(d, memoise=True),
    "evict": lambda d: nnc.dynamic(d, memory_limit=0),
    "ahead": lambda d: nnc.lazy(d).swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0)),
}
DYNAMIC = "/nnc_func/engine/dynamic/"
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


def _is_in_finaliser(frame: Any) -> bool:
    """Whether Python would tell of an exception there, and go on."""
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "_forget", "gone"):
            return True
        frame = frame.f_back
    return False


@cache
def where_signals_come(code: CodeType) -> frozenset[int]:
    """Offsets of instructions before which Python calls handlers of signals: after calls, and where loops go back.

    So not between a lock that a `with` statement has taken and its block, nor between that and letting go of it.
    """
    found, is_next = set(), False
    for each in get_instructions(code):
        if is_next or each.opname.startswith("JUMP_BACKWARD"):
            found.add(each.offset)
        is_next = each.opname.startswith(("CALL", "RESUME"))
    return frozenset(found)


@contextmanager
def interrupted(at: int, within: str = DYNAMIC) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at a moment where a signal may come, in files of that name; gives how many there are."""
    moments = [0]

    def traced(frame: Any, event: str, _: Any) -> Any:
        if within not in frame.f_code.co_filename or (event == "call" and _is_in_finaliser(frame)):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in where_signals_come(frame.f_code):
            moments[0] += 1
            if moments[0] == at:
                raise KeyboardInterrupt
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        yield moments
    finally:
        sys.settrace(before)


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
        is_over = True
        try:
            with interrupted(at, "/records.py"):
                recording._swept()
        except KeyboardInterrupt:
            is_over = False
        recording._swept()
        assert stack.live.nodes == 0, at
        del parts
        gc.collect()  # a traceback held some
        assert not recording.members(), at
        at += 1
    assert at > 20


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
