"""Blocks leave in variables, arrays, objects and classes what Python leaves there (`control_flow/conversion`)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ControlFlowError, TracingError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


class Doubling:
    """Whose property is set to twice what is assigned."""

    def __init__(self, v: Any) -> None:
        self._v, self.times = v, 0

    @property
    def v(self) -> Any:
        return self._v

    @v.setter
    def v(self, value: Any) -> None:
        self._v, self.times = value * 2, self.times + 1


class Layered(nnc.nn.Module):
    """A module, whose attributes are not followed, with a property."""

    @property
    def v(self) -> Any:
        return self.kept

    @v.setter
    def v(self, value: Any) -> None:
        object.__setattr__(self, "kept", value)


class Guarded:
    """Whose attributes go through a method of its own."""

    def __init__(self, v: Any) -> None:
        self.v = v

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value + 1)


class Private:
    """With a slot of a private name."""

    __slots__ = ("__v",)

    def __init__(self, v: Any) -> None:
        self.__v = v

    def add(self, v: Any) -> None:
        self.__v = self.__v + v

    def get(self) -> Any:
        return self.__v


class Slotted:
    """With a slot that nobody has filled."""

    __slots__ = ("b",)


class Counting:
    """Which counts."""

    n = 0
    items: list[Any] = []  # noqa: RUF012 - it is the class's


def returned_at_a_later_time(xs: Any) -> Any:
    n = 0
    for x in xs:
        if n == 1:
            return x
        n = n + 1
    return xs[0]


def returned_once_a_flag_is_set(x: Any) -> Any:
    flag = False
    while x < 3:
        if flag:
            return x * 100
        x = x + 1
        flag = True
    return x


def returned_after_counting(x: Any) -> Any:
    c = 0
    while x < 3:
        x = x + 1
        c = c + 1
        if c > 2:
            return x * 10
    return x


def returned_from_a_loop_within(xs: Any) -> Any:
    n = 0
    for x in xs:
        for y in xs:
            n = n + 1
            if n > 3:
                return x * 10 + y
    return n * 1.0


def assigned_at_a_later_time(xs: Any) -> Any:
    n, k = 0, xs[0] * 0
    for x in xs:
        if n > 0:
            late = x + k
            k = late * 2
        n = n + 1
    return k


def an_array_written_into(x: Any) -> Any:
    f = np.zeros(2)
    while x < 3:
        f[0] = 1
        x = x + 1
    return f


def an_array_added_to(x: Any) -> Any:
    f = np.zeros(2)
    while x < 3:
        f[0] = f[0] + x
        x = x + 1
    return f


def a_property(x: Any) -> Any:
    p = Doubling(x)
    while x < 10:
        p.v = p.v + 1
        x = x + 3
    return p.v + p.times


def a_property_of_a_module(x: Any) -> Any:
    p: Any = Layered.__new__(Layered)
    p.v = x
    while x < 10:
        p.v = p.v + 1
        x = x + 3
    return p.v


def a_method_that_sets(x: Any) -> Any:
    p = Guarded(x)
    while x < 10:
        p.v = p.v + 1
        x = x + 3
    return p.v


def a_namespace_in_a_list(x: Any) -> Any:
    b = [SimpleNamespace(a=x)]
    while b[0].a < 10:
        b[0].a = b[0].a * 2
    return b[0].a


def a_private_slot(x: Any) -> Any:
    s = Private(x * 1.0)
    while x < 5:
        s.add(10)
        x = x + 1
    return s.get()


def a_class(x: Any) -> Any:
    Counting.n, Counting.items = 0, [1.0]
    if x > 0:
        Counting.n += 1
        Counting.items[0] = x
    return Counting.n + Counting.items[0]


def a_function_with_an_attribute(x: Any) -> Any:
    def f() -> None:
        return None

    f.n = 0  # type: ignore[attr-defined]
    if x > 0:
        f.n += 1  # type: ignore[attr-defined]
    return x + f.n  # type: ignore[attr-defined]


def a_generator_of_numbers(x: Any) -> Any:
    one, two = random.Random(1), np.random.default_rng(1)
    if x > 0:
        x = x + one.random() + two.random()
    else:
        x = x - one.random() * two.random()
    return x + one.random() + two.random()


def sums_of_pairs(xs: Any) -> Any:
    return sum([a * b for a, b in zip(xs, xs, strict=True)]) + sum(i * x for i, x in enumerate(xs, 1))


def loops_that_share_what_they_write(xs: Any) -> Any:
    rows, d = [xs[0]], {"q": xs[0]}
    for x in xs:
        for _ in xs:
            d["q"] = rows[0]
        d["q"] = d["q"] - x
    return d["q"]


RIGHT: list[tuple[Callable[..., Any], list[Any]]] = [
    (returned_at_a_later_time, [[1.0, 3.0, 5.0], [2.0]]),
    (returned_once_a_flag_is_set, [0.0, 5.0]),
    (returned_after_counting, [0.0, -5.0, 5.0]),
    (returned_from_a_loop_within, [[1.0, 2.0, 3.0], [1.0]]),
    (assigned_at_a_later_time, [[1.0, 2.0, 3.0]]),
    (an_array_written_into, [1.0, 5.0]),
    (an_array_added_to, [1.0, 5.0]),
    (a_property, [1.0, 20.0]),
    (a_property_of_a_module, [1.0, 20.0]),
    (a_method_that_sets, [1.0, 20.0]),
    (a_namespace_in_a_list, [1.0, 20.0]),
    (a_private_slot, [1.0, 7.0]),
    (a_class, [1.0, -1.0]),
    (a_function_with_an_attribute, [1.0, -1.0]),
    (a_generator_of_numbers, [1.0, -1.0]),
    (sums_of_pairs, [[1.0, 2.0, 3.0]]),
    (loops_that_share_what_they_write, [[1.0, 2.0]]),
]


@each_stack
@pytest.mark.filterwarnings("ignore::nnc_func.errors.ControlFlowWarning")  # methods with private names
@pytest.mark.parametrize(("f", "given"), RIGHT, ids=lambda each: getattr(each, "__name__", ""))
def test_it_is_as_plain_python(stack: Any, f: Callable[..., Any], given: list[Any]) -> None:
    for each in given:
        x = np.asarray(each, float)
        want = np.asarray(f(x.copy() if x.ndim else np.float64(x)), float)
        np.testing.assert_allclose(np.asarray(stack.jit(f, control_flow=True)(x), float), want, rtol=1e-12)


def an_iterator(x: Any) -> Any:
    it = iter([1, 2, 3])
    if x > 0:
        x = x + next(it)
    return x + next(it)


def a_view(x: Any) -> Any:
    f = np.zeros(3)
    g = f[1:]
    if x > 0:
        g[0] = 99
    return f


def one_list_or_another(x: Any) -> Any:
    rows = [x]
    others = rows
    while x < 3:
        x = x + 1
        rows = others
    return 1.0 if rows is others else 0.0


def one_list_at_the_first_time(x: Any) -> Any:
    a = [x]
    b = a
    while x < 3:
        x = x + 1
        if a is b:
            x = x + 1
        a = b
    return x


def an_attribute_that_is_new(x: Any) -> Any:
    q: Any = Slotted()
    while x < 5:
        if not hasattr(q, "b"):
            q.b = x
        q.b = q.b + 1
        x = x + 1
    return q.b


def a_range_of_a_tensor(x: Any) -> Any:
    return [k + 1 for k in range(x.astype("int64"))]


REFUSED = [
    (an_iterator, "takes from it, a list_iterator"),
    (a_view, "the array of NumPy g, which something else has"),
    (one_list_or_another, "whether two names are one list"),
    (one_list_at_the_first_time, "whether two names are one list"),
    (an_attribute_that_is_new, "gives q.b its first value"),
    (a_range_of_a_tensor, "write a loop, for"),
]


@each_stack
@pytest.mark.parametrize(("f", "said"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_it_is_refused(stack: Any, f: Callable[..., Any], said: str) -> None:
    for x in (1.0, -1.0, 5.0):
        with pytest.raises(ControlFlowError, match=re.escape(said)):
            stack.jit(f, control_flow=True)(np.float64(x))


@each_stack
def test_gradients_of_an_early_return_at_a_later_time(stack: Any) -> None:
    from nnc_func.control_flow.conversion.runtime import convert

    found = stack.grad(convert(returned_at_a_later_time))(stack.asarray([1.0, 3.0, 5.0]))
    assert found.tolist() == [0.0, 1.0, 0.0]


def looked_up(x: Any) -> Any:
    n = 0
    if x > 0:
        n = 2
    return x * {0: 1.0, 2: 3.0}.get(n, 7.0)


def caught(x: Any) -> Any:
    d: dict[str, Any] = {}
    try:
        r = d["k"] if x > 100 else x
    except KeyError:
        r = -5 * x
    return r


def swallowed(x: Any) -> Any:
    try:
        s = "a" if x > 0 else "b"
        if s == "a":
            x = x + 1
    except Exception:  # the user's own: it is to hide no refusal
        x = -1.0
    return x


def joined_to_one_of_two(x: Any) -> Any:
    a, b = [1.0], [2.0]
    c = a if x > 0 else b
    c += [3.0]
    return len(a) + len(b)


def joined_while_another_may_be_it(x: Any) -> Any:
    a, b = [1.0], [2.0]
    c = a if x > 0 else b
    a += [9.0]
    return len(c)


def nothing_appended(x: Any) -> Any:
    found: list[Any] = []
    for _ in x * np.ones(3):
        found.append(None)
    return len(found)


def reaching_very_much(x: Any) -> Any:
    rows = [[n] for n in range(210_000)]
    if x > 0:
        rows[5][0] = -7
    return x + rows[5][0]


LOUD = [
    (reaching_very_much, "reach more than 200000 objects"),
    (looked_up, "looked up in a dict or a set"),
    (caught, "raises KeyError: 'k'; the try around it"),
    (swallowed, "is one of two values, which a tensor decides"),
    (joined_to_one_of_two, "writes into a list, and which list"),
    (joined_while_another_may_be_it, "writes into a list, and which list"),
    (nothing_appended, "appends None to a list"),
]


@each_stack
@pytest.mark.parametrize(("f", "said"), LOUD, ids=lambda each: getattr(each, "__name__", ""))
def test_it_is_never_silent(stack: Any, f: Callable[..., Any], said: str) -> None:
    for x in (1.0, -1.0):
        with pytest.raises((ControlFlowError, TracingError), match=re.escape(said)):
            stack.jit(f, control_flow=True)(np.float64(x))


def tried_as_a_number(x: Any) -> Any:
    k = 1
    while x < 3:
        if x > 0:
            k = k.astype(k.dtype) * 2  # type: ignore[attr-defined] - no method of a number
        x = x + 1
    return k


@each_stack
def test_what_is_tried_as_a_number_may_fail(stack: Any) -> None:
    assert np.asarray(stack.jit(tried_as_a_number, control_flow=True)(np.float64(1))) == 4


def paired(xs: Any) -> Any:
    total = xs[0] * 0
    for a, b in zip(xs, [1, 2], strict=True):
        total = total + a * b
    return total


@each_stack
def test_zip_is_strict(stack: Any) -> None:
    assert float(np.asarray(stack.jit(paired, control_flow=True)(np.ones(2)))) == 3
    with pytest.raises(ValueError, match="not equally long"):
        stack.jit(paired, control_flow=True)(np.ones(3))
