"""As ONNX operators give what the stack gives, or are refused with a reason (`facets/onnx`, `graph/onnx_export`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.errors import OnnxError
from nnc_func.facets.samples import Refused
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.samples import arguments
from tests.onnx.exported import RUNTIME, exported_alone, models_agree, run_model

LAZY = nnc.lazy()
REFUSED = {
    "has no next one": "nextafter",
    "not its inverse": "erfinv",
    "Dawson": "dawsn",
    "no gamma function": "lgamma",
    "derivatives of the gamma function": "polygamma",
    "from operator set 26 on": "bit_cast",
    "take no complex numbers": "complex",
    "no effects": "token print check callback",
    "no decompositions, inverses or solvers": "cholesky qr svd svdvals eigh eigvalsh solve solve_triangular inv pinv "
    "cofactors slogdet sylvester discrete_lyapunov care dare expm",
    "form of complex numbers": "fourier real_fourier inverse_real_fourier",
}
WRITTEN = [op for op in CATALOGUE.values() if not isinstance(op.onnx, Refused)]
# What cannot be written of operators that can: complex numbers, of which ONNX has no arithmetic; and boxes in float64.
ALLOWED = ("made of complex numbers", "NonMaxSuppression takes float32")

operators = pytest.mark.parametrize("op", WRITTEN, ids=str)


def test_every_refusal_is_known() -> None:
    found = Counter({op.name: op.onnx.why for op in CATALOGUE.values() if isinstance(op.onnx, Refused)})
    named = {name: reason for reason, names in REFUSED.items() for name in names.split()}
    assert set(found) == set(named)
    assert len(found) == 31
    for name, why in found.items():
        assert named[name] in why, f"{name}: {why}"


def agrees(op: Op, data: Any) -> None:
    drawn, params = data.draw(arguments(op))
    try:
        with np.errstate(all="ignore"):
            models_agree(LAZY, op, drawn, params)
    except OnnxError as error:
        if not any(reason in str(error) for reason in ALLOWED):
            raise


def test_a_sigmoid_on_the_way_is_right_to_ulps_of_one() -> None:
    """Found by another seed: silu of -4.8, where onnxruntime's sigmoid is 100 ulps of its own from the true one."""
    a, b = np.zeros((3, 4)), np.zeros((4, 2))
    a[2, 1], b[1, 1] = 2.3125, -2.078125
    body = Body.of(1, (CATALOGUE["sigmoid"], 0), (CATALOGUE["multiply"], 0, 1))
    models_agree(LAZY, CATALOGUE["matmul_blockwise"], [a, b], {"body": body})


@operators
@settings(max_examples=2)
@given(data=st.data())
def test_a_runtime_gives_what_the_stack_gives(op: Op, data: Any) -> None:
    agrees(op, data)


@pytest.mark.slow
@operators
@settings(max_examples=200)
@given(data=st.data())
def test_a_runtime_gives_what_the_stack_gives_always(op: Op, data: Any) -> None:
    agrees(op, data)


# --- where arithmetic ends --------------------------------------------------------------------------------

NAN, INF = np.nan, np.inf
EDGES = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, -7.0], "float32")
UNARY = [
    "negative", "abs", "sign", "sqrt", "square", "reciprocal", "floor", "ceil", "round", "trunc", "isnan", "isinf",
    "isfinite", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tanh", "asinh", "atan", "cbrt",
    "erf", "sigmoid", "relu", "softplus", "angle",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "floor_divide", "remainder", "atan2", "hypot",
    "logaddexp", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "multiply_no_nan",
]  # fmt: skip


def same(op: Op, given: Any, params: Any, places: int = 6) -> None:
    model = exported_alone(LAZY, op, given, params)
    found = run_model(model, {f"x{i}": x for i, x in enumerate(given)})
    with np.errstate(all="ignore"):
        wanted = LAZY.device.bind(op, *given, **params)
    assert found is not None
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found[0], wanted, err_msg=op.name)
    else:
        np.testing.assert_allclose(found[0], wanted, rtol=10.0**-places, atol=10.0**-places, err_msg=op.name)


@pytest.mark.parametrize("name", UNARY)
def test_of_one_edge(name: str) -> None:
    same(CATALOGUE[name], [EDGES], {})


@pytest.mark.parametrize("name", BINARY)
def test_of_two_edges(name: str) -> None:
    a, b = np.meshgrid(EDGES, EDGES)
    same(CATALOGUE[name], [a, b], {})


def test_the_sign_of_what_is_no_nan() -> None:
    same(CATALOGUE["signbit"], [EDGES[1:]], {})
    same(CATALOGUE["copysign"], [*np.meshgrid(EDGES, EDGES[1:])], {})


REDUCED = np.array([[1, 3, 3, 2], [NAN, 5, NAN, 1], [-INF, -INF, -INF, -INF], [INF, 0, -0.0, INF]], "float32")


