"""Random programs give the same on every engine, whatever is shared, aliased, updated, returned twice, or poisoned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.allocators import NoReuse
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.testing.programs import CONSTANT, INPUT, LARGEST, VARIABLE, Leaf, Program, Step, programs
from nnc_func.testing.schedules import RandomScheduler

EAGER, LAZY = nnc.eager(), nnc.lazy()
EVERY_SIZE = LAZY.optimiser.without_rules("fuse_elementwise").with_rules(fuse_elementwise.from_size(0))
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
ULPS = 256  # of the largest number on the way: a dozen steps, each a few ulps, and sums of up to 500 elements
MANY = settings(max_examples=4 * settings().max_examples)


def host(array: Any) -> Any:
    return array.numpy() if hasattr(array, "numpy") else np.asarray(array)


def agree(found: Any, wanted: Any, program: Program, largest: float, what: str) -> None:
    """Equal shapes and dtypes, NaN and infinities in the same places, numbers up to rounding on the way."""
    allowed = ULPS * program.epsilon() * max(largest, 1.0)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        one = host(one)
        assert (one.shape, one.dtype) == (other.shape, other.dtype), f"{what}, value {i}"
        if one.dtype.kind != "f":
            np.testing.assert_array_equal(one, other, f"{what}, value {i}")
        else:
            np.testing.assert_allclose(one, other, rtol=0, atol=allowed, err_msg=f"{what}, value {i}")


def followed(program: Program, stack: Any, what: str) -> None:
    """Three calls with two different inputs, against NumPy; results of all of them are held to the end."""
    built = program.build(stack)
    if getattr(built.program, "plan", None) is not None:
        built.program.plan.verify()
    state = [v.value() for v in program.variables]
    kept, wanted = [], []
    for seed in (0, 1, 0):
        feeds = program.feeds(seed)
        if seed:  # columns first, every other element: a caller's array may lie in memory anyhow
            feeds = [np.repeat(f.T.copy().T, 2, axis=-1)[..., ::2] if f.ndim else f for f in feeds]
        before = [f.copy() for f in feeds]
        outputs, state, largest = program.run_numpy(feeds, state)
        assume(largest < LARGEST)
        with np.errstate(all="ignore"):
            kept.append(built(*feeds))
        wanted.append((outputs, largest))
        owned(kept[-1], [*feeds, *(v.value.array for v in built.variables)], what)
        agree(built.state(), state, program, largest, f"{what}: variables")
        for f, b in zip(feeds, before, strict=True):
            assert f.tobytes() == b.tobytes(), f"{what}: an input was written"
    for found, (outputs, largest) in zip(kept, wanted, strict=True):
        agree(found, outputs, program, largest, what)


def owned(results: list[Any], others: list[Any], what: str) -> None:
    """Results are the caller's to write to: they share memory with no other result, input or variable."""
    for i, one in enumerate(results):
        for other in (*results[:i], *others):
            if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
                assert not np.shares_memory(one, other), f"{what}: result {i} shares memory"


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
def test_a_compiled_program_is_numpys(name: str, program: Program) -> None:
    followed(program, STACKS[name], name)


@pytest.mark.parametrize("name", ["eager", "lazy", "eager over lazy"])
@given(programs())
def test_what_is_computed_at_once_or_forced_is_numpys(name: str, program: Program) -> None:
    stack = STACKS[name]
    state = [v.value() for v in program.variables]
    outputs, following, largest = program.run_numpy(program.feeds(), state)
    assume(largest < LARGEST)
    with np.errstate(all="ignore"):
        found, after = program.immediate(stack, program.feeds(), state)
    agree(found, outputs, program, largest, name)
    agree(after, following, program, largest, f"{name}: updates")


@pytest.mark.parametrize("name", ["lazy", "no rules"])
@given(programs())
def test_with_poisoned_memory_the_same(name: str, program: Program) -> None:
    before = config.spec
    config.spec = 3
    try:
        followed(program, STACKS[name], name)
    finally:
        config.spec = before


@given(programs(smooth=True, most_steps=8))
def test_gradients_are_equal_on_every_engine(program: Program) -> None:
    """Of the sum of squares of the outputs by every leaf, at once, forced and compiled."""
    leaves = [leaf.value() for leaf in program.leaves]
    found = []
    for stack in (EAGER, LAZY):

        def loss(*tensors: Any, stack: Any = stack) -> Any:
            values = program.applied(stack, tensors)
            total = stack.asarray(np.float64(0))
            for o in program.outputs:
                if values[o].dtype.kind == "f":
                    total = total + stack.ops.sum(stack.ops.square(stack.ops.tanh(values[o])))
            return total

        gradient = stack.grad(loss, tuple(range(len(leaves))))
        with np.errstate(all="ignore"):
            found.append([g.numpy() for g in gradient(*leaves)])
            found.append([g.numpy() for g in stack.jit(lambda *a, g=gradient: g(*a))(*leaves)])
    _, _, largest = program.run_numpy(program.feeds(), [v.value() for v in program.variables])
    assume(largest < 100)  # gradients are products of such numbers
    largest = max([largest, *(float(np.abs(g).max()) for g in found[0] if g.size and np.isfinite(g).all())])
    for other in found[1:]:
        agree(other, found[0], program, largest * 10, "gradients")
