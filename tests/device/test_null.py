"""Null infers what NumPy computes, plans what NumPy plans, shows no elements, and counts right (`device/null`)."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.device.null import Counts, NullArray
from nnc_func.errors import DeviceError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.laws import results
from nnc_func.testing.samples import arguments
from nnc_func.tree import flatten
from tests.device.test_strict import only_numpy

EXAMPLES = max(5, settings.default.max_examples // 5) if settings.default else 5


# --- it infers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", CATALOGUE.values(), ids=CATALOGUE)
def test_its_avals_are_numpys(op: Op) -> None:
    host, null = nnc.NumPy(), nnc.Null()

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def check(data: Any) -> None:
        arrays, params = data.draw(arguments(op))
        found = results(op, null.bind(op, *map(null.asarray, arrays), **params))
        wanted = results(op, host.bind(op, *arrays, **params))
        assert tuple(map(null.aval, found)) == tuple(map(host.aval, wanted))

    check()


@pytest.mark.parametrize("ask", [float, int, bool, np.asarray, lambda x: x.numpy(), lambda x: x[0].item()])
@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_it_has_no_elements(make: Any, ask: Any) -> None:
    x = make(nnc.Null()).asarray([1.0]) + 1
    with pytest.raises(DeviceError, match="no elements"):
        ask(x)


@pytest.mark.parametrize("ask", [float, int, bool, complex, np.asarray, list, lambda x: [0][x], lambda x: x[0]])
def test_its_arrays_refuse_too(ask: Any) -> None:
    with pytest.raises(DeviceError, match="no elements"):
        ask(nnc.Null().empty((), "int64"))


def test_a_choice_that_needs_elements_is_refused() -> None:
    stack = nnc.eager(nnc.Null())

    def clipped(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(DeviceError, match="no elements"):
        clipped(stack.asarray([1.0, 2.0]))
    with pytest.raises(DeviceError, match="no elements"):
        stack.swap(engine=stack.engine.checking_numerics()).ops.exp([1.0])


# --- it plans --------------------------------------------------------------------------------------------


def cnn() -> Any:
    """Owl's network for MNIST, narrow."""
    layers = (nn.Conv2D(4, 5, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Flatten(), nn.Dense(32), nn.relu)
    return nn.Sequential(*layers, nn.Dropout(0.1), nn.Dense(10)).init(1, (None, 28, 28, 1))


@pytest.mark.parametrize("update", [nn.Adagrad(), nn.Adam(), nn.SGD(momentum=0.9)], ids=repr)
def test_its_plan_of_a_training_step_is_numpys(update: Any) -> None:
    x, y = np.zeros((20, 28, 28, 1), "float32"), np.zeros((20,), "int64")
    programs = [
        nn.Step(nnc.lazy(device), cnn(), nn.softmax_cross_entropy, update).program(x, y)
        for device in (nnc.NumPy(), nnc.Null())
    ]
    host, null = (p.plan for p in programs)
    assert str(null.verify()).split("#")[0] == str(host).split("#")[0]
    for part in ("slots", "buffers", "inputs", "variables", "constants", "outputs", "updates", "commit", "arena_bytes"):
        assert getattr(null, part) == getattr(host, part), part
    for one, other in zip(null.instructions, host.instructions, strict=True):
        assert evolve(one, origin=()) == evolve(other, origin=())
    assert str(programs[0].graph) == str(programs[1].graph)


def test_it_runs_a_training_step() -> None:
    null = nnc.Null()
    step = nn.Step(nnc.lazy(null), cnn(), nn.softmax_cross_entropy, nn.Adagrad())
    x, y = np.zeros((20, 28, 28, 1), "float32"), np.zeros((20,), "int64")
    plan = step.program(x, y).plan
    null.counts.reset()
    value, _ = step(x, y, 0.01)
    assert null.aval(value) == nnc.Aval((), "float32")
    assert null.counts.applications == plan.kernels
    assert null.counts.by_operator["conv2d"] == 1


def test_it_chooses_as_another_namespace_would() -> None:
    x = np.zeros((2, 28, 28, 1), "float32")  # of more images the kernel would be negotiated
    found = {}
    for like in ("numpy", "cupy"):
        stack = nnc.lazy(nnc.Null(like))
        given = stack.input("x", x.shape, x.dtype)
        w = stack.variable("w", np.zeros((5, 5, 1, 4), "float32"))
        plan = stack.compile(inputs=[given], outputs=[stack.ops.conv2d(given, w)]).plan
        found[like] = [i.kernel for i in plan.instructions]
    assert found == {"numpy": ["columns on numpy"], "cupy": ["columns on cupy"]}
    for stack in (nnc.eager(nnc.Null("abacus")), nnc.lazy(nnc.Null("abacus"))):
        stack = stack.swap(type=stack.type.with_ops(only_numpy))
        with pytest.raises(DeviceError, match="only_numpy has no kernel on abacus"):
            stack.engine.force([stack.bind(only_numpy, stack.asarray([1.0])).value])


@pytest.mark.parametrize("n", [1 << 31, (1 << 40) + 1])
def test_a_tensor_of_more_elements_than_32_bits_count(n: int) -> None:
    null = nnc.Null()
    stack = nnc.lazy(null)
    x = stack.input("x", (n, 2), "float32")
    program = stack.compile(inputs=[x], outputs=[stack.ops.exp(x).sum(axis=1), (x * 2).reshape(-1)])
    nbytes = n * 8
    assert program.plan.verify().arena_bytes >= nbytes
    null.counts.reset()
    first, second = program(null.empty((n, 2), "float32"))
    assert (first.shape, second.shape) == ((n,), (2 * n,))
    assert null.counts.flops > 2 * n
    gradient = stack.grad(lambda t: stack.ops.square(t).sum())(stack.held(null.empty((n, 2), "float32")))
    assert gradient.shape == (n, 2)
    eager = nnc.eager(null)
    assert (eager.held(null.empty((n,), "int8")) + eager.held(null.empty((n,), "int8"))).shape == (n,)


def test_a_host_array_leaves_only_its_aval() -> None:
    null = nnc.Null()
    wide = np.broadcast_to(np.float32(1), (1 << 40,))  # four terabytes, if it were copied
    assert null.aval(null.asarray(wide, "float64")) == nnc.Aval((1 << 40,), "float64")


# --- it counts -------------------------------------------------------------------------------------------


def test_counts_of_an_example_by_hand() -> None:
    null = nnc.Null()
    stack = nnc.eager(null)
    x = stack.held(null.empty((2, 3), "float32"))  # 24 bytes
    w = stack.held(null.empty((3, 4), "float32"))  # 48 bytes
    null.counts.reset()
    assert (null.counts.live_bytes, null.counts.peak_bytes) == (72, 72)
    y = x @ w  # 2*4 results of 3 products and 3 sums each, in 32 bytes
    z = y.reshape(8)  # a view
    total = (z + 1.0).sum()  # 8 sums in 32 bytes, which die; 8 sums in 4 bytes
    found = null.counts
    assert (found.applications, found.views, dict(found.by_operator)) == (3, 1, {"matmul": 1, "add": 1, "sum": 1})
    assert (found.allocations, found.allocated_bytes) == (3, 32 + 32 + 4)
    assert (found.peak_bytes, found.live_bytes) == (72 + 32 + 32 + 4, 72 + 32 + 4)
    assert found.flops == 2 * 2 * 3 * 4 + 8 + 8
    assert found.moved_bytes == (24 + 48 + 32) + (32 + 4 + 32) + (32 + 4)
    del y
    assert found.live_bytes == 72 + 32 + 4  # the view keeps it alive
    del z
    assert found.live_bytes == 72 + 4
    del total, x, w
    gc.collect()
    assert found.live_bytes == 0


def test_what_a_program_allocates_is_its_arena_and_its_results() -> None:
    null = nnc.Null()
    stack = nnc.lazy(null)
    x = stack.input("x", (1000,), "float32")
    program = stack.compile(inputs=[x], outputs=[stack.ops.exp(stack.ops.sin(x)[::-1]).sum()])
    given = null.empty((1000,), "float32")
    program(given)
    null.counts.reset()
    program(given)
    assert null.counts.allocations == 0  # the result is recycled, the arena is kept
    assert null.counts.applications == program.plan.kernels


def test_a_copying_reshape_is_counted_as_one() -> None:
    null = nnc.Null()
    stack = nnc.eager(null)
    x = stack.held(null.empty((2, 3), "float32")).T
    null.counts.reset()
    assert not x.value.contiguous
    x.reshape(6)
    assert (null.counts.applications, null.counts.views, null.counts.allocated_bytes) == (1, 0, 24)


def test_counts_print_and_reset() -> None:
    counts = Counts()
    counts.allocated(100)
    counts.applied("add", 5, 60)
    counts.freed(40)
    assert str(counts).splitlines() == [
        "1 applications, 0 views, 1 allocations of 100 bytes, 60 live, 100 at the peak, 5 FLOPs, 60 bytes moved",
        "  add  1",
    ]
    counts.reset()
    assert counts == Counts(live_bytes=60, peak_bytes=60)


def test_views_beyond_an_arena_are_refused() -> None:
    null = nnc.Null()
    arena = null.arena(100)
    assert null.view(arena, 60, (10,), "float32").base is arena
    with pytest.raises(DeviceError, match="outside of 100 bytes"):
        null.view(arena, 64, (10,), "float32")


def test_its_arrays_print() -> None:
    assert repr(NullArray((2, 3), "float32")) == "NullArray((2, 3), float32)"


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_what_only_values_decide_is_planned_and_run_all_the_same(make: Any) -> None:
    """The first branch is taken; loops of which a value says how many times go none (found by a fresh seed)."""
    stack = make(nnc.Null())
    o = stack.ops
    b, x = stack.input("b", (), "bool"), stack.input("x", (3, 3), "float32")

    def chosen(x: Any) -> Any:
        return stack.cond(b, lambda x: o.tanh(x) @ x, lambda x: x * x, x)

    def reached(x: Any) -> Any:
        return stack.while_loop(lambda x: x.sum() < 5, lambda x: (x.sum(), x * 2), x, 7)[:2]

    def counted(x: Any) -> Any:
        return stack.fori(0, o.cast(x.sum(), dtype="int64"), lambda i, x: chosen(x), x)

    def endless(x: Any) -> Any:
        return stack.while_loop(lambda x: x.sum() < 5, lambda x: (None, x * 2), x)[1]

    def slope(x: Any) -> Any:
        return stack.grad(lambda x: (counted(x) + endless(x)).sum())(x)

    square = (3, 3)
    for f, shapes in ((chosen, [square]), (reached, [(7,), square]), (counted, [square]), (slope, [square])):
        found = stack.compile([b, x], f(x))(np.bool_(True), np.ones(square, "float32"))
        assert [(a.shape, a.dtype) for a in flatten(found)[0]] == [(shape, "float32") for shape in shapes]
