"""Sequences of different lengths in lanes: values, gradients, how much is computed (`nn/lanes`, `nn/sequences`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.nn.lanes import over_lengths

LAZY, EAGER = nnc.lazy(), nnc.eager()
DRAW = np.random.default_rng(0)
SIZES = ((5, 7, 2), (5, 7, 1), (6, 4, None), (4, 3, 6), (1, 1, 1), (3, 0, 1))  # samples, steps, lanes
LENGTHS = {"drawn": None, "none": 0, "all": -1}


def lengths_of(samples: int, steps: int, how: Any) -> Any:
    if how is None:
        return DRAW.integers(0, steps + 1, samples)
    return np.full(samples, steps if how else 0)


def by_rows(step: Any, x: Any, lengths: Any, states: Any) -> Any:
    """One sequence after the other, in plain Python."""
    ends = [s.copy() for s in states]
    outs = np.zeros((*x.shape[:2], states[0].shape[1]))
    for n, length in enumerate(lengths):
        for t in range(length):
            found = step(x[n : n + 1, t], [s[n : n + 1] for s in ends])
            for s, after in zip(ends, found, strict=True):
                s[n] = after[0]
            outs[n, t] = ends[0][n]
    return [outs, *ends]


@pytest.mark.parametrize("how", LENGTHS)
@pytest.mark.parametrize(("samples", "steps", "lanes"), SIZES)
def test_each_sequence_is_by_itself(stack: Any, samples: int, steps: int, lanes: int | None, how: str) -> None:
    """What stands behind the end of a sequence is never read."""
    w, u = DRAW.normal(size=(3, 4)), DRAW.normal(size=(4, 4))

    def step(rows: Any, states: Any, tanh: Any = np.tanh) -> Any:
        h = tanh(rows @ w + states[0] @ u)
        return h, states[1] + h[:, :2]

    for _ in range(3):
        lengths = lengths_of(samples, steps, LENGTHS[how])
        x, states = DRAW.normal(size=(samples, steps, 3)), [DRAW.normal(size=(samples, n)) for n in (4, 2)]
        wanted = by_rows(step, x, lengths, states)
        x[np.arange(steps)[None] >= lengths[:, None]] = np.nan
        outs, ends = over_lengths(
            lambda rows, states: step(rows, states, stack.ops.tanh), stack.asarray(x), lengths, states, lanes
        )
        for found, each in zip((outs, *ends), wanted, strict=True):
            np.testing.assert_allclose(found.numpy(), each, atol=1e-12)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_layers_and_their_gradients_are_those_of_a_masked_loop(stack: Any, kind: Any) -> None:
    layer = kind(4).init(0, (None, 6, 3), "float64")
    x, lengths, ops = DRAW.normal(size=(5, 6, 3)), np.array([6, 0, 2, 5, 1]), stack.ops
    weights = [layer.weight, layer.recurrent, *layer.biases()]
    names = ["weight", "recurrent", "bias", "hidden_bias"][: len(weights)]
    cell = getattr(ops, f"{layer.operator}_cell")

    def in_lanes(x: Any, *given: Any) -> Any:
        own = layer.replaced(**dict(zip(names, given, strict=True)))
        return own.run(x, *(4,) * layer.states, lengths=lengths, lanes=2)

    def masked(x: Any, *given: Any) -> Any:
        states, outs = [stack.asarray(np.zeros((5, 4)))] * layer.states, []
        for t in range(6):
            found = cell(x[:, t], *states, *given)
            on = lengths[:, None] > t
            after = found if isinstance(found, tuple) else (found,)
            states = [ops.where(on, a, s) for a, s in zip(after, states, strict=True)]
            outs.append(ops.where(on, states[0], 0.0))
        return (ops.stack(*outs, axis=1), *states)

    for one, other in zip(in_lanes(stack.asarray(x), *weights), masked(stack.asarray(x), *weights), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
    every = tuple(range(1 + len(weights)))
    slopes = [
        stack.grad(lambda *given, f=f: sum((y * y).sum() for y in f(*given)), argnums=every)(x, *weights)
        for f in (in_lanes, masked)
    ]
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
    last = layer.replaced(sequences=False)(stack.asarray(x), lengths=lengths)
    np.testing.assert_allclose(last.numpy(), masked(stack.asarray(x), *weights)[1].numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_what_is_behind_an_end_is_in_no_gradient(stack: Any, kind: Any) -> None:
    """Not even where the first sequence has no element, some lanes have none at last, and products are made at once."""
    layer = kind(4).init(0, (None, 40, 3), "float64")
    x, lengths = DRAW.normal(size=(5, 40, 3)), np.array([0, 40, 11, 33, 1])
    live = np.arange(40)[None] < lengths[:, None]

    def slopes(x: Any) -> Any:
        def loss(x: Any, weight: Any, recurrent: Any) -> Any:
            own = layer.replaced(weight=weight, recurrent=recurrent)
            return sum((y * y).sum() for y in own.run(x, *(4,) * layer.states, lengths=lengths, lanes=3))

        return [y.numpy() for y in stack.grad(loss, argnums=(0, 1, 2))(x, layer.weight, layer.recurrent)]

    wanted = slopes(np.where(live[..., None], x, 0.0))
    for one, other in zip(slopes(np.where(live[..., None], x, np.nan)), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_products_of_elements_are_made_of_several_times_at_once() -> None:
    """As many as are elements, and fewer than a block more; states are multiplied time after time."""
    layer = nn.LSTM(16).init(0, (None, 20, 8))
    x, lengths = LAZY.input("x", (32, 20, 8), "float32"), LAZY.input("lengths", (32,), "int64")
    program = LAZY.compile([x, lengths], layer(x, lengths=lengths))
    given = DRAW.normal(size=(32, 20, 8)).astype("float32"), DRAW.integers(1, 21, 32)
    found = program.profile(*given, repeat=1).within
    shapes = Counter(each.operands[0].shape for each in found if each.name.startswith("matmul"))
    times = max(given[1].max(), -(-given[1].sum() // 12))
    assert shapes == {(48, 8): -(-times // 4), (12, 16): times}


def test_hardly_more_is_computed_than_there_is() -> None:
    """Times of the loop, counted by a callback within: one program for all lengths, whose graph does not grow."""
    sizes, times = [], [0]

    def count(_: Any) -> None:
        times[0] += 1

    for steps in (400, 800):

        def step(rows: Any, states: Any) -> Any:
            LAZY.ops.callback(rows, function=count)
            return (states[0] + rows,)

        program = LAZY.jit(lambda x, lengths, step=step: over_lengths(step, x, lengths, [1])[0])
        x = np.ones((32, steps, 1))
        for _ in range(5):
            lengths, times[0] = DRAW.integers(1, steps + 1, 32), 0
            sums = program(x, lengths).numpy()[..., 0]
            np.testing.assert_array_equal(sums.max(axis=1), lengths)
            assert times[0] == max(lengths.max(), -(-lengths.sum() // 12))
            assert 12 * times[0] <= 1.02 * lengths.sum() or times[0] == lengths.max()
        graph = LAZY.compile(
            [a := LAZY.input("x", x.shape), b := LAZY.input("l", (32,), "int64")],
            over_lengths(lambda rows, states: (states[0] + rows,), a, b, [1])[0],
        ).graph
        sizes.append(len(graph.nodes))
    assert sizes[0] == sizes[1]


def test_what_does_not_fit_is_refused() -> None:
    x, step = EAGER.asarray(np.ones((4, 3, 2))), lambda rows, states: (states[0],)
    with pytest.raises(ShapeError, match=r"want lengths \(samples,\); given \(4, 3, 2\), \(3,\)"):
        over_lengths(step, x, [1, 2, 3], [2])
    with pytest.raises(DTypeError, match="lengths are integers, given float64"):
        over_lengths(step, x, [1.0, 2.0, 3.0, 1.0], [2])
    with pytest.raises(ShapeError, match=r"states of 4 samples are \(samples, units\)"):
        over_lengths(step, x, [1, 2, 3, 1], [np.ones((3, 2))])
    with pytest.raises(OperatorError, match=r"lanes= is a number of rows, 1 or more, given 0"):
        over_lengths(step, x, [1, 2, 3, 1], [2], lanes=0)
    for wrong in (
        lambda rows, states: (states[0], states[0]), lambda rows, states: (states[0][:, :1],),
        lambda rows, states: (states[0].astype("float32"),), lambda rows, states: states[0],
        lambda rows, states: (0,),
    ):  # fmt: skip
        with pytest.raises(OperatorError, match="gives a tuple of the next states, of the same shapes and dtypes"):
            over_lengths(wrong, x, [1, 2, 3, 1], [2])
    with pytest.raises(ShapeError, match="say lanes="):
        over_lengths(step, LAZY.input("x", ("n", 3, 2)), LAZY.input("l", ("n",), "int64"), [2])
