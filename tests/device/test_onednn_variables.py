"""Variables are put into oneDNN's own order once for each of their values (`device/onednn`, `engine/running`)."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.onednn import packing
from nnc_func.engine.running.lasting import lasting_slots
from nnc_func.engine.verifying.verify import _verified
from nnc_func.errors import NncError, PlanError

LAZY, REFERENCE = nnc.lazy(nnc.CPU()), nnc.eager()
PACKED = "onednn, packed"
SHAPE = 3, 3, 16, 24
draw = np.random.default_rng(0)


def some(*shape: int) -> Any:
    return draw.normal(size=shape).astype("float32")


X = some(2, 8, 8, 16)


def kernels(program: Any) -> list[str]:
    return [i.kernel for i in program.plan.instructions if not i.view]


def reading(w: Any, **more: Any) -> Any:
    """A program that only reads the variable."""
    x = LAZY.input("x", X.shape, "float32")
    return LAZY.compile([x], LAZY.ops.conv2d(x, w, padding="SAME"), **more)


def wanted(w: Any) -> Any:
    return REFERENCE.ops.conv2d(X, np.asarray(w), padding="SAME").numpy()


def is_right(program: Any, w: Any) -> None:
    np.testing.assert_allclose(program(X), wanted(getattr(w, "value", w).array), rtol=1e-4, atol=1e-4)


def swapping(w: Any) -> Any:
    """A program that gives the variable another array: what it becomes can fail."""
    g = LAZY.input("g", SHAPE, "float32")
    return LAZY.compile([g], [], [(w, LAZY.ops.cumulative_sum(g, axis=0))])


def adding(w: Any) -> Any:
    """A program that writes over the variable."""
    g = LAZY.input("g", SHAPE, "float32")
    return LAZY.compile([g], [], [(w, w + g)])


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each time that something is put into order."""
    found: list[int] = []
    before = packing.packed

    def counting(*args: Any) -> Any:
        found.append(args[1])
        return before(*args)

    monkeypatch.setattr(packing, "packed", counting)
    return found


def test_a_variable_that_is_only_read_is_packed_once_for_each_value(times: list[int]) -> None:
    w = LAZY.variable("w", some(*SHAPE))
    program, other = reading(w), reading(w)
    assert kernels(program) == [PACKED]
    for _ in range(3):
        is_right(program, w)
        is_right(other, w)
    assert times == [1]
    for n in (2, 3):
        w.value.assign(some(*SHAPE))
        for _ in range(2):
            is_right(program, w)
            is_right(other, w)
        assert times == [1] * n


@pytest.mark.parametrize("more", [{}, {"retain": "all"}], ids=["planned", "retained"])
@pytest.mark.parametrize("make", [adding, swapping])
def test_commits_are_seen(make: Any, more: Any, times: list[int]) -> None:
    """Of a variable that is written over, and of one whose arrays take turns."""
    w = LAZY.variable("w", some(*SHAPE))
    program, writes = reading(w, **more), make(w)
    for n in range(1, 5):
        for _ in range(2):
            is_right(program, w)
        assert len(times) == n
        writes(some(*SHAPE))


@given(st.lists(st.sampled_from(["read", "again", "assign", "add", "swap"]), max_size=12))
def test_whatever_comes_before_a_run_it_reads_the_value_of_now(steps: list[str]) -> None:
    w = LAZY.variable("w", some(*SHAPE))
    program, retained = reading(w), reading(w, retain="all")
    add, swap = adding(w), swapping(w)
    for each in (*steps, "read", "again"):
        if each == "read":
            is_right(program, w)
        elif each == "again":
            is_right(retained, w)
        elif each == "assign":
            w.value.assign(some(*SHAPE))
        else:
            {"add": add, "swap": swap}[each](some(*SHAPE))


def test_a_variable_that_a_program_writes_is_not_packed_there() -> None:
    w = LAZY.variable("w", some(*SHAPE))
    x = LAZY.input("x", X.shape, "float32")
    y = LAZY.ops.conv2d(x, w, padding="SAME")
    program = LAZY.compile([x], [y], [(w, w * np.float32(0.5))])
    assert PACKED not in kernels(program)
    for _ in range(3):
        before = w.value.array.copy()
        np.testing.assert_allclose(program(X)[0], wanted(before), rtol=1e-4, atol=1e-4)


def test_what_a_former_array_was_packed_to_goes() -> None:
    w = LAZY.variable("w", some(*SHAPE))
    program = reading(w)
    program(X)
    gc.collect()
    before = sum(len(known.kept) for known in packing._known.values())
    for _ in range(3):
        w.value.assign(some(*SHAPE))
        program(X)
    gc.collect()
    assert sum(len(known.kept) for known in packing._known.values()) == before
    owners = len(packing._latest)
    del program, w
    gc.collect()
    assert sum(len(known.kept) for known in packing._known.values()) == before - 1
    assert len(packing._latest) == owners - 1


