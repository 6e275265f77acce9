"""Sums, means, extremes and softmax of rows by oneDNN, under `fast_math` (`device/kernels/onednn_rows`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels import onednn_rows
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing import check_operator

pytestmark = pytest.mark.usefixtures("of_several_threads")
LAZY, FAST, NUMPY = nnc.lazy(nnc.CPU()), nnc.lazy(nnc.CPU(fast_math=True)), nnc.eager()
EAGER = nnc.eager(nnc.CPU(fast_math=True))
SUMS, EXTREMES, POWERS = ("sum", "mean"), ("max", "min"), ("softmax", "log_softmax")
LARGE = 64, 200


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def compiled(stack: Any, name: str, shape: tuple[int, ...], **params: Any) -> Any:
    x = stack.input("x", shape, "float32")
    return stack.compile([x], getattr(stack.ops, name)(x, **params))


def kernels(program: Any) -> list[str]:
    return [i.kernel for i in program.plan.instructions if not i.view]


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_rows, "LEAST", 1)


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("name", [*SUMS, *EXTREMES, *POWERS])
@pytest.mark.parametrize("device", [nnc.CPU(), nnc.CPU(fast_math=True)], ids=str)
def test_the_laws_hold_of_rows_of_any_size(name: str, device: Any) -> None:
    check_operator(CATALOGUE[name], nnc.lazy(device), examples=30)


def test_the_innermost_axes_are_the_librarys_under_fast_math() -> None:
    """By default sums have the bits that they have in groups of operators."""
    for name in (*SUMS, *EXTREMES, *POWERS):
        assert kernels(compiled(FAST, name, LARGE, axis=-1)) == ["onednn, fast math"]
        assert "onednn" not in kernels(compiled(LAZY, name, LARGE, axis=-1))[0]
        assert "onednn" not in kernels(compiled(FAST, name, (200, 64), axis=0))[0]
        assert "onednn" not in kernels(compiled(FAST, name, (4, 8), axis=-1))[0]
    for name in SUMS:
        assert kernels(compiled(FAST, name, (64, 10, 20), axis=(1, 2), keepdims=True)) == ["onednn, fast math"]
        for shape, axis in (((64, 10, 20), 1), ((64, 10, 20), None), ((2, 5000), -1)):
            assert "onednn" not in kernels(compiled(FAST, name, shape, axis=axis))[0]


@given(
    st.sampled_from([*SUMS, *EXTREMES, *POWERS]), st.integers(1, 90), st.integers(2, 300), st.booleans(),
    st.sampled_from([1.0, 1e-30, 1e30]),
)  # fmt: skip
@example("softmax", 1, 2, False, 1.0)
@example("sum", 3, 4096, True, 1.0)
def test_rows_are_numpys(name: str, rows: int, columns: int, keepdims: bool, scale: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onednn_rows, "LEAST", 1)
        x = drawn(rows, columns) * np.float32(scale if name not in POWERS else 1)
        params: dict[str, Any] = {"axis": -1} | ({} if name in POWERS else {"keepdims": keepdims})
        program = compiled(FAST, name, x.shape, **params)
        assert "onednn" in kernels(program)[0]
        wanted = getattr(NUMPY.ops, name)(x.astype("float64"), **params).numpy()
        near = (
            1e-6 * abs(x).astype("float64").sum(-1, keepdims=True).max() if name in SUMS else 1e-6 * abs(wanted).max()
        )
        for found in (
            program(x), program(np.repeat(x, 2, 1)[:, ::2]), program(np.asfortranarray(x)),
            getattr(EAGER.ops, name)(x, **params).numpy(),
        ):  # fmt: skip
            assert found.dtype == np.dtype("float32")
            np.testing.assert_allclose(found, wanted, rtol=1e-5 if name in POWERS else 1e-6, atol=near)
        if name in EXTREMES:
            np.testing.assert_array_equal(program(x), getattr(x, name)(-1, keepdims=keepdims))


@pytest.mark.parametrize("name", SUMS)
def test_sums_keep_what_is_not_finite(name: str) -> None:
    x = drawn(*LARGE)
    x[0, 3], x[1, 4], x[2, 5], x[3, 6], x[3, 7] = np.nan, np.inf, -np.inf, np.inf, -np.inf
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, -1)
    found = compiled(FAST, name, LARGE, axis=-1)(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(found[1:3], wanted[1:3])


def test_softmax_may_lie_over_its_operand() -> None:
    x = FAST.input("x", LARGE, "float32")
    program = FAST.compile([x], FAST.ops.softmax(x * 2.0, axis=-1))
    y = drawn(*LARGE)
    wanted = np.exp(2.0 * y.astype("float64"))
    np.testing.assert_allclose(program(y), wanted / wanted.sum(-1, keepdims=True), rtol=1e-5)


def test_rows_are_scored_minus_infinity() -> None:
    """A mask: probability zero."""
    x = drawn(*LARGE)
    x[:, 10:] = -np.inf
    found = compiled(FAST, "softmax", LARGE, axis=-1)(x)
    assert (found[:, 10:] == 0).all()
    np.testing.assert_allclose(found[:, :10].sum(-1), 1, rtol=1e-6)
