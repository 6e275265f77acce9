"""Converted code computes in Python's order, once: targets, iterators, operands (`control_flow/conversion`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.control_flow.conversion.runtime import convert

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


class Cursor:
    """Whose property, and whose items, count how often they are read."""

    def __init__(self) -> None:
        self.count, self.items = 0, [1.0, 2.0, 3.0]

    @property
    def following(self) -> int:
        self.count += 1
        return self.count - 1

    def step(self) -> float:
        self.count += 1
        return 10.0

    def __getitem__(self, key: int) -> float:
        self.count += 1
        return self.items[key]

    def __setitem__(self, key: int, value: float) -> None:
        self.items[key] = value


# --- what is written into is found once, before the value ----------------------------------------------------------


def the_key_before_the_value(x: float) -> Any:
    c, a = Cursor(), [x, x, x]
    a[c.count] += c.step()
    return a


def the_object_before_the_value(x: float) -> Any:
    one, two = SimpleNamespace(v=x), SimpleNamespace(v=x * 2)
    o = SimpleNamespace(current=one)

    def move() -> float:
        o.current = two
        return 10.0

    o.current.v += move()
    return one.v, two.v


def a_key_that_is_computed_once(x: float) -> Any:
    c, a = Cursor(), [x, x, x, x]
    a[c.following] += 7.0
    return a, c.count


def a_key_that_is_assigned(x: float) -> Any:
    a, i = [x] * 5, -1
    a[(i := i + 1)] += 1.0
    a[i] += (i := 2)
    return a, i


def an_item_that_is_read_once(x: float) -> Any:
    c = Cursor()
    c[0] += x
    return c.items, c.count


def the_value_takes_the_part_away(x: float) -> Any:
    d: dict[str, Any] = {"v": [x, 2.0], "i": 1}
    d["v"][d["i"]] += d.pop("i")
    return d["v"]


def slices_and_masks(x: float) -> Any:
    a = np.zeros((3, 4)) + x
    a[0, 1:3] += 5.0
    a[..., ::2] *= 2
    a[1:] -= 1
    a[a > 4] /= 2
    a @= np.eye(4)
    return a.tolist()


def containers_in_place(x: float) -> Any:
    one = [x]
    two = one
    one += [2.0]
    d = {"a": [1.0]}
    d["a"] += [3.0]
    a = np.ones(2)
    b = a
    a += x
    return two, d["a"], b.tolist()


# --- iterators -------------------------------------------------------------------------------------------------------


def broken_out_of(x: float) -> Any:
    it = iter([1.0, 2.0, 3.0, 4.0])
    for k in it:
        if k == 2.0:
            break
    return x * next(it)


def returned_from(x: float) -> Any:
    it = iter(range(5))

    def first() -> Any:
        for k in it:
            if k > 1:
                return k
        return None

    first()
    return x * first()


def a_generator_with_effects(x: float) -> Any:
    log = []

    def counted() -> Iterator[int]:
        for k in range(5):
            log.append(k)
            yield k

    for k in counted():
        if k == 2:
            break
    return len(log) * x


PLAIN = [
    the_key_before_the_value, the_object_before_the_value, a_key_that_is_computed_once, a_key_that_is_assigned,
    an_item_that_is_read_once, the_value_takes_the_part_away, slices_and_masks, containers_in_place, broken_out_of,
    returned_from, a_generator_with_effects,
]  # fmt: skip


def numbers_of(value: Any) -> Any:
    """As numbers of Python, in lists."""
    return [numbers_of(each) for each in value] if isinstance(value, (list, tuple)) else float(value)


@pytest.mark.filterwarnings("ignore::nnc_func.errors.ControlFlowWarning")
@pytest.mark.parametrize("f", PLAIN, ids=lambda each: each.__name__)
def test_it_is_as_plain_python(f: Callable[..., Any]) -> None:
    want = numbers_of(f(1.5))
    assert numbers_of(convert(f)(1.5)) == want
    if f not in (slices_and_masks, containers_in_place):  # arrays of NumPy take no tensors
        for stack in STACKS.values():
            assert numbers_of(convert(f)(stack.asarray(1.5))) == want


# --- where a tensor decides ------------------------------------------------------------------------------------------


def stack(parts: Any) -> Any:
    """A user's own, of that name."""
    return parts[0] - parts[-1]


