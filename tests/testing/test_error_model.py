"""What counts as rounding: an improvement does, its inverse does not (`testing/agreement`, `testing/exactly`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import reference
from nnc_func.graph.rules import Numerics
from nnc_func.testing import truth
from nnc_func.testing.rewrites import quiet, values
from nnc_func.testing.truth import true_value

LAZY = nnc.lazy()


def difference(old: Any, new: Any, numerics: Any, **feeds: Any) -> str:
    """What the kit says of a function in the place of another one, at these elements."""
    inputs = {n: LAZY.input(n, a.shape, a.dtype) for n, a in feeds.items()}
    sides = [f(*inputs.values()).value for f in (old, new)]
    given = {inputs[n].value: a for n, a in feeds.items()}
    with quiet():
        both = values(sides[0], sides[1], given, LAZY.device)
    assert both is not None
    return str(both.difference(Numerics(numerics)))


@pytest.fixture(params=["wider", "no wider"])
def formats(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this machine, and of one whose long double is a double: there the value itself is the truth."""
    if request.param == "no wider":
        monkeypatch.setattr(truth, "LONG_DOUBLE_IS_WIDER", False)


@pytest.mark.usefixtures("formats")
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_an_improvement_is_rounding_and_its_inverse_is_not(dtype: str) -> None:
    o, x = LAZY.ops, np.array([1e-3, 0.3, 1e-4], dtype)
    one_more, exactly = lambda x: o.log(x + 1), lambda x: o.log1p(x)
    assert not difference(one_more, exactly, "rounding", x=x)
    assert "ulps from the truth" in difference(exactly, one_more, "rounding", x=x)


@pytest.mark.usefixtures("formats")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_variance_in_one_pass_is_no_rounding(dtype: str) -> None:
    o, x = LAZY.ops, np.array([1e4 + 0.1, 1e4 + 1.3, 1e4 + 2.7, 1e4 - 1.1], dtype)
    two, one = lambda x: o.mean(o.square(x - o.mean(x))), lambda x: o.mean(o.square(x)) - o.square(o.mean(x))
    for numerics in ("rounding", "reassociation"):
        assert "ulps from the truth" in difference(two, one, numerics, x=x)
        assert not difference(one, two, numerics, x=x)


def test_terms_in_another_order_are_told_by_their_magnitudes() -> None:
    x, y, z = (np.array([n], "float32") for n in (1e8, -1e8, 0.7))
    left, right = lambda x, y, z: (x + y) + z, lambda x, y, z: x + (y + z)
    assert "ulps" in difference(left, right, "rounding", x=x, y=y, z=z)
    assert not difference(left, right, "reassociation", x=x, y=y, z=z)
    assert "ulps" in difference(left, lambda x, y, z: x + (y + z * 3000), "reassociation", x=x, y=y, z=z)


def test_what_rounding_is_sure_to_lose_may_be_lost_or_kept() -> None:
    for x in (np.array([1e-6, 3.0], "float32"), np.array([1.5e-39 + 2e-37j], "complex64")):
        assert not difference(lambda x: (x + 0.125) - 0.125, lambda x: x * 1, "rounding", x=x)
        assert "ulps" in difference(lambda x: x * 1, lambda x: (x + 0.125) - 0.125, "rounding", x=x)


def test_a_kernel_adds_in_an_order_of_its_own() -> None:
    o, x = LAZY.ops, np.array([1e8, 0.7, -1e8, 0.1], "float32")
    assert not difference(lambda x: o.sum(x), lambda x: o.sum(o.flip(x)), "rounding", x=x)
    assert "ulps" in difference(lambda x: o.sum(x), lambda x: o.sum(x) + 1e4, "rounding", x=x)


