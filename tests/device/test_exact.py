"""Numbers without rounding: rationals and residues (`device/exact`, `device/exact_arithmetic/numbers`)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.exact import Exact
from nnc_func.device.exact_arithmetic.numbers import PRIME, Residue, fraction_of
from nnc_func.errors import DeviceError, NncError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.rule import REASSOCIATION
from nnc_func.op import Catalogue
from nnc_func.testing.exactly import without_rounding
from nnc_func.testing.programs import CONSTANT, INPUT, Program, programs
from tests.profiles import examples

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
    assert fraction_of(float(np.float32(0.7)), np.dtype("float32")) == Fraction(7, 10)
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


@KINDS
def test_a_fill_stands_for_what_its_dtype_says(modular: bool) -> None:
    on = stack(modular)
    fill = on.bind(on.type.ops["full"], shape=(1,), value=float(np.float32(0.1)), dtype="float32")
    assert (on.ops.multiply(fill, 10.0).value.elements == 1).all()


def test_what_a_rule_rounds_while_it_folds_stands_for_no_fraction() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (1,), "float32")
    feeds, more, less = {x.value: np.float32([3])}, np.float32([0.7]), np.float32([0.6])
    shifted = (x + more - less).value
    assert not without_rounding(shifted, (x + (more - less)).value, feeds)
    assert without_rounding(shifted, (x + np.float32([0.3])).value, feeds)
    narrow = lazy.input("n", (1,), "float16")
    product = (narrow * np.float16([0.37]) * np.float16([0.59])).value
    folded = (narrow * (np.float16([0.37]) * np.float16([0.59]))).value
    assert not without_rounding(product, folded, {narrow.value: np.float16([3])})
    wide = lazy.input("w", (1,), "float64")
    tenth, seen = np.float16(0.1), {wide.value: np.float64([3])}  # in float64 it is seen to be 819/8192
    quotient = (wide * (lazy.asarray(np.float64(2)) / tenth)).value
    assert not without_rounding(quotient, (wide * np.float64(2 / np.float64(tenth))).value, seen)


# --- what a stranger met -------------------------------------------------------------------------------------


def test_a_residue_is_true_where_it_is_not_zero() -> None:
    ops = stack(True).ops
    x = np.float32([[0, 1], [1, 1], [0, 0]])
    assert ops.all(x, axis=1).numpy().tolist() == [False, True, False]
    assert ops.any(x, axis=1).numpy().tolist() == [True, True, False]
    assert not ops.all(np.float32(0)).numpy()


@KINDS
def test_what_is_written_into_is_a_copy(modular: bool) -> None:
    on = stack(modular)
    x = on.asarray(np.float32([1, 2, 3]))
    found = on.ops.scatter_add(x, np.int32([0, 0]), np.float32([5, 5]), axis=0).value
    assert [n == k for n, k in zip(found.elements, (11, 2, 3), strict=True)] == [True] * 3
    assert (x.value.elements == on.asarray(np.float32([1, 2, 3])).value.elements).all()


@KINDS
def test_a_check_fails_where_its_condition_is_false(modular: bool) -> None:
    on = stack(modular)
    check, token = on.type.ops["check"], np.zeros(0, "uint8")
    on.device.bind(check, token, np.array([True]), text="all")
    with pytest.raises(NncError, match="all"):
        on.device.bind(check, token, np.array([True, False]), text="all")


@pytest.mark.parametrize(
    ("number", "dtype", "wanted"),
    [
        (8388607.5, "float32", Fraction(16777215, 2)),
        (1234567 + 1 / 64, "float64", Fraction(1234567 * 64 + 1, 64)),
        (1 + 2.0**-40, "float64", 1 + Fraction(1, 2**40)),
        (0.1, "float16", Fraction(1, 10)),
        (0.1, "float64", Fraction(1, 10)),
    ],
)
def test_a_number_is_read_to_the_last_digit_of_its_dtype(number: float, dtype: str, wanted: Fraction) -> None:
    assert stack(False).asarray(np.array([number], dtype)).value.elements[0] == wanted


def test_small_powers_of_two_are_different_residues() -> None:
    ops = stack(True).ops
    powers = [ops.power(2.0, n).value.elements.item().value for n in range(-200, 200)]
    assert len(set(powers)) == len(powers)


@KINDS
def test_gathers_and_scatters_and_diagonals_are_exact(modular: bool) -> None:
    ops = stack(modular).ops
    third = ops.divide(np.float32([[1, 2], [3, 4]]), 3.0)
    taken = ops.take(third, np.int32([1]), axis=0)
    assert (taken.value.elements == third.value.elements[[1]]).all()
    assert (ops.diagonal(third).value.elements == third.value.elements.diagonal()).all()
    along = ops.take_along_axis(third, np.int64([[1, 0]]), axis=0)
    assert along.value.elements[0, 1] == third.value.elements[0, 1]


def test_rationals_are_sorted_and_rounded() -> None:
    ops, host = stack(False).ops, nnc.eager().ops
    x = np.float32([[1, 3, 1, 2], [0.5, -1, 2.5, 0.5]])
    for axis in (0, 1):
        for descending in (False, True):
            for name in ("sort", "argsort"):
                found = getattr(ops, name)(x, axis=axis, descending=descending).numpy()
                np.testing.assert_array_equal(found, getattr(host, name)(x, axis=axis, descending=descending).numpy())
    np.testing.assert_array_equal(ops.round(x).numpy(), np.round(x))


@KINDS
def test_narrow_dtypes_are_exact_too(modular: bool) -> None:
    ops = stack(modular).ops
    third = ops.cast(ops.divide(1.0, np.float32([3])), dtype="bfloat16")
    found = ops.add(ops.add(third, third), third)
    assert found.value.elements[0] == 1
    assert found.dtype.name == "bfloat16"


@KINDS
def test_refusals_name_the_operator_the_shapes_and_what_to_do(modular: bool) -> None:
    ops, x = stack(modular).ops, np.float32([[2, 3]])
    with pytest.raises(
        DeviceError, match=r"sqrt\(float32\[1, 2\]\): sqrt is not rational; .*opaque=True.*test_exact.py"
    ):
        ops.sqrt(x)
    with pytest.raises(
        NncError, match=r"divide\(float32\[1, 2\], float32\[\]\).*division by zero; .* neither infinity"
    ):
        ops.divide(x, 0.0)
    with pytest.raises(DeviceError, match=r"mean\(float32\[0\].*nan is no exact number"):
        ops.mean(np.zeros(0, "float32"))
    with pytest.raises(DeviceError, match=r"inv\(float32\[1, 1\]\): inv of .* is not known here"):
        ops.inv(x[:, :1])
    with pytest.raises(DeviceError, match=r"add on Exact\(.*was given an array of .*, which is none of its own"):
        ops.add(stack(not modular).asarray(x).value, x)


def test_refusals_that_one_kind_of_numbers_has() -> None:
    with pytest.raises(NncError, match=r"less\(float32\[1\], .*no order.*rationals have"):
        stack(True).ops.less(np.float32([1]), 2.0)
    with pytest.raises(NncError, match="no order"):
        stack(True).ops.abs(np.float32([1]))
    with pytest.raises(DeviceError, match=r"power\(.*whole numbers from"):
        stack(True).ops.power(np.float32([2]), 0.5)
    with pytest.raises(DeviceError, match=r"power\(.*-8 to the power of 1/3 is not rational"):
        stack(False).ops.power(np.float32([-8]), 1 / 3)
    with pytest.raises(DeviceError, match="binary digits"):
        stack(False).ops.power(np.float32([3]), 1e9)


def test_a_graph_keeps_no_rounded_constants() -> None:
    lazy = nnc.lazy(Exact())
    x = lazy.input("x", (1,), "float32")
    part = lazy.asarray(np.float32([1])) / np.float32([7]) / np.float32([1000003])
    found = lazy.compile(inputs=[x], outputs=[x * part])(np.float32([1]))[0]
    assert found.elements[0] == Fraction(1, 7000021)


FEW = Catalogue(
    CATALOGUE[name]
    for name in (
        "add", "subtract", "multiply", "divide", "negative", "square", "reciprocal", "power", "maximum", "relu",
        "where", "sum", "mean", "prod", "max", "matmul", "fma", "reshape", "permute_dims", "broadcast_to", "concat",
        "slice", "take", "scatter_add", "set_slice", "conv2d", "cumulative_sum",
    )
)  # fmt: skip


@KINDS
@examples(few=60, nightly=3000)
@given(program=programs(operators=FEW))
def test_rewritten_programs_are_equal_without_tolerance(modular: bool, program: Program) -> None:
    """With reassociation and fast math: what is true of numbers is all that the rules may use."""
    lazy = nnc.lazy(Exact(modular))
    lazy = lazy.swap(optimiser=lazy.optimiser.with_numerics(REASSOCIATION, fast_math=True))
    device, feeds = Exact(modular), program.feeds()
    given_, held = iter(feeds), (v.value() for v in program.variables)
    leaves = [next(given_ if n.kind == INPUT else held) if n.kind != CONSTANT else n.value() for n in program.leaves]
    try:
        values = program.applied(device, [device.asarray(x) for x in leaves])
    except NncError:
        return  # no exact value
    for found, value in zip(program.build(lazy)(*feeds), [values[n] for n in program.outputs], strict=True):
        assert found.dtype == value.dtype
        assert np.all(found.elements == value.elements)
