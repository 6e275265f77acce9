"""What recurs on a dynamic stack is replayed as a program (`engine/dynamic/replay`)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.dynamic.replay import follower
from nnc_func.errors import LayerError, NncError, PlanError, ShapeError
from nnc_func.graph.tensors.promise import Promise
from tests.engine.dynamic_stacks import fresh
from tests.engine.together import together
from tests.profiles import NIGHTLY


@pytest.fixture
def stack() -> nnc.Stack:
    """What occurs twice is known."""
    return fresh(replay_after=2)


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def is_promised(x: Any) -> bool:
    """Whether a tensor's value is still to be computed."""
    return type(x.hold) is Promise and not hasattr(x.hold, "value")


class Perceptron:
    """Of one layer; a step of training computes, differentiates and updates."""

    def __init__(self, stack: nnc.Stack) -> None:
        rng = np.random.default_rng(0)
        self.stack = stack
        self.batch, self.wanted = stack.asarray(rng.normal(size=(8, 4))), stack.asarray(rng.normal(size=(8, 2)))
        self.parameters = [+stack.variable("w", rng.normal(size=(4, 2))), +stack.variable("b", np.zeros(2))]

    def step(self, rate: float = 0.1) -> Any:
        """The loss before it."""
        w, b = self.parameters
        error = self.stack.ops.tanh(self.batch @ w + b) - self.wanted
        loss = (error * error).mean()
        slopes = self.stack.gradients([loss], [w, b])
        self.parameters = [p - rate * g for p, g in zip((w, b), slopes, strict=True)]
        return loss


# --- what is replayed -----------------------------------------------------------------------------------------


