"""Avals: equal ones are one object, wherever and whenever they are made, and only while somebody has one (`aval`)."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Dim, Extents

EXTENTS = st.one_of(st.integers(0, 5), st.sampled_from(["n", "m", "2*n + 1"]))
DTYPES = st.sampled_from(["float32", "float64", "int64", "bool", "complex64"])


@st.composite
def facts(draw: Any) -> tuple[Any, ...]:
    """What an aval is made of."""
    shape = tuple(draw(st.lists(EXTENTS, max_size=3)))
    layout = draw(st.one_of(st.none(), st.permutations(range(len(shape))).map(tuple)))
    return shape, draw(DTYPES), layout, draw(st.sampled_from([None, "gpu"]))


def told(aval: Aval) -> tuple[Any, ...]:
    """All that it says."""
    return tuple(aval.shape), aval.dtype, aval.layout, aval.place


@given(facts(), facts())
def test_avals_are_one_object_where_they_say_the_same(one: Any, other: Any) -> None:
    first, second = Aval(*one), Aval(*other)
    assert (first is second) == (first == second) == (told(first) == told(second))
    assert Aval(*told(first)) is first
    assert first.having() is first
    assert pickle.loads(pickle.dumps(first)) is first
    assert copy.deepcopy(first) is first


def test_extents_and_dtypes_are_told_apart_as_they_are_meant() -> None:
    assert Aval((np.int64(2), 3), np.float32) is Aval([2, 3], "float32") is Aval((2, 3), np.dtype("f4"))
    assert Aval((2,), "float32") is not Aval((2,), "float64")
    assert Aval((2,), ">f4") is Aval((2,), "<f4")  # an order of bytes is none of a tensor's: it is the machine's
    assert Aval(("n",), "int8") is Aval((Dim.named("n"),), "int8")
    assert Aval((None,), "int8") is not Aval((None,), "int8")  # each is an unknown of its own
    assert type(Aval(("n",), "int8").shape) is Extents
    assert type(Aval((1,), "int8").shape) is tuple


def test_what_cannot_be_held_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(nnc.errors.DTypeError):
            Aval((2,), "datetime64[s]")
        with pytest.raises(ShapeError):
            Aval((1.5,), "float32")


def test_threads_make_one() -> None:
    with ThreadPoolExecutor(8) as pool:
        for n in range(1_000, 1_100):
            made = list(pool.map(lambda shape: Aval(shape, "float32"), [(n, 7)] * 16))
            assert all(each is made[0] for each in made)


def test_one_that_nobody_has_is_forgotten() -> None:
    gone = weakref.ref(Aval((12_345, 678), "float32"))
    gc.collect()
    assert gone() is None
