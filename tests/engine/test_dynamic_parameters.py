"""Parameters are what they were when an operator was applied, whatever becomes of a list (`engine/dynamic`)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from tests.engine.dynamic_stacks import own_device

STACKS: dict[str, Callable[[Any], Any]] = {
    "plain": nnc.dynamic,
    "replay": lambda d: nnc.dynamic(d, replay_after=2),
    "memoise": lambda d: nnc.dynamic(d, memoise=True),
    "evict": lambda d: nnc.dynamic(d, memory_limit=0),
    "ahead": lambda d: nnc.lazy(d).swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0)),
}


class Own(list[int]):
    """A list that is not of Python's own class."""


VALUES = np.arange(1.0, 7.0).reshape(2, 3)
CASES: dict[str, tuple[Callable[..., Any], Any, Any]] = {  # an operator, what it is given, what becomes of that
    "permute_dims": (lambda o, x, p: o.permute_dims(x, axes=p), [1, 0], [0, 1]),
    "pad": (lambda o, x, p: o.pad(x, widths=p), [[1, 0], [0, 1]], [[0, 1], [1, 0]]),
    "pad, a list within a tuple": (lambda o, x, p: o.pad(x, widths=((1, 0), p)), [0, 1], [1, 0]),
    "flip": (lambda o, x, p: o.flip(x, axis=p), [0], [1]),
    "sum": (lambda o, x, p: o.sum(x, axis=p), [0], [1]),
    "logsumexp": (lambda o, x, p: o.logsumexp(x, axis=p), [1], [0]),
    "reshape": (lambda o, x, p: o.reshape(x, shape=p), [3, 2], [6, 1]),
    "np.tile": (lambda o, x, p: np.tile(x, p), [1, 2], [2, 1]),
    "x.mean": (lambda o, x, p: x.mean(axis=p), [0], [1]),
    "a list of a class of its own": (lambda o, x, p: o.flip(x, axis=p), Own([0]), [1]),
    "x @ array": (lambda o, x, p: x @ p, np.eye(3), np.ones((3, 3))),
    "einsum": (lambda o, x, p: o.einsum(x, p, subscripts="ij,jk->ik"), np.eye(3), np.ones((3, 3))),
    "np.einsum": (lambda o, x, p: np.einsum("ij,jk->ik", x, p), np.eye(3), np.ones((3, 3))),
    "kron": (lambda o, x, p: o.kron(x, p), np.eye(2), np.ones((2, 2))),
    "layer_norm": (lambda o, x, p: o.layer_norm(x, p, p), np.arange(3.0), np.ones(3)),
    "repeat": (lambda o, x, p: o.repeat(x[0], p, size=6), np.array([1, 2, 3]), np.array([3, 2, 1])),
    "x[array]": (lambda o, x, p: x[p, [1, 2]], np.array([0, 1]), np.array([1, 0])),
}


def asked(stack: Any, case: str, becomes: Any) -> tuple[Any, Any]:
    """The value, and a gradient in which every element counts for another number."""
    apply, given, _ = CASES[case]
    x = stack.variable("x", VALUES)
    held = deepcopy(given)
    y = apply(stack.ops, x, held)
    held[:] = becomes
    value = y.numpy()
    weights = np.arange(1.0, value.size + 1).reshape(value.shape)
    return value, stack.gradients([(y * weights).sum()], [x])[0].numpy()


@pytest.mark.parametrize("kind", STACKS)
@pytest.mark.parametrize("case", CASES)
def test_a_list_that_changes_afterwards_changes_nothing(case: str, kind: str) -> None:
    _, given, becomes = CASES[case]
    wanted = asked(nnc.dynamic(own_device()), case, given)
    stack = STACKS[kind](own_device())
    for _ in range(4):
        for found, each in zip(asked(stack, case, becomes), wanted, strict=True):
            np.testing.assert_allclose(found, each, rtol=1e-12)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
@pytest.mark.parametrize("case", CASES)
def test_nor_where_a_function_is_traced(case: str, make: Callable[[], Any]) -> None:
    apply, given, becomes = CASES[case]
    stack = make()

    def loss(x: Any, changes: bool) -> Any:
        held = deepcopy(given)
        y = apply(stack.ops, x, held)
        if changes:
            held[:] = becomes
        return (y * np.arange(1.0, np.prod(y.shape) + 1).reshape(y.shape)).sum()

    for of in (stack.grad, stack.jit):
        found, wanted = [of(partial(loss, changes=changes))(VALUES).numpy() for changes in (True, False)]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("replay_after", [None, 1])
@pytest.mark.parametrize(("ys", "xs"), [([2.0], ["x"]), (["x"], [1.0]), ([np.ones(3)], ["x"]), (["x"], [np.ones(3)])])
def test_gradients_of_what_is_no_tensor_are_refused_where_steps_are_replayed(
    ys: Any, xs: Any, replay_after: Any
) -> None:
    stack = nnc.dynamic(own_device(), replay_after=replay_after)
    x = +stack.variable("x", np.ones(3))
    named = {"x": x}
    given = [[named[each] if isinstance(each, str) else each for each in side] for side in (ys, xs)]
    for _ in range(3):
        with pytest.raises(nnc.errors.DerivativeError, match=r"gradients are of tensors, with respect to tensors"):
            stack.gradients(*given)
