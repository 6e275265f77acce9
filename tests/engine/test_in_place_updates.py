"""Updates are written where the variables lie, without copies (`engine/planning/committing`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.engine.plan_rows import NEXT, VARIABLE

LAZY = nnc.lazy()
APART = LAZY.swap(optimiser=LAZY.optimiser.up_to_phase("layout"))  # products and updates are operators of their own
STACKS = pytest.mark.parametrize("stack", [LAZY, APART], ids=["fused", "apart"])
UPDATES = pytest.mark.parametrize(
    "update", [nn.SGD(), nn.SGD(momentum=0.9), nn.Adagrad(epsilon=1e-7), nn.Adam()], ids=repr
)
MOVES = {"copy", "concat", "stack", "pad", "assemble", "fill"}


def step_of(stack: Any, update: Any, units: int = 128) -> tuple[Any, Any]:
    """A training step of dense layers, with weights that outweigh their activations, and what it is called with."""
    model = nn.Sequential(nn.Dense(units), nn.tanh, nn.Dense(units), nn.tanh, nn.Dense(units)).init(1, (None, units))
    x = np.random.default_rng(0).normal(size=(4, units)).astype("float32")
    return nn.Step(stack, model, nn.quadratic, update), x


@STACKS
@UPDATES
def test_a_training_step_writes_over_its_variables_and_copies_nothing(update: Any, stack: Any) -> None:
    step, x = step_of(stack, update)
    program = step.program(x, x)
    plan = program.plan.verify()
    large = [b for b in plan.buffers if b.kind == NEXT and b.nbytes > 4 * 128]  # than a row of biases
    assert not large
    assert not MOVES & {i.op.name for i in plan.instructions if not i.view}
    weights = {b.source for b in plan.buffers if b.kind == VARIABLE and b.nbytes > 4 * 128}
    assert weights
    names = [v for at, v in enumerate(program.variables.values()) if at in weights]
    before = [v.array for v in names]
    for _ in range(2):
        step(x, x, rate=0.1)
        assert all(v.array is array for v, array in zip(names, before, strict=True))


@UPDATES
def test_fused_updates_are_those_of_operators_one_by_one(update: Any) -> None:
    (fused, x), (apart, _) = (step_of(stack, update) for stack in (LAZY, APART))
    for _ in range(3):
        np.testing.assert_allclose(fused(x, x, rate=0.1)[0], apart(x, x, rate=0.1)[0], rtol=1e-4)
    for a, b in zip(fused.program(x, x).variables.values(), apart.program(x, x).variables.values(), strict=True):
        np.testing.assert_allclose(a.array, b.array, rtol=1e-3, atol=1e-5)


def test_what_is_added_to_a_product_is_written_over_where_it_is_not_wanted_any_more() -> None:
    o = LAZY.ops
    x, w = LAZY.input("x", (64, 96), "float64"), LAZY.input("w", (96, 96), "float64")
    program = LAZY.compile([x, w], [o.sum(o.sort(o.sin(x)) + o.cos(x) @ w), o.sum(o.sin(x))])
    (product,) = [i for i in program.plan.instructions if i.op.name == "matmul_blockwise"]
    homes = [program.plan.slots[s].buffer for s in (*product.operands[2:], *product.results)]
    assert len(set(homes)) == 1
    one, two = (np.random.default_rng(i).normal(size=s) for i, s in enumerate(((64, 96), (96, 96))))
    found = program(one, two)
    np.testing.assert_allclose(found[0], np.sum(np.sort(np.sin(one)) + np.cos(one) @ two), rtol=1e-9)


@pytest.mark.parametrize("shape", [(1200, 1400), (3, 700, 900), (40, 8, 9)])
def test_products_of_many_rows_are_the_same_over_their_addend(shape: tuple[int, ...]) -> None:
    """More rows than are made at a time, of matrices and of batches of them."""
    o = LAZY.ops
    a, b = (LAZY.input(n, (*shape[:-2], *s), "float32") for n, s in (("a", (shape[-2], 5)), ("b", (5, shape[-1]))))
    c = LAZY.input("c", shape, "float32")
    program = LAZY.compile([a, b, c], o.exp(o.sort(c)) * 0.5 + a @ b)
    assert "matmul_blockwise" in {i.op.name for i in program.plan.instructions}
    program.plan.verify()
    given = [np.random.default_rng(i).normal(size=t.shape).astype("float32") for i, t in enumerate((a, b, c))]
    wanted = np.exp(np.sort(given[2])) * np.float32(0.5) + given[0] @ given[1]
    np.testing.assert_allclose(program(*given), wanted, rtol=1e-4, atol=1e-4)
