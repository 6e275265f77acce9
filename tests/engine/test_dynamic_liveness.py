"""What a dynamic stack keeps is what a gradient may need, at once and without the collector (`engine/dynamic`)."""

from __future__ import annotations

import gc
import resource
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.dynamic.live import Live
from tests.engine.dynamic_stacks import fresh
from tests.engine.together import together
from tests.profiles import NIGHTLY, examples


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


LONG = 1_000_000 if NIGHTLY else 40_000


def nodes(stack: nnc.Stack) -> int:
    """How many applications are alive."""
    return stack.live.nodes


# --- by the rule ----------------------------------------------------------------------------------------------


class Model:
    """What was applied, and what is held; an application lives between something held above and below it."""

    def __init__(self) -> None:
        self.operands: list[tuple[int, ...]] = []
        self.held: set[int] = set()

    def add(self, *operands: int) -> int:
        self.operands.append(operands)
        self.held.add(len(self.operands) - 1)
        return len(self.operands) - 1

    def alive(self) -> tuple[int, int]:
        """How many values and applications are."""
        above, count = list[bool](), len(self.operands)
        for operands in self.operands:
            above.append(any(above[x] or x in self.held for x in operands))
        below = [n in self.held for n in range(count)]
        for n in reversed(range(count)):
            for x in self.operands[n]:
                below[x] = below[x] or below[n]
        # below now says of a value whether it, or one made of it, is held
        living = [n for n in range(count) if self.operands[n] and above[n] and below[n]]
        values = self.held.union(living, *(self.operands[n] for n in living))
        return len(values), len(living)


@examples(few=60, nightly=3000)
@given(st.data())
def test_what_lives_is_what_the_rule_says(data: st.DataObject) -> None:
    stack, model = fresh(), Model()
    tensors: dict[int, Any] = {}
    for name in "ab":
        tensors[model.add()] = +stack.variable(name, 0.5)
    for _ in range(data.draw(st.integers(1, 25))):
        kinds = ["leaf", "unary", "binary", "drop"] if tensors else ["leaf"]
        kind = data.draw(st.sampled_from(kinds))
        if kind == "leaf":
            tensors[model.add()] = +stack.variable("leaf", 0.5)
            continue
        x, y = (data.draw(st.sampled_from(sorted(tensors))) for _ in range(2))
        if kind == "drop":
            del tensors[x]
            model.held.discard(x)
        elif kind == "unary":
            tensors[model.add(x)] = stack.ops.sin(tensors[x])
        else:
            tensors[model.add(x, y)] = tensors[x] * tensors[y]
        live = stack.live
        assert (live.symbols, live.nodes) == model.alive()


def test_of_several_results_each_is_a_value() -> None:
    stack = fresh()
    x = +stack.variable("x", np.arange(6.0))
    a, b = stack.ops.split(x * 1, sections=(2, 4), axis=0)
    assert stack.live == Live(symbols=4, nodes=2, saved=1, bytes=48)  # x * 1, which no tensor holds
    c = b * 2
    del a, b
    assert stack.live.nodes == 3
    del c
    assert stack.live == Live(1, 0, 0, 0)
    parts = [*stack.ops.split(x * 1, sections=(2, 4), axis=0)]
    c = parts[1] * 2
    del x
    assert stack.live.nodes == 1  # parts have nothing above them any more; c is made of one
    parts.clear()
    assert c.shape == (4,)
    assert stack.live == Live(1, 0, 0, 0)


# --- NNC's figures --------------------------------------------------------------------------------------------


def test_a_chain_is_freed_once_nothing_can_flow_to_its_beginning() -> None:
    """x (32) times y (0.9, a constant) four times: nothing is freed; backward, and without x the four are."""
    stack = fresh()
    first = x = +stack.variable("x", np.array([32.0]))
    y = stack.asarray([0.9])
    for _ in range(4):
        x = x * y
    assert stack.live == Live(symbols=5, nodes=4, saved=4, bytes=32)
    (dx,) = stack.gradients([x], [first])
    np.testing.assert_allclose(dx.numpy(), 0.9**4)
    assert stack.live == Live(5, 4, 4, 32)  # what is linear has a gradient of constants alone
    del first
    assert stack.live == Live(1, 0, 0, 0)
    del x, dx, y
    assert stack.live == Live(0, 0, 0, 0)


