"""A value that is there after another one, and no instruction (`graph/ops/memory`, `graph/graph`)."""

from __future__ import annotations

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import PlaceError
from tests.device.test_places import STACKS

LAZY = nnc.lazy()


def test_what_is_computed_of_a_barrier_is_computed_again() -> None:
    x, ops = LAZY.input("x", (4,), "float32"), LAZY.ops
    once = ops.exp(x)
    twice = ops.exp(ops.after(x, once))
    program = LAZY.compile([x], [once, twice])
    given = np.linspace(-1, 1, 4, dtype="float32")
    first, second = program(given)
    np.testing.assert_array_equal(first, second)
    assert [i.op.name for i in program.plan.verify().instructions] == ["exp", "exp"]


def test_what_a_barrier_comes_after_is_not_kept_for_it() -> None:
    x, ops = LAZY.input("x", (1 << 12,), "float32"), LAZY.ops
    early = ops.sort(x)
    late = ops.cumulative_sum(early, axis=0)
    again = ops.sort(ops.after(x, early))
    program = LAZY.compile([x], [ops.sum(late), ops.max(again)])
    assert program.plan.verify().max_load <= 2 * x.aval.nbytes + 256


def test_a_barrier_lets_gradients_through() -> None:
    x = np.float64([1.0, 2.0])
    for stack in (nnc.eager(), LAZY):
        found = stack.grad(lambda y, ops=stack.ops: ops.sum(ops.after(y * y, ops.exp(y))))(stack.asarray(x))
        np.testing.assert_array_equal(np.asarray(found), 2 * x)


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_barrier_in_another_place_is_refused(stack: nnc.Stack) -> None:
    x, there = stack.asarray([1.0]), stack.asarray([2.0], place="two")
    with pytest.raises(PlaceError, match=r"after\(.*different places: .*transfer\(x, place="):
        stack.ops.after(x, there)
    found = stack.ops.after(stack.ops.transfer(x, place="two"), there)
    assert stack.aval(found).place == "two"