def a_function_of_that_name(xs: Any) -> Any:
    outs = []
    for x in xs:
        outs.append(x * 2)
    return stack(outs)


def rows_of_numbers(xs: Any) -> Any:
    rates, rate = [], 1.0
    for _ in xs:
        rate = rate * 0.5
        rates.append(rate)
    return xs[0] * rates[1]


def a_list_of_numbers_beside(xs: Any) -> Any:
    total = xs[0] * 0
    for x, weight in zip(xs, [0.5, 0.25, 0.1], strict=True):
        total = total + x * weight
    return total


def within_a_lambda(xs: Any) -> Any:
    decay = lambda n: 1 / (1 + n) if n > 1 else 0.5  # noqa: E731
    y = xs[0] * 0
    for n in range(3):
        y = y + xs[0] * decay(n) * (1.0 if xs.sum() > 0 else 2.0)
    k = 3 if xs.sum() > 0 else 1
    return y * decay(k)


def by_functions_of_python(xs: Any) -> Any:
    k = 3 if xs.sum() > 0 else -2
    largest, smallest = max(k, 1), min([k, 0, 5])
    whole, rest = divmod(k, 2)
    whole += pow(base=2, exp=3) - round(number=7.9)
    found = sum([k, k, 1]) + abs(k) + pow(k, 2) + largest * 10 + smallest * 100 + whole + rest + round(k * 0.5)
    return xs * found + float(k) + int(k * 1.5)


def one_of_several(xs: Any) -> Any:
    k = 3 if xs.sum() > 0 else -2
    y = xs * (1 if k in (1, 3) else 2)
    y = y + (10 if k not in [5, -2] else 20)
    y = y * (2 if any(x.sum() > 0 for x in xs) else 3)
    return y + (1 if all([k > 0, xs.sum() > 0]) else 0)


def a_property_is_not_read(xs: Any) -> Any:
    c = Cursor()
    y = xs * 2 if xs.sum() > 0 and c.following == 0 else xs
    return y + c.count


