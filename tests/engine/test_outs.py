"""The caller's arrays for results: what does not fit is refused before anything runs (`engine/running/outs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import NncError, OperatorError

EAGER, LAZY = nnc.eager(), nnc.lazy()
PLACES = nnc.Places(one=nnc.NumPy(), two=nnc.NumPy())
STACKS = {
    "eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY),
    "checked": LAZY.swap(engine=LAZY.engine.checking_numerics()),
}  # fmt: skip


def read_only() -> Any:
    array = np.empty(3)
    array.flags.writeable = False
    return array


BAD: dict[str, Callable[[], Any]] = {
    "too few": list,
    "too many": lambda: [np.empty(3), np.empty(3)],
    "another shape": lambda: [np.empty(4)],
    "another dtype": lambda: [np.empty(3, "float32")],
    "read-only": lambda: [read_only()],
    "nested": lambda: {"doubled": np.empty(3)},
    "a list of numbers": lambda: [[1.0, 2.0, 3.0]],
    "a tensor": lambda: [LAZY.asarray([1.0, 2.0, 3.0])],
}


def counting(stack: Any, extent: Any, retain: str) -> tuple[Any, Any]:
    x, w = stack.input("x", (extent,), "float64"), stack.variable("w", np.zeros(()))
    return stack.compile([x], {"doubled": x * 2}, [(w, w + stack.ops.sum(x))], retain=retain), w


@pytest.mark.parametrize("retain", ["none", "all"])
@pytest.mark.parametrize("extent", [3, "n"])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", STACKS)
def test_what_does_not_fit_is_refused_and_nothing_has_run(name: str, bad: str, extent: Any, retain: str) -> None:
    program, w = counting(STACKS[name], extent, retain)
    with pytest.raises(NncError, match="out"):
        program(np.ones(3), out=BAD[bad]())
    assert w.numpy() == 0
    fits = np.empty(3)
    assert program(np.ones(3), out=fits)["doubled"] is fits
    np.testing.assert_array_equal(fits, [2, 2, 2])
    assert w.numpy() == 3


def test_an_array_of_the_host_is_no_array_in_a_place() -> None:
    stack = nnc.lazy(PLACES)
    x = stack.input("x", (3,), "float64")
    program = stack.compile([x], stack.ops.sin(x))
    with pytest.raises(OperatorError, match=r"out\[0\] wants an array of the device to write into, given a ndarray"):
        program(np.ones(3), out=np.empty(3))
    fits = stack.device.empty((3,), "float64")
    assert program(np.ones(3), out=fits) is fits
    np.testing.assert_array_equal(np.asarray(fits), np.sin(np.ones(3)))
