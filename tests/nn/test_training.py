"""Training: a compiled step is the immediate one; state resumes to the bit (`nn/step`, `nn/training`, `nn/batches`).

Conditions and rates are obeyed.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.autodiff import Autodiff
from nnc_func.errors import GraphError, OperatorError, ShapeError
from tests.nn.models import UPDATES, images, leaves, same, small_cnn, stacks

STACKS = pytest.mark.parametrize("stack", stacks().values(), ids=stacks())
UPDATING = pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)


def _decay(step: int) -> float:
    return 0.05 / (1 + 0.1 * step)


def _train(stack: Any, update: Any = UPDATES["adam"], steps: int = 20, **how: Any) -> Any:
    x, y = images()
    given: dict[str, Any] = {"rate": _decay, "progress": False, "metrics": {"accuracy": nn.accuracy}, "seed": 7}
    model = small_cnn(dropout=0.2)
    return nn.train(
        stack, model, nn.softmax_cross_entropy, update, nn.Batches(x, y, 8), steps=steps, **{**given, **how}
    )


# --- one step --------------------------------------------------------------------------------------------


@STACKS
@UPDATING
def test_a_compiled_step_is_the_immediate_step(stack: Any, update: Any) -> None:
    x, y = images()
    batches = nn.Batches(x, y, 8)
    loss, model = nn.softmax_cross_entropy, small_cnn(dropout=0.2, biased=False)
    compiled = nn.Step(stack, model, loss, update, seed=7)
    immediate = nn.ImmediateStep(nnc.eager(), model, loss, update, seed=7)
    for i in range(20):
        one, two = (float(s.ask([s(*batches.at(i), _decay(i))[0]])[0]) for s in (compiled, immediate))
        assert one == pytest.approx(two, rel=1e-4)
    for a, b in zip(leaves(compiled.state), leaves(immediate.state), strict=True):
        # looser than the losses above: Adam and RMSprop divide small gradients by their own size
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-4)


@UPDATING
def test_the_three_stacks_agree_over_20_steps(update: Any) -> None:
    wanted, *others = (_train(stack, update).losses for stack in stacks().values())
    for found in others:
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_owls_epsilon_inside_of_the_root_amplifies_rounding_but_trains() -> None:
    """A gradient of 1e-16 moves its parameter by the whole rate: stacks agree to percents, and learn all the same."""
    update = nn.Adagrad(1e-32, epsilon_in_root=True)
    wanted, *others = (_train(stack, update, rate=0.02).losses for stack in stacks().values())
    for found in others:
        np.testing.assert_allclose(found, wanted, rtol=5e-2)
    assert wanted[-4:].mean() < wanted[:4].mean()


@STACKS
def test_all_of_a_step_is_one_graph(stack: Any) -> None:
    x, y = images()
    step = nn.Step(stack, small_cnn(), nn.softmax_cross_entropy, nn.Adam(), metrics={"accuracy": nn.accuracy})
    program = step.program(x, y)
    assert [n.data for n in program.source.inputs] == ["x", "y", "iteration", "rate"]
    assert len(program.source.outputs) == 2
    written = {v.data.name for v, _ in program.source.updates}
    assert {"model.layers.0.weight", "model.layers.1.mean", "slots.mean.0", "slots.squares.0"} <= written
    assert "key" not in written


def test_batches_of_another_size_share_the_variables(stack: Any) -> None:
    x, y = images()
    step = nn.Step(stack, small_cnn(), nn.softmax_cross_entropy, nn.SGD())
    first = float(step(x[:8], y[:8], 0.0)[0])
    assert float(step(x[:4], y[:4], 0.0)[0]) != first
    step(x[:8], y[:8], 0.1)
    step(x[:4], y[:4], 0.1)
    assert step.iteration == 4
    assert not same(step.state.model, small_cnn())


@STACKS
def test_batch_norm_accumulates_in_a_compiled_step(stack: Any) -> None:
    x, y = images()
    model = nn.Sequential(nn.BatchNorm(momentum=0.5), nn.Flatten(), nn.Dense(3)).init(0, (None, 6, 6, 1))
    step = nn.Step(stack, model, nn.softmax_cross_entropy, nn.SGD())
    mean = 0.0
    for i in range(4):
        batch = x[8 * i : 8 * i + 8]
        step(batch, y[8 * i : 8 * i + 8], 0.01)
        mean = 0.5 * mean + 0.5 * batch.mean()
    assert step.state.model[0].mean == pytest.approx(mean, rel=1e-5)


@STACKS
def test_float64_models_train_in_float64(stack: Any) -> None:
    x, y = images(dtype="float64")
    done = nn.train(
        stack,
        small_cnn("float64"),
        nn.softmax_cross_entropy,
        nn.Adam(),
        nn.Batches(x, y, 8),
        rate=0.01,
        steps=2,
        progress=False,
    )
    assert {a.dtype for a in leaves(done.model)} == {np.dtype("float64")}


def test_a_stack_without_an_engine_trains_too() -> None:
    short = nnc.Stack(type(nnc.eager().nn)(Autodiff(nnc.NumPy())))
    np.testing.assert_allclose(_train(short).losses, _train(nnc.eager()).losses, rtol=1e-4)
    with pytest.raises(GraphError, match="no program"):
        nn.ImmediateStep(short, small_cnn(), nn.quadratic, nn.SGD()).program(*images())


# --- going on --------------------------------------------------------------------------------------------


@STACKS
@UPDATING
def test_training_resumes_to_the_bit(stack: Any, update: Any, tmp_path: Path) -> None:
    whole = _train(stack, update)
    half = _train(stack, update, steps=10)
    half.state.save(tmp_path / "state.npz")
    fresh = nn.TrainingState.start(small_cnn(dropout=0.2), update, seed=1).load(tmp_path / "state.npz")
    rest = _train(stack, update, steps=10, state=fresh)
    assert same(rest.state, whole.state)
    assert np.array_equal(np.concatenate([half.losses, rest.losses]), whole.losses)


def test_a_state_pickles(stack: Any) -> None:
    half = _train(stack, steps=3).state
    assert same(pickle.loads(pickle.dumps(half)), half)
    assert int(half.step) == 3


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    state = nn.TrainingState.start(nn.Dense(3).init(0, (None, 2)), nn.SGD())
    state.save(tmp_path / "state.npz")
    with pytest.raises(ShapeError, match=r"differs in .*slots\.squares"):
        nn.TrainingState.start(nn.Dense(3).init(0, (None, 2)), nn.Adagrad()).load(tmp_path / "state.npz")
    with pytest.raises(ShapeError, match=r"model\.weight is float32\[2, 3\], the model wants float32\[4, 3\]"):
        nn.TrainingState.start(nn.Dense(3).init(0, (None, 4)), nn.SGD()).load(tmp_path / "state.npz")


def test_training_leaves_the_given_model_and_state_as_they_were(stack: Any) -> None:
    x, y = images()
    state = nn.TrainingState.start(small_cnn(), nn.Adam())
    before = [a.copy() for a in leaves(state)]
    done = nn.train(
        stack,
        None,
        nn.softmax_cross_entropy,
        nn.Adam(),
        nn.Batches(x, y, 8),
        rate=0.1,
        steps=3,
        state=state,
        progress=False,
    )
    kept = [a.copy() for a in leaves(done.state)]
    done.step(x, y, 0.1)
    assert all((a == b).all() for a, b in zip(before, leaves(state), strict=True))
    assert all((a == b).all() for a, b in zip(kept, leaves(done.state), strict=True))


# --- how long, how fast ----------------------------------------------------------------------------------


@STACKS
def test_the_rate_may_depend_on_the_step(stack: Any) -> None:
    w = nn.Dense(1, biased=False, initialiser=nn.Constant(0.0)).init(0, (None, 1), "float64")
    x, y = np.ones((1, 1)), np.ones((1, 1))
    rates = [0.5, 0.0, 0.25]
    done = nn.train(stack, w, nn.quadratic, nn.SGD(), [(x, y)] * 3, rate=lambda step: rates[step], progress=False)
    wanted = 0.0
    for rate in rates:
        wanted -= rate * 2 * (wanted - 1)
    assert done.model.weight.item() == pytest.approx(wanted)
    assert len(done.losses) == 3


@STACKS
def test_stopping_stops(stack: Any) -> None:
    seen = []

    def stop(step: int, loss: float, metrics: dict[str, float]) -> bool:
        seen.append((step, loss, metrics["accuracy"]))
        return step == 6

    done = _train(stack, stop=stop, ask_every=2)
    assert [step for step, _, _ in seen] == [2, 4, 6]
    assert len(done.losses) == done.step.iteration == int(done.state.step) == 6
    assert seen[-1][1] == done.losses[-1]


def test_epochs_and_batches() -> None:
    x, y = images(30)
    batches = nn.Batches(x, y, 8, seed=3)
    assert batches.per_epoch == 3
    done = nn.train(
        nnc.eager(), small_cnn(), nn.softmax_cross_entropy, nn.SGD(), batches, rate=0.1, epochs=2, progress=False
    )
    assert done.step.iteration == 6
    seen = np.concatenate([batches.at(i)[0] for i in range(3)])
    assert len({a.tobytes() for a in seen}) == 24, "an epoch shows an example once"
    assert not np.array_equal(batches.at(0)[0], batches.at(3)[0]), "epochs have orders of their own"
    assert np.array_equal(nn.Batches(x, y, 8, seed=3).at(4)[0], batches.at(4)[0])


def test_a_line_tells_how_it_goes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _train(nnc.eager(), steps=2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    _train(nnc.eager(), steps=2, progress=True)
    assert "step 2/2  loss" in capsys.readouterr().err


def test_what_makes_no_sense_is_refused() -> None:
    x, y = images()
    with pytest.raises(OperatorError, match="ask_every"):
        _train(nnc.eager(), ask_every=None, stop=lambda *_: True)
    with pytest.raises(OperatorError, match="epochs"):
        nn.train(nnc.eager(), small_cnn(), nn.quadratic, nn.SGD(), [(x, y)], rate=0.1, epochs=1)
    with pytest.raises(ShapeError, match="targets"):
        nn.Batches(x, y[:3], 2)
    with pytest.raises(ShapeError, match="batch"):
        nn.Batches(x, y, 33)
    with pytest.raises(OperatorError, match="init"):
        nn.Step(nnc.lazy(), nn.Dense(3), nn.quadratic, nn.SGD())(x, y, 0.1)


@STACKS
def test_an_evaluator_averages_over_all_examples(stack: Any) -> None:
    x, y = images(30)
    model = small_cnn()
    outputs = model(nnc.eager().asarray(x))
    wanted = (outputs.numpy().argmax(-1) == y).mean()
    judge = nn.Evaluator(stack, {"accuracy": nn.accuracy}, size=8)
    assert judge(model, x, y)["accuracy"] == pytest.approx(wanted)


def test_a_state_of_another_model_is_not_trained_instead() -> None:
    x, y = np.ones((4, 2), "float32"), np.ones((4, 3), "float32")
    other = nn.train(
        nnc.eager(),
        nn.Dense(5).init(0, (None, 2)),
        lambda out, _: out.mean(),
        nn.SGD(),
        [(x, y)],
        rate=0.1,
        progress=False,
    )
    with pytest.raises(OperatorError, match="another model"):
        nn.train(
            nnc.eager(),
            nn.Dense(3).init(0, (None, 2)),
            nn.quadratic,
            nn.SGD(),
            [(x, y)],
            rate=0.1,
            state=other.state,
            progress=False,
        )
