"""Memory is shared with other libraries without a copy, safe from writes (`graph/tensors/bridges`, `arrivals`)."""

from __future__ import annotations

import gc
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OperatorError, TracingError

STACKS = (nnc.eager(), nnc.lazy())
BOTH = pytest.mark.parametrize("stack", STACKS, ids=["eager", "lazy"])
WAYS = {
    "asarray": np.asarray,
    "array": lambda x: np.array(x, copy=False),
    "dlpack": np.from_dlpack,
    "__array__": lambda x: x.__array__(),
    "interface": lambda x: np.asarray(type("Described", (), {"__array_interface__": x.__array_interface__, "of": x})()),
    "strict": lambda x: np.asarray(strict.from_dlpack(x)),
}
EXPORTS = pytest.mark.parametrize("export", WAYS.values(), ids=WAYS)


@BOTH
@EXPORTS
def test_nothing_is_copied_and_nothing_can_be_written(stack: nnc.Stack, export: Any) -> None:
    x = stack.asarray(np.arange(4.0)) * 2
    found = export(x)
    assert found.tolist() == [0, 2, 4, 6]
    assert np.shares_memory(found, np.asarray(x))
    assert not np.asarray(x).flags.writeable
    if export is not WAYS["strict"]:
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 7


@BOTH
def test_copies_where_they_are_asked_for_or_needed(stack: nnc.Stack) -> None:
    x = stack.asarray(np.arange(4.0)) * 2
    for own in (np.array(x), np.asarray(x, copy=True), np.from_dlpack(x, copy=True), x.__array__(copy=True), x.numpy()):
        assert not np.shares_memory(own, np.asarray(x))
        own[0] = 7
    assert x.numpy().tolist() == [0, 2, 4, 6]
    assert np.asarray(x, "float32").dtype == x.__array__("float32").dtype == np.float32
    for refused in (lambda: np.asarray(x, "float32", copy=False), lambda: x.__array__("int32", copy=False)):
        with pytest.raises(ValueError, match="copy"):
            refused()
    assert x.__dlpack_device__() == (1, 0)


@BOTH
def test_a_reader_that_knows_no_flag_gets_the_memory_or_a_copy(stack: nnc.Stack) -> None:
    """Of memory that may not be written to; NumPy refuses to export it without the flag."""
    given = np.ones(3)
    given.flags.writeable = False
    x = stack.array_api.from_dlpack(given)
    assert "capsule" in type(x.__dlpack__()).__name__.lower()
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)


@BOTH
@pytest.mark.parametrize(
    "dtype",
    [f"{k}{n}" for k in ("int", "uint") for n in (8, 16, 32, 64)]
    + ["bool", "float32", "float64", "complex64", "complex128"],
)
def test_what_the_standard_asks_of_an_export(stack: nnc.Stack, dtype: str) -> None:
    """Of every dtype and rank, with each of its keywords or without; and back, with a device or without."""
    xp = stack.array_api
    for given in (np.ones((), dtype), np.zeros((0, 2), dtype), np.ones((2, 1, 2), dtype)):
        x = xp.asarray(given)
        kind, number = x.__dlpack_device__()
        assert (int(kind), number) == (1, 0)
        for version in (None, (0, 0), (1, 0), (2, 0)):
            for copy in (None, True):
                capsule = x.__dlpack__(max_version=version, copy=copy, dl_device=(1, 0), stream=None)
                assert type(capsule).__name__ == "PyCapsule"
        assert type(x.__dlpack__(max_version=(1, 0), copy=False)).__name__ == "PyCapsule"
        for keywords in ({}, {"device": x.device}, {"device": None, "copy": True}, {"copy": False}):
            y = xp.from_dlpack(x, **keywords)
            assert (y.dtype, y.shape, y.device) == (x.dtype, x.shape, x.device)
            assert bool(xp.all(y == x))


@BOTH
def test_foreign_arrays_come_without_a_copy(stack: nnc.Stack) -> None:
    xp = stack.array_api
    given = np.arange(3.0)
    for source in (given, strict.asarray(given, copy=False)):
        x = xp.from_dlpack(source)
        assert np.shares_memory(np.asarray(x), given)
        assert (x * 2).numpy().tolist() == [0, 2, 4]
    other = STACKS[stack is STACKS[0]].asarray(given) + 1
    assert np.shares_memory(np.asarray(xp.from_dlpack(other)), np.asarray(other))
    assert not np.shares_memory(np.asarray(xp.from_dlpack(given, copy=True)), given)
    assert not np.shares_memory(np.asarray(xp.asarray(given)), given)
    assert np.shares_memory(np.asarray(xp.asarray(given, copy=False)), given)
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray([1.0], copy=False)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_device_without_a_copy_of_its_own_takes_foreign_arrays(make: Any) -> None:
    """Its arrays have no `copy` method, which once ended in a bare AttributeError."""
    stack = make(nnc.Strict())
    for more in ({}, {"copy": True}):
        x = stack.array_api.from_dlpack(np.arange(3.0), **more)
        assert (x + 1).numpy().tolist() == [1, 2, 3]


