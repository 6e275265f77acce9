"""Numbers without rounding: rationals and residues, through the kernels that any array namespace can run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.exact import PRIME, Exact, Residue, fraction_of
from nnc_func.errors import DeviceError, NncError
from nnc_func.testing.exactly import without_rounding

KINDS = pytest.mark.parametrize("modular", [False, True], ids=["rationals", "residues"])
numbers = st.integers(-(10**20), 10**20)


def stack(modular: bool, opaque: bool = False) -> Any:
    return nnc.eager(Exact(modular, opaque))


@given(numbers, numbers, numbers.filter(lambda n: n % PRIME))
def test_residues_are_a_field(a: int, b: int, c: int) -> None:
    x, y, z = (Residue(n, False) for n in (a, b, c))
    assert (x + y) * z == x * z + y * z
    assert x - y == -(y - x)
    assert (x * z) / z == x
    assert 1 / z == z**-1
    assert Residue(a, False) == Residue(a + PRIME, False)
    assert hash(x) == hash(Residue(a % PRIME, False))


@KINDS
def test_truth_that_is_converted_is_a_number(modular: bool) -> None:
    ops = stack(modular).ops
    found = ops.conv2d(np.zeros((1, 2, 2, 1), bool), np.zeros((1, 1, 1, 1), "float32")).value
    assert found.dtype == "float32"
    assert (found.elements == 0).all()
    assert (ops.cast(np.array([True]), dtype="float32").value.elements + 1 == 2).all()


@KINDS
def test_sums_in_any_order_are_equal(modular: bool) -> None:
    ops = stack(modular).ops
    x = np.random.default_rng(0).normal(size=20).astype("float32")
    forth, back = ops.cumulative_sum(x, axis=0)[-1], ops.sum(ops.flip(x), axis=None)
    assert forth.value.elements == back.value.elements
    assert forth.value.dtype == "float32"


@KINDS
def test_products_of_matrices_and_windows(modular: bool) -> None:
    on = stack(modular)
    x = on.asarray(np.arange(16, dtype="float32").reshape(1, 4, 4, 1) / 3)
    w = on.asarray(np.arange(4, dtype="float32").reshape(2, 2, 1, 1) / 7)
    found = on.ops.conv2d(x, w).value.elements
    wanted = on.ops.sum(on.ops.multiply(x[0, :2, :2, 0], w[:, :, 0, 0])).value.elements
    assert found[0, 0, 0, 0] == wanted.item()
    square = x[0, :, :, 0]
    twice = on.ops.matmul(square, square)
    assert (twice.value.elements == on.ops.einsum(square, square, subscripts="ij,jk->ik").value.elements).all()


def test_rationals_come_back_as_floating_numbers() -> None:
    ops = stack(False).ops
    assert ops.divide(1.0, 3.0).value.elements.item() == Fraction(1, 3)
    np.testing.assert_array_equal(ops.relu(np.float32([-1, 2])).numpy(), np.float32([0, 2]))
    assert ops.mean(np.float32([1, 2])).numpy() == 1.5
    with pytest.raises(DeviceError, match="near to no floating number"):
        stack(True).ops.add(1.0, 2.0).numpy()


@KINDS
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_is_refused(number: float, modular: bool) -> None:
    with pytest.raises(NncError, match="no exact number"):
        stack(modular).ops.add(np.float32([number]), 1.0)


@KINDS
def test_what_is_not_rational_is_refused(modular: bool) -> None:
    for name in ("exp", "sqrt", "log"):
        with pytest.raises(NncError, match=name):
            getattr(stack(modular).ops, name)(np.float32([2]))
    with pytest.raises(NncError):
        stack(modular).ops.power(np.float32([2]), 0.1)
    with pytest.raises(NncError):
        stack(modular).ops.divide(1.0, np.float32([0]))
    with pytest.raises(NncError, match="does not cut off"):
        stack(modular).ops.cast(np.float32([2]), dtype="int32")
    with pytest.raises(DeviceError, match="a broken exponent"):  # of one element, too
        stack(False).ops.exp2(np.float32(3.5))
    with pytest.raises(DeviceError, match="no complex numbers"):
        stack(modular).asarray(1j)


def test_residues_have_no_order_and_unknown_functions_only_where_these_are_asked_for() -> None:
    with pytest.raises(NncError, match="order"):
        stack(True).ops.maximum(np.float32([1]), 2.0)
    ops = stack(True, opaque=True).ops
    x = np.float32([1, 2, 1])
    found = ops.exp(x).value.elements
    assert found[0] == found[2]
    assert found[0] != found[1]
    shifted = ops.softmax(ops.add(x, 0.0)).value.elements
    assert (shifted == ops.softmax(x).value.elements).all()


def test_a_number_stands_for_the_simple_fraction_that_rounds_to_it() -> None:
    assert fraction_of(0.1) == Fraction(1, 10)
    assert fraction_of(float(np.float32(0.7))) == Fraction(7, 10)
    assert fraction_of(1e-5) == Fraction(1, 100_000)
    assert fraction_of(2.0**-30) == Fraction(1, 2**30)


@given(st.integers(2, 9))
def test_a_false_identity_is_seen_whatever_its_degree(degree: int) -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (), "float32")
    y = lazy.input("y", (), "float32")
    feeds = {x.value: np.float32(0), y.value: np.float32(0)}  # where it holds
    power, product = (x + y) ** degree, x
    for _ in range(degree - 1):
        product = product * x
    assert without_rounding(power.value, product.value, feeds)
    assert not without_rounding((x**degree).value, product.value, feeds)


def test_functions_that_are_not_rational_are_refused_of_booleans_too() -> None:
    with pytest.raises(NncError):
        nnc.eager(Exact()).ops.sin(np.array([True, False]))


def test_what_a_rule_rounds_while_it_folds_stands_for_no_fraction() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (1,), "float32")
    feeds, more, less = {x.value: np.float32([3])}, np.float32([0.7]), np.float32([0.6])
    shifted = (x + more - less).value
    assert not without_rounding(shifted, (x + (more - less)).value, feeds)
    assert without_rounding(shifted, (x + np.float32([0.3])).value, feeds)
