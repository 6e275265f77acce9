"""Which tensor a name is, where a tensor decides that in converted code (`control_flow/conversion/identities`)."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.control_flow.conversion.runtime import convert
from nnc_func.errors import ControlFlowError, UndefinedVariableError
from tests.control_flow.alias_programs import Box, made, program

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def leaves(tree: Any) -> list[Any]:
    return [np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in nnc.tree.flatten(tree)[0]]


# --- which tensor a name is ---------------------------------------------------------------------------------------


def written_then_exchanged(x: Any, y: Any, n: Any) -> Any:
    first = y
    for i in range(n):
        y[0] = y[0] + x[1]
        y = y * 2
        y[1] = i * 1.0
    return first, y


def exchanged_where_one_says(x: Any, y: Any, n: Any) -> Any:
    first, held = y, [y]
    while y[0] < 5:
        y[0] = y[0] + 1
        if y[0] > x[1]:
            y = y + 1
    return first, held, y


def one_of_two(x: Any, y: Any, n: Any) -> Any:
    z = x if x[0] > 0 else y
    z[0] = 7.0
    x[1] = z[0] * 2
    return x, y, z


def one_of_those_met(x: Any, y: Any, n: Any) -> Any:
    best, rows = x, [x, y, x + y]
    for each in rows:
        if each[0] > best[0]:
            best = each
    best[2] = 9.0
    return rows, best, x


def last_of_a_loop(x: Any, y: Any, n: Any) -> Any:
    one, other = x, y
    for _ in range(n):
        one, other = other, one
        one[0] = one[0] + 1
    other[1] = 5.0
    return one, other, x, y


def returned_by_a_function(x: Any, y: Any, n: Any) -> Any:
    def larger(u: Any, v: Any) -> Any:
        if u[0] > v[0]:
            return u
        return v

    larger(x, y)[1] = 3.0
    found = larger(y, x)
    while found[2] < 4:
        found[2] = found[2] + n + 1
    return x, y, found


def left_early(x: Any, y: Any, n: Any) -> Any:
    z = x
    for i in range(n):
        if z[0] > 2:
            break
        z = y
        if i == 1:
            z = z + x
            continue
        z[0] = z[0] + 1
    z[1] = 8.0
    return x, y, z


def after_two_branches(x: Any, y: Any, n: Any) -> Any:
    z = w = x
    if x[0] > 0:
        z = y
    if y[0] > 1:
        w = z
    w[0] = 3.0
    z[1] = w[0] + x[0]
    return x, y, z, w


def in_an_object(x: Any, y: Any, n: Any) -> Any:
    box, other = Box(x, n), Box(y, n)
    if x[0] > 0:
        box.v = other.v
    box.v[0] = 4.0
    for _ in range(n):
        other.v = box.v
        other.v[1] = other.v[1] + 1
        box.v = x
    return x, y, box.v, other.v


def asked_whether_it_is(x: Any, y: Any, n: Any) -> Any:
    z = x if x[0] > y[0] else y
    w = z
    if z is x:
        w = x * 2
    for _ in range(n):
        if w is not z and x is not None:
            w = z
            z = y
    return z, w, y * 3 if z is not y else x


Pair = collections.namedtuple("Pair", "u v")


def of_named_pairs(x: Any, y: Any, n: Any) -> Any:
    pair = Pair(x, y)
    kept = pair
    if x[0] > 0:
        pair = Pair(pair.v, pair.u)
    pair.u[0] = 6.0
    return kept, pair


def of_other_containers(x: Any, y: Any, n: Any) -> Any:
    table, queue = collections.OrderedDict(a=x, b=y), collections.deque([x, y], maxlen=2)
    if x[0] > 0:
        table["a"] = table["b"]
        queue.append(y + 1)
    else:
        queue.append(x + 1)
    table["b"][0] = 4.0
    for i in range(n):
        queue.rotate(1)
        queue[0][0] = queue[1][1] + i
    return [*table.values()], [*queue]


def appended_in_a_loop(x: Any, y: Any, n: Any) -> Any:
    def doubled(rows: Any) -> None:
        for each in x:
            rows.append(each * 2)

    rows = [y[0] * n]
    also = rows
    doubled(rows)
    for each in y:
        also.append(each)
    return rows, also


def kept_by_a_function(x: Any, y: Any, n: Any) -> Any:
    known: dict[str, Any] = {}

    def get(key: str, value: Any) -> Any:
        if key not in known:
            known[key] = value * 2
        return known[key]

    found = get("a", x)
    if y[0] > 1:
        found[0] = n * 1.0
    return get("a", y), found, x


WHICH = [
    written_then_exchanged, exchanged_where_one_says, one_of_two, one_of_those_met, last_of_a_loop,
    returned_by_a_function, left_early, after_two_branches, in_an_object,
    asked_whether_it_is, of_named_pairs, of_other_containers, appended_in_a_loop, kept_by_a_function,
]  # fmt: skip


@each_stack
@pytest.mark.parametrize("f", WHICH, ids=lambda f: f.__name__)
def test_which_tensor_a_name_is(stack: Any, f: Callable[..., Any]) -> None:
    jitted = stack.jit(f, control_flow=True, strict=True)
    eager = STACKS["eager"]
    for x, y, n in (([1.0, 2.0, 3.0], [0.0, 1.0, 2.0], 2), ([-1.0, 2.0, 3.0], [2.0, 1.0, 2.0], 0),
                    ([-1.0, 2.0, 3.0], [2.0, 1.0, 2.0], 3), ([3.0, 2.0, 3.0], [2.0, 1.0, 2.0], 1)):  # fmt: skip
        want = leaves(f(eager.asarray(x), eager.asarray(y), n))
        got = leaves(jitted(np.array(x), np.array(y), np.asarray(n)))
        for one, other in zip(want, got, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)


# --- drawn programs -----------------------------------------------------------------------------------------------


def arguments(seed: int) -> tuple[Any, ...]:
    draw = np.random.default_rng(seed)
    return (draw.uniform(-1, 1, 3), draw.uniform(-1, 1, 3), np.asarray(draw.uniform(0, 1)),
            draw.uniform(-1, 1, (4, 3)), np.asarray(draw.integers(0, 4)))  # fmt: skip


def as_python(seed: int, size: int) -> tuple[str, str]:
    """Whether a drawn program computes the same converted, or is refused; and its source."""
    eager, stack = STACKS["eager"], [*STACKS.values()][seed % 2]
    plain, text = program(seed, size=size)
    *given, n = arguments(seed)
    want = leaves(made(plain, f"<doctest plain {seed}>", bool)(*map(eager.asarray, given), int(n)))
    f = stack.jit(made(text, f"<doctest aliases {seed}>"), control_flow=True, strict=True)
    try:
        got = leaves(f(*given, n))
    except (ControlFlowError, UndefinedVariableError) as error:
        return str(error), text
    assert len(want) == len(got), text
    for one, other in zip(want, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, err_msg=text)
    return "the same", text


def test_drawn_programs_of_objects_with_several_names() -> None:
    found = [as_python(seed, size=1)[0] for seed in range(40)]
    assert found.count("the same") > 30
    assert all("<doctest aliases" in each or "line " in each for each in found if each != "the same")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_a_thousand_drawn_programs_of_objects_with_several_names(first: int) -> None:
    found = [as_python(1000 + seed, size=2)[0] for seed in range(first, first + 50)]
    assert found.count("the same") > 25


@pytest.mark.parametrize("seed", range(6))
def test_gradients_of_drawn_programs(seed: int) -> None:
    gradients_agree(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 106))
def test_gradients_of_many_drawn_programs(seed: int) -> None:
    gradients_agree(seed)


def gradients_agree(seed: int) -> None:
    eager, stack = STACKS["eager"], [*STACKS.values()][seed % 2]
    plain, text = program(seed, bounded=True, size=1)
    x, y, t, xs, n = arguments(seed)
    met: list[bool] = []

    def noted(test: Any) -> bool:
        met.append(bool(test))
        return met[-1]

    made(plain, f"<doctest noted {seed}>", noted)(*map(eager.asarray, (x, y, t, xs)), int(n))
    again = iter(met)
    replayed = made(plain, f"<doctest replayed {seed}>", lambda _: next(again))
    converted = convert(made(text, f"<doctest gradients {seed}>"), strict=True)

    def loss(f: Any, stack: Any) -> Any:
        return lambda *given: sum(
            ((k + 1) * (leaf * leaf).sum() for k, leaf in enumerate(nnc.tree.flatten(f(*given, int(n)))[0])),
            stack.asarray(0.0),
        )

    want = eager.grad(loss(replayed, eager), argnums=(0, 1, 2, 3))(x, y, t, xs)
    try:
        got = stack.grad(loss(converted, stack), argnums=(0, 1, 2, 3))(x, y, t, xs)
    except (ControlFlowError, UndefinedVariableError):
        return
    for one, other in zip(want, got, strict=True):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-9, atol=1e-12, err_msg=text)


GONE = """
class Has:
    pass

