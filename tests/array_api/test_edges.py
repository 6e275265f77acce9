"""Answers at the edges of the standard's functions, and words where there is none (`array_api`)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DeviceError, DTypeError, NncError, OperatorError, ShapeError
from tests.array_api.cases import ANY, array

STACKS = (nnc.eager(), nnc.lazy())
BOTH = pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])
WHOLE: tuple[Any, ...] = ((), ..., slice(None))
Call = Callable[[Any], Any]


def written(xp: Any, x: Any, key: Any, value: Any) -> Any:
    found = xp.asarray(x)
    found[key] = value
    return found


@BOTH
@settings(max_examples=max(5, settings().max_examples // 3))
@given(data=st.data())
def test_what_is_written_over_the_whole_keeps_its_dtype(stack: nnc.Stack, data: Any) -> None:
    a, other = array(data.draw, ANY), np.dtype(data.draw(st.sampled_from(["bool", "int8", "float32", "complex64"])))
    value = np.ones((), other)
    key = data.draw(st.sampled_from(WHOLE if a.ndim else WHOLE[:2]))
    if "biufc".find(other.kind) > "biufc".find(a.dtype.kind):
        with pytest.raises(DTypeError, match="do not fit"):
            written(stack.array_api, a, key, value)
        return
    found = written(stack.array_api, a, key, value)
    assert (found.dtype, found.shape) == (a.dtype, a.shape)
    assert np.array_equal(found.numpy(), np.ones_like(a))


@BOTH
@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "bool", "float16", "complex64"])
def test_a_reduction_has_the_dtype_that_is_asked_for(stack: nnc.Stack, name: str, dtype: str) -> None:
    x = np.int8([[100, 3], [100, 0]])
    found = getattr(stack.array_api, name)(x, axis=0, dtype=dtype).numpy()
    wanted = getattr(np, name)(x, axis=0, dtype=dtype)
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted)


@BOTH
def test_means_of_float16_do_not_overflow_on_the_way(stack: nnc.Stack) -> None:
    xp, x = stack.array_api, np.float16([100, -100] * 400)
    for name, given_ in (("mean", np.abs(x)), ("var", x), ("std", x)):
        found = getattr(xp, name)(given_).numpy()
        assert found.dtype == np.float16
        assert found == getattr(np, name)(given_.astype(float))


@BOTH
@settings(max_examples=max(5, settings().max_examples // 3))
@given(data=st.data())
def test_sets_of_complex_numbers(stack: nnc.Stack, data: Any) -> None:
    numbers = st.sampled_from([0, -0.0, 1, 2, 1j, 1 + 1j, complex(1, np.nan), complex(np.nan, 1)])
    x = np.array(data.draw(st.lists(numbers, max_size=6)), data.draw(st.sampled_from(["complex64", "complex128"])))
    found = [a.numpy() for a in stack.array_api.unique_all(x)]
    assert [a.dtype for a in found] == [x.dtype, *["int64"] * 3]
    values, first, inverse, counts = found
    np.testing.assert_array_equal(values[inverse], x)
    np.testing.assert_array_equal(x[first], values)
    assert len(values) == len(np.unique(x, equal_nan=False))
    assert np.array_equal(counts, np.bincount(inverse, minlength=len(values)))
    others = np.array(data.draw(st.lists(numbers, max_size=3)), "complex64")
    assert np.array_equal(stack.array_api.isin(x, others).numpy(), np.isin(x, others))


@BOTH
def test_counts_of_repeat(stack: nnc.Stack) -> None:
    xp = stack.array_api
    x = np.arange(6).reshape(3, 2)
    for of, axis in ((x, None), (x, 0), (x[:0], 0), (x[:1], 0)):
        found = xp.repeat(of, xp.asarray([2]), axis=axis)
        assert np.array_equal(found.numpy(), np.repeat(of, [2], axis=axis))


@BOTH
def test_numpys_numbers_keep_their_dtype_in_creation(stack: nnc.Stack) -> None:
    xp = stack.array_api
    assert xp.arange(np.int32(3)).dtype == "int64"
    assert xp.full(2, np.float32(1.5)).dtype == "float32"
    assert xp.full(2, xp.asarray(3, dtype="int8")).dtype == "int8"
    assert xp.tile(xp.ones(2), 2).shape == (4,)


REFUSED: dict[str, tuple[type[NncError], str, Call]] = {
    "ragged": (DTypeError, "a list makes no tensor", lambda xp: xp.asarray([[1], [2, 3]])),
    "out of range": (DTypeError, "of dtype uint8", lambda xp: xp.asarray(300, dtype="uint8")),
    "too large": (DeviceError, "no integer dtype has", lambda xp: xp.asarray(2**64)),
    "no number": (DTypeError, "given a NoneType", lambda xp: xp.full(2, None)),
    "several": (ShapeError, "one number", lambda xp: xp.full(2, np.ones(2))),
    "negative": (ShapeError, "not negative", lambda xp: xp.zeros((2, -1))),
    "no shape": (OperatorError, "shape=None is not usable: wanted an extent", lambda xp: xp.zeros(None)),
    "objects": (DTypeError, "numbers and booleans", lambda xp: xp.zeros(2, dtype="object")),
    "words": (DTypeError, "numbers and booleans", lambda xp: xp.arange(3).astype("U3")),
    "endless": (ShapeError, "finite ends", lambda xp: xp.arange(0, np.inf)),
    "not a number": (ShapeError, "finite ends", lambda xp: xp.arange(np.nan)),
    "endless steps": (ShapeError, "finite", lambda xp: xp.arange(5, 0, -np.inf)),
    "a negative count": (ShapeError, "0 times or more", lambda xp: xp.repeat(xp.arange(2), xp.asarray([1, -1]))),
    "a broken count": (DTypeError, "whole number", lambda xp: xp.repeat(xp.arange(2), xp.asarray([1.5]))),
    "a short sorter": (ShapeError, "sorter", lambda xp: xp.searchsorted(xp.arange(3), 1, sorter=[0])),
    "no axis": (ShapeError, "rank 0, which has no axes", lambda xp: xp.sum(xp.asarray(1), axis=0)),
    "no DLPack": (DTypeError, "use asarray", lambda xp: xp.from_dlpack([1])),
    "a word": (DeviceError, "numbers", lambda xp: xp.asarray(1) + "a"),
    "a mask's values": (
        DTypeError,
        "do not fit",
        lambda xp: written(xp, np.ones((2, 2), "int8"), np.array([True, False]), np.array([1.5, 2.0])),
    ),
}


@BOTH
@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_answer_is_refused_with_words(stack: nnc.Stack, what: str) -> None:
    error, words, call = REFUSED[what]
    with pytest.raises(error, match=words):
        call(stack.array_api)


def test_the_words_of_creation_name_its_parameters_alone() -> None:
    with pytest.raises(DTypeError, match=r"^full\(shape=\(2,\), value=0.*\): tensors hold numbers"):
        STACKS[1].array_api.zeros(2, dtype="object")


@BOTH
def test_numpys_axes_and_decimals_mean_what_they_mean_there(stack: nnc.Stack) -> None:
    x, whole = np.float64([[[3, 1, 2], [0, 5, 4]], [[9, 7, 8], [6, 11, 10]]]), np.array([[14, -26], [5, 155]])
    asks: list[tuple[Call, Any]] = [
        (lambda a: np.sort(a, axis=None), x),
        (lambda a: np.argsort(a, axis=None), x),
        (lambda a: np.argsort(a, axis=1), x),
        (lambda a: np.concatenate([a, a], axis=None), x),
        (lambda a: np.trace(a, 1), x),
        (lambda a: np.trace(a, axis1=0, axis2=2), x),
        (lambda a: np.trace(a, dtype="float32"), x),
        (np.diagonal, x),
        (lambda a: np.diagonal(a, -1, 2, 1), x),
        (lambda a: np.round(a, 1), whole),
        (lambda a: np.round(a, -1), whole),
    ]
    for ask, of in asks:
        found, wanted = ask(stack.asarray(of)).numpy(), ask(of)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("call", [lambda t: np.stack([t, t], axis=None), lambda t: np.fft.fft(t, axis=None)])
def test_one_axis_is_not_none(call: Any) -> None:
    with pytest.raises(OperatorError, match="axis=None is not usable: wanted a whole number"):
        call(nnc.eager().asarray([1.0, 2.0]))


# --- what the consortium's suite asks ------------------------------------------------------------------------

FARTHEST = (10**18, 2**63 - 1, 2**63, -(2**63), 2**70, -(2**70), 50, -50)


@BOTH
@pytest.mark.parametrize("k", FARTHEST)
def test_no_diagonal_is_too_far_away(stack: nnc.Stack, k: int) -> None:
    xp = stack.array_api
    assert not xp.eye(3, 4, k=k).numpy().any()
    x = np.arange(1, 7).reshape(2, 3)
    assert np.array_equal(xp.tril(x, k=k).numpy(), x if k > 0 else 0 * x)
    assert np.array_equal(xp.triu(x, k=k).numpy(), x if k < 0 else 0 * x)
    assert xp.linalg.diagonal(x, offset=k).shape == (0,)
    assert int(xp.linalg.trace(x, offset=k)) == 0


@BOTH
@pytest.mark.parametrize(
    ("shape", "mask"),
    [((1,), (0,)), ((3,), (0,)), ((1, 3), (0,)), ((3, 1), (3, 0)), ((2, 3), (0, 3)), ((2, 3), (2, 0))],
)
def test_a_mask_of_extent_zero_shows_nothing_of_any_axis(stack: nnc.Stack, shape: Any, mask: Any) -> None:
    xp, x, none = stack.array_api, np.ones(shape), np.zeros(mask, bool)
    for key in (none, xp.asarray(none)):
        assert xp.asarray(x)[key].shape == x[none].shape
        assert np.array_equal(written(xp, x, key, 2.0).numpy(), x)
        assert np.array_equal(written(xp, x, key, np.zeros(x[none].shape)).numpy(), x)
    for wrong in ((5,), (*shape, 2), (2, *shape)):
        for key in (np.zeros(wrong, bool), xp.asarray(np.zeros(wrong, bool))):
            with pytest.raises(IndexError, match="has the shape of the axes"):
                xp.asarray(x)[key]


@BOTH
@pytest.mark.parametrize("key", [3, -4, (0, 0), (0, 7), (..., 3)], ids=str)
def test_what_is_outside_is_an_index_error_as_in_python(stack: nnc.Stack, key: Any) -> None:
    with pytest.raises(IndexError):
        stack.array_api.ones(3)[key]


@BOTH
def test_several_arrays_are_a_list_until_version_2025(stack: nnc.Stack) -> None:
    for version, kind in ((None, list), ("2022.12", list), ("2024.12", list), ("2025.12", tuple)):
        xp = stack.asarray([1.0]).__array_namespace__(api_version=version)
        assert xp.__array_api_version__ == ("2025.12" if version == "2025.12" else "2024.12")
        assert type(xp.broadcast_arrays(xp.ones(2), xp.ones(1))) is kind
        assert type(xp.meshgrid(xp.ones(2), xp.ones(3))) is kind
        assert type(xp.meshgrid()) is kind
        again = pickle.loads(pickle.dumps(xp))
        assert again == xp
        assert again.__array_api_version__ == xp.__array_api_version__
    latest = stack.array_api.of_version("2025.12")
    assert latest is stack.array_api.of_version("2025.12")
    assert latest != stack.array_api