def test_a_transform_is_a_sum_of_all_elements() -> None:
    o, x = LAZY.ops, np.array([1e20, 1], "complex64")

    def there_and_back(x: Any) -> Any:
        return o.fourier(o.fourier(x, axis=0), axis=0, inverse=True)

    def real(x: Any) -> Any:
        return o.inverse_real_fourier(o.real_fourier(x, axis=0), n=5, axis=0)

    assert not difference(there_and_back, lambda x: x, "reassociation", x=x)
    assert "ulps" in difference(there_and_back, lambda x: x * 1.001, "reassociation", x=x)
    y = np.array([1e8, 1, -3, 2, 7], "float32")
    assert not difference(real, lambda x: x, "reassociation", x=y)
    assert "ulps" in difference(real, lambda x: x + 1000, "reassociation", x=y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_decomposition_is_that_of_a_matrix_nearby(dtype: str) -> None:
    o, x = LAZY.ops, np.array([[255, 128, 256], [0, -(2**63), -(2**32)], [0, 2**31 - 1, 0]], dtype)

    def of_transpose(x: Any) -> Any:
        return o.det(o.permute_dims(x))

    assert not difference(of_transpose, lambda x: o.det(x), "reassociation", x=x)
    plain = np.array([[2, 1], [1, 3]], dtype)
    assert "ulps" in difference(of_transpose, lambda x: o.det(x) * 1.001, "reassociation", x=plain)


def test_a_convolution_may_overflow_in_one_order_and_not_in_another() -> None:
    o, x = LAZY.ops, np.array([[2, 1], [0, 2]], "float32").reshape(2, 1, 2, 1)
    w = np.array([[-2.3289688560307985e38, 0], [2.3559012592711994e38, 0]], "float32").reshape(1, 2, 1, 2)

    def turned(x: Any, w: Any) -> Any:
        return o.conv2d(o.flip(x, axis=(1, 2)), o.flip(w, axis=(0, 1)))

    assert not difference(turned, lambda x, w: o.flip(o.conv2d(x, w), axis=(1, 2)), "reassociation", x=x, w=w)
    assert "infinity" in difference(turned, lambda x, w: o.conv2d(x, w) * 1e6, "reassociation", x=x, w=np.abs(w) / 4)


def test_a_decomposition_of_infinity_tells_nothing() -> None:
    x = LAZY.input("x", (2, 2), "float32")
    feeds = {x.value: np.array([[np.inf, 0], [0, 1]], "float32")}
    with quiet():
        assert values(LAZY.ops.det(x).value, LAZY.ops.det(LAZY.ops.flip(x)).value, feeds, LAZY.device) is None


def test_one_small_element_beside_a_large_one_counts() -> None:
    x = np.array([1e6, 1e-6], "float32")
    assert "element at (1,)" in difference(lambda x: x * 3, lambda x: (x + 1) * 3 - 3, "rounding", x=x)


def test_complex_numbers_are_measured_by_their_magnitude() -> None:
    o, x = LAZY.ops, np.array([1 + 1e-8j], "complex64")
    assert not difference(lambda x: x * x, lambda x: o.square(x), "rounding", x=x)
    assert "ulps" in difference(lambda x: x * x, lambda x: x * x + 1e-5, "rounding", x=x)


def test_integers_are_widened_where_an_operator_makes_them_floating() -> None:
    i = LAZY.input("i", (2,), "int64")
    third = true_value((i / 3).value, {i.value: np.array([1, 2**53 + 1], "int64")}, LAZY.device)
    if truth.LONG_DOUBLE_IS_WIDER:
        assert third.dtype == np.longdouble
        assert third[0] != np.float64(1 / 3)
    else:
        assert third is None


def test_a_lossy_cast_stays_lossy() -> None:
    o, x = LAZY.ops, np.array([0.1], "float32")
    assert "ulps" in difference(
        lambda x: o.cast(o.cast(x, dtype="float16"), dtype="float32"), lambda x: x, "rounding", x=x
    )


@nnc.operator(
    shape=shapes.broadcast,
    dtype=dtypes.real_part,
    derivative=NOT_DIFFERENTIABLE("it is a test's"),
    kernels=reference(lambda xp, x: np.asarray(x, "float64") * 2),
)
def doubled_in_double(x: Any, /) -> Any:
    """Twice each element, always computed in one format."""


def test_what_has_no_wider_kernel_is_measured_against_itself() -> None:
    eager = LAZY.swap(type=LAZY.type.with_ops(doubled_in_double))
    x = eager.input("x", (1,), "float64")
    assert true_value((x * 2).value, {x.value: np.array([0.1], "float64")}, eager.device) is not None
    twice = eager.operator.bind(doubled_in_double, x.value)
    assert true_value(twice, {x.value: np.array([0.1], "float64")}, eager.device) is None


@pytest.mark.parametrize("numerics", ["rounding", "reassociation"])
@pytest.mark.parametrize("name", ["logsumexp", "log_softmax"])
def test_exponentials_are_added_in_any_order_within_an_operator(name: str, numerics: str) -> None:
    """Where the sum is nearly 1 its logarithm is nearly 0, and an error of the sum is many units of it."""
    o, x = LAZY.ops, np.array([-6.0, -8.0, 0.0])
    op = getattr(o, name)

    def after(x: Any) -> Any:
        return op(o.flip(x)) if name == "logsumexp" else o.flip(op(o.flip(x)))

    assert not difference(op, after, numerics, x=x)
    assert "ulps from the truth" in difference(op, lambda x: after(x) + 1e-13, numerics, x=x)


def test_errors_of_complex_numbers_are_carried_beside_a_number() -> None:
    """Twenty thousand firings met it: errors are real, and what is put around them is complex."""
    o, x = LAZY.ops, np.array([1 + 1e-3j, 0.3 - 2j], "complex64")
    around = lambda y: o.pad(y, widths=((1, 0),), value=0j)  # noqa: E731
    assert not difference(lambda x: around(x * x), lambda x: around(o.square(x)), "rounding", x=x)
    assert "ulps" in difference(lambda x: around(x * x), lambda x: around(x * x) * (1 + 1e-4), "rounding", x=x)