@EXPORTS
def test_a_view_outlives_its_tensor(export: Any) -> None:
    x = STACKS[1].asarray(np.arange(1000.0)) + 1
    found = export(x)
    x[0] = 5.0
    del x
    gc.collect()
    others = [(STACKS[1].asarray(np.arange(1000.0)) + k).numpy() for k in range(2, 6)]
    assert found.tolist() == (np.arange(1000.0) + 1).tolist()
    assert len(others) == 4


@EXPORTS
@pytest.mark.parametrize("retain", ["none", "all"])
def test_a_view_of_a_programs_result_is_not_written_over_by_the_next_call(export: Any, retain: str) -> None:
    stack = STACKS[1]
    x = stack.input("x", (64, 64))
    w = stack.variable("w", np.ones((64, 64), "float32"))
    program = stack.compile([x], [x @ w + 1, (x * 2).sum(axis=0), x.T], retain=retain)
    ones = np.ones((64, 64), "float32")
    kept = []
    for k in range(4):
        given = ones * k
        results = program(given)
        views = [export(stack.held(r)) for r in results]
        kept.append((views, [v.copy() for v in views]))
        del results
    for views, then in kept:
        for view, value in zip(views, then, strict=True):
            assert np.array_equal(view, value)


@EXPORTS
def test_a_view_of_a_jitted_functions_result_stays(export: Any) -> None:
    f = STACKS[1].jit(lambda x: (x * 3, x + 1))
    views = [export(r) for k in range(4) for r in f(np.full(256, float(k)))]
    assert [v[0] for v in views] == [0, 1, 3, 2, 6, 3, 9, 4]


@EXPORTS
def test_an_array_given_for_results_is_the_callers_and_the_rest_stays(export: Any) -> None:
    stack = STACKS[1]
    x = stack.input("x", (8,))
    program = stack.compile([x], [x + 1, x * 2])
    ones, memory = np.ones(8, "float32"), np.empty(8, "float32")
    first = program(ones)
    views = [export(stack.held(r)) for r in first]
    del first
    program(ones * 5, out=[memory, np.empty(8, "float32")])
    assert [v[0] for v in views] == [2, 2]
    shown = export(stack.held(memory))
    program(ones * 7)
    assert shown.tolist() == memory.tolist() == [6] * 8


@BOTH
@EXPORTS
def test_a_variable_is_exported_as_it_is_now(stack: nnc.Stack, export: Any) -> None:
    w = stack.variable("w", np.arange(3.0))
    then = export(w)
    step = stack.compile([], w * 2, updates=[(w, w + 1)])
    step()
    w.value.assign(w.numpy() * 10)
    step()
    assert then.tolist() == [0, 1, 2]
    assert w.numpy().tolist() == [11, 21, 31]
    with pytest.raises(BufferError, match="written by programs"):
        np.from_dlpack(w, copy=False)
    with pytest.raises(ValueError, match="needs a copy"):
        w.__array__(copy=False)


def test_what_is_traced_has_no_memory() -> None:
    for stack in STACKS:
        for ask in (np.asarray, np.from_dlpack, lambda x: x.__array_interface__):
            with pytest.raises((TracingError, AttributeError), match="traced"):
                stack.grad(lambda x, ask=ask: ask(x).sum())(np.ones(2))


def test_memory_that_is_not_the_hosts() -> None:
    null = nnc.eager(nnc.Null())
    x = null.array_api.ones((2,))
    assert not hasattr(x, "__array_interface__")
    assert not hasattr(STACKS[0].asarray(1.0), "__cuda_array_interface__")
    with pytest.raises(BufferError, match="cannot be exported"):
        np.from_dlpack(x)
    with pytest.raises(BufferError, match="foreign memory"):
        null.array_api.from_dlpack(np.ones(2))
    over = nnc.eager(nnc.lazy())
    y = over.asarray([1.0, 2.0]) + 1
    assert np.asarray(y).tolist() == np.from_dlpack(y).tolist() == [2, 3]
    assert np.asarray(over.array_api.from_dlpack(np.ones(2))).tolist() == [1, 1]
    strange = nnc.eager(nnc.Strict())
    assert np.from_dlpack(strange.asarray([1.0]) * 3).tolist() == [3]


def test_errors_name_what_was_given() -> None:
    x = STACKS[0].asarray([1.0])
    with pytest.raises(OperatorError, match=r"numpy\.add does not work on tensors with out"):
        np.add(x, x, out=np.empty(1))