def of_a_kind(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    return xs * (2.0 if hasattr(n, "shape") else 3.0)


def an_integrator(xs: Any) -> Any:
    place = speed = 0.0
    for x in xs:
        place += speed
        speed += x[0]
    return xs * place


def but_the_first(xs: Any) -> Any:
    first, total, size = True, 0, 0
    for x in xs:
        if not first:
            total += x[0]
        first = False
        if x.sum() > 0:
            size += 1
        elif size > 0:
            total += x[1]
    return xs * total


def a_continued_fraction(xs: Any) -> Any:
    h0, h1 = 0, 1
    for x in xs:
        h0, h1 = h1, x[0] * h1 + h0
    a = b = 0.0
    for x in xs:
        for _ in range(2):
            a += b
        b = x[1]
    return xs * h1 + a


def returned_from_a_loop(xs: Any) -> Any:
    found, y = 0, xs[0] + 8
    for i in range(50):
        if y[0] < 1:
            return xs * found + i
        found = y[0] * 2
        y = y / 2
    return xs * found


def exchanged_three(xs: Any) -> Any:
    a, b, c = 1, 2.0, 3
    for x in xs:
        a, b, c = b + 1, c * 2, x[0] + a
    return xs * a + b - c


def the_truth_of_numbers(xs: Any) -> Any:
    y, n = xs[0] * 0, 0
    for x in xs:
        n += 1  # noqa: SIM113
        if (n and x[0] > 0) or not (x[1] or n > 5):
            y = y + x
        y = y * (2 if x[0] and y[0] else 3)
    return y


def two_names_of_one_list(xs: Any) -> Any:
    current = [xs[0]]
    previous = current
    for x in xs:
        previous = current
        current = [current[0] + x]
    return previous[0] * 10 + current[0]


def the_best_so_far(xs: Any) -> Any:
    p = {"w": xs[0]}
    best = p
    for x in xs:
        p = {"w": p["w"] + x * (1 if x.sum() > 3 else -2)}
        if p["w"].sum() > best["w"].sum():
            best = p
    return best["w"] * 10 + p["w"]


def rows_that_begin_as_one(xs: Any) -> Any:
    rows = [[xs[0], xs[1]]] * 2
    h = c = [xs[0] * 0]
    for x in xs:
        rows = [[rows[0][0] + x, rows[0][1]], [rows[1][0], rows[1][1] * 2 + x]]
        h = [h[0] * 0.5 + x]
        c = [c[0] * 2 + h[0]]
    return rows[0][0] + rows[0][1] * 2 + rows[1][0] * 4 + rows[1][1] * 8 + h[0] * 16 + c[0] * 32


def one_list_after_each_time(xs: Any) -> Any:
    a = [xs[0]]
    b = a
    for x in xs:
        a = [x]
        b = a
    b[0] = xs[1]
    return a[0]


@dataclass(frozen=True)
class State:
    """Of a loop, as researchers write it."""

    is_tree = True
    x: Any
    step: Any = 0
    name: str = field(default="run", metadata={"static": True})


def a_state_that_is_replaced(xs: Any) -> Any:
    s = State(xs[0] * 1)
    while s.step < 4 + xs[0, 0] * 0:
        s = replace(s, x=s.x * 2 + 1, step=s.step + 1)
        if s.x.sum() > 10:
            s = replace(s, x=s.x + 1)
    return s.x * (s.step + 1) + len(s.name)


class Counter:
    """With a number that a method writes."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, xs: Any) -> Any:
        self.times += 1 if xs.sum() > 0 else 2
        return xs / (self.times + 1)


RIGHT = [
    a_function_of_that_name, rows_of_numbers, a_list_of_numbers_beside, within_a_lambda, by_functions_of_python,
    one_of_several, a_property_is_not_read, of_a_kind,
    a_state_that_is_replaced, two_names_of_one_list, the_best_so_far, rows_that_begin_as_one, one_list_after_each_time,
    an_integrator, returned_from_a_loop, but_the_first, a_continued_fraction, exchanged_three, the_truth_of_numbers,
]  # fmt: skip
GIVEN = [np.arange(6.0).reshape(3, 2), -np.arange(6.0).reshape(3, 2) - 1]


@each_stack
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("f", RIGHT, ids=lambda each: each.__name__)
def test_values_and_dtypes_are_those_of_python(stack: Any, f: Callable[..., Any], dtype: str) -> None:
    for xs in GIVEN:
        want = f(xs.astype(dtype))
        got = np.asarray(stack.jit(f, control_flow=True)(xs.astype(dtype)))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_number_that_an_object_keeps() -> None:
    stack, xs = nnc.eager(), np.ones((2, 2), "float32")
    counter, plain = Counter(), Counter()
    for _ in range(3):
        got, want = convert(counter)(stack.asarray(xs)), plain(xs)
        assert got.dtype == want.dtype
        assert got.tolist() == want.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16"])
def test_integers_are_compared_as_they_are(dtype: str) -> None:
    def compared(xs: Any, t: Any) -> Any:
        n = 200 if t > 0 else -1
        return (xs < n) * 1 + (xs == n) * 2 + (n >= xs) * 4

    xs = np.array([0, 1, 100, 127], dtype)
    for t, n in ((1.0, 200), (-1.0, -1)):
        whole = xs.astype("int64")
        want = (whole < n) * 1 + (whole == n) * 2 + (n >= whole) * 4
        for stack in STACKS.values():
            assert np.asarray(stack.jit(compared, control_flow=True)(xs, np.float64(t))).tolist() == want.tolist()


def test_texts_may_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(x: Any) -> Any:
        n = 1 if x > 0 else 2
        print(f"n = {n}", str(n), repr(n) + "!", "{}".format(n), format(n))  # noqa: UP032
        return x * n

    assert float(np.asarray(nnc.lazy().jit(shown, control_flow=True)(np.float64(1)))) == 1
    assert capsys.readouterr().out.count("Tensor(int64[]") == 5
