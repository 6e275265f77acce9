"""Eager over lazy trains lazily: no kernel runs before a value is asked for (`engine/eager`, `engine/lazy`).

And nothing piles up. The eager stack is over a lazy device.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.layer import layer
from tests.nn.models import images, small_cnn

CALLS: list[str] = []


@layer()
class Counting(nnc.NumPy):
    """A device that notes each kernel that it runs."""

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        """The operator, noted."""
        CALLS.append(op.name)
        return super().bind(op, *args, **params)

    def writing(self, kernel: Any, *how: Any) -> Any:
        """The kernel of a program, noted at each call."""
        call = super().writing(kernel, *how)

        def noted(*args: Any) -> Any:
            CALLS.append(kernel.name)
            return call(*args)

        return noted


@pytest.fixture
def over() -> Any:
    """Eager over lazy over a device that counts."""
    CALLS.clear()
    return nnc.eager().swap(device=nnc.lazy().swap(device=Counting()))


def test_no_kernel_runs_before_a_value_is_asked_for(over: Any) -> None:
    x, y = images()
    done = nn.train(
        over,
        small_cnn(dropout=0.2),
        nn.softmax_cross_entropy,
        nn.Adam(),
        nn.Batches(x, y, 8),
        rate=0.01,
        steps=3,
        progress=False,
        ask_every=None,
    )
    assert CALLS == []
    assert len(done.losses) == 3
    assert CALLS != []


def test_asking_for_a_loss_computes_each_step_once(over: Any) -> None:
    """The parameters after a step are computed with its loss: the next step does not do it over."""
    x, y = images()
    step = nn.Step(over, small_cnn(), nn.softmax_cross_entropy, nn.SGD())
    counts = []
    for _ in range(6):
        CALLS.clear()
        step.ask([step(x, y, 0.01)[0]])
        counts.append(len(CALLS))
    # the first steps compile, which folds constants; their state is the initial one
    assert len(set(counts[2:])) == 1


@pytest.mark.parametrize("steps", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_live_nodes_stay_constant(over: Any, steps: int) -> None:
    def nodes() -> list[int]:  # of this test: others' may go at any time
        gc.collect()
        return [o.serial for o in gc.get_objects() if type(o).__name__ == "Node" and o.serial > before]

    before = -1
    before = max(nodes(), default=-1)
    x = np.linspace(-1, 1, 8, dtype="float32").reshape(8, 1)
    step = nn.Step(over, nn.Dense(1).init(0, (None, 1)), nn.quadratic, nn.Adam())
    live, programs = set(), set()
    for i in range(steps):
        loss = step.ask([step(x, 2 * x, 0.05)[0]])[0]
        if i % 50 == 49:
            live.add(len(nodes()))
            programs.add(len(over.device.engine.programs))
    assert len(live) == 1, live
    assert len(programs) == 1, programs
    assert steps < 1000 or loss < 1e-3


def test_scratch_is_not_where_a_result_will_be() -> None:
    """Results lend their memory to values, and are fresh arrays each time; scratch is bound once, so it stays apart."""
    over, eager = nnc.eager().swap(device=nnc.lazy()), nnc.eager()
    model = nn.Sequential(nn.Conv2D(8, 5, padding="SAME"), nn.relu, nn.MaxPool2D(2), nn.Flatten(), nn.Dense(256))
    x = np.random.default_rng(0).random((16, 20, 20, 1), "float32")
    y = np.arange(16)
    found = []
    for stack in (over, eager):
        step = nn.Step(stack, model.init(0, x.shape), nn.softmax_cross_entropy, nn.Adagrad())
        found.append([float(step.ask([step(x, y, 0.001)[0]])[0]) for _ in range(4)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
