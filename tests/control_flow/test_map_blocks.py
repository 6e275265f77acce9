"""`map` computes so many rows at once, and gives what it gives one by one (`control_flow/scanning`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError, ShapeError
from tests.control_flow.files import same_from_a_file

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
draw = np.random.default_rng(1)


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.numpy() if hasattr(found, "numpy") else found, wanted, rtol=rtol, atol=1e-12)


@every
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 9])
@pytest.mark.parametrize("batch", [1, 2, 3, 20])
def test_any_number_of_rows_in_blocks_of_any_size(stack: Any, n: int, batch: int) -> None:
    x, y, w = draw.normal(size=(n, 2, 3)), draw.normal(size=n), stack.asarray(draw.normal(size=(3, 2)))

    def f(x: Any, y: Any) -> Any:
        return {"product": x @ w * y, "parts": [x.sum(), 1.0], "none": None}

    found, wanted = stack.map(f, x, y, batch=batch), stack.map(f, x, y)
    assert found["none"] is None
    for one, other in ((found["product"], wanted["product"]), *zip(found["parts"], wanted["parts"], strict=True)):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        close(one, other.numpy())

    def loss(w: Any, how: Any) -> Any:
        return (stack.map(lambda x, y: stack.ops.tanh(x @ w) * y, x, y, batch=how) ** 2).sum()

    for one, other in ((loss(w, batch), loss(w, None)), (stack.grad(loss)(w, batch), stack.grad(loss)(w, None))):
        close(one, other.numpy(), 1e-10)


@every
def test_along_another_axis(stack: Any) -> None:
    x = draw.normal(size=(3, 5, 2))
    close(
        stack.map(lambda x: x[0] * x.sum(), x, axis=1, batch=2), stack.map(lambda x: x[0] * x.sum(), x, axis=1).numpy()
    )
    close(stack.map(lambda a: a * 2, x, axis=-1, batch=2), x * 2)


@every
def test_functions_with_loops_and_branches_that_rows_take_differently(stack: Any) -> None:
    x = draw.uniform(1, 9, 11)

    def f(x: Any) -> Any:
        _, last, n = stack.while_loop(lambda v: v < 50, lambda v: (None, v * 2), x, 9)
        return stack.cond(x > 5, lambda: last, lambda: -last), n

    for one, other in zip(stack.map(f, x, batch=4), stack.map(f, x), strict=True):
        close(one, other.numpy())
    slopes = [stack.grad(lambda x, k=k: stack.map(f, x, batch=k)[0].sum())(x) for k in (None, 4)]
    close(slopes[1], slopes[0].numpy())


@every
def test_it_is_traced_as_blocks_and_not_as_rows(stack: Any) -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x * 2

    stack.map(f, np.ones(1001), batch=10)
    assert len(calls) <= 3


def test_rows_of_a_vmap() -> None:
    x = draw.normal(size=(4, 7, 2))
    for stack in (EAGER, LAZY):
        found = stack.vmap(lambda x, s=stack: s.map(lambda r: r * r.sum(), x, batch=3))(stack.asarray(x))
        close(found, x * x.sum(-1, keepdims=True))


@pytest.mark.parametrize("batch", [1, 3])
def test_a_symbolic_number_of_rows(batch: int, tmp_path: Any) -> None:
    x = LAZY.input("x", ("n", 2), "float64")
    f = lambda x: LAZY.map(lambda r: LAZY.ops.tanh(r * r.sum()), x, batch=batch)  # noqa: E731
    outputs = [f(x), LAZY.grad(lambda x: f(x).sum())(x)]
    program = LAZY.compile([x], outputs)
    for n in (0, 1, 2, 3, 8):
        given = draw.normal(size=(n, 2))
        wanted = np.tanh(given * given.sum(-1, keepdims=True))
        found = program(given)
        close(found[0], wanted)
        close(
            found[1], LAZY.grad(lambda x: LAZY.ops.tanh(x * x.sum(axis=-1, keepdims=True)).sum())(given).numpy(), 1e-9
        )
    same_from_a_file(LAZY, [x], outputs, [draw.normal(size=(8, 2))], tmp_path)


@every
def test_what_is_no_block_is_refused_in_words(stack: Any) -> None:
    for batch in (0, -1, 2.0, True, "all"):
        with pytest.raises(OperatorError, match="batch= is how many slices go at once"):
            stack.map(lambda x: x, np.ones(3), batch=batch)
    with pytest.raises(ShapeError, match="one extent along axis 0, given xs at 0: 3, xs at 1: 2"):
        stack.map(lambda x, y: x, np.ones(3), np.ones(2), batch=2)
    with pytest.raises(OperatorError, match="given none"):
        stack.map(lambda: 1, batch=2)
