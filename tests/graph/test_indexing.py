"""Indices are NumPy's to read and to write (`graph/composites/indexing`, `graph/composites/keys`, `facets/indexing`).

They are that on every engine; what cannot be is refused in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DTypeError, ExtentError, NncError, OperatorError, RunError, ShapeError
from nnc_func.graph.composites.keys import index_updated, indexed
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.namespace import Ops

EAGER, LAZY = nnc.eager(), nnc.lazy()
FEW = settings(max_examples=max(5, settings().max_examples // 2))


def _o(stack: Any) -> Ops[Any]:
    return Ops(stack.bind, CATALOGUE).functions


@st.composite
def _keyed(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and a key that fits it but for masks beside others that have another number of true elements."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    key: list[Any] = []
    axis, dots = 0, False
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.sampled_from(("number", "slice", "slice", "none", "dots", "array", "array", "mask", "true")))
        if kind == "number" and n:
            key.append(draw(st.integers(-n, n - 1)))
        elif kind == "array" and n:
            key.append(draw(_indices(n)))
        elif kind == "mask":
            count = draw(st.integers(1, min(2, len(shape) - axis)))
            size = int(np.prod(shape[axis : axis + count]))
            listed = draw(st.lists(st.booleans(), min_size=size, max_size=size))
            key.append(np.array(listed, bool).reshape(shape[axis : axis + count]))
            axis += count - 1
        elif kind == "none" or kind == "true":
            key.append(None if kind == "none" else draw(st.booleans()))
            axis -= 1
        elif kind == "dots" and not dots:
            dots = True
            key.append(...)
            axis += draw(st.integers(0, len(shape) - axis)) - 1
        else:
            bound = st.none() | st.integers(-n - 2, n + 2)
            key.append(slice(draw(bound), draw(bound), draw(st.sampled_from((None, 1, -1, 2, -2)))))
        axis += 1
    return shape, tuple(key)


@st.composite
def _indices(draw: Any, n: int) -> np.ndarray:
    shape = draw(st.sampled_from(((), (1,), (2,), (0,), (3, 1), (2, 1), (3, 2))))
    size = int(np.prod(shape))
    return np.array(draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size)), "int64").reshape(shape)


def _tensors(stack: Any, key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(stack.asarray(e) if isinstance(e, np.ndarray) else e for e in key)


def _agrees(stack: Any, drawn: Any, lift: bool) -> None:
    shape, key = drawn
    o, x = _o(stack), np.arange(float(np.prod(shape))).reshape(shape)
    tensor, mine = stack.asarray(x), _tensors(stack, key) if lift else key
    try:
        wanted = x[key]
    except IndexError:
        with pytest.raises(NncError):
            indexed(o, tensor, mine).numpy()
        return
    np.testing.assert_array_equal(indexed(o, tensor, mine).numpy(), wanted, strict=True)
    values = np.arange(1.0, 1 + wanted.size).reshape(wanted.shape)
    for mode in ("set", "add", "max"):
        written = x.copy()
        if mode == "set":
            written[key] = values
        else:
            getattr(np, {"add": "add", "max": "maximum"}[mode]).at(written, key, values)
        found = index_updated(o, tensor, mine, stack.asarray(values), mode).numpy()
        np.testing.assert_array_equal(found, written, strict=True)
    np.testing.assert_array_equal(tensor.numpy(), x)


@given(_keyed(), st.booleans())
def test_it_is_numpys_on_an_eager_stack(drawn: Any, lift: bool) -> None:
    _agrees(EAGER, drawn, lift)


@FEW
@given(_keyed(), st.booleans())
def test_it_is_numpys_on_a_lazy_stack(drawn: Any, lift: bool) -> None:
    _agrees(LAZY, drawn, lift)


def test_repeated_indices_accumulate_in_the_derivative(stack: Any) -> None:
    x = np.arange(4.0)
    gradient = stack.grad(lambda t: stack.ops.sum(indexed(_o(stack), t, [1, 1, -1]) * np.array([1.0, 10.0, 100.0])))
    np.testing.assert_array_equal(gradient(x).numpy(), [0.0, 11.0, 0.0, 100.0])


def test_of_repeated_indices_the_last_is_set_and_takes_the_derivative(stack: Any) -> None:
    def written(values: Any) -> Any:
        found = index_updated(_o(stack), stack.asarray(np.zeros(3)), [1, 1, 0], values)
        return stack.ops.sum(found * np.array([1.0, 10.0, 100.0]))

    np.testing.assert_array_equal(stack.grad(written)(np.ones(3)).numpy(), [0.0, 10.0, 1.0])


def test_a_mask_is_read_where_the_gradient_is_taken(stack: Any) -> None:
    gradient = stack.grad(lambda t: stack.ops.sum(stack.ops.square(indexed(_o(stack), t, t > 0))))
    np.testing.assert_array_equal(gradient(np.array([1.0, -2.0, 3.0])).numpy(), [2.0, 0.0, 6.0])


def test_a_mask_is_written_by_without_its_value(stack: Any) -> None:
    relu = stack.jit(lambda t: index_updated(_o(stack), t, t < 0, 0.0))
    np.testing.assert_array_equal(relu(np.array([[1.0, -2.0]])).numpy(), [[1.0, 0.0]])


def test_a_mask_without_a_value_is_refused_where_it_is_read() -> None:
    read = LAZY.jit(lambda t: indexed(_o(LAZY), t, t > 0))
    with pytest.raises(ExtentError, match=r"as many elements as are true.*where\(mask"):
        read(np.array([1.0, -2.0]))


@pytest.mark.parametrize("key", [3, -4, (slice(None), 4), [0, 3], (0, 0, 0)])
def test_what_is_known_to_be_out_of_range_is_refused_at_once(key: Any) -> None:
    with pytest.raises(ShapeError, match=r"outside of|3 indices for a tensor of rank 2"):
        indexed(_o(LAZY), LAZY.asarray(np.ones((3, 4))), key)


@pytest.mark.parametrize("wrong", [3, -4])
def test_an_index_that_is_computed_is_refused_when_it_is_out_of_range(stack: Any, wrong: int) -> None:
    rows, columns = stack.asarray([0, wrong]), stack.asarray([0, 0])
    x = stack.asarray(np.ones((3, 4)))
    uses: list[Callable[[], Any]] = [
        lambda: indexed(_o(stack), x, rows),
        lambda: indexed(_o(stack), x, (rows, columns)),
        lambda: index_updated(_o(stack), x, (rows, columns), 1.0),
        lambda: index_updated(_o(stack), x, rows, 1.0, "min"),
    ]
    for use in uses:
        with pytest.raises(RunError, match=f"index {wrong} is outside of an axis of extent 3"):
            use().numpy()


def test_other_refusals(stack: Any) -> None:
    o, x = _o(stack), stack.asarray(np.ones((3, 4)))
    with pytest.raises(IndexError, match=r"one \.\.\. at most"):
        indexed(o, x, (..., ...))
    with pytest.raises(DTypeError, match="whole numbers"):
        indexed(o, x, "a")
    with pytest.raises(DTypeError, match="indices are integers"):
        indexed(o, x, np.array([0.0]))
    with pytest.raises(ShapeError, match="boolean index has the shape"):
        indexed(o, x, np.array([True, False]))
    with pytest.raises(ShapeError, match="step of 0"):
        indexed(o, x, slice(None, None, 0))
    with pytest.raises(DTypeError, match="do not fit"):
        index_updated(o, stack.asarray([1, 2]), 0, 1.5)
    with pytest.raises(OperatorError, match="is none of 'set'"):
        index_updated(o, x, 0, 1.0, "divide")


def test_unknown_extents(lazy: Any) -> None:
    x, i = lazy.input("x", (None, 3), "float64"), lazy.input("i", (None,), "int64")
    o = _o(lazy)
    outputs = [indexed(o, x, (i, 1)), indexed(o, x, (slice(1, None), [2, 0])), index_updated(o, x, (i, 0), 7.0)]
    values, rows = np.arange(12.0).reshape(4, 3), np.array([2, -1])
    found = lazy.compile([x, i], outputs)(values, rows)
    np.testing.assert_array_equal(found[0], values[rows, 1])
    np.testing.assert_array_equal(found[1], values[1:, [2, 0]])
    values[rows, 0] = 7.0
    np.testing.assert_array_equal(found[2], values)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, lambda: nnc.eager().swap(device=nnc.lazy())])
@pytest.mark.parametrize(
    "key",
    [
        np.array([True, False]),
        np.array([1, 0, 1]),
        (np.array([1, 0]), np.int64(2)),
        (slice(None), np.array([[True, False, True]]).reshape(3)),
        (..., np.array([2, 0])),
        np.array([[True, False, True], [False, True, False]]),
        (np.array([0, 1]), None, np.array([2, 2])),
        np.bool_(True),
        (0, True),
        np.array(1),
        (1, 2),
    ],
    ids=str,
)
def test_index_and_index_update_take_numpys_keys(make: Any, key: Any) -> None:
    stack = make()
    a = np.arange(6.0).reshape(2, 3)
    x = stack.asarray(a)
    np.testing.assert_array_equal(stack.ops.index(x, key=key).numpy(), a[key])
    written, added = a.copy(), a.copy()
    written[key] = 9.0
    np.add.at(added, key, 9.0)
    np.testing.assert_array_equal(stack.ops.index_update(x, 9.0, key=key).numpy(), written)
    np.testing.assert_array_equal(stack.ops.index_update(x, 9.0, key=key, mode="add").numpy(), added)
    tensors = tuple(
        stack.asarray(k) if isinstance(k, np.ndarray) else k for k in (key if type(key) is tuple else (key,))
    )
    np.testing.assert_array_equal(stack.ops.index(x, key=tensors).numpy(), a[key])
    assert x.numpy().tolist() == a.tolist()


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_an_index_of_true_is_not_an_index_of_one(make: Any) -> None:
    """Their keys are equal in Python, so what one gave was remembered for the other."""
    stack, a = make(), np.arange(6.0).reshape(2, 3)
    x = stack.asarray(a)
    for key in [(0, 1), (0, True), (0, 1), (1, slice(None)), (True, slice(None))]:
        np.testing.assert_array_equal(stack.ops.index(x, key=key).numpy(), a[key])
        written = a.copy()
        written[key] = 9.0
        np.testing.assert_array_equal(stack.ops.index_update(x, 9.0, key=key).numpy(), written)
