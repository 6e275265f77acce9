"""Updates against plain NumPy loops, over 20 steps, with rates that depend on the iteration (`nn/updates`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnc_func import nn
from nnc_func.errors import OperatorError
from nnc_func.tree import flatten
from tests.nn.models import UPDATES

STEPS = 20
GENERATOR = np.random.default_rng(2)
START = GENERATOR.normal(size=(4, 3))
GRADIENTS = GENERATOR.normal(size=(STEPS, 4, 3)) * (GENERATOR.random(size=(STEPS, 4, 3)) > 0.3)  # some exactly 0


def _rate(step: int) -> float:
    return 0.1 / (1 + 0.2 * step)


def _sgd(momentum: float, nesterov: bool) -> Any:
    p, v = START.copy(), np.zeros_like(START)
    for t, g in enumerate(GRADIENTS):
        v = momentum * v + g
        p = p - _rate(t) * (g + momentum * v if nesterov else v)
        yield p


def _adagrad(epsilon: float, inside: bool) -> Any:
    p, h = START.copy(), np.zeros_like(START)
    for t, g in enumerate(GRADIENTS):
        h = h + g * g
        p = p - _rate(t) * g / (np.sqrt(h + epsilon) if inside else np.sqrt(h) + epsilon)
        yield p


def _rmsprop(epsilon: float, inside: bool) -> Any:
    p, h = START.copy(), np.zeros_like(START)
    for t, g in enumerate(GRADIENTS):
        h = 0.9 * h + 0.1 * g * g
        p = p - _rate(t) * g / (np.sqrt(h + epsilon) if inside else np.sqrt(h) + epsilon)
        yield p


def _adam() -> Any:
    p, m, v = START.copy(), np.zeros_like(START), np.zeros_like(START)
    for t, g in enumerate(GRADIENTS):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - _rate(t) * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
        yield p


CASES = {
    "sgd": (UPDATES["sgd"], lambda: _sgd(0.0, False)),
    "momentum": (UPDATES["momentum"], lambda: _sgd(0.9, False)),
    "nesterov": (UPDATES["nesterov"], lambda: _sgd(0.9, True)),
    "adagrad": (UPDATES["adagrad"], lambda: _adagrad(1e-7, False)),
    "adagrad, epsilon in the root": (nn.Adagrad(1e-4, epsilon_in_root=True), lambda: _adagrad(1e-4, True)),
    "adagrad as in Owl": (nn.Adagrad(1e-32, epsilon_in_root=True), lambda: _adagrad(1e-32, True)),
    "rmsprop": (UPDATES["rmsprop"], lambda: _rmsprop(1e-7, False)),
    "rmsprop, epsilon in the root": (nn.RMSprop(epsilon=1e-4, epsilon_in_root=True), lambda: _rmsprop(1e-4, True)),
    "adam": (UPDATES["adam"], _adam),
}


@pytest.mark.parametrize(("update", "loop"), CASES.values(), ids=CASES)
def test_an_update_is_its_formula(stack: Any, update: Any, loop: Any) -> None:
    parameters: Any = {"w": [stack.asarray(START)]}
    slots = update.init(parameters)
    for t, wanted in enumerate(loop()):
        gradients = {"w": [stack.asarray(GRADIENTS[t])]}
        step, rate = stack.asarray(np.int64(t)), stack.asarray(_rate(t))
        parameters, slots = update(gradients, slots, parameters, step, rate)
        np.testing.assert_allclose(parameters["w"][0].numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("update", "loop"), CASES.values(), ids=CASES)
def test_a_compiled_update_is_its_formula(stack: Any, update: Any, loop: Any) -> None:
    """Step number and rate are inputs of one program: nothing of the first step stays in it."""
    w = stack.variable("w", START)
    start, structure = flatten(update.init([START]))
    slots = [stack.variable(f"slot {i}", s) for i, s in enumerate(start)]
    g = stack.input("g", (4, 3), "float64")
    step, rate = stack.input("step", (), "int64"), stack.input("rate", (), "float64")
    new, kept = update([g], structure.build(slots), [w], step, rate)
    pairs = list(zip([w, *slots], [*new, *flatten(kept)[0]], strict=True))
    program = stack.compile(inputs=[g, step, rate], outputs=new[0], updates=pairs)
    for t, wanted in enumerate(loop()):
        found = program(GRADIENTS[t], np.array(t), np.array(_rate(t)))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(w.numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_adam_moves_by_its_mean_where_the_gradient_is_zero(stack: Any) -> None:
    update, p = nn.Adam(), stack.asarray([1.0])
    p1, slots = update([stack.asarray([1.0])], update.init([p]), [p], 0, 0.1)
    p2, _ = update([stack.asarray([0.0])], slots, p1, 1, 0.1)
    assert p2[0].item() < p1[0].item() < 1


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_parameters_and_slots_keep_their_dtype(stack: Any, update: Any) -> None:
    p = [stack.asarray(np.ones(2, "float32"))]
    for rate in (0.1, stack.asarray(np.float64(0.1))):
        new, slots = update(p, update.init(p), p, stack.asarray(np.int64(3)), rate)
        assert {x.dtype for x in [*new, *flatten(slots)[0]]} == {np.dtype("float32")}


def test_what_does_not_fit_is_refused(stack: Any) -> None:
    p = [stack.asarray([1.0])]
    with pytest.raises(OperatorError, match="gradients like the parameters"):
        nn.SGD()(p * 2, {}, p, 0, 0.1)
    with pytest.raises(OperatorError, match="slots"):
        nn.Adam()(p, nn.SGD(momentum=0.9).init(p), p, 0, 0.1)
