"""Python's control flow of functions becomes operators where a tensor decides (`control_flow/conversion`, `stacks`)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dis import get_instructions
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.control_flow.conversion.source import codes_within, converted_code
from nnc_func.errors import (
    OperatorError,
)  # fmt: skip
from tests.control_flow.conversion_programs import made, program

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
OFFSET = 10.0
seen: list[Any] = []


def leaves(tree: Any) -> list[Any]:
    return [np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in nnc.tree.flatten(tree)[0]]


# --- each construct against plain Python ----------------------------------------------------------------------


def if_elif_else(x: Any, y: Any) -> Any:
    if x > 2:
        z = x * y
    elif x > 0 and y < 5:
        z = x + y
    elif not x < -3:
        z = x - y
    else:
        z = y
    return z


def while_with_all(x: Any, y: Any) -> Any:
    n = 0
    while x < 100:
        n += 1
        if n == 3:
            continue
        x = x * 2 + y
        if n > 5:
            break
    return x, n


def early_return(x: Any, y: Any) -> Any:
    if x > 2:
        if y > 0:
            return x
        y = y - 1
    for k in range(4):
        y = y + k
        if y > 3:
            return y * 10
    return -y


def expressions(x: Any, y: Any) -> Any:
    a = x if x > y else y
    b = (x > 0 and y > 0) or x > 2
    c = 0 < x < y < 9
    return a, b, c, not x > y, (x and y), (x or y)


def loops_in_branches(x: Any, y: Any) -> Any:
    total = y * 0
    if x > 0:
        while total < 5:
            total = total + x
    else:
        total = total - 1
    return total


def tuples_and_functions(x: Any, y: Any) -> Any:
    def twice(v: Any) -> Any:
        if v > 3:
            return v * 2
        return v

    a, (b, c) = x, (y, 1.0)
    while a < 6:
        a, (b, c) = a + 1, (b + a, c * 2)
    return twice(a), twice(b), c


def with_containers(x: Any, y: Any) -> Any:
    state = {"sum": x * 0, "parts": [x, y]}
    while state["sum"] < 4:
        state["sum"] = state["sum"] + 1 + x * x
        state["parts"][0] += 1
    return state


def of_user_functions(x: Any, y: Any) -> Any:
    return helper(x) + functools.partial(helper, rate=3.0)(y) + Scaler(2.0).scaled(x)


def helper(x: Any, rate: float = 2.0) -> Any:
    if x > 1:
        return x * rate
    return x + OFFSET


class Scaler:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def scaled(self, x: Any) -> Any:
        while x < 20:
            x = x + self.scale * 3
        return x


class Deeper(Scaler):
    def scaled(self, x: Any) -> Any:
        if x > 2:
            x = super().scaled(x)
        return x


def through_super(x: Any, y: Any) -> Any:
    return Deeper(3.0).scaled(x) + y


def attributes(x: Any, y: Any) -> Any:
    box = Scaler(0.0)
    if x > 1:
        box.scale = x
    else:
        box.scale = y
    while box.scale < 8:
        box.scale = box.scale + 1
    return box.scale


def predicate_that_turns_to_a_tensor(x: Any, y: Any) -> Any:
    s = 0
    while s < 7:
        s = s + x * x + 1
    for k in range(5):
        if k * x > 3:
            break
        s = s + y
    for part in (x, y, 1.0):
        if part > 2:
            break
        s = s + 100
    return s


def walrus(x: Any, y: Any) -> Any:
    if (z := x + y) > 2:
        z = z * 2
    while (w := z + 1) < 9:
        z = w
    return z, w


def matched(x: Any, y: Any, how: str = "sum") -> Any:
    match how:
        case "sum":
            if x > 2:
                return x + y
            z = x
        case _:
            z = y
    return z - 1


def comprehended(x: Any, y: Any) -> Any:
    return [v * 2 if v > 1 else v for v in (x, y)]


def through_with_and_try(x: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        if x > 2:
            return x
        y = y * 2
    try:
        if y > 1:
            y = y + x
    finally:
        z = y
    return z


SCALAR: list[Callable[..., Any]] = [
    if_elif_else, while_with_all, early_return, expressions, loops_in_branches, tuples_and_functions, with_containers,
    of_user_functions, through_super, attributes, predicate_that_turns_to_a_tensor, walrus, matched, comprehended,
    through_with_and_try,
]  # fmt: skip


@each_stack
@pytest.mark.parametrize("f", SCALAR, ids=lambda f: f.__name__)
def test_as_plain_python_on_numbers(stack: Any, f: Callable[..., Any]) -> None:
    jitted = stack.jit(f, control_flow=True, strict=f is not walrus)
    for x, y in ((3.0, 1.5), (0.5, 2.0), (-1.0, 7.0), (-4.0, -0.5), (2.5, -2.0)):
        for want, got in zip(leaves(f(x, y)), leaves(jitted(np.asarray(x), np.asarray(y))), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert jitted.traces == 1


def rows(x: Any, n: Any) -> Any:
    total, best = 0.0, x[0]
    for row in x:
        total = total + row * row
        if row > best:
            best = row
    return total, best


def numbers(x: Any, n: Any) -> Any:
    total = 0
    for i in range(n):
        total += i
    for i in range(n, -2, -2):
        total = total * 2 + i
    for i in reversed(range(1, n, 3)):
        total = total * 3 + i
    return total


def enumerated(x: Any, n: Any) -> Any:
    total = 0.0
    for i, (row, again) in enumerate(zip(x, reversed(x), strict=False), 1):
        if i == 3:
            continue
        total = total * 2 + row * again * i
    for i, row in enumerate(x):
        if i >= n:
            break
        total = total - row
    return total


def collected(x: Any, n: Any) -> Any:
    outs, state = [x[0] * 0], x[0]
    for row in x:
        state = state * 0.5 + row
        outs.append(state)
    return outs, state


def first_assigned_in_the_loop(x: Any, n: Any) -> Any:
    for row in x:
        last = row * 2
        k = 1
    return last + k


def searched(x: Any, n: Any) -> Any:
    for i, row in enumerate(x):
        if row > 1.5:
            return i, row
    return -1, x[0]


def nested_loops(x: Any, n: Any) -> Any:
    total = 0.0
    for row in x:
        for k in range(n):
            if k > row:
                break
            total = total + k * row
        else_value = row
        while else_value > 1:
            else_value = else_value - 1
            total = total + else_value
    return total


def written_into(x: Any, n: Any) -> Any:
    y = x * 0
    z = y
    for i in range(n):
        y[i] = x[i] * 2
    if n > 2:
        y[0] = 100.0
    return y, z


ARRAYS: list[Callable[..., Any]] = [
    rows, numbers, enumerated, collected, first_assigned_in_the_loop, searched, nested_loops, written_into,
]  # fmt: skip


@each_stack
@pytest.mark.parametrize("f", ARRAYS, ids=lambda f: f.__name__)
def test_as_plain_python_on_arrays(stack: Any, f: Callable[..., Any]) -> None:
    jitted = stack.jit(f, control_flow=True, strict=True)
    for x, n in (([1.0, 2.0, 0.5, 3.0], 3), ([0.1, -0.2, 0.3, 0.4], 4), ([5.0, 4.0, 1.0, -2.0], 1)):
        want = leaves(f(np.array(x), n))
        got = leaves(jitted(np.array(x), np.asarray(n)))
        assert len(want) == len(got)
        for one, other in zip(want, got, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)


@each_stack
def test_what_a_loop_appends_is_stacked_without_going_through_rows(stack: Any) -> None:
    ops = stack.ops

    @stack.jit(control_flow=True, strict=True)
    def f(x: Any) -> Any:
        outs: list[Any] = []
        for row in x:
            outs.append(row * 2)
            outs.append(row + 1)
        nested = []
        for row in x:
            for each in row:
                nested.append(each)
        return ops.stack(*outs), stack.asarray(outs), len(outs), np.stack(outs, axis=1), ops.stack(*nested, axis=0)

    x = np.arange(6.0).reshape(3, 2)
    want = np.stack([y for row in x for y in (row * 2, row + 1)])
    one, two, size, turned, nested = f(x)
    np.testing.assert_array_equal(one.numpy(), want)
    np.testing.assert_array_equal(two.numpy(), want)
    np.testing.assert_array_equal(turned.numpy(), want.T)
    np.testing.assert_array_equal(nested.numpy(), x.ravel())
    assert int(leaves(size)[0]) == 6


def test_the_number_of_times_is_not_seen_in_the_graph() -> None:
    f = nnc.lazy().jit(rows, control_flow=True)
    short, long = (f.program(np.arange(n, dtype=float), np.asarray(1)).graph for n in (10, 1000))
    assert str(short).count("\n") == str(long).count("\n")


def test_an_extent_that_is_not_known() -> None:
    stack = nnc.lazy()
    x = stack.input("x", ("n",), "float64")

    def f(x: Any) -> Any:
        total = x.sum() * 0
        for row in x:
            total = total * 0.5 + row
        for i in range(x.shape[0]):
            total = total + i
        return total

    from nnc_func.control_flow.conversion.runtime import convert

    run = stack.compile([x], convert(f, strict=True)(x))
    for n in (1, 5):
        given = np.arange(float(n)) + 1
        np.testing.assert_allclose(np.asarray(run(given)), f(given), rtol=1e-12)


# --- generated programs (P12) --------------------------------------------------------------------------------


def arguments(seed: int) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    return (*random.uniform(-1, 1, 3), random.uniform(-1, 1, 4), 3)


@pytest.mark.parametrize("seed", range(60))
def test_generated_programs(seed: int) -> None:
    stack = [*STACKS.values()][seed % 2]
    f, text = program(seed)
    want = f(*arguments(seed))
    got = stack.jit(f, control_flow=True, strict=True)(*map(np.asarray, arguments(seed)))
    np.testing.assert_allclose(got.item(), want, rtol=1e-9, atol=1e-12, err_msg=text)


@pytest.mark.parametrize("seed", range(200, 210))
def test_gradients_of_generated_programs(seed: int) -> None:
    from nnc_func.control_flow.conversion.runtime import convert

    stack = [*STACKS.values()][seed % 2]
    f, text = program(seed, bounded=True)
    a, b, c, xs, n = arguments(seed)
    converted = convert(f, strict=True)
    count = stack.asarray(np.asarray(n))
    found = stack.grad(lambda v, xs: converted(v[0], v[1], v[2], xs, count), argnums=(0, 1))(
        stack.asarray([a, b, c]), stack.asarray(xs)
    )
    point = np.array([a, b, c, *xs])
    wanted = []
    for k in range(len(point)):
        step = np.zeros(len(point))
        step[k] = 1e-6
        ends = [f(*p[:3], p[3:], n) for p in (point + step, point - step)]
        wanted.append((ends[0] - ends[1]) / 2e-6)
    got = np.concatenate([np.ravel(g.numpy()) for g in found])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=text)


# --- functions -----------------------------------------------------------------------------------------------


def test_a_decorator_with_words_alone() -> None:
    stack = nnc.lazy()

    @stack.jit(control_flow=True, static="how")
    def f(x: Any, how: str = "up", *, by: float = 1.0) -> Any:
        """What it does."""
        if how == "up":
            return x + by
        return x - by

    assert f(np.asarray(1.0)).item() == 2.0
    assert f(np.asarray(1.0), how="down", by=3.0).item() == -2.0
    assert f.__doc__ == "What it does."
    assert "_control.branch" in f.source
    assert stack.jit(static=(1,))(lambda x, n: x * n)(np.asarray(2.0), 3).item() == 6.0


def test_closures_are_shared() -> None:
    stack, scale = nnc.lazy(), 2.0

    def f(x: Any) -> Any:
        if x > 0:
            x = x * scale
        return x

    from nnc_func.control_flow.conversion.runtime import convert

    converted = convert(f)
    assert converted is convert(f)
    assert converted(stack.asarray(1.0)).item() == 2.0
    scale = 5.0
    assert converted(stack.asarray(1.0)).item() == 5.0


def test_functions_that_are_called_later_see_what_there_is_then() -> None:
    def f(x: Any) -> Any:
        y = x * 0
        look = lambda: y * 10  # noqa: E731
        if x > 0:
            y = x + 1
        while y < 5:
            y = y + 1
        return look()

    for stack in STACKS.values():
        jitted = stack.jit(f, control_flow=True)
        assert [jitted(np.asarray(v)).item() for v in (1.0, 7.0, -1.0)] == [50.0, 80.0, 50.0]


def test_numbers_that_become_tensors_keep_their_value() -> None:
    def f(x: Any) -> Any:
        s, last = 0, 0
        for row in x:
            s = s + row
            last = 0.5
        return s, last

    for stack in STACKS.values():
        s, last = stack.jit(f, control_flow=True)(np.array([1.0, 2.0], "float32"))
        assert (s.item(), last.item(), s.dtype) == (3.0, 0.5, np.float32)


def test_a_function_of_a_stack_gets_converted_functions_that_stand_in_it() -> None:
    for stack in STACKS.values():

        def f(x: Any, stack: Any = stack) -> Any:
            def loss(w: Any) -> Any:
                if w > 1:
                    return w * w
                return 3 * w

            return stack.grad(loss)(x)

        jitted = stack.jit(f, static="stack", control_flow=True)
        assert [jitted(np.asarray(v)).item() for v in (2.0, 0.5)] == [4.0, 3.0]


def test_untaken_branches_give_no_nan() -> None:
    def f(x: Any) -> Any:
        if x > 0:
            return 1 / x
        return 0 * x

    from nnc_func.control_flow.conversion.runtime import convert

    for stack in STACKS.values():
        assert stack.grad(convert(f))(0.0 * stack.asarray(1.0)).item() == 0.0


def test_no_gradient_goes_astray_through_a_program_of_text() -> None:
    f, _ = made("def program(a):\n    while a < 3:\n        a = a * a\n    return a\n", "<doctest squares>")
    from nnc_func.control_flow.conversion.runtime import convert

    for stack in STACKS.values():
        found = stack.grad(convert(f, strict=True))(stack.asarray(1.5))
        np.testing.assert_allclose(found.item(), 4 * 1.5**3, rtol=1e-12)


def test_a_function_is_wanted() -> None:
    with pytest.raises(OperatorError, match="jit wants a function"):
        nnc.lazy().jit(3.0, control_flow=True)  # type: ignore[call-overload]


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_loop_in_a_branch_that_is_not_taken_does_not_run(stack: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        def loop() -> Any:  # which does not end where x is negative
            return stack.while_loop(lambda t: t < 5, lambda t: (None, (t + x,)), (y,))[1][0]

        return stack.cond(x > 0, loop, lambda: y - 1)

    jitted = stack.jit(f)
    assert [jitted(np.asarray(v), np.asarray(0.0)).item() for v in (3.0, -3.0)] == [6.0, -1.0]


@pytest.mark.parametrize("seed", [8, 12])
def test_what_conversion_adds_stands_at_the_lines_of_what_it_stands_for(seed: int) -> None:
    f, _ = program(seed)
    found = converted_code(f.__code__)
    calls = [i for code in codes_within(found.code) for i in get_instructions(code) if i.argval == found.control]
    assert len(calls) > 10
    assert all(i.positions is not None and i.positions.end_col_offset for i in calls if i.opname == "LOAD_DEREF")
