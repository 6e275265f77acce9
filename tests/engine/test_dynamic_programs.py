"""Random programs on a dynamic stack, to the second derivative (`engine/dynamic`, `autodiff/values`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.testing import strategies
from nnc_func.testing.agreement import SLOPE, agree, apply_at_once, comparable, differentiate, follow
from nnc_func.testing.program import Program
from tests.profiles import NIGHTLY, examples

DYNAMIC, EAGER, LAZY = nnc.dynamic(), nnc.eager(), nnc.lazy()


def total(program: Program, stack: Any, tensors: Any) -> Any:
    """One number that all floating outputs flow into."""
    values, found = program.applied(stack, tensors), stack.asarray(np.float64(0))
    for o in program.outputs:
        if values[o].dtype.kind == "f":
            found = found + stack.ops.sum(stack.ops.square(stack.ops.tanh(values[o])))
    return found


def weighed(stack: Any, slopes: Any) -> Any:
    """A function of gradients that is no symmetric one."""
    found = stack.asarray(np.float64(0))
    for n, g in enumerate(slopes):
        found = found + stack.ops.sum(stack.ops.sin(g) * (n + 1.0))
    return found


@examples(few=20, nightly=2000)
@given(strategies.programs())
def test_values_are_those_of_every_engine(program: Program) -> None:
    apply_at_once(program, DYNAMIC)
    follow(program, DYNAMIC)


@examples(few=6, nightly=1000)
@given(strategies.programs(smooth=True, control_flow=True))
def test_gradients_of_functions_are_those_of_the_eager_stack(program: Program) -> None:
    differentiate(program, DYNAMIC)


@examples(few=10, nightly=2000)
@given(st.one_of(strategies.programs(smooth=True), strategies.programs(smooth=True, control_flow=True)))
def test_gradients_of_values_are_those_of_functions(program: Program) -> None:
    leaves = [leaf.value() for leaf in program.leaves]
    by = tuple(n for n, leaf in enumerate(leaves) if leaf.dtype.kind == "f")
    if not by:
        return
    _, met = program.on_arrays(leaves)
    comparable(met.largest, SLOPE)
    tensors = [
        DYNAMIC.variable(f"leaf {n}", leaf) if n in by else DYNAMIC.asarray(leaf) for n, leaf in enumerate(leaves)
    ]
    xs = [tensors[n] for n in by]
    with np.errstate(all="ignore"):
        first = DYNAMIC.gradients([total(program, DYNAMIC, tensors)], xs)
        second = DYNAMIC.gradients([weighed(DYNAMIC, first)], xs)
        for stack in (EAGER, LAZY) if NIGHTLY else (EAGER,):
            gradient = stack.grad(lambda *given, stack=stack: total(program, stack, given), by)
            slopes = gradient(*leaves)
            curved = stack.grad(lambda *given, stack=stack, f=gradient: weighed(stack, f(*given)), by)(*leaves)
            wanted = [g.numpy() for g in (*slopes, *curved)]
            largest = max([met.largest, *(float(np.abs(g).max()) for g in wanted if g.size and np.isfinite(g).all())])
            comparable(largest, SLOPE)
            agree([g.numpy() for g in (*first, *second)], wanted, program, largest * 10, "gradient")
