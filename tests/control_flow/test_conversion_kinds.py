"""Variables of which a tensor decides what they are, but no tensor can be (`control_flow/conversion`)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ControlFlowError, NncError, UndefinedVariableError
from tests.control_flow.kind_programs import drawn

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}


class Thing:
    """Something with attributes."""


def broken_out_of(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    for _ in range(2):
        if t > 0:
            break
        k = "y"
    return a if k == "x" else c


def broken_out_of_while(t: Any, a: Any, c: Any) -> Any:
    k, n = "x", 0
    while n < 2:
        n += 1
        if t > 0:
            break
        k = "y"
    return a if k == "x" else c


def continued(t: Any, a: Any, c: Any) -> Any:
    k, z = "x", a * 0
    for _ in range(3):
        z = z + (a if k == "x" else c)
        if t > 0:
            continue
        k = "y"
    return z


def met_again(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    for each in [a, c, a]:
        if k == "x":
            a = a + each
        if t > 0:
            k = "y"
            break
    return a


def lost_before_a_loop(t: Any, a: Any, c: Any) -> Any:
    if a < 0:
        k = "x"
    else:
        k = "y"
    for _ in range(1):
        if t > 0:
            break
        k = "z"
    return a if k == "z" else c


def of_another_shape(t: Any, a: Any, c: Any) -> Any:
    k = c * np.ones(2)
    for _ in range(3):
        if t > 0:
            break
        k = c * np.ones(3)
    return (k * a).sum()


def read_by_a_function(t: Any, a: Any, c: Any) -> Any:
    k = "x"

    def read() -> Any:
        return a if k == "x" else c

    if t > 0:
        k = "y"
    return read()


def read_by_a_lambda(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    read = lambda: a if k == "x" else c  # noqa: E731
    if t > 0:
        k = "y"
    return read()


def read_by_a_class(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    if t > 0:
        k = "y"

    class Read:
        value = a if k == "x" else c

    return Read.value


def a_default(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    if t > 0:
        k = "y"

    def read(q: Any = k) -> Any:
        return a if q == "x" else c

    return read()


def in_a_case(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    match "w":
        case "w":
            if t > 0:
                k = "y"
    return a if k == "x" else c


def in_a_try(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    try:
        if t > 0:
            k = "y"
    except ValueError:
        pass
    return a if k == "x" else c


def in_what_is_left_to_python(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    if t > 0:
        k = "y"
    z = c
    for _ in range(2):
        pass
    else:
        z = a if k == "x" else c
    return z


def joined_in_what_is_left_to_python(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    if t > 0:
        k = "y"
    for _ in range(2):
        k += "z"
    else:
        c = a if k == "xzz" else c
    return c


def named_in_an_expression(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    if t > 0:
        k = "y"
    return a if (m := k) == "x" and m else c


def an_attribute(t: Any, a: Any, c: Any) -> Any:
    o: Any = Thing()
    o.k = "x"
    for _ in range(2):
        if t > 0:
            break
        o.k = "y"
    return a if o.k == "x" else c


def an_attribute_that_is_new(t: Any, a: Any, c: Any) -> Any:
    o: Any = Thing()
    if t > 0:
        o.k = a
    return getattr(o, "k", c)


def in_a_list(t: Any, a: Any, c: Any) -> Any:
    k = ["x"]
    for _ in range(2):
        if t > 0:
            break
        k = ["y"]
    return a if k[0] == "x" else c


REFUSED = [each for each in list(globals().values()) if getattr(each, "__module__", "") == __name__ and callable(each)]
REFUSED = [each for each in REFUSED if each is not Thing]


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::nnc_func.errors.ControlFlowWarning")
def test_what_no_tensor_can_be_is_refused(stack: Any, f: Callable[..., Any]) -> None:
    """Each of these gave a value, for one of the two signs at least the wrong one, or lost an attribute."""
    for t in (1.0, -1.0):
        with pytest.raises((ControlFlowError, UndefinedVariableError), match=rf"\bk\b.*{re.escape(__file__)}:\d+"):
            stack.jit(f, control_flow=True)(np.float64(t), np.float64(-10), np.float64(20))


def only_read_where_it_goes(t: Any, a: Any, c: Any) -> Any:
    if a < 0:
        k = "x"
    else:
        k = "y"
    for n in range(2):
        k = "z"
        a = a + n * t
    return a if k == "z" else c


def returned_before(t: Any, a: Any, c: Any) -> Any:
    if t > 0:
        k = "x"
    else:
        k = "y"
    if t > 0:
        return a
    k = "z"
    return c if k == "z" else a


def a_lambda_of_its_own_name(t: Any, a: Any, c: Any) -> Any:
    k = "x"
    read = lambda k: a if k == "x" else c  # noqa: E731
    if t > 0:
        k = "y"
        c = c + (k == "y")
    return read("x") + sum(k for k in [a, c])


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("f", [only_read_where_it_goes, returned_before, a_lambda_of_its_own_name])
def test_what_is_not_read_is_not_refused(stack: Any, f: Callable[..., Any]) -> None:
    for t in (1.0, -1.0):
        found = stack.jit(f, control_flow=True)(np.float64(t), np.float64(-10), np.float64(20))
        assert float(np.asarray(found)) == f(t, -10.0, 20.0)


def compared(seed: int, name: str) -> list[str]:
    """Whether a drawn program gives Python's value, or is refused: never another one."""
    f, source = drawn(seed)
    converted = STACKS[name].jit(f, control_flow=True)
    draw, found = np.random.default_rng(seed), []
    for _ in range(3):
        t, v, w, u = *draw.uniform(0, 1, 3), draw.uniform(0, 1, 2)
        try:
            want = float(f(t, v, w, u))
        except (TypeError, ValueError):  # such as the truth of two numbers
            continue
        try:
            got = float(np.asarray(converted(*map(np.float64, (t, v, w)), u)))
        except NncError:
            found.append("refused")
        else:
            assert got == pytest.approx(want, rel=1e-9), f"{(t, v, w, u)}\n{source}"
            found.append("computed")
    return found


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_drawn_programs_of_other_kinds(first: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [each for seed in range(first, first + 20) for each in compared(seed, ["eager", "lazy"][seed % 2])]
    assert found.count("computed") > 10
    assert found.count("refused") > 5


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 4000, 50))
def test_thousands_of_drawn_programs_of_other_kinds(first: int) -> None:
    for seed in range(first, first + 50):
        compared(seed, ["lazy", "eager"][seed % 2])


@pytest.mark.parametrize("seed", [206, 543])
def test_drawn_programs_that_gave_a_wrong_value(seed: int) -> None:
    for name in STACKS:
        compared(seed, name)
