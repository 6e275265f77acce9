"""What Python does by kind, identity or time: converted code does it, or refuses (`control_flow/conversion`)."""

from __future__ import annotations

import functools
import itertools
import operator
import re
import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ControlFlowError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def total(parts: Any) -> Any:
    """A number of which each part's place is seen."""
    return sum(10.0**n * part.sum() for n, part in enumerate(parts))


# --- lists to which loops append --------------------------------------------------------------------------------------


def a_list_is_a_list(xs: Any) -> Any:
    outs = []
    for x in xs:
        outs.append(x * 2)
    return float(isinstance(outs, list)) + float(outs == []) + len(outs)


def parts_are_written_into(xs: Any) -> Any:
    outs = []
    for x in xs:
        outs.append(x * 2)
    outs[0][0] = 9.0
    return total(outs)


def parts_are_exchanged(xs: Any) -> Any:
    outs = []
    for x in xs:
        outs.append(x * 2)
    last = outs.pop()
    outs.insert(0, last * 3)
    outs[1] = last
    return total(outs + [last])  # noqa: RUF005


def another_name(xs: Any) -> Any:
    outs = []
    for x in xs:
        outs.append(x * 2)
    result = outs
    result.append(xs[0])
    return total(outs) + float(outs is result)


def within_an_object(xs: Any) -> Any:
    o = types.SimpleNamespace(outs=[])
    for x in xs:
        o.outs.append(x * 2)
    outs = o.outs
    outs.append(xs[0])
    return total(o.outs) + float(isinstance(o.outs, list))


def appended_twice(xs: Any) -> Any:
    outs = []
    for x in xs:
        outs.append(x * 2)
    first = len(outs)
    for x in xs:
        outs.append(x * 3)
    return total(outs) + first


class Shared:
    """With a list and a number of the class."""

    items: ClassVar[list[Any]] = []
    n = 1.0


def a_list_of_the_class(xs: Any) -> Any:
    Shared.items = []
    o = Shared()
    for x in xs:
        o.items.append(x * 2)
    return total(Shared.items) + len(vars(o))


# --- numbers, truth values --------------------------------------------------------------------------------------------


