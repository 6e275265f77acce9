"""Random numbers in loops: a key repeats its own, modules draw others each time (`nn/modules`, `engine/effects`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.effects import numbers_of_times

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
HOW: tuple[dict[str, Any], ...] = ({}, {"checkpoint": "sqrt"}, {"checkpoint": 2}, {"unroll": True}, {"unroll": 3})
DROP = nn.Dropout(0.5)
ROWS = np.ones((5, 64))  # of which two masks are equal once in 2**64


def different(rows: Any) -> int:
    return len({row.tobytes() for row in np.asarray(rows)})


def dropped(stack: Any, x: Any, **how: Any) -> Any:
    context = nn.Context(True, stack.key(3))
    return stack.scan(lambda s, row: ((y := DROP(row, context)) + s, y), np.zeros(64), x, **how)[1]


@every
def test_a_key_repeats_its_numbers_and_folding_in_the_number_of_the_time_does_not(stack: Any) -> None:
    key, ops = stack.key(5), stack.ops
    same = stack.map(lambda _: ops.random_uniform(key, shape=(4,)), ROWS).numpy()
    assert different(same) == 1
    others = stack.scan(lambda i, _: (i + 1, ops.random_uniform(ops.random_fold_in(key, i), shape=(4,))), 0, ROWS)[1]
    assert different(others.numpy()) == len(ROWS)
    for i, row in enumerate(others.numpy()):
        np.testing.assert_array_equal(row, ops.random_uniform(ops.random_fold_in(key, i), shape=(4,)).numpy())


@every
@pytest.mark.parametrize("how", HOW)
def test_masks_are_fresh_each_time_and_the_same_backwards(stack: Any, how: Any) -> None:
    wanted = dropped(EAGER, ROWS).numpy()
    assert different(wanted) == len(ROWS)
    np.testing.assert_array_equal(dropped(stack, ROWS, **how).numpy(), wanted)
    for transform in (stack.grad, lambda f: stack.jit(stack.grad(f))):
        slopes = transform(lambda x: (dropped(stack, x, **how) ** 2).sum())(ROWS).numpy()
        np.testing.assert_allclose(slopes, 2 * wanted * wanted)


@every
def test_each_loop_around_counts(stack: Any) -> None:
    def f(x: Any) -> Any:
        context = nn.Context(True, stack.key(3))
        return stack.map(lambda rows: stack.map(lambda row: DROP(row, context), rows), x)

    assert different(f(np.ones((3, 4, 64))).numpy().reshape(12, 64)) == 12


@every
def test_in_while_loops_and_branches(stack: Any) -> None:
    context = nn.Context(True, stack.key(3))

    def body(i: Any) -> Any:
        return stack.cond(i > -1, lambda: DROP(stack.asarray(ROWS[0]), context), lambda: ROWS[0]), (i + 1,)

    outs, _, times = stack.while_loop(lambda i: i < 4, body, (0,), max_iterations=6)
    assert times.item() == 4
    assert different(outs.numpy()) == 5  # rows of times that were not are zeros


def test_a_scanned_model_learns_with_dropout() -> None:
    """Training steps by eager and lazy stacks drop the same elements, time after time."""
    x, w = np.random.default_rng(0).normal(size=(5, 3, 8)), np.random.default_rng(1).normal(size=(8, 8)) / 3

    def loss(stack: Any, w: Any, key: Any, **how: Any) -> Any:
        context = nn.Context(True, key)
        outs, _ = stack.foreach(
            lambda row, h: (h, stack.ops.tanh(row + DROP(h, context) @ w)), x, np.ones((3, 8)), **how
        )
        return (outs * outs).sum()

    wanted = EAGER.grad(lambda w: loss(EAGER, w, EAGER.key(1), unroll=True))(w).numpy()
    for stack in STACKS.values():
        for how in HOW:
            step = stack.jit(stack.grad(lambda w, key, stack=stack, how=how: loss(stack, w, key, **how)))
            np.testing.assert_allclose(step(w, stack.key(1)).numpy(), wanted, rtol=1e-9)


def test_outside_of_loops_there_is_no_number() -> None:
    assert numbers_of_times(EAGER) == []
    drawn = nn.Context(True, EAGER.key(3)).next_key().numpy()
    np.testing.assert_array_equal(drawn, EAGER.ops.random_fold_in(EAGER.key(3), np.uint64(1)).numpy())