def program(a, c, t):
    has = Has()
    has.value = a
    (has.value if t > 0 else c)[0] = 9.0
    return a, c
"""


def test_objects_of_a_class_whose_module_is_not_there(tmp_path: Path) -> None:
    """As code has that is run by `exec`: what is written into them was lost."""
    file, names = tmp_path / "gone.py", {"__name__": "gone"}
    file.write_text(GONE)
    exec(compile(GONE, str(file), "exec"), names)
    for stack in (nnc.eager(), nnc.lazy()):
        program = stack.jit(names["program"], control_flow=True)
        for t in (1, -1):
            a, c = program(np.zeros(2), np.ones(2), np.int64(t))
            assert a.tolist() == ([9.0, 0.0] if t > 0 else [0.0, 0.0])
            assert c.tolist() == ([1.0, 1.0] if t > 0 else [9.0, 1.0])


def test_an_else_of_a_loop_that_leaves_the_loop_around_it() -> None:
    """It made code that Python does not take; now it is told, and runs as it stands."""

    def program(a: Any, t: Any) -> Any:
        for _ in range(3):
            for _ in range(2):
                a = a + 1
            else:
                if t > 0:
                    continue
            a = a * 2
        return a

    stack = nnc.eager()
    with pytest.warns(UserWarning, match="else with break or continue of the loop around it"):
        found = stack.jit(program, control_flow=True)(np.float64(1.0), 1)
    assert found.tolist() == program(1.0, 1)


def kept_apart(n: Any, x: Any, y: Any, s: Any) -> Any:
    t = s
    for _i in range(n):
        s = t
        for _j in range(n):
            x = y
    x[0] = 7
    return s, x


def exchanged(n: Any, w: Any, z: Any, x: Any) -> Any:
    v = x
    for _i in range(n):
        for _j in range(n):
            z, w = w, z
            v, x = x, v
    w[0] += 3
    return w, z, x


def written_twice(rows: Any, x: Any, y: Any, s: Any) -> Any:
    for _i in rows:
        for _k in rows:
            x[1] += 1
            x = y
            s += 1
    return x, y, s


def under_a_condition(rows: Any, x: Any, y: Any, s: Any) -> Any:
    k = 0
    while k < 3 and x[0] < 100:
        k += 1
        s += 1
        for _r in rows:
            if x[1] < 0:
                y[0] = k
                y = y + 1
    return x, y, s


THREE, TWO = np.float32([1, -2, 3]), np.float32([1, 2])
OTHER_SHAPES = (
    (kept_apart, (np.asarray(2), THREE, THREE + 4, np.asarray(2**53 + 1))),
    (kept_apart, (np.asarray(2), THREE, THREE + 4, np.float32(9))),
    (kept_apart, (np.asarray(2), THREE, THREE + 4, np.int64([1, 2, 3]))),
    (kept_apart, (np.asarray(0), THREE, THREE + 4, THREE)),
    (exchanged, (np.asarray(2), TWO, TWO + 2, THREE)),
    (written_twice, (np.ones((2, 3), "float32"), THREE, THREE + 3, np.float32(9))),
    (under_a_condition, (np.ones((2, 3), "float32"), THREE, THREE + 3, np.float32(9))),
)


@pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy()], ids=["eager", "lazy"])
@pytest.mark.parametrize(("f", "arguments"), OTHER_SHAPES, ids=lambda each: getattr(each, "__name__", None))
def test_tensors_of_other_shapes_and_dtypes_are_others(f: Any, arguments: Any, stack: Any) -> None:
    """What was written into one was distributed to tensors that could not be the same, which changed their dtype."""
    count, *given = (np.array(each) for each in arguments)
    wanted = f(int(count) if not count.ndim else count, *given)
    found = stack.jit(f, control_flow=True)(*(np.array(each) for each in arguments))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one.numpy(), other)
