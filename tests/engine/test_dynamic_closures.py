"""A jitted function of a dynamic stack reads anew what it closes over (`engine/jit`, `control_flow`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

SETTINGS: dict[str, Callable[[], Any]] = {
    "plain": nnc.dynamic,
    "limit": partial(nnc.dynamic, memory_limit=1 << 20),
    "memoise": partial(nnc.dynamic, memoise=True),
    "replay": partial(nnc.dynamic, replay_after=2),
    "ahead": lambda: nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0)),
}


@pytest.fixture(params=SETTINGS)
def stack(request: pytest.FixtureRequest) -> Any:
    """A dynamic one."""
    return SETTINGS[request.param]()


PLACES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "at once": lambda s, w, d: ((w * d - 1) ** 2).sum(),
    "foreach": lambda s, w, d: s.foreach(lambda t, c: (None, c + ((w * t - 1) ** 2).sum()), d, 0.0)[1],
    "cond": lambda s, w, d: s.cond(d.sum() > 0, lambda: ((w * d - 1) ** 2).sum(), lambda: d.sum()),
    "grad": lambda s, w, d: s.grad(lambda d: ((w * d - 1) ** 2).sum())(d).sum(),
    "vmap": lambda s, w, d: s.vmap(lambda t: ((w * t - 1) ** 2).sum())(d).sum(),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_leaf_whose_variable_is_gone(stack: Any, place: str) -> None:
    """It is another value each step, and takes gradients."""
    w = +stack.variable("w", np.array([0.5, 0.75]))

    def loss(d: Any) -> Any:
        return PLACES[place](stack, w, d)

    step = stack.jit(loss)
    for moves in (True, True, False, False):
        data = np.array([1.0, 2.0])
        d = +stack.variable("d", data) if moves else stack.asarray(data)
        want, found = loss(d), step(d)
        np.testing.assert_allclose(found.numpy(), want.numpy())
        (slope,), (jitted,) = stack.gradients([want], [w]), stack.gradients([found], [w])
        assert np.abs(slope.numpy()).max() > 0.01
        np.testing.assert_allclose(jitted.numpy(), slope.numpy())
        w = w - 0.1


def test_what_a_function_of_the_host_gave(stack: Any) -> None:
    v, x = stack.variable("v", [1.0, 2.0]), stack.variable("x", [3.0, 4.0])
    square = nnc.HostFunction(lambda a: a * a, vjp=lambda a, y, g: 2 * a * g, jvp=lambda a, y, t: 2 * a * t)
    (c,) = stack.ops.callback(v, function=square, shapes=((2,),), dtypes=("float64",), pure=True)
    step = stack.jit(lambda d: (d * c).sum())
    np.testing.assert_allclose(stack.gradients([step(x)], [v])[0].numpy(), [6.0, 16.0])


def test_a_call_without_gradients_first(stack: Any) -> None:
    """What that compiled is not used where gradients are wanted."""
    v, data = stack.variable("v", [1.0, 1.0]), stack.asarray([1.0, 2.0])
    step = stack.jit(lambda d: ((d * v) ** 2).sum())
    for _ in range(3):
        with stack.no_grad():
            assert step(data).item() == 5.0
        np.testing.assert_allclose(stack.gradients([step(data)], [v])[0].numpy(), [2.0, 8.0])


def test_without_gradients_a_leaf_is_read_as_it_is_now(stack: Any) -> None:
    """Floating or not."""
    w, k = +stack.variable("w", [1.0, 1.0]), +stack.variable("k", np.array([1, 2]))
    step = stack.jit(lambda d: (d * w * k).sum())
    for n in range(3):
        with stack.no_grad():
            assert step(stack.asarray([1.0, 2.0])).item() == (n + 1) * (1 * (1 + n) + 2 * (2 + n))
        w, k = w + 1.0, k + 1
    assert step(stack.asarray([1.0, 2.0])).item() == 4 * (4 + 2 * 5)


def test_arrays_that_are_arguments_may_be_written_into_afterwards(stack: Any) -> None:
    """A loader fills its batch once more before gradients are asked for."""
    w = stack.variable("w", np.array([1.0, 2.0]))
    step, batch = stack.jit(lambda w, x: (w * x).sum()), np.empty(2)
    for n in range(4):
        batch[:] = n + 1, n + 2
        loss = step(w, batch)
        batch[:] = np.nan
        np.testing.assert_array_equal(stack.gradients([loss], [w])[0].numpy(), [n + 1, n + 2])