@pytest.mark.parametrize(
    "name", ["max", "min", "argmax", "argmin", "sum", "logsumexp", "any", "all", "sort", "argsort"]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_along_edges(name: str, axis: int) -> None:
    same(CATALOGUE[name], [REDUCED], {"axis": axis})
    if name.endswith("sort"):
        same(CATALOGUE[name], [REDUCED], {"axis": axis, "descending": True})


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8"])
def test_whole_numbers_divided_by_anything(dtype: str) -> None:
    limits = np.iinfo(dtype)
    a, b = np.meshgrid(np.array([limits.min, limits.max, 0, 1, 2, 7], dtype), np.array([0, 1, 2, 3, limits.max], dtype))
    less = np.meshgrid(np.array([limits.min, -7, 7, 1], dtype), np.array([-1, -2, -3], dtype)) if limits.min else [a, b]
    for name in ("floor_divide", "remainder"):
        same(CATALOGUE[name], [a, b], {})
        same(CATALOGUE[name], list(less), {})


LONG = {
    "int64": [0, 1, -1, 5, 2**31 - 1, 2**31, -(2**31), 2**32 - 3, 2**32 + 5, -(2**33) - 7, 2**52 + 1],
    "uint32": [0, 1, 3, 5, 7, 2**31 - 1, 2**31, 2**32 - 3, 2**32 - 1],
}


@pytest.mark.parametrize("dtype", LONG)
def test_whole_numbers_of_more_than_32_bits(dtype: str) -> None:
    a, b = np.meshgrid(*[np.array(LONG[dtype], dtype)] * 2)
    for name in ("maximum", "minimum", "less", "add", "equal"):
        same(CATALOGUE[name], [a, b], {})
    for name in ("sign", "relu", "softplus", "abs"):
        same(CATALOGUE[name], [a], {})
    same(CATALOGUE["clip"], [a], {"min": 1, "max": 2**31 + 1})
    for name in ("max", "min"):
        for params in ({"axis": 0, "keepdims": False}, {"axis": 1, "keepdims": True}, {"axis": None}):
            same(CATALOGUE[name], [a], params)
    for name in ("argmax", "argmin", "sort", "cumulative_max"):
        same(CATALOGUE[name], [a], {"axis": 1})


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "cumulative_sum"])
def test_a_runtime_reduces_unsigned_numbers(name: str, dtype: str) -> None:
    most = np.iinfo(dtype).max
    x = np.array([[0, most, most - 1, 3], [most // 2, most // 2 + 1, 5, most // 2 + 2]], dtype)
    for axis in (0, 1):
        assert models_agree(nnc.lazy(), CATALOGUE[name], [x], {"axis": axis}) == RUNTIME


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_a_runtime_adds_unsigned_numbers(name: str, dtype: str) -> None:
    large = min(np.iinfo(dtype).max, 2**50)  # onnxruntime adds whole numbers in float64
    x = np.array([[0, large, 2, 3], [1, 1, 5, 7]], dtype)
    for axis in (0, 1):
        assert models_agree(nnc.lazy(), CATALOGUE[name], [x], {"axis": axis}) == RUNTIME


def test_softplus_is_finite_where_the_exponential_is_not() -> None:
    same(CATALOGUE["softplus"], [np.array([-1e4, -800.0, 0.0, 708.0, 720.0, 1e4])], {})


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_search_puts_nan_behind_all_numbers(side: str) -> None:
    sorted_ = np.float32([-INF, 1, 1, 2, INF, NAN, NAN])
    same(CATALOGUE["searchsorted"], [sorted_, np.float32([NAN, INF, 1, -INF, 5])], {"side": side})


def test_the_last_of_several_updates_is_written() -> None:
    x, indices = np.zeros((2, 3), "float32"), np.array([1, -2, 1, 0])
    updates = np.arange(8, dtype="float32").reshape(2, 4)
    same(CATALOGUE["scatter_set"], [x, indices, updates], {"axis": 1})


# --- bfloat16 ---------------------------------------------------------------------------------------------

NARROW = ("add", "exp", "sum", "maximum", "matmul", "reshape", "less", "where", "full", "cumulative_sum", "scatter_add")


@pytest.mark.parametrize("name", NARROW)
@settings(max_examples=3)
@given(data=st.data())
def test_bfloat16_is_computed_in_float32(name: str, data: Any) -> None:
    op, ops = CATALOGUE[name], LAZY.ops
    drawn, params = data.draw(arguments(op, "float32"))
    if name == "full":
        params = {**params, "dtype": "bfloat16", "value": 1}
    inputs = [LAZY.input(f"x{i}", x.shape, x.dtype) for i, x in enumerate(drawn)]
    narrow = [ops.cast(x, dtype="bfloat16") if x.dtype == np.float32 else x for x in inputs]
    made = LAZY.bind(op, *narrow, **params)
    program = LAZY.compile(inputs, ops.cast(made, dtype="float32") if made.dtype.name == "bfloat16" else made)
    found = run_model(program.source.to_onnx(), {f"x{i}": x for i, x in enumerate(drawn)})
    assert found is not None
    np.testing.assert_allclose(found[0], program(*drawn), rtol=2e-2, atol=2e-2)
