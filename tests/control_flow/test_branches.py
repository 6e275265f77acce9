"""Branches: one of several functions is computed (`control_flow/branches`, `graph/ops/branch`)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import NncError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


class Counting(nnc.NumPy):
    """A device that notes what it computes."""

    calls: ClassVar[list[str]] = []

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        self.calls.append(op.name)
        return super().bind(op, *args, **params)


def agree(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=rtol)


# --- what is computed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_the_untaken_branch_is_not_computed_whatever_it_is_made_of(make: Any) -> None:
    device = Counting()
    stack = make(device)
    x, y = stack.variable("x", 2.0), stack.variable("y", 3.0)
    sin, exp = stack.ops.sin, stack.ops.exp
    for branches, operands in (
        ((lambda: exp(y), lambda: sin(y)), ()),  # of what it captures alone
        ((lambda z: exp(z), lambda z: sin(z)), (y,)),
        ((lambda: exp(stack.asarray(3.0)), lambda: sin(stack.asarray(3.0))), ()),  # of numbers alone
    ):
        device.calls.clear()
        agree(stack.cond(x > 5, *branches, *operands), np.sin(3.0))
        assert {"branch", "loop"}.intersection(device.calls)
        is_folded = make is nnc.lazy and not operands and branches[0].__code__.co_freevars == ("exp", "stack")
        assert is_folded or not {"sin", "exp"}.intersection(device.calls)  # numbers are folded when it is compiled


def test_what_was_computed_around_a_branch_is_not_computed_in_it() -> None:
    x = LAZY.input("x", (), "float64")
    outer = LAZY.ops.tanh(x)
    program = LAZY.compile([x], [LAZY.cond(x > 0, lambda: outer * 2, lambda: outer * 3), outer])
    assert sum(i.op.name == "tanh" for i in program.plan.instructions) == 1
    assert program.plan.text().count(" = tanh(") == 1


@every
def test_what_fails_in_the_untaken_branch_does_not_fail(stack: Any) -> None:
    v, i = stack.asarray(np.arange(3.0)), stack.asarray(10)
    agree(stack.cond(i < 3, lambda: v[i], lambda: stack.asarray(-1.0)), -1.0)
    singular = stack.asarray(np.zeros((2, 2)))
    inv = stack.ops.inv
    agree(stack.cond(stack.asarray(0), lambda: inv(singular).sum(), lambda: singular.sum()), 0.0)
    found = stack.grad(lambda a: stack.cond(a[0, 0] > 0, lambda: inv(a).sum(), lambda: a.sum()))(singular)
    agree(found, np.ones((2, 2)))
    with pytest.raises(NncError):  # and the other does
        stack.cond(stack.asarray(1), lambda: inv(singular).sum(), lambda: singular.sum()).numpy()


@every
def test_the_untaken_branch_gives_no_nan(stack: Any) -> None:
    def f(x: Any) -> Any:
        return stack.cond(x > 0, lambda: stack.ops.log(x) / x, lambda: x * 3)

    agree(stack.grad(f)(0.0), 3.0)
    agree(stack.grad(stack.grad(f))(0.0), 0.0)
    value, slope = stack.jvp(f, (0.0,), (1.0,))
    agree(value, 0.0)
    agree(slope, 3.0)
