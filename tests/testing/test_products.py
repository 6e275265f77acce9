"""What a kernel's order of factors may do, and what no order does (`testing/products`, `testing/truth`)."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import same_dtype
from nnc_func.graph.rules.rule import rewrite, rule
from nnc_func.testing.products import product, spread_of_product
from nnc_func.testing.rules import examined
from tests.testing.test_error_model import difference

LAZY = nnc.lazy()
O = LAZY.ops  # noqa: E741
HUGE = {"float16": 6e4, "float32": 1e19, "float64": 1e300, "complex64": 1e19, "complex128": 1e300}


def flipped(x: Any) -> Any:
    return O.prod(O.flip(x))


# --- what is left to kernels -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", [(0, 0), (16, 16)])
@pytest.mark.parametrize("dtype", HUGE)
def test_partial_products_overflow_before_a_zero_or_after_it(dtype: str, place: tuple[int, int]) -> None:
    x = np.full((17, 17), HUGE[dtype], dtype)
    x[place] = 0

    def twice(x: Any) -> Any:
        return O.prod(O.prod(x, axis=0), axis=0)

    assert not difference(flipped, O.prod, "rounding", x=x)
    assert not difference(O.prod, flipped, "rounding", x=x)
    assert not difference(twice, O.prod, "reassociation", x=x)
    assert not difference(O.prod, twice, "reassociation", x=x)


@pytest.mark.parametrize("numerics", ["rounding", "reassociation"])
@pytest.mark.parametrize("dtype", HUGE)
def test_a_product_that_is_larger_than_it_was_overflows_in_no_order(dtype: str, numerics: str) -> None:
    x = np.array([HUGE[dtype], 0.5, 1.5], dtype)
    larger = lambda x: O.prod(O.flip(x)) * HUGE[dtype] * HUGE[dtype]  # noqa: E731
    assert "elsewhere" in difference(O.prod, larger, numerics, x=x)
    infinite = np.array([np.inf, 0, 1], dtype)
    assert "elsewhere" in difference(O.prod, lambda x: O.prod(O.where(O.isfinite(x), x, 1)), numerics, x=infinite)


# --- how far rounding leads ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float64", "float32", "float16"])
def test_what_underflows_early_is_multiplied_by_what_comes_after(dtype: str) -> None:
    least = np.finfo(dtype).smallest_subnormal
    given_ = (least, 1.2 + 0.7j, 3, 1.3 - 0.4j, 2) if "c" in dtype else (least, 0.6, 0.7, 3, 2.6)
    for factors in permutations(given_):
        x = np.array(factors, dtype)
        assert not difference(flipped, O.prod, "rounding", x=x)
        assert not difference(flipped, lambda x: O.cumulative_prod(x, axis=0)[-1], "reassociation", x=x)


def test_what_no_order_loses_is_no_rounding() -> None:
    for x in (np.array([1e-30, 3, 0.5, 1e3], "float32"), np.array([0.7, 3, 1e19, 2 - 1j], "complex64")):
        for wrong in (lambda x: O.prod(x[:-1]), lambda x: O.prod(x) * (1 + 1e-5), lambda x: O.prod(x[1:])):
            for numerics in ("rounding", "reassociation"):
                assert "ulps from the truth" in difference(O.prod, wrong, numerics, x=x)
    tiny = np.array([np.finfo("float32").smallest_subnormal, 2, 3], "float32")
    assert "ulps" in difference(O.prod, lambda x: O.prod(x) * 100, "rounding", x=tiny)
    zero = np.array([0, 1e-45, 1e30], "float32")
    assert "ulps" in difference(O.prod, lambda x: O.prod(x) + 1e-3, "rounding", x=zero)


def test_errors_of_factors_add_up_whatever_their_signs() -> None:
    """Both factors a little larger is a product hardly changed: they err in any directions."""
    x, node = np.array([3.0, 3.0]), O.prod(LAZY.input("x", (2,), "float64")).value.node
    least = spread_of_product(node, x, np.full(2, 1e-10), 9.0)
    assert 6e-10 <= least <= 7e-10


# --- products in no format -------------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 5e-324, 1e308, -1e-308, 1e300])


@given(st.lists(FLOATS, max_size=20))
def test_a_product_is_that_of_exact_numbers(numbers: list[float]) -> None:
    x = np.array(numbers)
    node = O.prod(LAZY.input("x", x.shape, "float64")).value.node
    running = O.cumulative_prod(LAZY.input("x", x.shape, "float64"), axis=0).value.node
    exact = [prod(map(Fraction, numbers[: i + 1]), start=Fraction(1)) for i in range(len(numbers))]
    close(product(node, x), exact[-1] if exact else Fraction(1))
    for found, each in zip(product(running, x), exact, strict=True):
        close(found, each)


def close(found: Any, exact: Fraction) -> None:
    """A float is that number but for twenty roundings; infinite where it is beyond all numbers."""
    if np.isinf(found):
        assert abs(exact) > Fraction(np.finfo("float64").max) * (1 - Fraction(1, 10**14))
        assert (found > 0) == (exact > 0)
    else:
        assert abs(Fraction(float(found)) - exact) <= abs(exact) / 10**14 + Fraction(5e-324)


@pytest.mark.parametrize("axis", [(0,), (1, 2), (), None, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_product_has_the_shape_of_the_kernels(axis: Any, keepdims: bool, dtype: str) -> None:
    x = (np.arange(24).reshape(2, 3, 4) + 0.5).astype(dtype) * (1 + 1j if dtype == "complex128" else 1)
    node = O.prod(LAZY.input("x", x.shape, dtype), axis=axis, keepdims=keepdims).value.node
    np.testing.assert_allclose(product(node, x), np.prod(x, axis=axis, keepdims=keepdims), rtol=1e-13)
    running = O.cumulative_prod(LAZY.input("x", x.shape, dtype), axis=1).value.node
    np.testing.assert_allclose(product(running, x), np.cumprod(x, axis=1), rtol=1e-13)


# --- wrong rules -----------------------------------------------------------------------------------------

multiplied, running = OPS["prod"], OPS["cumulative_prod"]


@rule
def drops_a_factor(x, y):
    """A product of products forgets one operand."""
    both = x * y
    return rewrite(multiplied(both)).to(multiplied(x)).when(same_dtype(x, both)).up_to("reassociation")


def all_but_last(x: Any) -> Any:
    return OPS["slice"](x, starts=(0,), stops=(-1,), steps=(1,))


@rule
def drops_the_last_element(x):
    """A product leaves out the last row."""
    return rewrite(multiplied(x, axis=(0,))).to(multiplied(all_but_last(x), axis=(0,))).up_to("reassociation")


@rule
def drops_an_axis(x):
    """A product along the second axis of that along the first is taken for the first alone."""
    first = multiplied(x, axis=(0,), keepdims=True)
    return rewrite(multiplied(first, axis=(1,), keepdims=True)).to(first).up_to("reassociation")


@rule
def runs_backwards(x):
    """A running product of what is flipped is taken for that of what is not."""
    return rewrite(running(OPS["flip"](x, axis=(0,)), axis=0)).to(running(x, axis=0)).up_to("reassociation")


@rule
def multiplies_what_is_added(x, y):
    """A product of two products is taken for the product of sums."""
    return rewrite(multiplied(x) * multiplied(y)).to(multiplied(x + y)).up_to("reassociation")


WRONG = (drops_a_factor, drops_the_last_element, drops_an_axis, runs_backwards, multiplies_what_is_added)


@pytest.mark.parametrize("each", WRONG, ids=lambda r: r.name)
def test_a_wrong_rule_of_products_is_refuted(each: Any) -> None:
    report = examined(each, LAZY)
    assert report.counterexample
