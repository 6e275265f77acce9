"""Jitted functions with extents that depend on elements are programs of regions (`engine/growing`, `engine/jit`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.running.program import Program
from nnc_func.errors import ExtentError, GraphError, NncError, ShapeError

EAGER, LAZY = nnc.eager(), nnc.lazy()
draw = np.random.default_rng(3)


def masked(st: Any, x: Any) -> Any:
    rows = x[x[:, 0] > 0]
    shares = st.ops.softmax(rows.sum(axis=1), axis=0)
    return rows, (shares[:, None] * rows).sum(axis=0)


def nested(st: Any, x: Any) -> Any:
    kinds = st.ops.unique_values(st.ops.round(x[x[:, 1] > -0.5] * 2))
    return kinds, kinds[kinds > 0].sum(), st.ops.concat(kinds, kinds[kinds < 0] * 2, axis=0)


def where_they_are(st: Any, x: Any) -> Any:
    rows, columns = st.ops.nonzero(x > 0)
    values, counts = st.ops.unique_counts(rows)
    return x[rows, columns] * columns.astype("float64"), st.ops.argwhere(x < 0), values, counts


def written(st: Any, x: Any) -> Any:
    return st.ops.where(x > 0, 5.0, x), st.ops.extract(x, x < 0.5)


def while_exact(st: Any, x: Any) -> Any:
    outs, last, n = st.while_loop(lambda s: s.sum() < 100, lambda s: (s * 2, s * 2 + 1), st.ops.abs(x[0]) + 0.5)
    return outs.sum(axis=1), outs[-1:], last, n


def known(st: Any, x: Any) -> Any:
    return x * 2


CASES: list[tuple[Callable[..., Any], int]] = [
    (masked, 2), (nested, 4), (where_they_are, 3), (written, 2), (while_exact, 2),
]  # fmt: skip


@pytest.mark.parametrize(("f", "regions"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_values_are_those_of_eager(f: Callable[..., Any], regions: int, memory: None) -> None:
    lazy = nnc.lazy()
    jitted = lazy.jit(lambda x: f(lazy, x), dynamic=True)
    for size in (12, 12, 12, 12):
        x = draw.normal(size=(size, 3))
        for found, wanted in zip(jitted(x), f(EAGER, EAGER.asarray(x)), strict=True):
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)
    assert (len(jitted.program(x).regions), jitted.traces) == (regions, 1)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("f", [masked, where_they_are], ids=lambda f: f.__name__)
def test_none_and_all(f: Callable[..., Any], share: float) -> None:
    x = np.full((4, 3), share - 0.5)
    jitted = LAZY.jit(lambda x: f(LAZY, x), dynamic=True)
    with np.errstate(all="ignore"):
        for found, wanted in zip(jitted(x), f(EAGER, EAGER.asarray(x)), strict=True):
            assert found.numpy().tolist() == wanted.numpy().tolist()


def test_a_region_is_planned_for_capacities() -> None:
    lazy = nnc.lazy()
    jitted = lazy.jit(lambda x: masked(lazy, x), dynamic=True)
    x = draw.normal(size=(300, 3))
    for count in (3, 12, 16, 5, 130, 3, 299, 77):
        x[:, 0] = -1
        x[draw.permutation(300)[:count], 0] = 1
        assert jitted(x)[0].shape == (count, 3)
    first, second = jitted.program(x).regions
    assert (first.symbols, len(second.symbols)) == ([], 1)
    assert second.program.plans == 3  # of 16, 256, 512
    for plan in jitted.program(x).plans:
        plan.verify()


def test_gradients_go_through_masks() -> None:
    def loss(st: Any, x: Any, w: Any) -> Any:
        y = st.ops.tanh(x @ w)
        rows, pooled = masked(st, y)
        return (rows**3).sum() + st.ops.sin(pooled).sum() + (y[y < 0] * 2).sum()

    given = draw.normal(size=(9, 4)), draw.normal(size=(4, 3))
    wanted = EAGER.value_and_grad(lambda x, w: loss(EAGER, x, w), argnums=(0, 1))(*map(EAGER.asarray, given))
    lazy = nnc.lazy()
    jitted = lazy.jit(lazy.value_and_grad(lambda x, w: loss(lazy, x, w), argnums=(0, 1)), dynamic=True)
    for _ in range(2):
        value, slopes = jitted(*given)
        np.testing.assert_allclose(value.numpy(), wanted[0].numpy(), rtol=1e-9)
        for found, each in zip(slopes, wanted[1], strict=True):
            np.testing.assert_allclose(found.numpy(), each.numpy(), rtol=1e-9, atol=1e-12)
    curved = lazy.jit(lambda x: lazy.hvp(lambda x: (x[x > 0] ** 3).sum(), [x], [x])[-1], dynamic=True)
    x = draw.normal(size=7)
    np.testing.assert_allclose(curved(x).numpy(), np.where(x > 0, 6 * x * x, 0))


def test_what_is_given_back_is_the_callers_own() -> None:
    lazy = nnc.lazy()
    scale, given = lazy.variable("scale", np.float64(2.0)), np.array([1.0, -1.0])
    found = lazy.jit(lambda x: (x, scale, x[x > 0], lazy.asarray([7.0])), dynamic=True)(given)
    given[:] = 0
    scale.value.assign(np.float64(3.0))
    assert [each.numpy().tolist() for each in found] == [[1, -1], 2, [1], [7]]


def test_variables_are_read_at_each_call() -> None:
    lazy = nnc.lazy()
    scale = lazy.variable("scale", np.float64(2.0))
    jitted = lazy.jit(lambda x: (x[x > 0] * scale).sum(), dynamic=True)
    assert jitted(np.array([1.0, -1.0, 3.0])).item() == 8
    scale.value.assign(np.float64(10.0))
    assert jitted(np.array([1.0, -1.0, 3.0])).item() == 40


def test_extents_that_meet_must_be_equal() -> None:
    jitted = LAZY.jit(lambda x, y: x[x > 0] + y[y > 0], dynamic=True)
    assert jitted(np.array([1.0, -1.0, 2.0]), np.array([5.0, 6.0, -1.0])).numpy().tolist() == [6, 8]
    with pytest.raises(ShapeError, match="must be equal"):
        jitted(np.array([1.0, -1.0, 2.0]), np.array([5.0, -6.0, -1.0]))


def test_what_is_known_is_one_program_and_eager_stacks_call() -> None:
    jitted = LAZY.jit(lambda x: known(LAZY, x), dynamic=True)
    assert jitted(np.ones(2)).numpy().tolist() == [2, 2]
    assert isinstance(jitted.program(np.ones(2)), Program)
    eager = EAGER.jit(lambda x: x[x > 0], dynamic=True)
    assert eager(np.array([1.0, -1.0])).numpy().tolist() == [1]


def test_masks_in_bodies_of_loops_are_computed_between_regions() -> None:
    lazy = nnc.lazy()
    f = lazy.jit(lambda x: lazy.foreach(lambda r, s: (None, s + r[r > 0].sum()), x, 0.0)[1] * 2, dynamic=True)
    for x in (np.ones((3, 2)), np.array([[1.0, -2.0], [-3.0, -1.0]]), np.zeros((0, 2))):
        assert f(x).item() == 2 * x[x > 0].sum()


def test_what_cannot_be_is_told() -> None:
    lazy = nnc.lazy()
    with pytest.raises(ExtentError, match="dynamic=True"):
        lazy.jit(lambda x: x[x > 0])(np.ones(3))
    with pytest.raises(NncError, match="size="):
        lazy.jit(lambda x: lazy.vmap(lambda r: r[r > 0])(x), dynamic=True)(np.ones((3, 2)))

    def told(x: Any) -> Any:
        lazy.ops.print(x)
        return x[x > 0]

    with pytest.raises(GraphError, match="has effects"):
        lazy.jit(told, dynamic=True)(np.ones(3))
    jitted = lazy.jit(lambda x: x[x > 0], dynamic=True)
    with pytest.raises(GraphError, match="no kernels are timed"):
        jitted.autotune(np.ones(3))