def test_parts_that_are_written_and_dropped_before_use() -> None:
    """f = x y, y[0] = 10 z, y[1] = 2 z: two products and what puts them together, then f's."""
    stack = fresh()
    z, x = +stack.variable("z", [2.0]), +stack.variable("x", [10.0])
    first, second = z * 10.0, z * 2.0
    y = stack.ops.concat(first, second, axis=0)
    del first, second
    f = x * y
    assert nodes(stack) == 4  # NNC has three: what is put together there is written through aliases
    np.testing.assert_allclose(f.numpy(), [200, 40])
    del z, x, y, f
    assert stack.live == Live(0, 0, 0, 0)


def test_without_its_x_a_value_is_made_of_nothing() -> None:
    """NNC: after x is freed, log(x) is; 0.5 log(x) can still send a gradient to that."""
    stack = fresh()
    x = +stack.variable("x", 10.0)
    y = stack.ops.log(x)
    z = y * 0.5
    assert (stack.live.nodes, stack.live.symbols) == (2, 3)
    del x
    assert (stack.live.nodes, stack.live.symbols) == (1, 2)
    np.testing.assert_allclose(stack.gradients([z], [y])[0].numpy(), 0.5)
    y = y.detach()
    assert (stack.live.nodes, stack.live.symbols) == (0, 1)
    del z
    assert stack.live == Live(0, 0, 0, 0)


def test_what_is_made_of_a_detached_value_is_not_recorded() -> None:
    stack = fresh()
    x = +stack.variable("x", 10.0)
    y = stack.ops.log(x)
    z = y.detach() * 0.5
    assert nodes(stack) == 1
    a = +stack.variable("a", 5.0)
    w = a * y.detach()
    assert nodes(stack) == 2
    del a
    assert nodes(stack) == 1
    del x
    assert nodes(stack) == 0
    assert (z.item(), w.item()) == (0.5 * np.log(10), 5 * np.log(10))


def test_x_may_go_before_the_end_of_a_long_chain() -> None:
    """NNC: seven products with y, then three squares, all but the last value dropped on the way."""
    stack = fresh()
    x, y = +stack.variable("x", 32.0), +stack.variable("y", 0.5)
    for n in range(10):
        if n == 7:
            del y
            assert nodes(stack) == 0
        x = x * (y if n < 7 else x)
    assert x.item() == (32 * 0.5**7) ** 8
    assert stack.live == Live(1, 0, 0, 0)


def test_gradients_are_added_over_steps_and_nothing_is_left() -> None:
    stack = fresh()
    a, total = stack.variable("a", [0.2485]), None
    for step in range(1000 if NIGHTLY else 50):
        x, t = stack.asarray([float(step % 7)]), stack.asarray([-float(step % 7)])
        n = x * a - t
        f = n * n
        with stack.no_grad():
            (total,) = stack.gradients([f], [a], into=[total])
        del n, f
        if step % 5 == 4:
            assert nodes(stack) == 0
            a.value.assign((a - 0.001 * total).numpy())
            total = None
    np.testing.assert_allclose(a.numpy(), -1, atol=0.5)


# --- long, deep, at once --------------------------------------------------------------------------------------


def test_a_chain_may_be_as_long_as_it_likes() -> None:
    stack = fresh()
    for drop_the_end in (True, False):
        x = y = +stack.variable("x", 1.0)
        for _ in range(LONG):
            y = -y
        assert nodes(stack) == LONG
        if drop_the_end:
            del y
        else:
            del x
        assert nodes(stack) == 0


def trained(stack: nnc.Stack, steps: int) -> None:
    """So many steps of a little network, whose parameters are re-assigned, recorded, each time."""
    ops = stack.ops
    rng = np.random.default_rng(0)
    batch, wanted = stack.asarray(rng.normal(size=(8, 4))), stack.asarray(rng.normal(size=(8, 2)))
    w, b = +stack.variable("w", rng.normal(size=(4, 2))), +stack.variable("b", np.zeros(2))
    counts = set()
    for step in range(steps):
        error = ops.tanh(batch @ w + b) - wanted
        gradients = stack.gradients([(error * error).sum()], [w, b])
        w, b = (p - 0.01 * g for p, g in zip((w, b), gradients, strict=True))
        del gradients, error
        if step > 2:
            counts.add(stack.live)
    assert counts == {Live(symbols=2, nodes=0, saved=0, bytes=0)}


def test_training_does_not_grow_without_the_collector() -> None:
    stack = fresh()
    trained(stack, 300)
    tracked = len(gc.get_objects())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trained(stack, 100_000 if NIGHTLY else 500)
    assert len(gc.get_objects()) - tracked < 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 4096  # KiB