def test_a_step_that_recurs_is_one_program(stack: nnc.Stack) -> None:
    """Forward, backward and update: what comes again, from a line that was before the gradients, begins a step."""
    replayed, plain = Perceptron(stack), Perceptron(fresh())
    for _ in range(12):
        replayed.step()
        plain.step()
    for one, other in zip(replayed.parameters, plain.parameters, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    found = stack.replays
    assert (found.programs, found.divergences, found.operators) == (1, 0, 10 * 11)
    assert found.prefixes == 10 - found.eager == 9


def test_a_look_ends_a_sequence_and_what_follows_begins_another(stack: nnc.Stack) -> None:
    replayed, plain = Perceptron(stack), Perceptron(fresh())
    losses = [(replayed.step().item(), plain.step().item()) for _ in range(12)]
    np.testing.assert_allclose(*np.transpose(losses), rtol=1e-12)
    assert (stack.replays.programs, stack.replays.divergences) == (1, 0)
    assert stack.live.nodes == 0


def test_shapes_are_known_and_copies_and_constants_are_promised(stack: nnc.Stack) -> None:
    x = stack.variable("x", np.ones((2, 3), np.float32))
    for turn in range(6):
        y = stack.ops.tanh(x) * 2
        assert (y.shape, y.dtype, y.ndim, y.size, y.aval.shape) == ((2, 3), np.float32, 2, 6, (2, 3))
        z = +y
        constant = y.detach() * y
        assert is_promised(y) == is_promised(z) == is_promised(constant) == (turn > 1)
        (slope,) = stack.gradients([constant.sum()], [x])
        assert is_promised(y) == (turn > 1)
        np.testing.assert_allclose(slope.numpy(), 4 * np.tanh(1) / np.cosh(1) ** 2, rtol=1e-6)
        np.testing.assert_allclose(z.numpy(), 2 * np.tanh(1), rtol=1e-6)


def test_what_is_dropped_before_anybody_looks_is_not_computed(stack: nnc.Stack) -> None:
    x = stack.asarray(np.ones(4))
    for _ in range(8):
        y = x * 3
        z = stack.ops.sin(y) + 1  # which nobody looks at
        del z
        assert y.numpy().tolist() == [3] * 4
    assert stack.replays.programs == 1
    ((place, fit),) = stack._before._here.mine._programs
    assert [step.op.name for step in place.fits[fit].steps] == ["multiply"]
    assert place.fits[fit].program.plan.kernels == 1


def test_what_is_not_known_is_computed_at_once_and_learnt(stack: nnc.Stack) -> None:
    replayed, plain = Perceptron(stack), Perceptron(fresh())
    for turn in range(24):
        rate = 0.2 if turn >= 9 else 0.1
        assert abs(replayed.step(rate).item() - plain.step(rate).item()) < 1e-12
    assert stack.replays.divergences == 2  # what comes after it has occurred twice, then
    assert stack.replays.programs == 3  # the two steps, and what is before the divergence
    for each in (replayed, plain):
        each.batch, each.wanted = (x[:5] for x in (each.batch, each.wanted))
    for _ in range(8):
        assert abs(replayed.step(0.2).item() - plain.step(0.2).item()) < 1e-12
    assert stack.replays.programs >= 3


def test_python_decides_by_what_it_looks_at(stack: nnc.Stack) -> None:
    x = stack.variable("x", 1.0)
    for turn in range(10):
        y = x * float(turn % 2)
        z = y + 2 if y > 0.5 else y - 2
        assert z.item() == (3.0 if turn % 2 else -2.0)


def test_gradients_of_gradients_and_of_what_was_looked_at(stack: nnc.Stack) -> None:
    x = stack.variable("x", [0.5, 1.0])
    at = np.array([0.5, 1.0])
    for _ in range(8):
        y = (x**3).sum()
        assert y.item() == 1.125
        (first,) = stack.gradients([y], [x])
        (second,) = stack.gradients([first.sum()], [x])
        np.testing.assert_allclose(second.numpy(), 6 * at)
        z = (x * x * x).sum()
        (first,) = stack.gradients([z], [x])
        (second,) = stack.gradients([(first * first).sum()], [x])
        np.testing.assert_allclose(second.numpy(), 36 * at**3)


def test_totals_cotangents_and_pauses(stack: nnc.Stack) -> None:
    x = +stack.variable("x", [1.0, 2.0])
    total = stack.asarray([0.0, 0.0])
    for _ in range(8):
        y = x * x
        with stack.no_grad():
            (total,) = stack.gradients([y], [x], into=[total])
            (once,) = stack.gradients([y], [x])
        (twice,) = stack.gradients([y], [x], cotangents=[np.array([2.0, 2.0])])
        del y
        assert stack.live.nodes == 1  # of the gradients that are recorded
        assert once.numpy().tolist() == [2, 4]
        assert twice.numpy().tolist() == [4, 8]
    assert total.numpy().tolist() == [16, 32]


def test_a_layer_with_a_loop_is_replayed(stack: nnc.Stack) -> None:
    layer = nn.LSTM(3, sequences=False).init(0, (None, 5, 2))
    x = np.random.default_rng(0).normal(size=(4, 5, 2)).astype("float32")
    losses = []
    for each in (stack, fresh()):
        step = nn.ImmediateStep(each, layer, lambda outputs, y: (outputs * outputs).mean() + y.mean(), nn.SGD())
        losses.append([float(step(x, x, 0.5)[0]) for _ in range(8)])
        w, x_ = +each.variable("w", layer.weight), each.asarray(x)
        for _ in range(6):
            h = each.ops.lstm(x_, *(each.asarray(np.zeros((4, 3), "float32")),) * 2, w, layer.recurrent, layer.bias)[1]
            (slope,) = each.gradients([(h * h).sum()], [w])
            w = w - 0.1 * slope
        losses.append(w.numpy())
    np.testing.assert_allclose(losses[0], losses[2], rtol=1e-5)
    np.testing.assert_allclose(losses[1], losses[3], rtol=1e-5, atol=1e-6)
    assert stack.replays.programs > 0


# --- variables, arrays, effects -------------------------------------------------------------------------------


def test_variables_are_read_when_they_are_used(stack: nnc.Stack) -> None:
    x = stack.variable("x", 1.0)
    more = stack.compile([], [], {x: x + 1})
    for turn in range(10):
        y = x * 2
        x.value.assign(10.0 * turn)
        z = x * 2
        more()
        w = x * 2
        assert (y.item(), z.item(), w.item()) == (2.0 * max(10 * turn - 9, 1), 20.0 * turn, 20.0 * turn + 2)


def test_a_callers_array_may_change_afterwards(stack: nnc.Stack) -> None:
    x = stack.variable("x", [1.0, 2.0])
    for turn in range(8):
        array = np.full(2, float(turn))
        y = x * array
        array[:] = 100
        assert y.numpy().tolist() == [turn, 2 * turn]


def test_effects_happen_once_each_and_at_once(stack: nnc.Stack, capsys: Any) -> None:
    x = stack.variable("x", 1.0)
    calls: list[float] = []

    def noted(a: Any) -> Any:
        calls.append(float(a))
        return a + 1

    for turn in range(6):
        y = x * 2
        stack.ops.print(y, text="now")
        assert capsys.readouterr().out.count("now") == 1
        for pure in (True, False):
            (z,) = stack.ops.callback(y + turn, function=noted, shapes=((),), dtypes=("float64",), pure=pure)
            assert (z * 1).item() == turn + 3
    assert calls == [turn + 2 for turn in range(6) for _ in "ab"]


def test_random_numbers_are_those_of_their_key(stack: nnc.Stack) -> None:
    eager = nnc.eager()
    for turn in range(8):
        found = stack.ops.random_uniform(stack.key(turn), shape=(3,), dtype="float64") * 2
        wanted = eager.ops.random_uniform(eager.key(turn), shape=(3,), dtype="float64") * 2
        assert found.numpy().tolist() == wanted.numpy().tolist()


# --- errors ---------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused_at_its_line(stack: nnc.Stack) -> None:
    x = stack.variable("x", np.ones(3))
    for turn in range(8):
        y = stack.ops.sin(x)
        with pytest.raises(ShapeError, match=r"test_dynamic_replay\.py"):
            y * np.ones(4 + turn // 4)
        assert y.shape == (3,)


def test_what_fails_when_it_is_computed_is_told_to_who_looks_with_the_line_that_caused_it(stack: nnc.Stack) -> None:
    x = stack.variable("x", np.arange(4.0))
    for turn in range(9):
        position = stack.asarray(np.array([turn % 4 if turn < 8 else 9]))
        y = stack.ops.take(x * 2, position, axis=0)  # here
        z, beside = y + 1, x * 3
        if turn < 8:
            assert z.item() == 2.0 * (turn % 4) + 1
    assert is_promised(z)
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# here"))
    for _ in range(2):
        with pytest.raises(NncError, match=rf"take.*test_dynamic_replay\.py:{line} in"):
            z.item()
    with pytest.raises(NncError, match="take"):
        z * 2
    assert beside.numpy().tolist() == [0, 3, 6, 9]


# --- memory and threads ---------------------------------------------------------------------------------------


def test_nothing_grows_without_the_collector(collector_off: None, stack: nnc.Stack) -> None:
    model = Perceptron(stack)

    def steps(count: int) -> None:
        for turn in range(count):
            loss = model.step()
            if turn % 7 == 0:
                assert loss.item() > 0

    for _ in range(5):  # a look is where a sequence ends; what ends there often is a program of its own
        steps(200)
        assert stack.live.nodes == 0
    before = len(gc.get_objects())
    steps(10_000 if NIGHTLY else 1000)
    assert stack.live.symbols <= 3
    assert len(gc.get_objects()) - before < 300


def test_what_is_promised_holds_what_it_is_made_of_until_somebody_looks(stack: nnc.Stack) -> None:
    for turn in range(6):
        x = +stack.variable("x", np.ones(3))
        y = stack.ops.sin(x) * 2
        del x
        assert stack.live.nodes == 0  # asking is a look
        assert not is_promised(y)
        assert stack.live.symbols == 1, turn
        del y
        assert stack.live.symbols == 0


def test_threads_follow_what_they_do_themselves(stack: nnc.Stack) -> None:
    given: list[Any] = []

    def train(seed: int) -> None:
        replayed, plain = Perceptron(stack), Perceptron(fresh())
        for turn in range(30):
            one, other = replayed.step(), plain.step()
            given.append((one, other))
            if turn % 3 == seed % 3:
                mine, wanted = given[(turn * 7 + seed) % len(given)]  # which another thread may have promised
                assert abs(mine.item() - wanted.item()) < 1e-12

    together(*[partial(train, seed) for seed in range(4)])
    for one, other in given:  # those who promised are gone
        assert abs(one.item() - other.item()) < 1e-12


def test_threads_that_are_gone_leave_nothing(collector_off: None, stack: nnc.Stack) -> None:
    x, kept = stack.variable("x", np.ones(4)), list[Any]()

    def work() -> None:
        for _ in range(5):
            y = stack.ops.sin(x) * 2
            assert y.shape == (4,)
            y.numpy()
        kept.append(stack.ops.sin(x) * 3)
        y = stack.ops.sin(x) * 2  # which nobody looks at

    def threads(count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    threads(3)
    before = len(gc.get_objects())
    threads(20)
    for each in kept:
        np.testing.assert_allclose(each.numpy(), 3 * np.sin(1))
    kept.clear()
    assert len(gc.get_objects()) - before < 200
    assert sum(len(arena.leases) for arena in stack.engine.arenas.arenas) == 0


def test_what_has_occurred_is_forgotten_once_it_is_much(stack: nnc.Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "REMEMBERED", 30)
    monkeypatch.setattr(follower, "LONGEST", 20)
    x = stack.variable("x", 2.0)
    for turn in range(40):
        y = x * 1.0
        for n in range(3 + turn // 10 * 8):  # the last ones are longer than a sequence
            y = y + float(n)
        assert y.item() == 2 + sum(range(3 + turn // 10 * 8))
    assert stack.replays.programs > 2
    assert stack._before._here.mine._size <= 30 + 20


def test_a_finaliser_may_look_at_any_time(stack: nnc.Stack) -> None:
    seen: list[float] = []

    class Looks:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __del__(self) -> None:
            seen.append(self.x.item())

    x = stack.variable("x", 1.0)
    for turn in range(12):
        y = x * 2
        looks = Looks(y + turn)
        z = y * 3
        del looks
        assert (z + 1).item() == 7
    assert seen == [2.0 + turn for turn in range(12)]


# --- settings -------------------------------------------------------------------------------------------------


def test_it_is_a_setting_of_the_layer() -> None:
    replayed = nnc.dynamic(replay_after=3)
    assert replayed == nnc.dynamic(replay_after=3) != nnc.dynamic()
    assert nnc.dynamic().engine.replay_after is None
    for wrong in (0, True, 2.0, "3"):
        with pytest.raises(PlanError, match="replay_after"):
            nnc.dynamic(replay_after=wrong)
    for more in ({"memoise": True}, {"memory_limit": "1 MB"}):
        assert nnc.dynamic(**more).engine.replay_after is None
        with pytest.raises(PlanError, match="neither memoised nor evicted"):
            nnc.dynamic(replay_after=3, **more)
    with pytest.raises(LayerError, match="replay_after=3"):
        _ = nnc.dynamic().replays
    assert replayed.replays.operators == 0


@pytest.mark.parametrize("device", [nnc.CPU, nnc.NumPy])
def test_devices_with_kernels_replay(device: Any) -> None:
    stack = nnc.dynamic(device(), replay_after=1)
    x = stack.variable("x", np.arange(3.0))
    for _ in range(6):
        y = (stack.ops.exp(x) * x).sum()
        np.testing.assert_allclose(stack.gradients([y], [x])[0].numpy(), np.exp(np.arange(3.0)) * (1 + np.arange(3.0)))
    assert stack.replays.programs == 1


def test_who_looks_first_may_be_tracing_a_function() -> None:
    found = []
    for stack in (fresh(replay_after=2), fresh()):
        v = stack.variable("v", [1.0, 2.0])

        def step(stack: nnc.Stack = stack, v: Any = v) -> list[Any]:
            q, r = stack.asarray([1.0, 2.0]) * 2.0, v * 3.0
            chosen = stack.cond(True, lambda: q, lambda: q - 1.0)
            nested = stack.fori(0, 2, lambda i, h: stack.cond(h.sum() > 1, lambda: h * r, lambda: h + q), r)
            other = stack.cond(False, lambda: r * q, lambda: r - q)
            return [chosen, nested, *stack.gradients([other.sum()], [v]), q]

        found.append([[x.numpy().tolist() for x in step()] for _ in range(5)])
    assert found[0] == found[1]
