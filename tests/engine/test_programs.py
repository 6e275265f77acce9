"""Random programs give the same on every engine, whatever is shared, aliased, updated or poisoned (`engine`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.engine.allocators import NoReuse
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.testing.agreement import apply_at_once, checked, differentiate, follow
from nnc_func.testing.programs import CONSTANT, INPUT, VARIABLE, Leaf, Program, Step, programs
from nnc_func.testing.schedules import RandomScheduler

EAGER, LAZY = nnc.eager(), nnc.lazy()
EVERY_SIZE = LAZY.optimiser.without_rules("fuse_elementwise").with_rules(fuse_elementwise.from_size(0), phase="fuse")
FUSED = LAZY.swap(optimiser=EVERY_SIZE)
STACKS = {
    "eager": EAGER,
    "lazy": LAZY,
    "no reuse": LAZY.swap(engine=LAZY.engine.with_allocator(NoReuse())),
    "no rules": LAZY.swap(optimiser=LAZY.optimiser.without_rules(*(r.name for r in LAZY.optimiser.rules))),
    "as written": LAZY.swap(engine=LAZY.engine.with_orders("as_written")),
    "streams": LAZY.swap(engine=LAZY.engine.with_streams(3, RandomScheduler(0))),
    "eager over lazy": EAGER.swap(device=LAZY),
    "fused": FUSED,
}
MANY = settings(max_examples=4 * settings().max_examples)


# --- examples that were bugs once, or are in Owl -----------------------------------------------------------

X = Leaf(INPUT, "x", (2,), "float64", 0)
W1, W2 = Leaf(VARIABLE, "w1", (2,), "float64", 1), Leaf(VARIABLE, "w2", (2,), "float64", 2)
ONES = Leaf(CONSTANT, "c", (2,), "float64", "ones")


def step(name: str, *args: int, **params: Any) -> Step:
    return Step(CATALOGUE[name], args, params)


SWAPPED = Program((X, W1, W2), (), (1, 2), ((1, 2), (2, 1)))
FED = Program((X, W1, W2), (), (0, 0, 1), ((1, 0), (2, 0)))
CONSTANTLY = Program((X, W1, ONES), (step("multiply", 1, 2),), (3, 2), ((1, 2),))
CHAINED = Program((X, W1), (step("add", 1, 0), step("multiply", 2, 2), step("tanh", 3)), (2,), ((1, 4),))
VIEWED = Program((X, W1), (step("flip", 1, axis=None), step("flip", 0, axis=None)), (2, 3), ((1, 2),))
CROSSED = Program((X, W1, W2), (step("add", 1, 2), step("subtract", 1, 2)), (), ((1, 3), (2, 4)))
REPEATED = Program((X,), (step("multiply", 0, 0), step("add", 1, 1), step("add", 1, 2)), (3, 1, 3, 0), ())
SQUARED = Program((X, W1), (step("multiply", 1, 1),), (2,), ((1, 2),))

Z, C = Leaf(INPUT, "z", (2,), "complex128", 0), Leaf(INPUT, "a", (2, 2, 2), "float64", 1)
GATED = Body.of(3, (CATALOGUE["sigmoid"], 0), (CATALOGUE["multiply"], 0, 1))  # of a real product and what is complex
PLAIN = {"transpose_a": False, "transpose_b": False}
WIDENED = Program((Z, C), (step("add", 1, 1), step("matmul_blockwise", 2, 2, 0, 2, body=GATED, **PLAIN)), (3,), ())


@pytest.mark.parametrize("name", STACKS)
@MANY
@given(programs())
@example(SWAPPED)
@example(FED)
@example(CONSTANTLY)
@example(CHAINED)
@example(VIEWED)
@example(CROSSED)
@example(REPEATED)
@example(SQUARED)
@example(WIDENED)
def test_a_compiled_program_is_numpys(name: str, program: Program) -> None:
    with np.errstate(all="ignore"):
        follow(program, STACKS[name])


@pytest.mark.parametrize("name", ["eager", "lazy", "eager over lazy"])
@given(programs())
def test_what_is_computed_at_once_or_forced_is_numpys(name: str, program: Program) -> None:
    apply_at_once(program, STACKS[name])


@pytest.mark.parametrize("name", ["lazy", "no rules"])
@given(programs())
def test_with_poisoned_memory_the_same(name: str, program: Program) -> None:
    with checked(3), np.errstate(all="ignore"):
        follow(program, STACKS[name])


@given(programs(smooth=True, most_steps=8))
def test_gradients_are_equal_on_every_engine(program: Program) -> None:
    with np.errstate(all="ignore"):
        differentiate(program, EAGER)
        differentiate(program, LAZY)
