"""Random programs on a dynamic stack, to the second derivative (`engine/dynamic`, `autodiff/values`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing import strategies
from nnc_func.testing.agreement import SLOPE, agree, apply_at_once, comparable, differentiate, follow
from nnc_func.testing.derivatives import is_smooth
from nnc_func.testing.program import Program
from nnc_func.testing.samples import arguments
from tests.engine.dynamic_stacks import total, weighed
from tests.profiles import NIGHTLY, examples

DYNAMIC, EAGER, LAZY = nnc.dynamic(), nnc.eager(), nnc.lazy()
SETTINGS = {
    "plain": DYNAMIC,
    "asynchronous": nnc.dynamic(asynchronous=True),
    "each ahead": nnc.lazy().swap(engine=partial(nnc.Dynamic, asynchronous=True, ahead_from=0)),
    "replayed": nnc.dynamic(replay_after=1),
    "memoised": nnc.dynamic(memoise=True),
    "evicted": nnc.dynamic(memory_limit=0),
}
each_setting = pytest.mark.parametrize("setting", SETTINGS)


@each_setting
@examples(few=6, nightly=500)
@given(strategies.programs())
def test_values_are_those_of_every_engine(setting: str, program: Program) -> None:
    apply_at_once(program, SETTINGS[setting])
    follow(program, SETTINGS[setting])


@examples(few=6, nightly=1000)
@given(strategies.programs(smooth=True, control_flow=True))
def test_gradients_of_functions_are_those_of_the_eager_stack(program: Program) -> None:
    differentiate(program, DYNAMIC)


@each_setting
@examples(few=4, nightly=500)
@given(st.one_of(strategies.programs(smooth=True), strategies.programs(smooth=True, control_flow=True)))
def test_gradients_of_values_are_those_of_functions(setting: str, program: Program) -> None:
    stack = SETTINGS[setting]
    leaves = [leaf.value() for leaf in program.leaves]
    by = tuple(n for n, leaf in enumerate(leaves) if leaf.dtype.kind == "f")
    if not by:
        return
    _, met = program.on_arrays(leaves)
    comparable(met.largest, SLOPE)
    tensors = [stack.variable(f"leaf {n}", leaf) if n in by else stack.asarray(leaf) for n, leaf in enumerate(leaves)]
    xs = [tensors[n] for n in by]
    with np.errstate(all="ignore"):
        for _ in range(2):  # what is replayed or found again has come once before
            first = stack.gradients([total(stack, program, tensors)], xs)
            second = stack.gradients([weighed(stack, first)], xs)
            [g.numpy() for g in (*first, *second)]
        for other in (EAGER, LAZY) if NIGHTLY else (EAGER,):
            gradient = other.grad(lambda *given, stack=other: total(stack, program, given), by)
            slopes = gradient(*leaves)
            curved = other.grad(lambda *given, stack=other, f=gradient: weighed(stack, f(*given)), by)(*leaves)
            wanted = [g.numpy() for g in (*slopes, *curved)]
            largest = max([met.largest, *(float(np.abs(g).max()) for g in wanted if g.size and np.isfinite(g).all())])
            comparable(largest, SLOPE)
            agree([g.numpy() for g in (*first, *second)], wanted, program, largest * 10, "gradient")


@pytest.mark.parametrize("each", [*filter(is_smooth, CATALOGUE.values())], ids=str)
@examples(few=1, nightly=50)
@given(data=st.data())
def test_gradients_of_each_operator_are_the_eager_stacks(each: Op, data: Any) -> None:
    arrays, params = data.draw(arguments(each, differentiable=True))
    by = [n for n, a in enumerate(arrays) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]

    def applied(stack: Any, *floating: Any) -> Any:
        given = [stack.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]
        for n, x in zip(by, floating, strict=True):
            given[n] = x
        given = given[each.effect :]  # the stack supplies the token of an effect
        found = getattr(stack.ops, each.name)(*given, **params)
        results = found if isinstance(found, tuple) else (found,)
        return weighed(stack, [y for y in results if y.dtype.kind == "f"])

    with np.errstate(all="ignore"):
        gradient = EAGER.grad(lambda *floating: applied(EAGER, *floating), tuple(range(len(by)))) if by else tuple
        wanted = gradient(*(arrays[n] for n in by))
        for stack in SETTINGS.values():
            xs = [stack.variable(f"x{n}", arrays[n]) for n in by]
            recorded = [x * np.ones((), x.dtype) for x in xs]
            found = stack.gradients([applied(stack, *recorded)], xs)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-7)
                assert one.dtype == other.dtype


def test_what_a_branch_writes_out_reads_the_variables_of_now() -> None:
    """Steps that are written out within a branch have the variable from around it as a node."""
    x, y = DYNAMIC.variable("x", np.array([0.3, -0.2])), EAGER.asarray([0.3, -0.2])

    def rows(stack: Any, x: Any) -> Any:
        def squares() -> Any:
            return stack.scan(lambda c, r: ((), r * r), (), x, unroll=2)[1]

        return stack.cond(x.sum() > 5, lambda: x * 0.0, squares)

    chosen = rows(DYNAMIC, x)
    np.testing.assert_array_equal(chosen.numpy(), rows(EAGER, y).numpy())
    (slope,) = DYNAMIC.gradients([chosen.sum()], [x])
    np.testing.assert_allclose(slope.numpy(), [0.6, -0.4])
