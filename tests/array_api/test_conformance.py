"""Each function of the standard, with its signature, against array_api_strict on drawn arguments (`array_api`)."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from tests.array_api.functions import CASES

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
SECTIONS = {"": strict, "linalg.": strict.linalg, "fft.": strict.fft}
OWN = {"get_array_api_strict_flags", "set_array_api_strict_flags", "reset_array_api_strict_flags"}
pytestmark = pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")  # theirs, of too few elements
FUNCTIONS = [
    prefix + name
    for prefix, section in SECTIONS.items()
    for name in section.__all__
    if inspect.isfunction(getattr(section, name)) and name not in OWN and not name.startswith("_")
]


def floor_divide(x1: Any, x2: Any) -> Any:
    """As the standard says of infinities, where NumPy, and so array_api_strict, has NaN and -1."""
    found = np.asarray(np.floor_divide(x1, x2))
    if found.dtype.kind != "f":
        return found
    x1, x2 = np.broadcast_arrays(np.asarray(x1, found.dtype), np.asarray(x2, found.dtype))
    found = np.where(np.isinf(x1) & np.isfinite(x2), x1 / x2, found)
    return np.where(np.isfinite(x1) & np.isinf(x2), np.copysign(0.0, x1) / np.copysign(1.0, x2), found)


ORACLES = {  # array_api_strict 2.6 does not hear of invert
    "isin": np,
    "floor_divide": SimpleNamespace(asarray=np.asarray, floor_divide=floor_divide),
}
NOT_UNIQUE = {  # factors that are so but for signs: what they are multiplied
    "linalg.qr": lambda np_, q, r: np_.matmul(q, r),
    "linalg.svd": lambda np_, u, s, vh: np_.matmul(u[..., : s.shape[-1]] * s[..., None, :], vh[..., : s.shape[-1], :]),
    "linalg.eigh": lambda np_, w, v: np_.matmul(v * w[..., None, :], np_.conj(np_.matrix_transpose(v))),
}


def found_in(namespace: Any, name: str) -> Any:
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def with_arrays(xp: Any, value: Any) -> Any:
    """Arguments, NumPy's arrays and dtypes among them, as a namespace takes them."""
    if isinstance(value, np.ndarray):
        return xp.asarray(value)
    if isinstance(value, np.dtype):
        return getattr(xp, value.name)
    if isinstance(value, list):
        return [with_arrays(xp, v) for v in value]
    return value


def plain(value: Any) -> Any:
    """Results as NumPy's arrays, numbers and names of dtypes."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, nnc.Tensor):
        return value.numpy()
    if hasattr(value, "__array_namespace__"):
        return np.asarray(value)
    if hasattr(value, "bits"):
        return [float(getattr(value, n)) for n in ("bits", "max", "min", "eps", "smallest_normal") if hasattr(value, n)]
    if isinstance(value, np.dtype):
        return value.name
    return str(value).rpartition(".")[2] if type(value).__name__ == "DType" else value


def agree(name: str, ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            agree(name, a, b)
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        tight = 1e-5 if theirs.dtype in (np.float32, np.complex64) else 1e-12
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(ours, theirs, rtol=tight * (50 if "." in name else 1), atol=tight * 10)
        if theirs.dtype.kind == "f" and "." not in name and not name.startswith("unique_"):  # of equal zeros any one
            zero = theirs == 0
            assert np.array_equal(np.signbit(ours[zero]), np.signbit(theirs[zero])), "the sign of zero"
    else:
        assert ours == theirs


def check(stack: Any, name: str, data: Any) -> None:
    args, keywords = CASES[name](data.draw)
    with np.errstate(all="ignore"):
        results = [
            plain(
                found_in(xp, name)(
                    *(with_arrays(xp, a) for a in args), **{k: with_arrays(xp, v) for k, v in keywords.items()}
                )
            )
            for xp in (stack.array_api, ORACLES.get(name, strict))
        ]
        ours, theirs = results
        if name in NOT_UNIQUE:
            assert [(a.shape, a.dtype) for a in ours] == [(a.shape, a.dtype) for a in theirs]
            ours, theirs = ([NOT_UNIQUE[name](np, *each)] for each in results)
    if name.startswith("empty"):  # theirs have any elements
        theirs = np.zeros_like(theirs)
    agree(name, ours, theirs)


@pytest.mark.parametrize("stack", STACKS.values())
def test_quotients_of_infinities_are_the_standards(stack: Any) -> None:  # a fresh seed drew one
    numbers = np.array([np.inf, -np.inf, 1.0, -1.0, 2.5, 0.0, -0.0], "float32")
    x1, x2 = numbers[:, None], numbers[:5]
    with np.errstate(all="ignore"):
        wanted = floor_divide(x1, x2)
        found = stack.array_api.floor_divide(stack.array_api.asarray(x1), stack.array_api.asarray(x2)).numpy()
    agree("floor_divide", found, wanted)


def test_every_function_of_the_standard_has_a_case() -> None:
    assert sorted(CASES) == sorted(FUNCTIONS)
    assert len(FUNCTIONS) == 172


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_are_the_standards(name: str) -> None:
    ours, theirs = (
        [(p.name if p.kind is not p.POSITIONAL_ONLY else "", p.kind) for p in inspect.signature(f).parameters.values()]
        for f in (found_in(STACKS["eager"].array_api, name), found_in(strict, name))
    )
    assert ours == theirs
    for mine, wanted in zip(
        inspect.signature(found_in(STACKS["eager"].array_api, name)).parameters.values(),
        inspect.signature(found_in(strict, name)).parameters.values(),
        strict=True,
    ):
        if "Undef" not in repr(wanted.default) and wanted.default is not wanted.empty:
            assert mine.default == wanted.default, mine


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=max(4, settings().max_examples // 6))
@given(data=st.data())
def test_eager_is_as_the_standard_says(name: str, data: Any) -> None:
    check(STACKS["eager"], name, data)


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=max(1, settings().max_examples // 25))
@given(data=st.data())
def test_lazy_is_as_the_standard_says(name: str, data: Any) -> None:
    check(STACKS["lazy"], name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=200)
@given(data=st.data())
def test_many_cases(name: str, data: Any) -> None:
    check(STACKS["lazy" if data.draw(st.integers(0, 9)) == 0 else "eager"], name, data)
