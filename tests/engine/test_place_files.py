"""Programs with values in several places, written and read (`engine/files`, `facets/places`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import FileFormatError, PlaceError

PLACES = nnc.Places(one=nnc.NumPy(), two=nnc.NumPy())
STACKS = {"eager": nnc.eager(PLACES), "lazy": nnc.lazy(PLACES)}
X = np.arange(6.0).reshape(3, 2)


def across(stack: Any, extent: Any = 3) -> Any:
    """A program that computes in both places, with a variable and a constant in the second."""
    x, o = stack.input("x", (extent, 2), "float64"), stack.ops
    w = stack.variable("w", np.ones(2), place="two")
    there = o.transfer(x, place="two") * w + stack.asarray([3.0, 4.0], place="two")
    return stack.compile([x], [there, o.exp(x)], [(w, w * 2)])


@pytest.mark.parametrize("extent", [3, "n"])
@pytest.mark.parametrize("name", STACKS)
def test_what_is_read_computes_where_it_did(name: str, extent: Any, tmp_path: Any) -> None:
    stack = STACKS[name]
    program = across(stack, extent)
    program(X)
    program.save(tmp_path / "across")
    again = nnc.load_program(tmp_path / "across", stack)
    for _ in range(2):
        for one, other in zip(again(X), program(X), strict=True):
            assert one.place == other.place
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_without_such_a_place_is_refused_in_words(name: str, tmp_path: Any) -> None:
    across(STACKS[name]).save(tmp_path / "across")
    with pytest.raises(FileFormatError, match="the device has no place 'two': it has one place"):
        nnc.load_program(tmp_path / "across", nnc.lazy())


def test_a_plan_for_such_a_place_is_refused_in_words() -> None:
    plan = across(STACKS["lazy"]).plan
    with pytest.raises(PlaceError, match="no place 'two'"):
        nnc.lazy().program(plan, [np.float64([3, 4])], [np.ones(2)])


@pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy()])
def test_values_for_such_a_place_are_refused_in_words(stack: Any) -> None:
    for make in (stack.asarray, lambda value, place: stack.variable("w", value, place=place)):
        with pytest.raises(PlaceError, match="no place 'two'"):
            make([1.0], place="two")