def test_a_variable_that_is_assigned_frees_what_was_made_of_it() -> None:
    stack = fresh()
    w = stack.variable("w", [1.0, 2.0])
    y = w * w
    assert nodes(stack) == 1
    w.value.assign([3.0, 4.0])
    assert stack.live == Live(1, 0, 0, 0)
    z = w * w
    del w
    assert stack.live == Live(2, 0, 0, 0)
    assert (y.numpy().tolist(), z.numpy().tolist()) == ([1, 4], [9, 16])


def test_memory_itself_goes_with_the_last_name() -> None:
    stack = fresh()
    x = +stack.variable("x", np.ones(1000))
    y = x * x
    kept = weakref.ref(y.value.array)
    z = y * 1
    del y
    assert kept() is not None
    del z
    assert kept() is None


def test_threads_record_and_drop_side_by_side() -> None:
    stack = fresh()

    def work(shared: Any, seed: int) -> None:
        rng = np.random.default_rng(seed)
        held = [shared]
        for _ in range(100):
            held.append(held[rng.integers(len(held))] * held[rng.integers(len(held))])
            if len(held) > 8:
                del held[rng.integers(1, len(held))]
            if rng.integers(10) == 0:
                stack.gradients([held[-1]], [shared])

    shared = +stack.variable("shared", np.ones(3))
    together(*[partial(work, shared, seed) for seed in range(4)])
    del shared
    assert stack.live == Live(0, 0, 0, 0)


class Hostile:
    """Asks for gradients when it is collected, and drops what it made of a value."""

    def __init__(self, stack: nnc.Stack, x: Any, asked: list[Any]) -> None:
        self.stack, self.x, self.asked, self.itself = stack, x, asked, self

    def __del__(self) -> None:
        y = self.x * self.x
        self.asked.append(self.stack.gradients([y * y], [self.x])[0].item())


def test_finalisers_may_ask_for_gradients_at_any_time() -> None:
    stack, asked = fresh(), list[float]()
    x = +stack.variable("x", 2.0)
    stack.gradients([(x * x) * (x * x)], [x])
    before = gc.get_threshold()
    gc.set_threshold(50)
    gc.enable()
    try:
        for _ in range(200):
            Hostile(stack, x, asked)
            y = x
            for _ in range(10):
                y = y * x
            stack.gradients([y], [x])
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert asked == [32.0] * 200
    del x, y
    assert stack.live == Live(0, 0, 0, 0)


# --- errors, and finalisers of cycles ---------------------------------------------------------------------------


def boom(x: Any) -> Any:
    raise ValueError("boom")


FAILING: dict[str, Any] = {
    "shapes": lambda s, x: x * x[:2],
    "index": lambda s, x: s.ops.take(x, s.asarray(np.array([7]))),
    "function": lambda s, x: s.ops.callback(x, function=boom, shapes=((3,),), dtypes=("float64",), pure=True)[0],
    "cholesky": lambda s, x: s.ops.cholesky(s.ops.outer(x, x) * -1),
    "gradients": lambda s, x: s.gradients(
        [s.jit(lambda x: s.ops.callback(x, function=np.sin, shapes=((3,),), dtypes=("float64",), pure=True)[0])(x)],
        [x],
    )[0],
}


@pytest.mark.parametrize("what", FAILING)
@pytest.mark.parametrize(("ahead", "settings"), [(False, {}), (False, {"replay_after": 1}), (True, {})])
def test_an_error_keeps_nothing_alive_once_it_is_gone(what: str, ahead: bool, settings: dict[str, Any]) -> None:
    stack = fresh(**settings)
    if ahead:
        stack = stack.swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0))

    def step() -> None:
        x = stack.ops.sin(stack.variable("x", np.arange(3.0)) * 2.0)
        with pytest.raises(nnc.errors.NncError) as caught:
            FAILING[what](stack, x).numpy()
        del caught

    if what == "function" and ahead:
        x = stack.variable("x", np.arange(3.0)) * 2.0
        with pytest.raises(nnc.errors.RunError) as told:
            FAILING[what](stack, x).numpy()
        assert "in boom" in "".join(told.value.__notes__), "where it was raised is a note"
        del told, x
    for _ in range(3):
        step()
    assert stack.live.nodes == stack.live.symbols == 0


def test_finalisers_of_a_cycle_use_its_values() -> None:
    """The collector may call that of a value before the user's own."""
    stack, found = fresh(), []

    class Last:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __del__(self) -> None:
            y = self.x * self.x
            found.append((y.item(), stack.gradients([y], [self.x])[0].item()))

    for _ in range(20):
        x = stack.variable("x", 3.0) * 2.0
        cycle: list[Any] = [x]
        cycle += [cycle, Last(x)]
        del x, cycle
    gc.collect()
    assert found == [(36.0, 12.0)] * 20
    assert stack.live.symbols == 0
