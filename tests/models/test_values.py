"""The networks compute: eager and lazy stacks agree, and a training step makes the loss fall (`models`)."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func import models
from nnc_func.nn import SGD
from nnc_func.tree import flatten
from tests.models.networks import networks

RATES = {"inception-v3": 0.003}

# How far the losses of two stacks may be apart. Measured, they are equal to the bit on all networks. A rule that rounds
# elsewhere moves them as a change of the images by one rounding (2e-7) does: by less than 2e-6 on most networks, and on
# those that normalise over these few examples, layer upon layer, by 5e-6, 1.4e-5 and 1.5e-4. Ten times that is allowed.
CLOSE = 2e-5
LESS_CLOSE = {"resnet-50": 5e-5, "inception-v3": 1.5e-4, "randomly-wired": 1.5e-3}


def _results(stack: Any, model: Any, x: Any) -> list[Any]:
    program = stack.engine.compile(model.make(stack, batch=len(x), seed=1))
    return [np.asarray(each) for each in flatten(program(x))[0]]


@networks()
def test_inference_is_equal_on_eager_and_lazy_stacks(name: str) -> None:
    model = models.get(name).reduced()
    x, _ = model.examples(batch=2, seed=1)
    wanted, found = (_results(stack, model, x) for stack in (nnc.eager(), nnc.lazy()))
    for a, b in zip(wanted, found, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-4)


@networks(trains=True)
def test_a_step_is_equal_on_both_and_makes_the_loss_fall(name: str) -> None:
    model = models.get(name).reduced()
    batch, rate = model.examples(batch=4, seed=2), RATES.get(name, 0.02)
    lazy, eager = (model.step(stack, seed=3, update=SGD()) for stack in (nnc.lazy(), nnc.eager()))
    before = flatten(lazy.state.model)[0]
    losses = [_loss(lazy, batch, rate) for _ in range(4)]
    assert losses[-1] < losses[0]
    wanted = [_loss(eager, batch, rate) for _ in range(2)]
    np.testing.assert_allclose(losses[:2], wanted, rtol=LESS_CLOSE.get(name, CLOSE))
    after = flatten(lazy.state.model)[0]
    still = [a.shape for a, b in zip(before, after, strict=True) if np.array_equal(a, b)]
    assert len(still) <= 0.1 * len(after), "what a step does not change"


def _loss(step: Any, batch: Any, rate: float) -> float:
    """The loss before a step that drops what the first one drops, so that losses may be compared."""
    step.iteration = 0
    return float(step(*batch, rate)[0])
