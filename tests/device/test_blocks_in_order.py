"""Kernels of several steps go block by block as elements lie in memory, whatever the layout (`graph/ops/families`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.ops.families import BLOCK

LAZY = nnc.lazy()
draw = np.random.default_rng(0)
OPERATORS = {"fma": 3, "softplus": 1, "relu_gradient": 2, "sigmoid_gradient": 2, "tanh_gradient": 2}
SHAPES = st.sampled_from(
    [(1, 70, 40, 50), (3, 70, 33, 31), (2, 3, 5, 7), (1, 1, 300, 300), (300, 1, 1, 300), (1, 2, 50000, 1), (0, 3, 4, 5)]
)
WIDE = (1, 70, 40, 50)


def part(shape: tuple[int, ...], own: tuple[bool, ...]) -> Any:
    """Numbers that broadcast to a shape: with an axis of one element where it has none of its own."""
    return draw.normal(size=[n if mine else 1 for n, mine in zip(shape, own, strict=True)]).astype("float32")


@pytest.mark.parametrize("name", sorted(OPERATORS))
@given(shape=SHAPES, order=st.permutations(range(4)), own=st.lists(st.tuples(*[st.booleans()] * 4), min_size=2))
@example(shape=WIDE, order=[0, 2, 3, 1], own=[(False, True, False, False), (False, True, False, False)])
@example(shape=WIDE, order=[0, 1, 2, 3], own=[(True,) * 4, (False,) * 4])
def test_values_are_the_same_in_every_layout(name: str, shape: Any, order: Any, own: Any) -> None:
    count = OPERATORS[name]
    arrays = [part(shape, (True,) * 4), *[part(shape, each) for each in own[: count - 1]]]
    if name != "fma":
        arrays = [arrays[0], *[part(shape, (True,) * 4) for _ in arrays[1:]]]
    wanted = getattr(nnc.eager().ops, name)(*arrays).numpy()
    inputs = [LAZY.input(f"x{n}", a.shape, "float32") for n, a in enumerate(arrays)]
    laid = [LAZY.ops.relayout(x, layout=tuple(order)) if x.shape == shape else x for x in inputs]
    program = LAZY.compile(inputs, getattr(LAZY.ops, name)(*laid))
    if math.prod(shape) and order == [0, 2, 3, 1]:
        assert program.plan.slots[program.plan.instructions[-1].operands[0]].aval.layout == (0, 2, 3, 1)
    np.testing.assert_allclose(program(*arrays), wanted, rtol=1e-6, atol=1e-6)


def test_scratch_memory_is_a_block() -> None:
    """Of one image too, of which rows along the first axis are all of it."""
    x = LAZY.device.aval(np.empty((1, 64, 112, 112), "float32"))
    for kernel in CATALOGUE["fma"].kernels:
        if kernel.name == "in blocks":
            assert kernel.scratch is not None
            for shape, _ in kernel.scratch((x, x, x)):
                assert math.prod(shape) == BLOCK
