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


# --- rows that are normalised ------------------------------------------------------------------------------


def normalised(o: Any, x: Any, scale: Any, offset: Any, epsilon: Any, divides: bool) -> Any:
    centred = x - o.mean(x, axis=-1, keepdims=True)
    root = o.sqrt(o.mean(o.square(centred), axis=-1, keepdims=True) + epsilon)
    y = centred / root if divides else centred * o.reciprocal(root)
    y = y if scale is None else y * scale
    return y if offset is None else y + offset


@given(
    st.sampled_from([(128, 200), (8, 64, 65), (9000, 2), (2100, 300)]), st.booleans(), st.booleans(), st.booleans(),
    st.booleans(), st.sampled_from([1e-5, 1e-3, 0.0]),
)  # fmt: skip
def test_rows_that_are_normalised(
    shape: Any, scales: bool, shifts: bool, divides: bool, is_input: bool, epsilon: float
) -> None:
    """However it is written, in one go; epsilon may be an input, another one each time."""
    x, scale, offset = drawn(*shape) * 3 + 1, drawn(shape[-1]), drawn(1, shape[-1])
    given_ = FAST.input("x", shape, "float32")
    number = FAST.input("e", (), "float32") if is_input else np.float32(epsilon)
    made = normalised(FAST.ops, given_, scale if scales else None, offset if shifts else None, number, divides)
    program = FAST.compile([given_, number] if is_input else [given_], made)
    assert kernels(program) == ["onednn, fast math"]
    for each in (epsilon, 0.5) if is_input else (epsilon,):
        wide = x.astype("float64")
        centred = wide - wide.mean(-1, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(each))
        wanted = wanted * (scale if scales else 1) + (offset if shifts else 0)
        found = program(x, np.float32(each)) if is_input else program(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("rows", [128, 4000])
def test_what_comes_before_is_computed_by_itself(rows: int) -> None:
    """A residual sum, as in a transformer."""
    x, more = FAST.input("x", (rows, 300), "float32"), FAST.input("more", (rows, 300), "float32")
    scale = drawn(300)
    program = FAST.compile([x, more], normalised(FAST.ops, x + more, scale, scale, np.float32(1e-5), False))
    assert kernels(program)[-1] == "onednn, fast math"
    assert len(kernels(program)) == 2
    a, b = drawn(rows, 300), drawn(rows, 300)[::-1]
    sums = a.astype("float64") + b
    less = sums - sums.mean(-1, keepdims=True)
    wanted = less / np.sqrt((less**2).mean(-1, keepdims=True) + 1e-5) * scale + scale
    np.testing.assert_allclose(program(a, b), wanted, rtol=1e-4, atol=1e-5)


def test_rows_that_are_not_finite_are_normalised_as_ever() -> None:
    x = drawn(128, 200)
    x[0, 3], x[1, 4], x[2, 5], x[3] = np.nan, np.inf, 3e38, 0
    found = []
    for stack in (LAZY, FAST):
        given_ = stack.input("x", x.shape, "float32")
        made = normalised(stack.ops, given_, drawn(200), drawn(200), np.float32(1e-5), False)
        with np.errstate(all="ignore"):
            found.append(stack.compile([given_], made)(x))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("other", ["axis", "two results", "unlike", "scaled before", "by default"])
def test_what_only_looks_like_it_is_a_group(other: str) -> None:
    stack = LAZY if other == "by default" else FAST
    o, x = stack.ops, stack.input("x", (128, 200), "float32")
    axis = 0 if other == "axis" else -1
    centred = x - o.mean(x, axis=axis, keepdims=True)
    squared = o.square(x if other == "unlike" else centred)
    root = o.sqrt(o.mean(squared, axis=axis, keepdims=True) + np.float32(1e-5))
    y = (centred * drawn(200) if other == "scaled before" else centred) / root
    is_one = other != "two results"
    program = stack.compile([x], y if is_one else [y, centred])
    several = [i.kernel for i in program.plan.instructions if i.op.name == "blockwise_several"]
    assert "onednn, fast math" not in several
    a = drawn(128, 200)
    wide = a.astype("float64")
    less = wide - wide.mean(axis, keepdims=True)
    wanted = less / np.sqrt(((wide if other == "unlike" else less) ** 2).mean(axis, keepdims=True) + 1e-5)
    wanted = wanted * (drawn(200) if other == "scaled before" else 1)
    found = program(a)
    np.testing.assert_allclose(found if is_one else found[0], wanted, rtol=1e-4, atol=1e-5)
