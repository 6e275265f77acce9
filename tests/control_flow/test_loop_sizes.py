"""What a loop takes to build, plan and keep does not grow, and extents may be unknown (`control_flow/scanning`)."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError
from nnc_func.garbage_collection import uncollected

LAZY, EAGER = nnc.lazy(), nnc.eager()


# --- what does not grow with the number of times -------------------------------------------------------------


def lstm(stack: Any, times: int, **how: Any) -> Any:
    """The gradient of a small LSTM, as a program."""
    ops = stack.ops
    x, w = stack.input("x", (times, 2, 3), "float64"), stack.input("w", (7, 16), "float64")

    def loss(x: Any, w: Any) -> Any:
        def body(x: Any, s: Any) -> Any:
            h, c = s
            z = ops.concat(x, h, axis=1) @ w
            i, f, g, o = (z[:, 4 * k : 4 * k + 4] for k in range(4))
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.sigmoid(o) * ops.tanh(c)
            return h, (h, c)

        outs, (h, _) = stack.foreach(body, x, (np.zeros((2, 4)), np.zeros((2, 4))), **how)
        return outs.sum() + h.sum()

    return stack.compile([x, w], list(stack.grad(loss, argnums=(0, 1))(x, w)))


def calls(f: Any) -> int:
    """Of Python functions, while something is done; none that the collector calls, of what was done before."""
    count = 0

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event == "call"

    gc.collect()
    with uncollected():
        sys.setprofile(note)
        try:
            f()
        finally:
            sys.setprofile(None)
    return count


@pytest.mark.parametrize("how", [{}, {"checkpoint": "sqrt"}], ids=["full", "sqrt"])
def test_building_and_plans_are_the_same_for_any_number_of_times(how: Any) -> None:
    null = nnc.lazy(nnc.Null())
    few, many = (400, 10_000) if how else (10, 10_000)  # from short segments nothing is summed afterwards
    for n in (few, many):
        lstm(null, n, **how)  # what is done once in a process
    built = {n: calls(lambda n=n: lstm(null, n, **how)) for n in (few, many)}
    assert abs(built[few] - built[many]) <= 0.02 * built[few]
    programs = [lstm(null, n, **how) for n in (few, many)]
    plans = [p.plan for p in programs]
    assert len(plans[0].instructions) == len(plans[1].instructions)
    if not how:
        assert len(programs[0].graph.nodes) == len(programs[1].graph.nodes)
        texts = [len(p.text()) for p in plans]
        assert texts[1] - texts[0] < 400  # longer numbers


def test_memory_of_a_gradient_in_a_thousand_steps() -> None:
    null, times = nnc.lazy(nnc.Null()), 1000
    unit = 2 * 4 * 8  # bytes of one state
    full, root = (lstm(null, times, checkpoint=each).plan.arena_bytes for each in ("full", "sqrt"))
    assert full <= 18 * times * unit  # as it is now: what the derivative reads, gradients of gates, and outputs
    assert root <= 3200 * unit  # of which two thousand are outputs and their cotangents


# --- extents that are known late -----------------------------------------------------------------------------


def test_a_symbolic_extent_takes_one_trace() -> None:
    traces = []
    x, w = LAZY.input("x", ("n", 3), "float64"), LAZY.input("w", (3,), "float64")

    def over(w: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            traces.append(1)
            return LAZY.ops.tanh(c * w) + x, c * 2

        return body

    def loss(x: Any, w: Any) -> Any:
        c, ys = LAZY.scan(over(w), w, x)
        return c.sum() + (ys * ys).sum()

    c, ys = LAZY.scan(over(w), w, x)
    assert ys.shape[1] == 3
    program = LAZY.compile([x, w], [c, ys, *LAZY.grad(loss, argnums=(0, 1))(x, w)])
    assert len(traces) <= 2  # one for each call of scan
    start = np.array([0.3, -0.4, 0.9])
    for n in (0, 1, 4, 9):
        array = np.random.default_rng(n).uniform(-1, 1, (n, 3))
        found = program(array, start)

        def step(c: Any, x: Any) -> Any:
            return EAGER.ops.tanh(c * EAGER.asarray(start)) + x, c * 2

        wanted = EAGER.scan(step, start, array)
        np.testing.assert_allclose(found[0], wanted[0].numpy(), rtol=1e-12)
        np.testing.assert_allclose(found[1], wanted[1].numpy(), rtol=1e-12)

        def eager_loss(x: Any, w: Any) -> Any:
            c, ys = EAGER.scan(lambda c, x: (EAGER.ops.tanh(c * w) + x, c * 2), w, x)
            return c.sum() + (ys * ys).sum()

        for one, other in zip(found[2:], EAGER.grad(eager_loss, argnums=(0, 1))(array, start), strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-10, atol=1e-12)
    assert len(traces) <= 2
    for how in ({"unroll": True}, {"unroll": 2}):
        with pytest.raises(OperatorError, match="must be known"):
            LAZY.scan(over(w), w, x, **how)


def test_a_program_writes_gradients_over_whatever_is_in_a_buffer() -> None:
    """Of operands that one turn reads, of those that nothing reads, and of those of no time at all."""
    for n in (0, 1, 3):
        x, w, u = (LAZY.input(name, shape, "float64") for name, shape in (("x", (n, 2)), ("w", (2,)), ("u", (2,))))

        def loss(x: Any, w: Any, u: Any) -> Any:
            c, ys = LAZY.scan(lambda c, x: ((c[0] * w + x, c[1]), c[0]), (w, u), x)
            return c[0].sum() + ys.sum()

        program = LAZY.compile([x, w, u], list(LAZY.grad(loss, argnums=(0, 1, 2))(x, w, u)))
        given = [np.ones((n, 2)), np.array([0.5, 2.0]), np.ones(2)]
        wanted = [np.array(each) for each in program(*given)]
        assert not np.isnan(np.concatenate([each.ravel() for each in wanted])).any()
        outs = [np.full(each.shape, np.nan) for each in wanted]
        program(*given, out=outs)
        for one, other in zip(outs, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(outs[2], 0)