def a_kind(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    return float(isinstance(n, int)) + 2 * float(isinstance(n, (float, str))) + 4 * float(type(n) is int)


def a_kind_of_a_count(xs: Any) -> Any:
    n = 0
    for i in range(nnc_int(xs)):
        n = n + i * (1 if isinstance(i, int) else 5)
    return n


def a_kind_that_a_loop_keeps(xs: Any) -> Any:
    n, x = 0, xs.sum()
    while x < 5:
        n, x = n + 1, x + 1
    return 1.0 if isinstance(n, int) else 2.0


def half_of_a_kind(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    half, whole = n / 2, -(n * 3 - 1) // 2
    return float(isinstance(half, float)) + 2 * float(isinstance(whole, int)) + whole


def nnc_int(xs: Any) -> Any:
    return (xs.sum() * 0 + 3).astype("int64") if hasattr(xs, "stack") else 3


def is_true(xs: Any) -> Any:
    b = False
    if xs.sum() > 0:
        b = True
    y = 1.0 if b is True else 2.0
    if b is not False:
        y = y + 10.0
    return y


def is_not_true(xs: Any) -> Any:
    b = not xs.sum() > 0
    return 1.0 if b is True else 2.0


# --- what is reached --------------------------------------------------------------------------------------------------


module = types.ModuleType("settings")
module.count = 0.0  # type: ignore[attr-defined]
RATE = 0.0


def a_variable_of_a_module(xs: Any) -> Any:
    module.count = 0.0  # type: ignore[attr-defined]
    if xs.sum() > 0:
        module.count = 5.0  # type: ignore[attr-defined]
    return module.count


def set_rate(rate: Any) -> None:
    global RATE
    RATE = rate


def a_global_variable(xs: Any) -> Any:
    set_rate(1.0)
    if xs.sum() > 0:
        set_rate(7.0)
    return RATE


class Named(dict[str, Any]):
    """With attributes."""


def an_attribute_of_a_dict(xs: Any) -> Any:
    d = Named(a=1.0)
    d.rate = 1.0  # type: ignore[attr-defined]

    def change() -> None:
        d.rate = 5.0  # type: ignore[attr-defined]

    if xs.sum() > 0:
        change()
    return d.rate  # type: ignore[attr-defined]


def an_attribute_of_the_class(xs: Any) -> Any:
    o, y = Shared(), 0.0
    if xs.sum() > 0:
        o.n = 2.0
        y = o.n
    else:
        o.n = 3.0
    return o.n + y + len(vars(o)) * 10 + Shared.n * 100


def an_attribute_that_stays_the_class_s(xs: Any) -> Any:
    o, y = Shared(), 0.0
    if xs.sum() > 0:
        y = o.n
    return y + len(vars(o)) * 10


def attributes_in_any_order(xs: Any) -> Any:
    o = types.SimpleNamespace()
    if xs.sum() > 0:
        o.a = 1.0
        o.b = 2.0
    else:
        o.b = 3.0
        o.a = 4.0
    return o.a + 10 * o.b


# --- arrays of NumPy --------------------------------------------------------------------------------------------------


def an_array_of_its_own(xs: Any) -> Any:
    a = np.zeros(2)
    if xs.sum() > 0:
        a[0] = 1.0
    a[1] = 5.0
    if xs.sum() > 0:
        a[0] = 2.0
    a[1] += 5.0
    return a.sum() + a[0]


RIGHT = [
    a_list_is_a_list, parts_are_written_into, parts_are_exchanged, another_name, within_an_object, appended_twice,
    a_list_of_the_class, a_kind, a_kind_of_a_count, a_kind_that_a_loop_keeps,
    half_of_a_kind, is_true, is_not_true, a_variable_of_a_module, a_global_variable,
    an_attribute_of_a_dict, an_attribute_of_the_class, an_attribute_that_stays_the_class_s, attributes_in_any_order,
    an_array_of_its_own,
]  # fmt: skip
GIVEN = [np.arange(6.0).reshape(3, 2), -np.arange(6.0).reshape(3, 2) - 1]


@each_stack
@pytest.mark.filterwarnings("ignore::nnc_func.errors.ControlFlowWarning")
@pytest.mark.parametrize("f", RIGHT, ids=lambda each: each.__name__)
def test_it_is_as_plain_python(stack: Any, f: Callable[..., Any]) -> None:
    for xs in GIVEN:
        want = float(f(xs.copy()))
        assert float(np.asarray(stack.jit(f, control_flow=True)(xs))) == want


# --- what is refused --------------------------------------------------------------------------------------------------


def an_array_chosen(xs: Any) -> Any:
    a, b = np.zeros(2), np.ones(2)
    y = a if xs.sum() > 0 else b
    y[0] = 5.0
    return a.sum() + y.sum() + b.sum()


def an_array_chosen_and_added_to(xs: Any) -> Any:
    a, b = np.zeros(2), np.ones(2)
    if xs.sum() > 0:
        y = a
    else:
        y = b
    y += 1.0
    return a.sum() + y.sum() + b.sum()


def one_that_may_be_chosen(xs: Any) -> Any:
    a, b = np.zeros(2), np.ones(2)
    y = a if xs.sum() > 0 else b
    a[0] = 7.0
    return y.sum() + b.sum() + a.sum()


def arrays_exchanged(xs: Any) -> Any:
    a, b = np.zeros(2), np.ones(2)
    x, y, n = a, b, xs.sum() * 0
    while n < 3:
        x, y, n = y, x, n + 1
    x[0] = 5.0
    return a.sum() + b.sum() * 10 + y.sum()


def an_array_where_the_loop_does_not_go(xs: Any) -> Any:
    a = np.zeros(2)
    x, n = a, xs.sum()
    while n < 3:
        x, n = x + 1, n + 1
    x[0] = 5.0
    return a.sum() + x.sum()


def a_list_chosen_and_a_lambda(xs: Any) -> Any:
    a, b = [0.0], [1.0]
    y = a if xs.sum() > 0 else b
    change = lambda each: each.__setitem__(0, 9.0)  # noqa: E731
    change(y)
    return a[0] + b[0] + y[0]


def a_list_chosen_and_a_function_of_python(xs: Any) -> Any:
    a, b = [0.0], [1.0]
    y = a if xs.sum() > 0 else b
    operator.setitem(y, 0, 9.0)
    return a[0] + b[0] + y[0]


def a_part_of_a_zip(xs: Any) -> Any:
    it, y = zip([1.0, 2.0], [3.0, 4.0], strict=True), 0.0
    if xs.sum() > 0:
        y = next(it)[0]
    return y + len([*it])


def a_part_of_a_map(xs: Any) -> Any:
    it, y = map(float, [1.0, 2.0]), 0.0
    if xs.sum() > 0:
        y = next(it)
    return y + len([*it])


def a_part_of_a_cycle(xs: Any) -> Any:
    it, y = itertools.cycle([1.0, 2.0]), 0.0
    if xs.sum() > 0:
        y = next(it)
    return y + next(it)


def a_part_of_a_generator(xs: Any) -> Any:
    it, y = (each * 2 for each in [1.0, 1.0, 1.0]), 0.0
    if xs.sum() > 0:
        y = next(it)
    return y + len([*it])


def an_iterator_left(xs: Any) -> Any:
    it, y = iter([1.0, 2.0, 3.0]), xs.sum() * 0
    for k in it:
        y = y + k
        if xs.sum() + k > 0:
            break
    return y + len([*it])


def a_method_of_a_list(xs: Any) -> Any:
    a = [0.0]
    change = functools.partial(a.append, 5.0)
    if xs.sum() > 0:
        change()
    return float(len(a))


def keys_in_an_order(xs: Any) -> Any:
    d: dict[str, float] = {}
    if xs.sum() > 0:
        d["a"] = 1.0
        d["b"] = 2.0
    else:
        d["b"] = 3.0
        d["a"] = 4.0
    return next(iter(d.values()))


def a_kind_that_a_loop_decides(xs: Any) -> Any:
    n, x = 0, xs.sum()
    while x < 5:
        n, x = n * 0.5, x + 1
    return 1.0 if isinstance(n, int) else 2.0


def a_list_repeated(xs: Any) -> Any:
    n = 2 if xs.sum() > 0 else 3
    parts = [0.5]
    return sum(parts * n)


def a_text(xs: Any) -> Any:
    n = 2 if xs.sum() > 0 else 3
    return 1.0 if str(n) == "2" else 0.0


def a_list_compared_within(xs: Any) -> Any:
    outs: list[Any] = []
    n = 0.0
    for x in xs:
        outs.append(x)
        n = n + float(isinstance(outs, list))
    return n


REFUSED = [
    (an_array_chosen, "writes into an array of NumPy, and which array that is decides a tensor"),
    (an_array_chosen_and_added_to, "writes into an array of NumPy"),
    (one_that_may_be_chosen, "writes into an array of NumPy"),
    (arrays_exchanged, "writes into an array of NumPy"),
    (an_array_where_the_loop_does_not_go, "writes into an array of NumPy"),
    (
        a_list_chosen_and_a_lambda,
        "code that is not converted writes into a list, and which list that is decides a tensor",
    ),
    (a_list_chosen_and_a_function_of_python, "code that is not converted writes into a list"),
    (a_part_of_a_zip, "takes from it, a zip"),
    (a_part_of_a_map, "takes from it, a map"),
    (a_part_of_a_cycle, "takes from it, a cycle"),
    (a_part_of_a_generator, "takes from it, a generator"),
    (an_iterator_left, "takes from a list_iterator whose state others see"),
    (a_method_of_a_list, "which a tensor decides, writes into change"),
    (keys_in_an_order, "has its keys in the order 'a', 'b'"),
    (a_kind_that_a_loop_decides, "of a number that a tensor decides"),
    (a_list_repeated, "repeats a list as often as a tensor says"),
    (a_text, "a text of a number that a tensor decides"),
    (a_list_compared_within, "a list is read in the loop that appends to it"),
]


@each_stack
@pytest.mark.parametrize(("f", "said"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_it_is_refused(stack: Any, f: Callable[..., Any], said: str) -> None:
    for xs in GIVEN:
        with pytest.raises(ControlFlowError, match=re.escape(said)):
            stack.jit(f, control_flow=True)(xs)


def a_sum_of_rows(xs: Any, n: Any) -> Any:
    total = xs[0] * 0
    for i in range(n):
        total = total * 0.5 + xs[0] * i - i + total / (i + 1)
    return total


def in_steps(xs: Any, n: Any) -> Any:
    k, rate = 0, 1
    while k < n:
        k += 2
        rate = rate / 2
    y = xs * rate + k
    y -= k * rate
    return y


def by_a_choice(xs: Any, n: Any) -> Any:
    scale = 2 if n > 2 else 3
    return xs * scale + -scale


def compared_with(xs: Any, n: Any) -> Any:
    rate = 0.1 if n > 2 else 0.3
    k = 0
    while k < n:
        k = k + 1
    near = xs == rate * 1
    return near * xs + (k == n) * xs


def truth_values(xs: Any, n: Any) -> Any:
    b = True if n > 2 else False  # noqa: SIM210
    c = not b
    twice = b + b + (b * b) - c - (-b) + (b == c)
    return xs * twice + b * xs + abs(-twice) * xs


def of_either_dtype(xs: Any, n: Any) -> Any:
    scale, other = xs[0, 0] * 2, 1.0
    for i in range(n):
        other = i
    scale = other if n > 2 else scale
    return xs * scale


@each_stack
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(
    "f",
    [a_sum_of_rows, in_steps, by_a_choice, compared_with, truth_values, of_either_dtype],
    ids=lambda each: each.__name__,
)
def test_numbers_take_the_dtype_of_what_they_meet(stack: Any, f: Callable[..., Any], dtype: str) -> None:
    xs = (np.arange(1, 7).reshape(3, 2) / 10).astype(dtype)
    for n in (0, 1, 3, 4):
        want, got = f(xs, n), np.asarray(stack.jit(f, control_flow=True)(xs, np.int64(n)))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(
            got, want, rtol=1e-6 if dtype == "float32" else 4e-3 if dtype == "float16" else 1e-14
        )


def replaced_by_a_tensor(xs: Any) -> Any:
    n, x = 0, xs.sum()
    while x < 3:
        n, x = xs.sum(), x + 1
    return n * xs.astype("float32")


@each_stack
def test_what_may_be_a_tensor_is_no_number(stack: Any) -> None:
    xs = np.ones((2, 2)) / 4
    assert np.asarray(stack.jit(replaced_by_a_tensor, control_flow=True)(xs)).dtype == replaced_by_a_tensor(xs).dtype
