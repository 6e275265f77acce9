"""What Python would do otherwise, of lists, texts, keys, kinds and classes, is refused (`control_flow/conversion`)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ControlFlowError, TracingError, UndefinedVariableError

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
GIVEN = [np.arange(6.0).reshape(3, 2), -np.arange(6.0).reshape(3, 2) - 1]


def appended_and_written_into(xs: Any) -> Any:
    y, outs = xs[0] * 0, []
    for x in xs:
        y[0] = y[0] + x[0]
        outs.append(y)
    return outs[0]


def appended_from_outside(xs: Any) -> Any:
    z, outs = xs[0] * 1, []
    for _ in xs:
        outs.append(z)
    z[0] = 50.0
    return outs[0]


def the_last_one_is_carried(xs: Any) -> Any:
    y, outs = xs[0] * 0, []
    for x in xs:
        y = y + x
        outs.append(y)
    y[0] = 99.0
    return outs[-1]


def a_row_that_is_carried(xs: Any) -> Any:
    y, outs = xs[0] * 0, []
    for x in xs:
        y = y + x
        outs.append((y, x))
    outs[-1][0][0] = 99.0
    return y


def a_text_as_a_key(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    return xs * {"k1": 10.0, "k2": 20.0}.get(f"k{n}", 0.0)


def a_text_of_a_tuple(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    return xs * {"(1, 0)": 10.0}.get(str((n, 0)), 0.0)


def a_text_filled(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    return xs * {"1-0": 10.0}.get("%s-%s" % (n, 0), 0.0)  # noqa: UP031


def texts_joined(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    return xs * {"1-0": 10.0}.get("-".join(map(str, [n, 0])), 0.0)


def equal_and_not_the_same(xs: Any) -> Any:
    s = SimpleNamespace(a=1)
    best = s
    if xs.sum() > 0:
        best = SimpleNamespace(a=1)
    s.a = 2
    return xs * best.a


def lists_that_may_be_one(xs: Any) -> Any:
    a, b = [xs[0]], [xs[1]]
    n = xs.sum()
    while n < 3:
        a = [a[0] + 1]
        b = a
        n = n + 1
    b[0] = xs[2]
    return a[0]


def a_text_of_a_template(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    return xs * ("k{}".format(n) in ("k1", "k3"))  # noqa: UP032


def a_fraction_as_a_key(xs: Any) -> Any:
    return xs * {0.5: 10.0, 0.25: 20.0}.get(0.5 if xs.sum() > 0 else 0.25, 0.0)


def a_key_that_is_tried(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    try:
        k = {1: 10.0, 2: 20.0}[n]
    except TypeError:
        k = 5.0
    return xs * k


def a_pattern_of_a_kind(xs: Any) -> Any:
    n = 1 if xs.sum() > 0 else 2
    match n:
        case int():
            return xs * 2
    return xs * 3


@dataclass(frozen=True)
class Opaque:
    """A dataclass of which nothing says that its fields are tensors."""

    x: Any


def a_dataclass_that_is_replaced(xs: Any) -> Any:
    s = Opaque(xs)
    if xs.sum() > 0:
        s = Opaque(xs * 2)
    return s.x


class Rate:
    """With a number of the class."""

    rate = 1.0


def the_class_changes_later(xs: Any) -> Any:
    o, Rate.rate = Rate(), 1.0
    if xs.sum() > 100:
        o.rate = 2.0
    Rate.rate = 5.0
    return xs * o.rate


def a_generator_that_a_tensor_leaves(xs: Any) -> Any:
    log, y = [], xs.sum()

    def counted() -> Iterator[float]:
        for k in (1.0, 2.0, 3.0):
            log.append(k)
            yield k

    for k in counted():
        if y > k:
            break
        y = y + 1
    return y + len(log)


def appended_by_another_function(xs: Any) -> Any:
    log: list[Any] = []
    note = functools.partial(log.append)
    for x in xs:
        note(x)
    return log[0]


REFUSED = [
    (appended_and_written_into, "appends a tensor to outs into which it writes at a later time"),
    (appended_from_outside, "has appended to outs, so that the list would not see it"),
    (the_last_one_is_carried, "has appended to outs, so that the list would not see it"),
    (a_row_that_is_carried, "has appended to outs, so that the list would not see it"),
    (a_text_as_a_key, "a text of a number that a tensor decides"),
    (a_text_of_a_tuple, "a text of a number that a tensor decides"),
    (a_text_filled, "a text of a number that a tensor decides"),
    (texts_joined, "a text of a number that a tensor decides"),
    (equal_and_not_the_same, "elsewhere, which is no tensor"),
    (lists_that_may_be_one, "writes into a list, and which list that is decides a tensor"),
    (a_text_of_a_template, "a text of a number that a tensor decides"),
    (a_fraction_as_a_key, "a number that a tensor decides is looked up in a dict or a set"),
    (a_key_that_is_tried, "a number that a tensor decides is looked up in a dict or a set"),
    (a_pattern_of_a_kind, "of which kind a number is that a tensor decides"),
    (a_dataclass_that_is_replaced, "where the fields of a Opaque are tensors, say so in its class: is_tree = True"),
    (the_class_changes_later, "a tensor has decided whether a Rate has an attribute rate of its own"),
    (a_generator_that_a_tensor_leaves, "takes from a generator whose state others see"),
    (appended_by_another_function, "appends to note, which is no variable of the function"),
]


@each_stack
@pytest.mark.filterwarnings("ignore::nnc_func.errors.ControlFlowWarning")
@pytest.mark.parametrize(("f", "said"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_it_is_refused(stack: Any, f: Callable[..., Any], said: str) -> None:
    for xs in GIVEN:
        with pytest.raises((ControlFlowError, TracingError, UndefinedVariableError), match=re.escape(said)):
            stack.jit(f, control_flow=True)(xs)


# --- functions that call themselves where a tensor decides ---------------------------------------------------


def in_an_expression(n: Any) -> Any:
    return 1.0 if n <= 0 else n * in_an_expression(n - 1)


def in_an_operand(n: Any) -> Any:
    return n <= 0 or in_an_operand(n - 1)


def in_a_lambda(n: Any) -> Any:
    fall = lambda n: n if n < 1 else fall(n - 1)  # noqa: E731
    return fall(n)


def in_a_list(n: Any) -> Any:
    return [v if v < 0 else in_a_list(v - 1) for v in [n]][0]  # noqa: RUF015


def in_a_for(n: Any) -> Any:
    for _ in range(n):
        n = in_a_for(n - 1)
    return n


def in_a_while(n: Any) -> Any:
    while n > 0:
        n = in_a_while(n - 1)
    return n


def returned_in_a_while(n: Any) -> Any:
    while n > 0:
        return returned_in_a_while(n - 1)
    return n


ENDLESS = (in_an_expression, in_an_operand, in_a_lambda, in_a_list, in_a_for, in_a_while, returned_in_a_while)


@each_stack
@pytest.mark.parametrize("f", ENDLESS, ids=lambda f: f.__name__)
def test_what_is_traced_within_itself_without_end_is_refused(f: Callable[..., Any], stack: Any) -> None:
    """At the user's line, and soon: each level of a loop is traced more than once."""
    with pytest.raises(
        ControlFlowError, match=r"at .*test_conversion_refusals.py:\d+, .* traced within itself without"
    ):
        stack.jit(f, control_flow=True)(np.asarray(4))


def halved(x: Any, depth: int) -> Any:
    """Python decides how deep it goes, a tensor what is computed."""
    if depth == 0:
        return x
    while x > 8:
        x = halved(x / 2, depth - 1)
    return x if x > 0 else halved(-x, depth - 1)


@each_stack
def test_recursion_that_python_ends_is_traced(stack: Any) -> None:
    for x in (3.0, 40.0, -5.0):
        np.testing.assert_array_equal(
            stack.jit(halved, static=("depth",), control_flow=True)(x, 3).numpy(), halved(x, 3)
        )
