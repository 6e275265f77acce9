"""Lists that have tensors among their elements become tensors through which gradients flow (`graph/tensors/lists`)."""

from __future__ import annotations

from array import array
from collections import UserList, deque
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DeviceError, DTypeError, NncError, ShapeError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy(), "dynamic": nnc.dynamic()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
shapes = st.lists(st.integers(1, 3), max_size=2)


@st.composite
def rows(draw: Any, depth: tuple[int, ...]) -> Any:
    """A list of lists of such lengths, whose elements are names and numbers."""
    if not depth:
        return draw(st.sampled_from(["x", "y", "xy", 2, -1, 0.5, True]))
    return [draw(rows(depth[1:])) for _ in range(depth[0])]


def filled(tree: Any, values: dict[str, Any]) -> Any:
    if isinstance(tree, list):
        return [filled(each, values) for each in tree]
    return values[tree] if isinstance(tree, str) else tree


@given(data=st.data(), shape=shapes)
def test_values_and_gradients_are_those_of_the_elements(data: st.DataObject, shape: list[int]) -> None:
    tree = data.draw(rows((2, *shape)))
    if not any(name in repr(tree) for name in "xy"):
        tree[0] = filled_with(tree[0], "x")
    x, y = np.float32(3), np.float32(-2)
    wanted = np.array(filled(tree, {"x": x, "y": y, "xy": x * y}), np.float32)
    weights = np.arange(1, wanted.size + 1, dtype=np.float32).reshape(wanted.shape)

    def sum_of(a: float, b: float) -> float:
        return float((np.array(filled(tree, {"x": a, "y": b, "xy": a * b})) * weights).sum())

    slopes = [sum_of(4, -2) - sum_of(3, -2), sum_of(3, -1) - sum_of(3, -2)]  # it is linear in each
    for name, stack in STACKS.items():

        def loss(a: Any, b: Any, stack: nnc.Stack = stack) -> Any:
            return (stack.asarray(filled(tree, {"x": a, "y": b, "xy": a * b})) * weights).sum()

        a, b = stack.variable("a", x), stack.variable("b", y)
        found = stack.asarray(filled(tree, {"x": a, "y": b, "xy": a * b}))
        np.testing.assert_array_equal(found.numpy(), wanted)
        assert found.dtype == np.float32
        assert [
            float(g.numpy()) for g in stack.grad(loss, argnums=(0, 1))(stack.asarray(x), stack.asarray(y))
        ] == slopes
        if name == "dynamic":
            assert [float(g.numpy()) for g in stack.gradients([loss(a, b)], [a, b])] == slopes


def filled_with(tree: Any, name: str) -> Any:
    return [filled_with(each, name) for each in tree] if isinstance(tree, list) else name


@each_stack
def test_an_operator_takes_a_list_as_the_tensor_that_it_is(stack: nnc.Stack) -> None:
    x = stack.variable("x", np.float32(2))
    np.testing.assert_array_equal(stack.ops.add(x, [x * 1, 1.0]).numpy(), [4, 3])
    np.testing.assert_array_equal(stack.ops.maximum([x, 3], 2.5).numpy(), [2.5, 3])
    (slope,) = [stack.grad(lambda v: (v * [v, 1.0]).sum())(stack.asarray(np.float32(2)))]
    assert slope.item() == 5


@each_stack
@pytest.mark.parametrize("name", ["concat", "stack"])
def test_what_takes_any_number_of_tensors_takes_a_list_of_them(stack: nnc.Stack, name: str) -> None:
    x, y = stack.variable("x", np.ones((2, 2))), stack.asarray(np.zeros((2, 2)))
    op = getattr(stack.ops, name)
    for axis in (0, 1):
        given_list, given_each = op([x, y], axis=axis), op(x, y, axis=axis)
        assert given_list.shape == given_each.shape
        np.testing.assert_array_equal(given_list.numpy(), given_each.numpy())


@each_stack
def test_a_tensor_of_another_dtype_flows(stack: nnc.Stack) -> None:
    found = stack.grad(lambda v: (stack.asarray(v * v, "float64") * 3).sum())(stack.asarray(np.float32(2)))
    assert (found.dtype, found.item()) == (np.float32, 12)
    assert stack.asarray([stack.asarray(1.5)], "int32").numpy().tolist() == [1]


def test_a_list_within_a_function_that_is_traced() -> None:
    lazy = nnc.lazy()
    double = lazy.jit(lambda v: lazy.asarray([[v.sum(), 1.0], [2.0, v[0]]]))
    np.testing.assert_array_equal(double(np.array([3.0, 4.0])).numpy(), [[7, 1], [2, 3]])
    rowwise = lazy.vmap(lambda v: lazy.asarray([v, 2 * v, 1.0]))
    np.testing.assert_array_equal(rowwise(lazy.asarray([1.0, 5.0])).numpy(), [[1, 2, 1], [5, 10, 1]])


