"""Nodes of jitted calls' results, made when needed (`engine/unrolled_jit`, `graph/tensors/tensor`)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from tests.engine.test_unrolled_calls import LAZY, X, at_once, warm


def test_a_results_node_is_made_when_it_is_first_needed() -> None:
    fast = LAZY.jit(lambda x: {"a": x + 1, "b": x * 2})
    for _ in range(3):
        found = fast(X)
    line = sys._getframe().f_lineno - 1
    a, b = found["a"], found["b"]
    assert type(a.hold) is type(b.hold) is tuple
    again = fast(a)  # goes in as the array that it shows
    assert type(a.hold) is tuple
    np.testing.assert_array_equal(again["a"].numpy(), X + 2)
    node = a.value
    assert node is a.value
    assert a.hold is None
    assert [each[1] for each in nnc.graph.origin.lines(node.origin)][:1] == [line]
    np.testing.assert_array_equal((a * b).numpy(), (X + 1) * (X * 2))
    later = fast(X)["a"]
    before = later + 0
    later[0] = 7.0
    np.testing.assert_array_equal(before.numpy(), X + 1)
    np.testing.assert_array_equal(later.numpy(), np.concatenate([np.float32([7]), X[1:] + 1]))
    for missing in ("nothing", "__array_struct__"):
        with pytest.raises(AttributeError, match=f"has no attribute '{missing}'"):
            getattr(fast(X)["a"], missing)


def test_threads_that_need_a_results_node_at_once_are_given_one() -> None:
    fast = warm(LAZY.jit(lambda x: [x + n for n in range(200)]), X)
    tensors, before = fast(X), sys.getswitchinterval()
    assert {type(each.hold) for each in tensors} == {tuple}
    nodes: dict[int, list[Any]] = {}

    def act(number: int) -> None:
        nodes[number] = [each.value for each in tensors]

    sys.setswitchinterval(1e-6)
    try:
        at_once(act, range(4))
    finally:
        sys.setswitchinterval(before)
    for made in nodes.values():
        assert all(a is b for a, b in zip(made, nodes[0], strict=True))
