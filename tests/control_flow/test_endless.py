"""``while True`` that a return alone ends, converted, ends (`control_flow/conversion/exits`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}


def fibonacci(n: Any) -> Any:
    a, b = 0, 1
    while True:
        if b > n:
            return a
        a, b = b, a + b


def with_breaks_of_another_loop(n: Any) -> Any:
    k = 0
    while True:
        while True:
            k += 1
            if k % 3 == 0:
                break
            if k > n * 2:
                return k
        if k > n:
            return -k


def in_a_branch(n: Any) -> Any:
    if n > 3:
        while True:
            n = n - 1
            if n < 0:
                return n
    return n * 2


def with_a_break(n: Any) -> Any:
    while True:
        n = n + 1
        if n > 5:
            break
    return n


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("f", [fibonacci, with_breaks_of_another_loop, in_a_branch, with_a_break])
def test_a_loop_that_a_return_ends(stack: Any, f: Callable[..., Any]) -> None:
    converted = stack.jit(control_flow=True)(f)
    for n in (1, 2, 4, 10, 40):
        assert converted(np.int64(n)).item() == f(n)
