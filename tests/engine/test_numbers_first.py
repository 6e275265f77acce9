"""A Python number before or behind a tensor, whose kernel is known or not (`stack`, `engine/dynamic/quick`)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import NncError

NUMBERS = (2, 1.5, 0, 0.0, -0.0, 1, 1.0, math.inf, math.nan, True)
STACKS = {
    "eager": nnc.eager,
    "dynamic": nnc.dynamic,
    "ahead": lambda: nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True)),
}


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> Any:
    """One that computes at once."""
    return STACKS[request.param]()


def bits(found: Any) -> tuple[Any, bytes]:
    """Dtype and contents."""
    array = np.asarray(found)
    return array.dtype, array.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "copysign", "atan2", "maximum"])
def test_the_number_stands_where_it_stood(stack: Any, name: str, dtype: str) -> None:
    """Zeros have their signs, and equal numbers of two classes are two."""
    apply, right = getattr(stack.ops, name), np.array([-2.5, -0.0, 0.0, 3.0], dtype)
    tensor = stack.asarray(right)
    recorded = +stack.variable("x", right)
    for _ in range(3):
        for number in NUMBERS:
            with np.errstate(all="ignore"):
                first = apply(stack.asarray(np.array(number, dtype)), tensor)
                second = apply(tensor, stack.asarray(np.array(number, dtype)))
            for x in (tensor, recorded):
                assert bits(apply(number, x).numpy()) == bits(first.numpy()), (number, name)
                assert bits(apply(x, number).numpy()) == bits(second.numpy()), (number, name)


@pytest.mark.parametrize("which", ["dynamic", "ahead"])
def test_gradients_go_through_what_stands_behind(which: str) -> None:
    stack = STACKS[which]()
    x = stack.variable("x", np.array([2.0, 4.0]))
    for _ in range(3):
        y = 1.0 / (3 - 0.5 * x)
        (found,) = stack.gradients([y.sum()], [x])
        np.testing.assert_allclose(found.numpy(), 0.5 / (3 - 0.5 * np.array([2.0, 4.0])) ** 2)


def test_what_is_refused_is_refused_in_the_same_words(stack: Any) -> None:
    """A number that the dtype cannot have, before and after the kernel is known."""
    small = stack.asarray(np.ones(3, "int8"))
    assert (1 - small).numpy().tolist() == [0, 0, 0]
    said = []
    for _ in range(2):
        with pytest.raises(NncError, match="1000") as caught:
            1000 - small
        said.append(str(caught.value))
    assert said[0] == said[1]
