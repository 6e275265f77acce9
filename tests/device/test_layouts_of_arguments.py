"""Elementwise kernels give equal bits for equal elements, wherever these lie in memory (`device/kernels`).

What NumPy's loops do otherwise, by a rounding, is a table here and a list in docs/testing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.device.shared.namespace import candidates, writing
from nnc_func.errors import DTypeError
from nnc_func.facets import shapes
from nnc_func.facets.samples import COMPLEX, FLOATS, INTEGERS
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op

NUMPY = nnc.NumPy()
COUNT = 131  # more than a vector of any width, and no multiple of one
VECTORISED = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
    "acosh", "atanh", "cbrt", "atan2", "power",
]  # fmt: skip
FUSED = ["multiply", "square", "abs", "angle", "fma", "multiply_no_nan"]  # of complex numbers
ROUNDED = {**dict.fromkeys(VECTORISED, "biuf"), **dict.fromkeys(FUSED, "c")}
"""Kinds of dtypes of which an operator rounds otherwise where elements lie in reverse order."""
ELEMENTWISE = [
    op for op in CATALOGUE.values()
    if op.shape in (shapes.broadcast, shapes.same) and op.args and not op.variadic and not op.multi_result and op.pure
]  # fmt: skip


def elements(dtype: str, seed: int) -> Any:
    draw = np.random.default_rng(seed)
    if dtype == "bool":
        return draw.random(COUNT) < 0.5
    if dtype in INTEGERS:
        return draw.integers(1, 20, COUNT).astype(dtype)
    x = np.concatenate([draw.uniform(-1, 1, COUNT // 2), draw.uniform(-9, 9, COUNT - COUNT // 2)])
    return (x + 1j * draw.permutation(x)).astype(dtype) if dtype in COMPLEX else x.astype(dtype)


def laid(x: Any) -> Iterator[tuple[str, Any]]:
    """The same elements in other places."""
    for apart in (2, 3, 1000):
        wide = np.zeros((len(x), apart), x.dtype)
        wide[:, 0] = x
        yield "apart", wide[:, 0]
    yield "reversed", x[::-1].copy()[::-1]
    yield "shifted", np.concatenate([x[:1], x])[1:]


def same(found: Any, wanted: Any) -> bool:
    return np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()


def close(found: Any, wanted: Any) -> bool:
    eps = float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind in "fc" else 0.0
    return bool(np.allclose(found, wanted, rtol=16 * eps, atol=16 * eps, equal_nan=True))


def params_of(op: Op) -> dict[str, Any] | None:
    """Some for an operator that wants no others than those that have defaults, or a dtype."""
    wanted = {"cast": {"dtype": np.dtype("float32")}, "clip": {"min": -1, "max": 2}}
    try:
        return dict(op.canonical(wanted.get(op.name, {})))
    except nnc.errors.NncError:
        return None


def given(op: Op, dtype: str) -> Any:
    """Arguments, parameters, and the kernels that take them; None if there are none."""
    params = params_of(op)
    if params is None:
        return None
    arrays = [elements("bool" if op.name == "where" and i == 0 else dtype, i) for i in range(len(op.args))]
    avals = tuple(map(NUMPY.aval, arrays))
    try:
        op.dtype(*(a.dtype for a in avals), **params)
    except DTypeError:
        return None
    return arrays, params, [k for k in candidates(op, avals, params, "numpy") if k.writes_strided]


def check(op: Op, dtype: str, where: str, found: Any, wanted: Any) -> None:
    backwards = where == "reversed" and np.dtype(dtype).kind in ROUNDED.get(op.name, "")
    if backwards or (op.name in VECTORISED and dtype == "float16"):
        assert close(found, wanted), f"{op.name} of {dtype} {where}"
    else:
        assert same(found, wanted), f"{op.name} of {dtype} {where}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_equal_elements_give_equal_bits_wherever_they_lie(op: Op, dtype: str) -> None:
    found = given(op, dtype)
    if found is None:
        return
    arrays, params, kernels = found
    for kernel in kernels:
        if kernel.namespaces is None:
            continue
        compute = getattr(np, kernel.ufunc) if kernel.ufunc else lambda *a, k=kernel: k.compute(np, *a, **params)
        wanted = compute(*arrays)
        for i, x in enumerate(arrays):
            for where, view in laid(x):
                check(op, dtype, where, compute(*arrays[:i], view, *arrays[i + 1 :]), wanted)
        if kernel.scratch is not None:
            continue
        into = writing(np, kernel, op.canonical(params), 1, ())
        for where, out in laid(np.zeros_like(wanted)):
            into(*arrays, out)
            check(op, dtype, where, out, wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [op.name for op in ELEMENTWISE if len(op.args) == 2])
def test_a_number_beside_an_array_is_an_array_of_that_number(name: str) -> None:
    """But of powers 2 and -1, which NumPy takes to be a square and a reciprocal where they are numbers."""
    op = CATALOGUE[name]
    for dtype in ("float32", "float64", "complex64", "complex128"):
        x = elements(dtype, 0)
        try:
            op.dtype(x.dtype, x.dtype)
        except DTypeError:
            continue
        for number in (-2, -1, -0.5, 0.0, 0.5, 1, 2, 2.5, 3):
            y = np.asarray(number, dtype)
            found, wanted = NUMPY.bind(op, x, y), NUMPY.bind(op, x, np.full_like(x, number))
            if name == "power" and number in (2, -1, 0.5):
                assert close(found, wanted), (name, dtype, number)
            else:
                assert same(found, wanted), (name, dtype, number)
