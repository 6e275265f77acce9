"""Tensors have the methods of NumPy's arrays, with NumPy's values or words (`graph/tensors/numpy_methods`)."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import GraphError, OperatorError, ShapeError, TracingError
from tests.array_api.test_numpy_functions import plain, same

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
M = np.array([[1.0, -2.5, 3.0], [0.5, 4.0, -1.0]])
I = np.array([3, 1, 2])  # noqa: E741
C = np.array([1 + 2j, -1j])
T = np.arange(24.0).reshape(2, 3, 4)


def after(x: Any, change: Callable[[Any], Any]) -> Any:
    """What a copy is once it has been changed in place."""
    copied = x.copy()
    assert change(copied) is None
    return copied


METHODS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda t: (t(M).sum(), t(M).sum(0), t(I).sum(axis=0, dtype="float32", keepdims=True)),
    "mean": lambda t: (t(M).mean(1), t(M).mean(dtype="float32")),
    "max": lambda t: (t(M).max(), t(M).max(axis=(0, 1), keepdims=True)),
    "min": lambda t: t(M).min(axis=1),
    "prod": lambda t: t(M).prod(axis=0),
    "any": lambda t: (t(M) > 3).any(axis=1),
    "all": lambda t: (t(M) > -3).all(),
    "std": lambda t: (t(M).std(), t(M).std(axis=1, ddof=1)),
    "var": lambda t: (t(M).var(0), t(M).var(keepdims=True)),
    "round": lambda t: (t(M).round(), (t(M) / 3).round(2)),
    "argmax": lambda t: (t(M).argmax(), t(M).argmax(axis=1)),
    "argmin": lambda t: t(M).argmin(0),
    "argsort": lambda t: (t(I).argsort(), t(M).argsort(axis=0)),
    "cumsum": lambda t: (t(M).cumsum(), t(M).cumsum(axis=1)),
    "cumprod": lambda t: t(M).cumprod(0),
    "trace": lambda t: t(M).trace(offset=1),
    "diagonal": lambda t: t(T).diagonal(0, 1, 2),
    "ravel": lambda t: t(M).ravel(),
    "flatten": lambda t: t(M).flatten(),
    "squeeze": lambda t: (t(M[None]).squeeze(), t(M[None]).squeeze(axis=0)),
    "swapaxes": lambda t: t(T).swapaxes(0, 2),
    "repeat": lambda t: (t(I).repeat(2), t(M).repeat(2, axis=1)),
    "take": lambda t: (t(M).take([0, 5]), t(M).take(I - 1, axis=1), t(I).take([5, -4], mode="wrap")),
    "choose": lambda t: t(I % 2).choose([M[0], M[1]]),
    "nonzero": lambda t: t(M).nonzero(),
    "searchsorted": lambda t: t(np.sort(I)).searchsorted([2, 5], side="right"),
    "clip": lambda t: (t(M).clip(0, 2), t(M).clip(max=1)),
    "conj": lambda t: (t(C).conj(), t(C).conjugate()),
    "dot": lambda t: t(M).dot(t(I * 1.0)),
    "reshape": lambda t: (t(M).reshape(3, 2), t(M).reshape((3, -1))),
    "transpose": lambda t: (t(T).transpose(), t(T).transpose(1, 0, 2), t(T).transpose((2, 0, 1))),
    "astype": lambda t: (t(M).astype("float32"), t(M).astype(np.int64, copy=False)),
    "compress": lambda t: t(M).compress([True, False, True], axis=1),
    "copy": lambda t: t(M).copy(),
    "tolist": lambda t: t(M).tolist(),
    "tobytes": lambda t: t(M).tobytes(),
    "put": lambda t: after(t(I), lambda x: x.put([0, -1], 7)),
    "sort": lambda t: (after(t(I), lambda x: x.sort()), after(t(M), lambda x: x.sort(axis=0))),
    "fill": lambda t: after(t(M), lambda x: x.fill(2)),
    "attributes": lambda t: (t(C).real, t(C).imag, t(M).imag, t(M).nbytes, t(I).itemsize, t(T).T, t(T).mT),
}


@BOTH
@pytest.mark.parametrize("name", METHODS)
def test_methods_have_numpys_values(stack: nnc.Stack, name: str) -> None:
    same(plain(METHODS[name](stack.asarray)), plain(METHODS[name](np.asarray)))


def test_every_method_of_numpys_arrays_is_there_or_has_no_meaning_here() -> None:
    without_meaning = {  # of memory, of fields, or in place of a shape
        "base", "byteswap", "ctypes", "data", "dump", "dumps", "flags", "flat", "getfield", "resize", "setfield",
        "strides", "tofile", "view", "setflags", "partition", "argpartition",
    }  # fmt: skip
    theirs = {name for name in dir(np.ndarray) if not name.startswith("_")}
    assert theirs - {*dir(nnc.Tensor)} - without_meaning == set()


def test_methods_build_graphs() -> None:
    stack = STACKS["lazy"]
    x = stack.input("x", (2, 3), "float64")
    program = stack.compile([x], x.clip(0, None).cumsum(axis=1).std(axis=0))
    np.testing.assert_allclose(program(M), M.clip(0, None).cumsum(axis=1).std(axis=0))
    np.testing.assert_allclose(stack.grad(lambda v: v.prod())(M[0]).numpy(), M[0].prod() / M[0])


@BOTH
def test_a_name_that_is_no_method_is_answered_with_what_is_one(stack: nnc.Stack) -> None:
    x = stack.asarray(M)
    with pytest.raises(AttributeError, match=r"no attribute 'softmax'; use stack\.ops\.softmax\(x\)"):
        x.softmax()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'median'; use numpy\.median\(x\)"):
        x.median()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"a tensor has no attribute 'nothing'$"):
        x.nothing  # type: ignore[attr-defined]  # noqa: B018 - looking it up is what raises
    assert not hasattr(x, "__array_struct__")


# --- Python's protocols ---------------------------------------------------------------------------------------


@BOTH
def test_numbers_format_and_round_as_pythons_do(stack: nnc.Stack) -> None:
    x = stack.asarray(2.345) + 0
    assert f"{x:.2f} {stack.asarray(7):03d} {stack.asarray([1.5]):.1f}" == f"{2.345:.2f} 007 1.5"
    assert f"{x}" == str(x)
    assert round(x, 1).item() == 2.3
    assert round(stack.asarray(M)).numpy().tolist() == M.round().tolist()
    assert (math.floor(x), math.ceil(x), math.trunc(stack.asarray(3.7).item())) == (2, 3, 3)
    with pytest.raises(OperatorError, match=r"the format '\.2f' is of one number, given a tensor of shape \(2, 3\)"):
        f"{stack.asarray(M):.2f}"


@BOTH
def test_what_is_no_sequence_or_no_single_number_says_so(stack: nnc.Stack) -> None:
    one, several = stack.asarray(1.0), stack.asarray(M)
    for call, error, said in [
        (lambda: list(one), TypeError, "rank 0 has no elements to go through"),
        (lambda: len(one), TypeError, "rank 0"),
        (lambda: bool(several), ShapeError, r"wants a tensor of one element, given shape \(2, 3\); use x.any\(\)"),
        (lambda: 1 if several else 0, ShapeError, r"x\.all\(\)"),
        (lambda: float(several), ShapeError, r"float\(\) wants a tensor of one element"),
        (lambda: stack.array_api.std(several, correction="a"), OperatorError, "correction='a'"),
        (lambda: np.std(several, ddof="a"), OperatorError, "correction='a'"),
    ]:  # fmt: skip
        with pytest.raises(error, match=said):
            call()
    assert (several is None) is False
    assert (several != "text") is True
    assert 4.0 in several
    assert 9.0 not in several
    assert [row.tolist() for row in several] == M.tolist()


@BOTH
def test_copies_are_handles_of_their_own(stack: nnc.Stack) -> None:
    x = stack.asarray(M) + 1
    for copied in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy()):
        assert copied is not x
        assert copied.stack == stack
        copied[0, 0] = 100.0
        assert copied[0, 0].item() == 100
        assert x[0, 0].item() == 2
    inside = copy.deepcopy({"a": [x, x]})
    assert inside["a"][0] is inside["a"][1] is not x
    assert inside["a"][0].tolist() == (M + 1).tolist()


@BOTH
def test_a_copied_variable_is_another_of_the_same_name(stack: nnc.Stack) -> None:
    w = stack.variable("w", [1.0, 2.0])
    for copied in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert copied.value is not w.value
        assert copied.value.name == "w"
        copied.value.assign([5.0, 6.0])
        assert w.tolist() == [1, 2]
        assert copied.tolist() == [5, 6]
    assert copy.copy(w).value is w.value


@BOTH
def test_what_has_no_value_is_copied_as_it_is_and_not_pickled(stack: nnc.Stack) -> None:
    x = stack.input("x", (2,), "float64")
    y = copy.deepcopy(x * 2)
    assert stack.compile([copy.deepcopy(x)], y)([1.0, 2.0]).tolist() == [2, 4]
    with pytest.raises(GraphError, match=r"pickled as its value: .*input 'x'.*graph\.save"):
        pickle.dumps(y)

    def f(v: Any) -> Any:
        with pytest.raises(GraphError, match="traced"):
            pickle.dumps(v)
        with pytest.raises(TracingError, match="traced"):
            v.tolist()
        return copy.deepcopy(v) * v

    assert stack.grad(f)(3.0).item() == 6


@BOTH
def test_arrays_of_another_dtype(stack: nnc.Stack) -> None:
    x = stack.asarray(M) * 2
    assert np.asarray(x, dtype="float32").dtype == np.float32
    assert np.array(x, dtype=int, copy=True).tolist() == (M * 2).astype(int).tolist()
    assert np.asarray(x, copy=False).tolist() == (M * 2).tolist()
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype="float32", copy=False)
