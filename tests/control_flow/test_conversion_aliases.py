"""Converted code that writes into what has several names, or changes what is around it (`control_flow/conversion`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ControlFlowError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
found: list[Any] = []


def leaves(tree: Any) -> list[Any]:
    return [np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in nnc.tree.flatten(tree)[0]]


# --- as plain Python ----------------------------------------------------------------------------------------------


def one_of_two_names_is_given_another_list(x: Any, y: Any) -> Any:
    a = [x, y]
    b = a
    if x > 0:
        a = [y, y]
        b[1] = x * 7
    else:
        b[0] = y * 0 + 1
    return a, b


def two_names_in_a_loop(x: Any, y: Any) -> Any:
    a = [x, y]
    b = a
    while b[0] < 10:
        a[0] = a[0] + 2
        b[1] = b[1] + a[0]
    return a, b


def names_swapped_in_a_loop(x: Any, y: Any) -> Any:
    a, b, n = [x, y], [x, y], y * 0
    while n < x:
        a, b = b, a
        a[0] = a[0] + 1
        n = n + 1
    return a, b


def one_tensor_twice(x: Any, y: Any) -> Any:
    state = {"a": x, "b": [y, y]}
    while state["a"] < 5:
        state["a"] += 1
        state["b"][1] *= 2
        state["b"][0] -= state["a"]
    return state


def within_another(x: Any, y: Any) -> Any:
    inner = [x, y]
    outer = {"p": inner}
    if x > 0:
        outer["p"][0] = y
    while outer["p"][1] < 9:
        outer["p"][1] = outer["p"][1] + 2
    return inner, outer


def other_elements(x: Any, y: Any) -> Any:
    rows, names = [x, y], {}
    if x > 0:
        rows.extend([y])
        rows.pop(0)
        names["b"] = x
    else:
        rows.reverse()
        names["b"] = y
    more = rows
    if y > 1:
        more += [x]
    else:
        more.append(y)
    return rows, more, names


def object_with_two_names(x: Any, y: Any) -> Any:
    box = Box(y)
    other = box
    if x > 0:
        other.size = x * 2
    while other.size < 5:
        box.size = box.size + 1
    return box.size, other.size


class Box:
    def __init__(self, size: Any) -> None:
        self.size = size

    def __call__(self, x: Any) -> Any:
        if x > self.size:
            return x
        return self.size

    def put(self, size: Any) -> None:
        self.size = size


def called_object(x: Any, y: Any) -> Any:
    return Box(y)(x)


def calls_itself(x: Any, n: int = 3) -> Any:
    if n == 0:
        return x
    if x > 0:
        return calls_itself(x - 1, n - 1) * 2
    return calls_itself(x + 2, n - 1)


def recursive(x: Any, y: Any) -> Any:
    return calls_itself(x) + y


def array_of_numpy(x: Any, y: Any) -> Any:
    made = np.zeros(2)
    if x > 0:
        made[0] = 1.0
    return y + made


def written_under_both_names(x: Any, y: Any) -> Any:
    one = STACKS["eager"].asarray([0.0, 0.0]) + x * 0
    other, n = one, 0
    while n < x:
        one[0] = other[1] + 7
        other[1] = one[0] * 2
        n = n + 1
    return one, other


def by_a_function(x: Any, y: Any) -> Any:
    rows: list[Any] = []

    def add(v: Any) -> None:
        rows.append(v)

    if x > 0:
        add(x)
    else:
        add(y)
    return rows[0]


def by_a_method(x: Any, y: Any) -> Any:
    box = Box(y)
    while x < 3:
        box.put(x)
        x = x + 1
    return box.size


def deep_in_an_object(x: Any, y: Any) -> Any:
    box = Box(Box(y))
    if x > 0:
        box.size.size = x
    return box.size.size


def read_by_another_name(x: Any, y: Any) -> Any:
    box = Box([y])
    rows = box.size
    while box.size[0] < 3:
        rows[0] = rows[0] + 1
    return rows


def only_the_caller_has_the_list(x: Any, y: Any) -> Any:
    rows = [x, y]
    if x > 0:
        rows = [rows[0] + 1, rows[1]]
    while rows[1] < 9:
        rows = [rows[0], rows[1] + 2]
        rows[0] = rows[0] * 2
    rows[0] = rows[0] * 3
    return rows


def appended_by_another_name(x: Any, y: Any) -> Any:
    rows: list[Any] = []
    also = rows
    if x > 0:
        rows.append(x)
        also.append(y)
    else:
        also.extend([y, x])
    return rows, also


def chosen_by_an_expression(x: Any, y: Any) -> Any:
    one, two = [x + 1, y], [y]
    row = one[0] if x > 0 else two[0]
    return row * 2, one, two


PLAIN = [
    one_of_two_names_is_given_another_list, two_names_in_a_loop, names_swapped_in_a_loop, one_tensor_twice,
    within_another, other_elements, object_with_two_names, called_object, recursive, array_of_numpy, by_a_function,
    by_a_method, deep_in_an_object, read_by_another_name, only_the_caller_has_the_list, appended_by_another_name,
    chosen_by_an_expression,
]  # fmt: skip


@each_stack
@pytest.mark.parametrize("f", PLAIN, ids=lambda f: f.__name__)
def test_as_plain_python(stack: Any, f: Callable[..., Any]) -> None:
    jitted = stack.jit(f, control_flow=True, strict=True)
    for x, y in ((3.0, 1.5), (0.5, 2.0), (-1.0, 7.0), (-4.0, -0.5)):
        want, got = leaves(f(x, y)), leaves(jitted(np.asarray(x), np.asarray(y)))
        assert len(want) == len(got)
        for one, other in zip(want, got, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)


@each_stack
def test_a_tensor_written_into_under_both_of_its_names(stack: Any) -> None:
    def f(x: Any, n: Any) -> Any:
        one = x * 1
        other, pair = one, [one, x]
        for i in range(n):
            one[i] = other[0] + 7
            other[2] = one[i] * 2
            pair[0][1] = other[2]
        if x[0] > 0:
            pair[0][2] = -1.0
        return one, other, pair

    jitted = stack.jit(f, control_flow=True, strict=True)
    for given, n in (([1.0, 2.0, 3.0], 2), ([-1.0, 2.0, 3.0], 1), ([1.0, 2.0, 3.0], 0)):
        plain = leaves(f(STACKS["eager"].asarray(given), n))
        for one, other in zip(leaves(jitted(np.array(given), np.asarray(n))), plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


# --- refused ------------------------------------------------------------------------------------------------------


def by_a_partial(x: Any, y: Any) -> Any:
    rows = [y]
    put = functools.partial(rows.__class__.append, rows)
    if x > 0:
        put(x)
    return rows


def global_list(x: Any, y: Any) -> Any:
    if x > 0:
        found.append(x)
    return y


def key_of_one_side(x: Any, y: Any) -> Any:
    table = {"a": y}
    if x > 0:
        table["b"] = x
    return table.get("b", y)


def key_deleted_on_one_side(x: Any, y: Any) -> Any:
    table = {"a": x, "b": y}
    if x > 0:
        del table["b"]
    return table


def element_of_one_side(x: Any, y: Any) -> Any:
    rows: list[Any] = []
    if x > 0:
        rows.append(x)
    rows.append(y)
    return rows


def names_that_part(x: Any, y: Any) -> Any:
    one = [x, y]
    other = one
    while x < 3:
        one[0] = one[0] + other[0]
        x = x + 1
        other = [y, y]
    return one, other


def exchanged(x: Any, y: Any) -> Any:
    one = [x, y]
    other = one
    while x < 3:
        one[0] = one[0] + 1
        x = x + 1
        one = [y, y]
    return one, other


def singletons(x: Any, y: Any) -> Any:
    match x > 0:
        case True:
            return y
        case _:
            return x


def endless(x: Any, y: Any) -> Any:
    if x <= 0:
        return y
    return endless(x - 1, y)


def which_list(x: Any, y: Any) -> Any:
    one, two = [x, y], [y, y]
    row = one if x > 0 else two
    row[0] = x * 7
    return one, two


def which_list_in_a_block(x: Any, y: Any) -> Any:
    one, two = [x, y], [y, y]
    row = one if x > 0 else two
    if y > 0:
        one[0] = x * 7
    return row, two


def which_dict(x: Any, y: Any) -> Any:
    one, two = {"a": x}, {"a": y}
    table = two
    if x > 0:
        table = one
    table["a"] += 1
    return one, two


def which_list_in_a_loop(x: Any, y: Any) -> Any:
    row = one = [x, y]
    while row[0] < 3:
        row = [row[0] + 1, y]
    row[1] = x
    return one, row


def set_of_one_side(x: Any, y: Any) -> Any:
    names = {"a"}
    if x > 0:
        names.add("b")
    return y * len(names)


def array_of_two_names(x: Any, y: Any) -> Any:
    made = np.zeros(2)
    also = made
    if x > 0:
        made[0] = 1.0
    return y + also


def appended_and_read_by_another_name(x: Any, y: Any) -> Any:
    rows = [x]
    also, total = rows, x * 0
    for each in y.stack.ops.stack(x, y, axis=0):
        rows.append(each)
        total = total + also[-1]
    return total


REFUSED = [
    (appended_and_read_by_another_name, "appends to rows, which it knows by another name, too"),
    (by_a_partial, r"writes into put, and put is .* elsewhere"),
    (global_list, "writes into found, and found is .* elsewhere"),
    (key_of_one_side, "writes into table, and table is .* elsewhere"), (element_of_one_side, "writes into rows, and"),
    (key_deleted_on_one_side, "writes into table, and table is"),
    (names_that_part, "writes into .* by another name than other, which is that list at one time, and another one"),
    (which_list, r"test_conversion_aliases.py:\d+ writes into a list, and which list that is decides a tensor at"),
    (which_list_in_a_block, "writes into a list, and which list that is decides a tensor at"),
    (which_dict, "writes into a dict, and which dict that is decides a tensor at"),
    (which_list_in_a_loop, "writes into a list, and which list that is decides a tensor at"),
    (set_of_one_side, "writes into names, and names is a set"),
    (array_of_two_names, "writes into the array of NumPy made, which something else has"),
    (exchanged, "writes into one, then exchanges it for another list"),
    (endless, "is traced within itself without end"),
    (singletons, r"match at line \d+ asks whether a tensor is True"),
]  # fmt: skip


@each_stack
@pytest.mark.parametrize(("f", "message"), REFUSED, ids=lambda v: getattr(v, "__name__", None))
def test_what_would_be_wrong_is_refused(stack: Any, f: Callable[..., Any], message: str) -> None:
    with pytest.raises(ControlFlowError, match=message) as error:
        stack.jit(f, control_flow=True)(np.asarray(1.0), np.asarray(2.0))
    assert "test_conversion_aliases.py:" in str(error.value) or "match at" in str(error.value)
