"""Shapes and axes that do not fit are refused where the standard's arrays refuse them (`array_api`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from tests.array_api.cases import ANY, PLAIN, array, axis_of
from tests.array_api.functions import CASES
from tests.array_api.test_conformance import FUNCTIONS, NOT_UNIQUE, ORACLES, agree, found_in, plain, with_arrays

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
pytestmark = pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")  # theirs, of too few elements


def _cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Of three elements, as the standard says; NumPy's takes two."""
    if not x1.shape[axis] == x2.shape[axis] == 3:
        raise ValueError("cross products are of three elements")
    return found_in(strict, "linalg.cross")(x1, x2, axis=axis)


THEIRS = ORACLES | {"linalg.cross": SimpleNamespace(asarray=strict.asarray, linalg=SimpleNamespace(cross=_cross))}
PRODUCTS = ("matmul", "vecdot", "tensordot")  # sums, and so their zeros have any sign


def answer(xp: Any, name: str, args: Any, keywords: dict[str, Any]) -> Any:
    """What a function gives, or that it raises."""
    try:
        with np.errstate(all="ignore"):
            found = found_in(xp, name)(
                *(with_arrays(xp, a) for a in args), **{k: with_arrays(xp, v) for k, v in keywords.items()}
            )
            return plain(found)
    except (TypeError, ValueError, IndexError, RuntimeError):
        return "refused"


def alike(stack: Any, name: str, args: Any, keywords: dict[str, Any]) -> None:
    found, wanted = (answer(xp, name, args, keywords) for xp in (stack.array_api, THEIRS.get(name, strict)))
    assert (isinstance(found, str), isinstance(wanted, str)) in ((True, True), (False, False)), (found, wanted)
    if isinstance(wanted, str):
        return
    if name in NOT_UNIQUE:
        found, wanted = ([NOT_UNIQUE[name](np, *each)] for each in (found, wanted))
    if not name.startswith("empty"):
        agree(name + "." * (name in PRODUCTS), found, wanted)


SHAPED = ("matmul", "vecdot", "tensordot", "linalg.cross", "linalg.outer", "concat", "stack", "broadcast_arrays")


@BOTH
@pytest.mark.parametrize("name", SHAPED)
@settings(max_examples=max(5, settings().max_examples // 2))
@given(data=st.data())
def test_of_any_two_shapes_both_answer_or_both_refuse(stack: Any, name: str, data: Any) -> None:
    rank = 1 if name in ("vecdot", "linalg.cross") else 0  # NumPy's lets arrays of rank 0 have an axis
    sides = st.lists(st.sampled_from([0, 1, 2, 3]), min_size=rank, max_size=3).map(tuple)
    a, b = (array(data.draw, "f", data.draw(sides), PLAIN, "float64") for _ in range(2))
    least = min(a.ndim, b.ndim)
    keywords: dict[str, Any] = {}
    match name:
        case "vecdot" | "linalg.cross":
            keywords = {"axis": data.draw(st.integers(-max(least, 1), -1))} if data.draw(st.booleans()) else {}
        case "tensordot":
            keywords = {"axes": data.draw(st.integers(0, 2))}
        case "concat" | "stack":
            keywords = {"axis": data.draw(st.integers(-3, 3))}
    alike(stack, name, ([a, b],) if name in ("concat", "stack") else (a, b), keywords)


@BOTH
@pytest.mark.parametrize(
    "name", ["expand_dims", "squeeze", "flip", "sum", "max", "sort", "roll", "unstack", "argmax", "cumulative_sum"]
)
@settings(max_examples=max(5, settings().max_examples // 2))
@given(data=st.data())
def test_of_any_axis_both_answer_or_both_refuse(stack: Any, name: str, data: Any) -> None:
    a = array(data.draw, "f", pools=PLAIN, least=1)
    one = st.integers(-5, 5)
    several = st.lists(one, max_size=2).map(tuple)
    axis = data.draw(
        one if name in ("sort", "unstack", "argmax", "cumulative_sum", "roll", "expand_dims") else one | several
    )
    alike(stack, name, (a, 1) if name == "roll" else (a,), {"axis": axis})


@BOTH
@pytest.mark.parametrize("name", ["squeeze", "flip", "sum", "prod", "max", "mean", "std", "any", "argmax", "unstack"])
def test_a_tensor_of_rank_zero_has_no_axis(stack: Any, name: str) -> None:
    """As the standard says; NumPy lets 0 and -1 pass."""
    for axis in (0, -1, 1):
        with pytest.raises(ValueError, match="axis"):
            getattr(stack.array_api, name)(stack.asarray(1.0), axis=axis)


@BOTH
@settings(max_examples=max(5, settings().max_examples // 2))
@given(data=st.data())
def test_of_any_shape_wanted_both_answer_or_both_refuse(stack: Any, data: Any) -> None:
    a = array(data.draw, ANY)
    shape = tuple(data.draw(st.lists(st.integers(-1, 4), max_size=3)))
    alike(stack, "reshape", (a, shape), {})
    if -1 not in shape:
        alike(stack, "broadcast_to", (a, shape), {})


@BOTH
def test_axes_that_are_not_there_are_index_errors_of_expand_dims(stack: Any) -> None:
    for rank in range(4):
        x = stack.array_api.ones((2,) * rank)
        for axis in (rank + 1, -rank - 2, 50):
            with pytest.raises(IndexError):
                stack.array_api.expand_dims(x, axis=axis)
        for axis in range(rank):
            with pytest.raises(ValueError, match="extent"):
                stack.array_api.squeeze(x, axis)


OWN_DEFAULT = ("expand_dims",)  # its axis is 0 up to version 2024.12, and must be given from 2025.12 on
NO_KEYWORDS = ("from_dlpack", "finfo", "iinfo", "isdtype", "can_cast")
LEAVES_OUT = [name for name in FUNCTIONS if name not in OWN_DEFAULT + NO_KEYWORDS]


@pytest.mark.parametrize("name", LEAVES_OUT)
@settings(max_examples=max(3, settings().max_examples // 8))
@given(data=st.data())
def test_what_is_left_out_has_its_default(name: str, data: Any) -> None:
    """Keywords that are not given: the standard's answer of the rest, or its refusal (an axis of several)."""
    args, keywords = CASES[name](data.draw)
    if not keywords:
        return
    kept = data.draw(st.sets(st.sampled_from(sorted(keywords))).filter(lambda some: len(some) < len(keywords)))
    alike(STACKS["eager"], name, args, {k: v for k, v in keywords.items() if k in kept})


@BOTH
@settings(max_examples=max(5, settings().max_examples // 2))
@given(data=st.data())
def test_counts_are_one_for_all_or_one_for_each(stack: Any, data: Any) -> None:
    xp, x = stack.array_api, array(data.draw, ANY, least=1)
    axis = data.draw(st.none() | st.just(axis_of(data.draw, x)))
    n = x.size if axis is None else x.shape[axis]
    dtype = data.draw(st.sampled_from(["int8", "int16", "int32", "int64", "uint8"]))
    for counts in (
        3,
        array(data.draw, "iu", (1,), {"i": [0, 1, 4], "u": [2]}, dtype),
        array(data.draw, "iu", (n,), {"i": [0, 1, 4], "u": [2]}, dtype),
    ):
        found = xp.repeat(xp.asarray(x), xp.asarray(counts) if isinstance(counts, np.ndarray) else counts, axis=axis)
        agree("repeat", found.numpy(), np.repeat(x, counts, axis=axis))
