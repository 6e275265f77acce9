"""Operators have the same derivatives in loops and branches (`autodiff/bodies`, `graph/ops/loop_derivative`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import NncError
from nnc_func.facets.derivatives import Refusal
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing.drawing import cases

SMOOTH = [
    name for name, op in CATALOGUE.items()
    if not op.holds_body and op.derivative is not None and not isinstance(op.derivative, Refusal)
]  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_the_derivative_of_an_operator_is_the_same_in_a_body(name: str) -> None:
    op, draw, stack = CATALOGUE[name], np.random.default_rng(0), nnc.eager()
    for specs, params in cases(op, True)[:3]:
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


@pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy(), nnc.dynamic()], ids=["eager", "lazy", "dynamic"])
def test_a_part_of_what_has_no_axes_is_written_within_a_loop(stack: nnc.Stack) -> None:
    """NumPy's operators on arrays without axes give numbers, into which nothing is written."""

    def body(carry: Any, _: Any) -> Any:
        one = stack.ops.set_slice(carry * 3.0, carry <= carry, starts=(), stops=(), steps=())
        return stack.ops.prod(one) + carry, None

    last, _ = stack.scan(body, stack.asarray(1.5), None, length=3)
    assert last.item() == 4.5