@each_stack
def test_what_cannot_be_one_array_is_refused_at_the_line(stack: nnc.Stack) -> None:
    x = stack.variable("x", np.ones(2, np.float32))
    with pytest.raises(ShapeError, match=r"one shape, given \(2,\) and \(3,\).*test_lists\.py"):
        stack.asarray([x, [1.0, 2.0, 3.0]])
    with pytest.raises(DTypeError, match="does not fit in int32"):
        stack.asarray([stack.asarray(np.int32(1)), 2**40])
    with pytest.raises(NncError, match="'a'"):
        stack.asarray([x, "a"])


class Pair(NamedTuple):
    """A tuple with names."""

    first: Any
    second: Any


@each_stack
@pytest.mark.parametrize("make", [list, tuple, deque, UserList, lambda rows: Pair(*rows)])
def test_sequences_of_any_class_are_lists(stack: nnc.Stack, make: Any) -> None:
    """Eager stacks refused what is no list, and lazy ones took a deque of tensors as constants: no gradient came."""

    def loss(x: Any) -> Any:
        row, rows = stack.asarray([1.0, 2.0]) * make([x, x * x]), stack.asarray(make([make([x, 2.0]), [1, x]]))
        return row.sum() + rows.sum()

    assert float(stack.grad(loss)(stack.asarray(3.0)).numpy()) == 1 + 2 * 6 + 2
    np.testing.assert_array_equal(stack.ops.add([1.0, 2.0], make([1, 2])).numpy(), [2, 4])


@each_stack
@pytest.mark.parametrize("numbers", [range(3), memoryview(np.arange(3)), array("d", [0, 1, 2]), bytearray([0, 1, 2])])
def test_sequences_of_numbers_are_arrays(stack: nnc.Stack, numbers: Any) -> None:
    for found in (stack.ops.add(np.ones(3), numbers), stack.asarray(np.ones(3)) + numbers):
        np.testing.assert_array_equal(found.numpy(), [1, 2, 3])


@each_stack
def test_an_owner_may_write_into_what_was_given(stack: nnc.Stack) -> None:
    numbers = array("d", [1, 2])
    found = stack.ops.reshape(numbers, shape=(2, 1))
    numbers[0] = 9
    np.testing.assert_array_equal(found.numpy(), [[1], [2]])


@each_stack
@pytest.mark.parametrize("text", ["12", b"12", {1, 2}, {1: 2}])
def test_what_is_no_list_of_numbers_is_refused(stack: nnc.Stack, text: Any) -> None:
    with pytest.raises(DeviceError, match="number"):
        stack.ops.add(np.ones(2), text)


@each_stack
def test_variables_in_a_sequence_are_read_when_a_function_runs(stack: nnc.Stack) -> None:
    """What is no list was made an array of as it was traced: the values of then were in the program."""
    v = stack.variable("v", np.array([1.0, 3.0]))
    program = stack.jit(lambda: stack.ops.matmul(Pair(v, v), np.ones((2, 3))))
    assert program().numpy()[0].tolist() == [4.0] * 3
    v.value.assign([10.0, 30.0])
    assert program().numpy()[0].tolist() == [40.0] * 3


class Two(IntEnum):
    """Of a class of the user's."""

    TWO = 2


class Half(float):
    """A number of a class of the user's."""


@each_stack
def test_numbers_of_a_users_class_are_numbers(stack: nnc.Stack) -> None:
    x = stack.asarray([1.0, 2.0])
    found = [x + Two.TWO, Two.TWO * x, x ** Half(0.5), stack.ops.where(x > Half(1.5), Two.TWO, x)]
    wanted = [[3, 4], [2, 4], [1, 2**0.5], [1, 2]]
    for each, numbers in zip(found, wanted, strict=True):
        assert each.dtype == np.float64
        np.testing.assert_array_equal(each.numpy(), numbers)
    assert (x == Two.TWO).numpy().tolist() == [False, True]
    entries = stack.array_api.asarray([1.0, 2.0])
    entries[0] = Half(0.5)
    assert entries.numpy().tolist() == [0.5, 2.0]


@each_stack
def test_a_list_that_contains_itself_and_a_tensor_is_refused(stack: nnc.Stack) -> None:
    endless: list[Any] = [stack.asarray(1.0)]
    endless.append(endless)
    with pytest.raises(ShapeError, match="at most 64 deep"):
        stack.ops.add(endless, 1.0)
