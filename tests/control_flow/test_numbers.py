"""Numbers that branches give and carries become: weak, or refused (`control_flow/branches`, `control_flow/carries`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
UNLIKE = [("int64", 0.5), ("int8", 300), ("uint8", -1), ("bool", 7), ("float32", 7j), ("int16", 2j), ("uint64", -1)]
FITTING = [("int8", 100), ("int8", True), ("float32", 3), ("float16", 0.5), ("bool", True), ("complex64", 0.5),
           ("uint64", 2**64 - 1), ("bfloat16", 0.5)]  # fmt: skip


@every
@pytest.mark.parametrize(("dtype", "number"), UNLIKE)
def test_numbers_that_a_dtype_does_not_hold(stack: Any, dtype: str, number: Any) -> None:
    x = stack.asarray(1).astype(dtype)
    own = stack.asarray(number).dtype
    branch = rf"give alike: the result at h is {dtype} in .*, and {number} in .*, which is {own}; cast"
    calls: list[Callable[[], Any]] = [
        lambda: stack.cond(stack.asarray(False), lambda: {"h": x}, lambda: {"h": number}),
        lambda: stack.cond(stack.asarray(True), lambda: {"h": number}, lambda: {"h": x}),
        lambda: stack.case_of(stack.asarray(0), [lambda y: {"h": number}], {"h": x}, default=nnc.bypass),
        lambda: stack.case_of(9, [lambda: {"h": x}], default=lambda: {"h": number}),
        lambda: nnc.vmap(lambda p: stack.cond(p, lambda: {"h": x}, lambda: {"h": number}))(stack.asarray([True])),
    ]
    for call in calls:
        with pytest.raises(OperatorError, match=branch):
            call()
    carry = rf"a carry keeps its dtype: \w+ is {dtype}, and {number} after the body, which is {own}; start with"
    calls = [
        lambda: stack.fori(0, 1, lambda i, c: number, x),
        lambda: stack.while_loop(lambda c: True, lambda c: (None, number), x, max_iterations=1),
        lambda: stack.associative_scan(lambda a, b: number, stack.ops.full(shape=(3,), value=1, dtype=dtype)),
    ]
    for call in calls:
        with pytest.raises(OperatorError, match=carry):
            call()


@every
@pytest.mark.parametrize(("dtype", "number"), FITTING)
def test_numbers_that_a_dtype_holds(stack: Any, dtype: str, number: Any) -> None:
    x = stack.asarray(1).astype(dtype)
    found = [
        stack.cond(stack.asarray(False), lambda: x, lambda: number),
        stack.case_of(stack.asarray(0), [lambda y: number], x, default=nnc.bypass),
        stack.fori(0, 1, lambda i, c: number, x),
    ]
    for each in found:
        assert each.dtype.name == dtype
        assert each.item() == number


@every
def test_numbers_alone_are_of_what_holds_all(stack: Any) -> None:
    for pred, wanted in ((True, 1.0), (False, 0.5)):
        found = stack.cond(stack.asarray(pred), lambda: 1, lambda: 0.5)
        assert (found.dtype.name, found.item()) == ("float64", wanted)
    found = stack.fori(0, 1, lambda i, c: 2**63, 0)
    assert (found.dtype.name, found.item()) == ("uint64", 2**63)


@every
def test_numbers_that_start_as_another_kind(stack: Any) -> None:
    ones = np.ones(3)
    assert stack.fori(0, 3, lambda i, c: 0.5, 1).item() == 0.5
    assert stack.fori(0, 2, lambda i, c: 2.5, True).item() == 2.5
    assert stack.fori(0, 2, lambda i, c: 2j, 1).item() == 2j
    assert stack.while_loop(lambda i, r: i < 3, lambda i, r: (None, (i + 1, 0.5)), (0, 1))[1][1].item() == 0.5
    last, outs = stack.scan(lambda c, x: (0.5, c * x), 1, ones)
    assert (last.item(), outs.numpy().tolist()) == (0.5, [1.0, 0.5, 0.5])
    assert stack.fold(lambda c, x: 0.5, 0, ones).item() == 0.5
