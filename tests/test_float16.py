"""float16: products are computed in float32, rounded once: BLAS has none (`device/shared/narrow_emulation`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE

EAGER, LAZY = nnc.eager(), nnc.lazy()
H = np.dtype("float16")
PRODUCTS = ("matmul", "tensordot", "conv2d", "conv2d_input_gradient", "conv2d_kernel_gradient")
PARAMS: dict[str, dict[str, Any]] = {
    "matmul": {}, "tensordot": {"axes": 1}, "conv2d": {"padding": "SAME"},
    "conv2d_input_gradient": {"padding": "SAME", "input_shape": (2, 6, 5, 3)},
    "conv2d_kernel_gradient": {"padding": "SAME", "kernel_shape": (3, 3, 3, 4)},
}  # fmt: skip
SHAPES = {
    "matmul": ((40, 70), (70, 30)), "tensordot": ((4, 5, 70), (70, 30)), "conv2d": ((2, 6, 5, 3), (3, 3, 3, 4)),
    "conv2d_input_gradient": ((2, 6, 5, 4), (3, 3, 3, 4)), "conv2d_kernel_gradient": ((2, 6, 5, 3), (2, 6, 5, 4)),
}  # fmt: skip


def drawn(seed: int, shape: tuple[int, ...], spread: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    return (draw.normal(size=shape) * 2.0 ** draw.uniform(-spread, spread, size=shape)).astype(H)


@given(st.sampled_from(PRODUCTS), st.sampled_from([0, 6, 12]), st.integers(0, 99), st.sampled_from([EAGER, LAZY]))
def test_products_are_rounded_once(name: str, spread: int, seed: int, stack: Any) -> None:
    given_ = [drawn(seed + i, shape, spread if i else spread // 2) for i, shape in enumerate(SHAPES[name])]
    op, doubles = getattr(EAGER.ops, name), [x.astype("float64") for x in given_]
    with np.errstate(over="ignore"):
        if stack is LAZY:
            inputs = [LAZY.input(f"x{i}", x.shape, H) for i, x in enumerate(given_)]
            program = LAZY.compile(inputs, getattr(LAZY.ops, name)(*inputs, **PARAMS[name]))
            assert [i.kernel for i in program.plan.instructions if not i.view] == ["in float32"]
            found = program(*given_)
        else:
            found = op(*given_, **PARAMS[name]).numpy()
    exact = op(*doubles, **PARAMS[name]).numpy()
    magnitudes = op(*map(abs, doubles), **PARAMS[name]).numpy()
    assert found.dtype == H
    near = abs(exact) * 2.0**-11 + magnitudes * 2.0**-24 * 102 + 2.0**-25
    fits = magnitudes < 65000
    assert (abs(found.astype("float64") - exact) <= near)[fits].all()
    assert np.isinf(found[abs(exact) > 70000]).all()


def test_sums_beyond_float16_come_back_into_it() -> None:
    """Partial sums are float32: what float16 cannot hold on the way is no infinity."""
    a = np.array([[60000, 60000, -60000, -58976]], H)
    assert EAGER.ops.matmul(a, np.ones((4, 1), H)).numpy().item() == 1024


def test_what_blas_does_not_compute_and_other_dtypes_are_as_they_were() -> None:
    x, y = LAZY.input("x", (3, 4), H), LAZY.input("y", (4, 5), "float32")
    for made, inputs in ((LAZY.ops.exp(x) + x, [x]), (x @ y, [x, y])):
        kernels = [i.kernel for i in LAZY.compile(inputs, made).plan.instructions if not i.view]
        assert "in float32" not in kernels
    assert (x @ y).dtype == np.dtype("float32")
    whole = LAZY.input("whole", (4, 5), "int8")
    assert (x @ whole).dtype == H
    found = LAZY.compile([x, whole], x @ whole)(np.ones((3, 4), H), np.ones((4, 5), "int8"))
    assert found.dtype == H
    assert (found == 4).all()


def test_what_it_takes_for_itself_is_told() -> None:
    """Operands and result in float32, and the result that is copied."""
    x, y = LAZY.input("x", (30, 40), H), LAZY.input("y", (40, 50), H)
    program = LAZY.compile([x, y], x @ y)
    assert program.plan.private_bytes == (4 * (30 * 40 + 40 * 50 + 30 * 50) + 2 * 30 * 50,)


def test_extents_may_be_unknown() -> None:
    x, w = LAZY.input("x", ("n", 40), H), drawn(0, (40, 50))
    program = LAZY.compile([x], LAZY.ops.relu(x @ w + drawn(1, (50,))))
    for n in (1, 7):
        a = drawn(n, (n, 40))
        wanted = np.maximum(a.astype("float64") @ w.astype("float64") + drawn(1, (50,)).astype("float64"), 0)
        np.testing.assert_allclose(program(a).astype("float64"), wanted, rtol=2**-9, atol=2**-7)


@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_stay_in_float16(name: str) -> None:
    xs = [EAGER.asarray(drawn(i, shape)) for i, shape in enumerate(SHAPES[name])]
    found = EAGER.grad(lambda *xs: EAGER.ops.sum(getattr(EAGER.ops, name)(*xs, **PARAMS[name])), argnums=(0, 1))(*xs)
    assert [g.dtype for g in found] == [H, H]
    assert all(np.isfinite(g.numpy()).all() for g in found)


def test_operators_that_multiply_say_so() -> None:
    found = {op.name for op in CATALOGUE.values() if op.kernels[-1].multiplies}
    assert found == {*PRODUCTS, "conv2d_blockwise", "matmul_blockwise"}
