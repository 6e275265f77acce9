"""What the standard says of dtypes, of every dtype and pair of them; and of constants (`array_api/data_types`)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DTypeError
from tests.array_api.test_conformance import agree, plain
from tests.array_api.test_promotion import EVERY, PYTHONS, numbers

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip
PAIRS = [*itertools.product(EVERY, repeat=2)]


def answer(xp: Any, name: str, *given: Any) -> Any:
    """What a function says, or that it raises."""
    try:
        return plain(getattr(xp, name)(*given))
    except (TypeError, ValueError):
        return "refused"


@BOTH
def test_whether_one_dtype_can_be_cast_to_another(stack: Any) -> None:
    xp = stack.array_api
    for one, other in PAIRS:
        if answer(strict, "result_type", getattr(strict, one), getattr(strict, other)) == other:
            assert xp.can_cast(getattr(xp, one), getattr(xp, other)) is True
            assert xp.can_cast(xp.zeros(2, dtype=one), getattr(xp, other)) is True
        if np.dtype(one).kind == np.dtype(other).kind and np.dtype(one).itemsize > np.dtype(other).itemsize:
            assert xp.can_cast(getattr(xp, one), getattr(xp, other)) is False


@BOTH
def test_the_dtype_of_two_whatever_stands_for_them_and_in_which_order(stack: Any) -> None:
    xp = stack.array_api
    for one, other in PAIRS:
        wanted = answer(strict, "result_type", getattr(strict, one), getattr(strict, other))
        if wanted == "refused":  # kinds that the standard does not mix: NumPy's promotion, as elsewhere
            continue
        for a, b in itertools.product(
            (getattr(xp, one), xp.empty(1, dtype=one)), (getattr(xp, other), xp.ones((), dtype=other))
        ):
            assert answer(xp, "result_type", a, b) == answer(xp, "result_type", b, a) == wanted
        for kind in {"b": "b", "i": "i", "u": "i", "f": "if", "c": "ifc"}[np.dtype(wanted).kind]:
            for each in itertools.permutations((getattr(xp, one), xp.ones(2, dtype=other), PYTHONS[kind][0])):
                assert answer(xp, "result_type", *each) == wanted


@BOTH
@given(dtypes=st.lists(st.sampled_from(EVERY), min_size=1, max_size=5))
def test_the_dtype_of_several(stack: Any, dtypes: list[str]) -> None:
    wanted = answer(strict, "result_type", *(getattr(strict, d) for d in dtypes))
    for order in (dtypes, dtypes[::-1], sorted(dtypes)):
        if wanted != "refused":
            assert answer(stack.array_api, "result_type", *(getattr(stack.array_api, d) for d in order)) == wanted


@BOTH
def test_kinds_of_dtypes(stack: Any) -> None:
    xp = stack.array_api
    for dtype in EVERY:
        given = getattr(xp, dtype)
        for kind, letters in KINDS.items():
            assert xp.isdtype(given, kind) is (np.dtype(dtype).kind in letters)
            for other, its in KINDS.items():
                assert xp.isdtype(given, (kind, other)) is (np.dtype(dtype).kind in letters + its)
            for other in EVERY:
                wanted = dtype == other or np.dtype(dtype).kind in letters
                assert xp.isdtype(given, (kind, getattr(xp, other))) is wanted
                assert xp.isdtype(given, getattr(xp, other)) is (dtype == other)
        for wrong in ("no such", "", ("integral", "no such")):
            with pytest.raises((ValueError, TypeError)):
                xp.isdtype(given, wrong)


@BOTH
def test_limits_of_what_has_a_dtype(stack: Any) -> None:
    xp = stack.array_api
    for dtype in EVERY:
        x = xp.ones(1, dtype=dtype)
        kind = np.dtype(dtype).kind
        for held_by in (getattr(xp, dtype), x, x.dtype, xp.ones((), dtype=dtype)):
            if kind in "fc":
                found, wanted = xp.finfo(held_by), np.finfo(dtype)
                assert type(found.bits) is int
                for name in ("eps", "max", "min", "smallest_normal"):
                    assert type(getattr(found, name)) is float
                    assert getattr(found, name) == float(getattr(wanted, name))
                assert (found.bits, found.dtype) == (wanted.bits, wanted.dtype)
                assert isinstance(found.dtype, np.dtype)
            elif kind in "iu":
                ends, limits = xp.iinfo(held_by), np.iinfo(dtype)
                assert [type(n) for n in (ends.bits, ends.max, ends.min)] == [int] * 3
                assert (ends.bits, ends.max, ends.min) == (limits.bits, limits.max, limits.min)
                assert ends.dtype == np.dtype(dtype)
                assert isinstance(ends.dtype, np.dtype)
            for name in {"f": ["iinfo"], "c": ["iinfo"], "b": ["iinfo", "finfo"]}.get(kind, ["finfo"]):
                with pytest.raises(DTypeError):
                    getattr(xp, name)(held_by)


@BOTH
@pytest.mark.parametrize("dtype", EVERY)
def test_casts_from_every_dtype_to_every_other(stack: Any, dtype: str) -> None:
    xp, kind = stack.array_api, np.dtype(dtype).kind
    x = numbers(dtype, tame=True)
    for other in EVERY:
        if kind == "c" and np.dtype(other).kind not in "cb":
            with pytest.raises(DTypeError, match=r"take real\(x\)"):
                xp.astype(xp.asarray(x), getattr(xp, other))
            continue
        some = x[(x >= 0) & (x <= 100)] if np.dtype(other).kind in "iu" and kind != "b" else x
        held_by = xp.asarray(some)
        agree("astype", plain(xp.astype(held_by, getattr(xp, other))), some.astype(other))
        for shape in ((), (0, 3)):
            assert xp.astype(xp.ones(shape, dtype=dtype), getattr(xp, other), copy=False).shape == shape
    held = xp.asarray(x)
    assert xp.astype(held, held.dtype, copy=False) is held
    own = xp.astype(held, held.dtype, copy=True)
    own[0] = own[1]
    assert np.array_equal(held.numpy(), x)


# --- Python's numbers of tensors, and tensors of Python's numbers ------------------------------------------------


@BOTH
@pytest.mark.parametrize("dtype", EVERY)
def test_pythons_numbers_of_every_dtype(stack: Any, dtype: str) -> None:
    for value in numbers(dtype)[np.isfinite(numbers(dtype))]:
        x, kind = stack.array_api.asarray(np.asarray(value)), value.dtype.kind
        wanted = value.item()
        assert bool(x) is bool(wanted)
        made = {
            "b": (bool, int, float, complex),
            "i": (int, float, complex),
            "f": (int, float, complex),
            "c": (complex,),
        }
        for of in made["i" if kind == "u" else kind]:
            found = of(x)
            assert type(found) is of
            assert found == of(wanted)
        if kind in "iu":
            assert type(x.__index__()) is int
            assert x.__index__() == wanted
        else:
            with pytest.raises(TypeError):
                x.__index__()
        if kind == "c":
            with pytest.raises(TypeError):
                float(x)


@BOTH
@given(data=st.data())
def test_nested_lists_of_pythons_numbers(stack: Any, data: Any) -> None:
    """With a dtype, or with the one of their most general kind; numbers of lower kinds stand among them."""
    kind = data.draw(st.sampled_from("bifc"))
    dtypes = {
        "b": ["bool"],
        "i": ["int8", "uint16", "int64"],
        "f": ["float32", "float64"],
        "c": ["complex64", "complex128"],
    }
    dtype = data.draw(st.none() | st.sampled_from(dtypes[kind]))
    lower = {"b": "b", "i": "bi", "f": "if", "c": "ifc"}[kind]
    number = st.sampled_from([n for k in lower for n in PYTHONS[k]])
    shape = tuple(data.draw(st.lists(st.integers(1, 3), max_size=3)))
    size = math.prod(shape)
    flat = data.draw(st.lists(number, min_size=size, max_size=size))
    flat[data.draw(st.integers(0, size - 1))] = PYTHONS[kind][0]

    def nested(values: list[Any], of: tuple[int, ...]) -> Any:
        if not of:
            return values[0]
        each = math.prod(of[1:])
        return [nested(values[k * each : (k + 1) * each], of[1:]) for k in range(of[0])]

    found = stack.array_api.asarray(nested(flat, shape), dtype=dtype).numpy()
    assert found.dtype == (dtype or {"b": "bool", "i": "int64", "f": "float64", "c": "complex128"}[kind])
    assert found.shape == shape
    assert np.array_equal(found.reshape(-1), np.array(flat, found.dtype))


@BOTH
def test_constants(stack: Any) -> None:
    xp = stack.array_api
    for name in ("e", "pi", "inf", "nan"):
        value = getattr(xp, name)
        assert type(value) is float
        assert repr(value) == repr(getattr(math, name))
        assert xp.asarray(value).dtype == xp.float64
    assert xp.newaxis is None
    assert bool(xp.isnan(xp.asarray(xp.nan)))
    assert bool(xp.isinf(xp.asarray(-xp.inf)))


@BOTH
@pytest.mark.parametrize(
    "kind", [None, *KINDS, ("bool",), ("integral", "real floating"), ("unsigned integer", "bool", "complex floating")]
)
def test_dtypes_of_the_namespace_by_kind(stack: Any, kind: Any) -> None:
    info = stack.array_api.__array_namespace_info__()
    kinds = [*KINDS] if kind is None else [kind] if isinstance(kind, str) else kind
    for device in (None, *info.devices()):
        found = info.dtypes(kind=kind, device=device)
        assert type(found) is dict
        assert {*found} == {d for d in EVERY if np.dtype(d).kind in "".join(KINDS[k] for k in kinds)}
        for name, dtype in found.items():
            assert stack.array_api.empty(1, dtype=dtype, device=device).dtype == dtype == getattr(stack.array_api, name)
        assert {"real floating", "complex floating", "integral", "indexing"} <= {*info.default_dtypes(device=device)}
    with pytest.raises((ValueError, TypeError)):
        info.dtypes(kind="no such")
