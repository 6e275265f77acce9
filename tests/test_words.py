"""What is said where something is given that is no number, axis or input (`errors`, `arrivals`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import DeviceError, OperatorError, ShapeError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy(), "over": nnc.eager().swap(device=nnc.lazy())}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
WHAT_TO_GIVE = "give a number, a list of numbers whose rows have one length, an array or a tensor"


def matrix(s: Any) -> Any:
    return s.asarray([[1.0, 2.0], [3.0, 4.0]])


NO_NUMBERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "asarray(None)": (lambda s: s.asarray(None), "None"),
    "asarray of text": (lambda s: s.asarray("abc"), "'abc'"),
    "asarray of a hole": (lambda s: s.asarray([1, None]), r"\[1, None\]"),
    "x ** '2'": (lambda s: matrix(s) ** "2", "'2'"),
    "'2' * x": (lambda s: "2" * matrix(s), "'2'"),
    "x + None": (lambda s: matrix(s) + None, "None"),
    "sum(None)": (lambda s: s.ops.sum(None), "None"),
    "variable": (lambda s: s.variable("w", None), "None"),
    "assign": (lambda s: s.variable("w", [1.0]).value.assign("abc"), "'abc'"),
    "jit": (lambda s: s.jit(lambda x: x + "a")(np.ones(2)), "'a'"),
}


@each_stack
@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_is_named(stack: Any, name: str) -> None:
    call, given = NO_NUMBERS[name]
    with pytest.raises(DeviceError, match=rf"given {given}.*; {WHAT_TO_GIVE}"):
        call(stack)


@each_stack
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.asarray([[1], [2, 3]]),
        lambda s: [[1], [2, 3]] * matrix(s),
        lambda s: s.variable("w", [[1], [2, 3]]),
        lambda s: s.jit(lambda x: x * [[1], [2, 3]])(np.ones((2, 2))),
    ],
)
def test_rows_of_different_lengths(stack: Any, call: Any) -> None:
    with pytest.raises(
        DeviceError, match=r"a list, \[\[1\], \[2, 3\]\]: its rows have different lengths; give rows of one"
    ):
        call(stack)


@each_stack
@pytest.mark.parametrize("shape", [(2, 3), (None, 3)])
@pytest.mark.parametrize("retain", ["none", "all"])
def test_the_input_is_named(stack: Any, shape: Any, retain: str) -> None:
    x, other = stack.input("x", shape), stack.input("other", (), "float32")
    program = stack.compile([x, other], x * 2 + other, retain=retain)
    for given, said in ((None, "None"), ("abc", "'abc'"), ({}, "{}")):
        with pytest.raises(DeviceError, match=rf"input 'x': .*given {said}.*; {WHAT_TO_GIVE}"):
            program(given, 1.0)
        with pytest.raises(DeviceError, match=rf"input 'other': .*given {said}.*; {WHAT_TO_GIVE}"):
            program(np.ones((2, 3), "float32"), given)
    with pytest.raises(DeviceError, match=r"input 'x': .*\[\[1, 2, 3\], \[1\]\]: its rows have different lengths"):
        program([[1, 2, 3], [1]], 1.0)


SYNONYMS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sum": (lambda s: matrix(s).sum(dim=0), "axis=0"),
    "mean": (lambda s: matrix(s).mean(dim=(0, 1)), r"axis=\(0, 1\)"),
    "std": (lambda s: matrix(s).std(dim=1), "axis=1"),
    "keepdim": (lambda s: matrix(s).sum(axis=0, keepdim=True), "keepdims=True"),
    "ops.sum": (lambda s: s.ops.sum(matrix(s), dim=0), "axis=0"),
    "ops.concat": (lambda s: s.ops.concat(matrix(s), matrix(s), dim=0), "axis=0"),
    "ops.softmax": (lambda s: s.ops.softmax(matrix(s), dim=0), "axis=0"),
    "ops.permute_dims": (lambda s: s.ops.permute_dims(matrix(s), dims=(1, 0)), r"axes=\(1, 0\)"),
    "ops.expand_dims": (lambda s: s.ops.expand_dims(matrix(s), dim=0), "axis=0"),
    "ops.squeeze": (lambda s: s.ops.squeeze(matrix(s)[:1], dim=0), "axis=0"),
    "ops.cumulative_sum": (lambda s: s.ops.cumulative_sum(matrix(s), dim=1), "axis=1"),
    "ops.tensordot": (lambda s: s.ops.tensordot(matrix(s), matrix(s), dims=1), "axes=1"),
    "required, of a composite": (lambda s: s.ops.cumulative_prod(matrix(s), dim=1), "axis=1"),
    "composite": (lambda s: s.ops.unstack(matrix(s), dim=1), "axis=1"),
}


@each_stack
@pytest.mark.parametrize("name", SYNONYMS)
def test_keywords_of_other_libraries(stack: Any, name: str) -> None:
    call, write = SYNONYMS[name]
    with pytest.raises(OperatorError, match=f"write {write}"):
        call(stack)


@each_stack
@pytest.mark.parametrize(
    ("axis", "said"),
    [("0", "'0'.*wanted a.* whole number.*given a str"), (1.5, "1.5.*wanted a.* whole number.*given a float")],
)
def test_what_is_no_axis(stack: Any, axis: Any, said: str) -> None:
    for call in (lambda: matrix(stack).sum(axis=axis), lambda: stack.ops.softmax(matrix(stack), axis=axis)):
        with pytest.raises(OperatorError, match=rf"axis={said}"):
            call()


@each_stack
def test_an_unknown_extent_is_not_gone_through(stack: Any) -> None:
    x = stack.input("x", ("n", 3))
    for call, what in ((lambda: list(x), "going through the rows"), (lambda: len(x), r"len\(\)")):
        with pytest.raises(
            ShapeError, match=rf"{what} of a tensor of shape \(n, 3\): its first extent, n, is not known.*give"
        ):
            call()
    assert len(list(stack.input("y", (2, "n")))) == 2


@each_stack
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "bool"])
def test_small_integers_are_summed_as_numpy_sums_them(stack: Any, dtype: str) -> None:
    a = np.full(300, 200).astype(dtype)
    x = stack.asarray(a)
    for name in ("sum", "prod", "mean", "cumsum", "std"):
        found, wanted = getattr(x, name)(), getattr(a, name)()
        assert found.dtype == wanted.dtype, name
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)


NONES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "reshape": (lambda s: s.ops.reshape(matrix(s), shape=None), "reshape: shape=None is not usable: wanted an extent"),
    "full": (lambda s: s.ops.full(shape=(2,), value=None, dtype="float32"), "full: value=None .*: wanted a number"),
    "dtype": (lambda s: s.ops.full(shape=(2,), value=1, dtype=None), "full: dtype=None is not usable: wanted a dtype"),
    "cast": (lambda s: s.ops.cast(matrix(s), dtype=None), "cast: dtype=None is not usable: wanted a dtype"),
    "axis": (lambda s: s.ops.concat(matrix(s), matrix(s), axis=None), "concat: axis=None .*: wanted a whole number"),
    "groups": (lambda s: s.ops.conv2d(*IMAGES, groups=None), "conv2d: groups=None .*: wanted a whole number"),
}
IMAGES = np.ones((1, 4, 4, 2), "float32"), np.ones((2, 2, 2, 2), "float32")


@each_stack
@pytest.mark.parametrize("name", NONES)
def test_none_is_refused_where_it_means_nothing(stack: Any, name: str) -> None:
    call, words = NONES[name]
    with pytest.raises(OperatorError, match=words):
        call(stack)
