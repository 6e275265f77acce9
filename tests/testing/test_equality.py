"""Optimised, unoptimised and eager are equal: values and gradients of random programs (`testing/rewrites`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules import REASSOCIATION
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.testing.agreement import SLOPE, agree, comparable, gradients
from nnc_func.testing.program import INPUT, Leaf, Program, Step
from nnc_func.testing.programs import LARGEST, programs
from tests.profiles import examples

EAGER, LAZY = nnc.eager(), nnc.lazy()
EVERY_RULE = LAZY.optimiser.without_rules("fuse_elementwise").with_rules(fuse_elementwise.from_size(0))
STACKS = {
    "unoptimised": LAZY.swap(optimiser=LAZY.optimiser.without_rules(*(r.name for r in LAZY.optimiser.rules))),
    "optimised": LAZY,
    "every rule": LAZY.swap(optimiser=EVERY_RULE.with_numerics(REASSOCIATION)),
}


X, Y = Leaf(INPUT, "x", (), "float64", 0), Leaf(INPUT, "y", (2,), "float64", 1)


def step(name: str, *args: int, **params: Any) -> Step:
    return Step(CATALOGUE[name], args, params)


MASKED = Program((Y,), (step("equal", 0, 0), step("multiply_no_nan", 1, 0), step("add", 2, 2)), (3,), ())
SCALARS = Program(  # both slices of a scalar have gradients in parts, which lie on each other
    (X,),
    (
        step("slice", 0, starts=(), stops=(), steps=()),
        step("add", 1, 1),
        step("slice", 0, starts=(), stops=(), steps=()),
    ),
    (3, 2),
    (),
)
EARLIER = Program(  # a group that comes in early needs what is in another one, which came in before it
    tuple(Leaf(INPUT, f"x{i}", (), "float64", i) for i in range(3)),
    (
        step("subtract", 1, 2),
        step("set_slice", 2, 3, starts=(), stops=(), steps=()),
        step("stack", 1, 0, axis=0),
        step("relayout", 5, data_format="NHWC", layout=(0,)),
        step("slice", 6, starts=(0,), stops=(2,), steps=(2,)),
        step("flatnonzero", 5, fill=0, size=9),
        step("kth_value", 7, axis=0, keepdims=False, k=0),
    ),
    (9, 9, 6, 0, 4, 8),
    (),
)
ANGLE = Program((X,), (step("equal", 0, 0), step("atan2", 1, 0)), (2,), ())


@examples(few=300, nightly=10_000)
@given(programs())
@example(MASKED)
def test_values_of_random_programs_are_equal(program: Program) -> None:
    feeds, state = program.feeds(), [v.value() for v in program.variables]
    _, _, largest = program.run_numpy(feeds, state)
    comparable(largest, LARGEST)
    wanted, following = program.immediate(EAGER, feeds, state)
    for name, stack in STACKS.items():
        built = program.build(stack)
        agree(built(*feeds), wanted, program, largest, f"{name}: output")
        agree(built.state(), following, program, largest, f"{name}: variable")


@examples(few=300, nightly=10_000)
@given(programs(smooth=True, most_steps=8))
@example(ANGLE)
@example(SCALARS)
@example(EARLIER)
def test_gradients_of_random_programs_are_equal(program: Program) -> None:
    _, _, largest = program.run_numpy(program.feeds(), [v.value() for v in program.variables])
    comparable(largest, SLOPE)
    (wanted,) = gradients(program, EAGER, how="at once")
    largest = max([largest, *(_largest(g) for g in wanted)]) * 10
    for name in ("unoptimised", "every rule"):
        agree(gradients(program, STACKS[name], how="compiled")[0], wanted, program, largest, f"{name}: gradient")


def _largest(gradient: Any) -> float:
    return float(np.abs(gradient).max()) if gradient.size and np.isfinite(gradient).all() else 0.0
