"""Random programs with control flow compute as plain Python (`control_flow/scanning`, `control_flow/branches`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import nnc_func as nnc
from nnc_func.errors import NncError
from nnc_func.facets.derivatives import Refusal
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing.programs import _cases
from tests.control_flow.drawn_programs import Program, by_python, by_stack, programs

EAGER, LAZY = nnc.eager(), nnc.lazy()


def loss_of(stack: Any, program: Program) -> Any:
    def loss(*xs: Any) -> Any:
        values = by_stack(stack, program.block, list(xs))
        return sum(((k + 1.0) * v.sum() for k, v in enumerate(values)), stack.asarray(0.0)), tuple(values)

    return loss


def close(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-9, atol=1e-11)


def holds(program: Program) -> None:
    """Values as plain Python has them, on both engines, differentiated or not; forward mode is reverse mode."""
    arrays = program.arrays()
    wanted = by_python(program.block, arrays)
    found = {}
    for stack in (EAGER, LAZY):
        loss, xs = loss_of(stack, program), [*map(stack.asarray, arrays)]
        close(loss(*xs)[1], wanted)
        (_, values), gradients = stack.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(*xs)
        close(values, wanted)
        found[stack] = [g.numpy() for g in gradients]
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    draw = np.random.default_rng(program.seed + 1)
    step = [draw.uniform(-1, 1, a.shape) for a in arrays]
    _, slope = EAGER.jvp(lambda *xs: loss_of(EAGER, program)(*xs)[0], [*map(EAGER.asarray, arrays)], step)
    wanted = sum(np.vdot(g, d) for g, d in zip(found[EAGER], step, strict=True))
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-8, atol=1e-10)


@given(programs(1))
def test_shallow_programs_are_plain_python(program: Program) -> None:
    holds(program)


@settings(max_examples=10)
@given(programs(3))
def test_deep_programs_are_plain_python(program: Program) -> None:
    holds(program)


@pytest.mark.slow
@settings(max_examples=2000)
@given(programs())
def test_many_programs_are_plain_python(program: Program) -> None:
    holds(program)


# --- every operator ------------------------------------------------------------------------------------------

SMOOTH = [
    name for name, op in CATALOGUE.items()
    if not op.holds_body and op.derivative is not None and not isinstance(op.derivative, Refusal)
]  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_the_derivative_of_an_operator_is_the_same_in_a_body(name: str) -> None:
    op, draw, stack = CATALOGUE[name], np.random.default_rng(0), EAGER
    for specs, params in _cases(op, True)[:3]:
        arrays = []
        for shape, dtype, elements in specs:
            low, high = elements if isinstance(elements, tuple) else (0.2, 0.8)
            array = draw.uniform(low, high, shape)
            arrays.append(array > 0.5 if dtype == "bool" else array.astype(dtype or "float64"))
        moving = [n for n, a in enumerate(arrays) if a.dtype.kind == "f"]
        xs = [stack.asarray(arrays[n]) for n in moving]
        if not xs:
            continue

        def outside(*xs: Any) -> Any:
            whole = [*map(stack.asarray, arrays)]  # noqa: B023
            for n, x in zip(moving, xs, strict=True):  # noqa: B023
                whole[n] = x
            found = stack.bind(op, *whole, **params)  # noqa: B023
            made = [y for y in (found if isinstance(found, tuple) else (found,)) if y.dtype.kind == "f"]
            return sum((((y + 1) ** 2).sum() for y in made), stack.asarray(0.0))

        try:
            wanted = stack.grad(outside, argnums=tuple(range(len(xs))))(*xs)
        except NncError:
            continue  # it has none by these operands
        ways = (
            lambda *xs: stack.scan(lambda c, _: (c + outside(*(x * 1 for x in xs)), None), 0.0, None, length=1)[0],
            lambda *xs: stack.scan(lambda c, t: (c, outside(*t)), 0.0, [x.reshape((1, *x.shape)) for x in xs])[1].sum(),
            lambda *xs: stack.cond(True, outside, lambda *xs: outside(*xs) * 2, *xs),
        )
        for way in ways:
            found = stack.grad(way, argnums=tuple(range(len(xs))))(*xs)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-11)