def test_a_run_that_fails_leaves_what_is_packed_as_it_is() -> None:
    w = LAZY.variable("w", some(*SHAPE))
    g = LAZY.input("g", SHAPE, "float32")
    program = reading(w)
    failing = LAZY.compile([g], [LAZY.ops.inv(LAZY.ops.reshape(g, shape=(3, 48, 24))[:, :24])], [(w, w + g)])
    is_right(program, w)
    with pytest.raises(NncError):
        failing(np.zeros(SHAPE, "float32"))
    is_right(program, w)


def test_readers_beside_a_writer_read_one_value_or_the_other() -> None:
    """Each value is one number for all elements: so is each result, up to rounding."""
    w = LAZY.variable("w", np.zeros(SHAPE, "float32"))
    ones = np.ones(X.shape, "float32")
    x = LAZY.input("x", X.shape, "float32")
    program = LAZY.compile([x], LAZY.ops.conv2d(x, w, padding="VALID"))
    assert kernels(program) == [PACKED]
    add, wrong = adding(w), []

    def read() -> None:
        for _ in range(60):
            found = program(ones)
            if not (found == found.flat[0]).all() or found.flat[0] % 144:
                wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for each in threads:
        each.start()
    for n in range(60):
        if n % 3:
            add(np.ones(SHAPE, "float32"))
        else:
            w.value.assign(np.full(SHAPE, n, "float32"))
    for each in threads:
        each.join()
    assert not wrong


# --- plans -----------------------------------------------------------------------------------------------


def test_a_program_in_a_file_packs_its_variables(tmp_path: Path, times: list[int]) -> None:
    w = LAZY.variable("w", some(*SHAPE))
    program = reading(w)
    program.save(tmp_path / "read.nnc")
    again = nnc.load_program(tmp_path / "read.nnc", LAZY)
    assert kernels(again) == [PACKED]
    other = again.variables["w"]
    for _ in range(2):
        is_right(again, other)
        is_right(program, w)
    assert len(times) == 2  # it has a variable of its own
    other.assign(some(*SHAPE))
    is_right(again, other)
    is_right(program, w)


def test_a_plan_that_writes_what_is_packed_is_refused() -> None:
    w = LAZY.variable("w", some(*SHAPE))
    plan = reading(w).plan.verify()
    assert lasting_slots(plan) == {*plan.variables}
    wrong = evolve(plan, updates=((0, plan.outputs[0]),))
    with pytest.raises(PlanError):
        wrong.verify()
    with pytest.raises(PlanError, match="a constant or a variable that is not written"):  # of a loop's body
        _verified(plan)


EVENTS = st.lists(
    st.sampled_from(["read", "read few", "turned", "apart", "swap", "add", "assign"]), min_size=4, max_size=30
)


@pytest.mark.usefixtures("of_several_threads")
@pytest.mark.parametrize("kind", ["product", "convolution"])
@given(events=EVENTS)
@example(["read", "swap", "read few", "swap", "read", "swap", "read few", "swap", "read"])
@example(["read", "swap", "turned", "swap", "read", "swap", "turned", "add", "read", "swap", "turned"])
def test_whoever_reads_a_variable_reads_its_value_of_now(kind: str, events: list[str]) -> None:
    """Its array may be one that it had before, with other elements; some who read it had not looked meanwhile."""
    shape, x = (SHAPE, X) if kind == "convolution" else ((256, 256), some(160, 256))
    w = LAZY.variable("w", some(*shape))
    programs = {}
    for name, given_x in (("read", x), ("read few", x[: len(x) // 2])):
        t = LAZY.input("x", given_x.shape, "float32")
        y = LAZY.ops.conv2d(t, w, padding="SAME") if kind == "convolution" else LAZY.ops.matmul(t, w)
        programs[name] = LAZY.compile([t], y), given_x
        assert kernels(programs[name][0]) == [PACKED]
    read = programs["read"][0]
    programs["turned"] = read, np.asfortranarray(x)
    programs["apart"] = read, np.repeat(x, 2, axis=0)[::2]
    g = LAZY.input("g", shape, "float32")
    changes = {"swap": LAZY.compile([g], [], [(w, LAZY.ops.cumulative_sum(g, axis=0))]),
               "add": LAZY.compile([g], [], [(w, w + g)])}  # fmt: skip
    for event in events:
        if event == "assign":
            w.value.assign(some(*shape))
        elif event in changes:
            changes[event](some(*shape))
        else:
            program, given_x = programs[event]
            now = np.array(w.value.array)
            ops = REFERENCE.ops
            wanted = ops.conv2d(given_x, now, padding="SAME") if kind == "convolution" else ops.matmul(given_x, now)
            np.testing.assert_allclose(program(given_x), wanted.numpy(), rtol=1e-3, atol=1e-3)


def test_plans_of_other_kernels_tell_nothing() -> None:
    w = LAZY.variable("w", some(3))
    x = LAZY.input("x", (3,), "float32")
    assert not lasting_slots(LAZY.compile([x], x + w).plan)
