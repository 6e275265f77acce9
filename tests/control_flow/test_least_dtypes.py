"""Carries that start as Python numbers have the least dtypes that they meet (`control_flow/least_dtypes`)."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import OperatorError
from tests.profiles import examples

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
NUMBERS = (bool, int, float, complex)


def names(found: Any) -> list[str]:
    """Names of dtypes."""
    return [each.dtype.name for each in found]


@every
def test_carries_that_are_exchanged(stack: Any) -> None:
    xs = stack.asarray(np.float32([1, 2, 3]))
    traces = []

    def body(x: Any, c: Any) -> Any:
        traces.append(1)
        return x, (c[1] * 2, c[0] * 3 + x)

    for start in ((0.0, 0.0), (0, 0), (0.0, 0)):
        traces.clear()
        _, found = stack.foreach(body, xs, start)
        assert names(found) == ["float32", "float32"]
        assert [x.item() for x in found] == [4.0, 9.0]
        assert len(traces) <= 3
    _, found, _ = stack.while_loop(
        lambda a, b, i: i < 3, lambda a, b, i: (None, (b * 2, a * 3 + xs[i], i + 1)), (0.0, 0.0, 0)
    )
    assert names(found) == ["float32", "float32", "int64"]
    assert names(stack.fori(0, 3, lambda i, c: (c[1] * 2, c[0] * 3 + xs[0]), (0.0, 0.0))) == ["float32", "float32"]
    a, b = stack.fixed_point(lambda c: (c[1] * 0.5, c[0] * 0.5 + xs[0]), (0.0, 0.0))
    assert names((a, b)) == ["float32", "float32"]


@every
@pytest.mark.parametrize("count", [2, 3, 4, 7])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64", "int8"])
def test_carries_that_are_handed_on(stack: Any, count: int, dtype: str) -> None:
    x = stack.asarray(1).astype(dtype)
    found = stack.fori(0, 9, lambda i, c: (*c[1:], c[0] + x), (0,) * count)
    assert names(found) == [dtype] * count
    assert sum(each.astype("complex128").item() for each in found) == 9


@every
def test_what_meets_wider_ones_is_as_wide(stack: Any) -> None:
    x, y, wide = (stack.asarray(each) for each in (np.float32(1), np.float16(1), np.float64(1)))
    assert names(stack.fori(0, 3, lambda i, c: (c[1], c[0] + x, c[2] * y), (0, 0, 0.0))) == [
        "float32", "float32", "float16",
    ]  # fmt: skip
    assert names(stack.fori(0, 3, lambda i, c: (c[1], c[0] + x + wide), (0, 0))) == ["float64"] * 2
    assert names(stack.fori(0, 3, lambda i, c: (c[1] * wide, c[0] + x), (0, 0))) == ["float64"] * 2
    two = stack.asarray(2.0)  # is no number of Python, though it is one
    assert names(stack.fori(0, 3, lambda i, c: (c[1] * two, c[0] * 1.0 + x), (0, 0))) == ["float64"] * 2
    assert names(stack.fori(0, 3, lambda i, c: (c[1] * 0.5, c[0]), (0, 0))) == ["float64"] * 2
    assert names(stack.fori(0, 3, lambda i, c: (c[1], c[0]), (0, 0.5))) == ["float64"] * 2
    assert names(stack.fori(0, 3, lambda i, c: (c[0] * 0.5, c[1] + c[0] * x), (1.0, 0))) == ["float64"] * 2
    assert names(stack.fori(0, 3, lambda i, c: (stack.ops.sin(c[1]), c[0] * x), (0.0, 0.0))) == ["float64"] * 2


@every
def test_a_branch_and_a_gradient(stack: Any) -> None:
    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return c[1] * 2, stack.cond(x > 0, lambda: c[0] * 3 + x, lambda: x)

        return stack.fori(0, 4, body, (0.0, 1.0))[1]

    x = stack.asarray(np.float32(2))
    found, slope = f(x), stack.grad(f)(x)
    assert names((found, slope)) == ["float32", "float32"]
    assert (found.item(), slope.item()) == (50.0, 7.0)


# --- drawn bodies ----------------------------------------------------------------------------------------------

SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
Body = list[tuple[Any, ...]]


def computed(row: tuple[Any, ...], carries: Any, x: Any) -> Any:
    """One carry after a time: terms are numbers of carries, ``"x"``, or Python numbers, with signs between them."""
    first, *rest = [carries[t[1]] if t[0] == "carry" else x if t[0] == "x" else t[1] for t in row[::2]]
    return reduce(lambda a, pair: SIGNS[pair[0]](a, pair[1]), zip(row[1::2], rest, strict=True), first)


def plainly(body: Body, start: Any, x: Any, times: int) -> list[Any]:
    """The carries after so many times, of numbers of Python and NumPy, of the least dtypes that stay as they are."""
    kinds: list[Any] = [type(s) for s in start]

    def after(kinds: list[Any]) -> list[Any]:
        given = [kind(1) if isinstance(kind, type) else kind.type(1) for kind in kinds]
        found = [computed(row, given, x) for row in body]
        return [type(y) if type(y) in NUMBERS else y.dtype for y in found]

    def joint(one: Any, other: Any) -> Any:
        if isinstance(one, type) and isinstance(other, type):
            return max(one, other, key=NUMBERS.index)
        return np.result_type(*[each(0) if isinstance(each, type) else each for each in (one, other)])

    for _ in range(2):
        for _ in range(9):
            kinds = [*map(joint, kinds, after(kinds))]
        kinds = [np.dtype(kind) if isinstance(kind, type) else kind for kind in kinds]
    if any(isinstance(now, np.dtype) and now != was for was, now in zip(kinds, after(kinds), strict=True)):
        raise OperatorError("a number of Python would lose its fraction")
    carries = [kind.type(s) for kind, s in zip(kinds, start, strict=True)]
    for _ in range(times):
        made = [computed(row, carries, x) for row in body]
        carries = [kind.type(y) for kind, y in zip(kinds, made, strict=True)]
    return carries


@st.composite
def bodies(draw: Any) -> tuple[Body, list[Any]]:
    """A body of some carries, and the numbers that they start as."""
    count = draw(st.integers(1, 4))
    term = st.one_of(
        st.tuples(st.just("carry"), st.integers(0, count - 1)),
        st.tuples(st.just("carry"), st.integers(0, count - 1)),
        st.just(("x",)),
        st.tuples(st.just("number"), st.sampled_from([1, 2, 0.5])),
    )
    rows = []
    for _ in range(count):
        row = [draw(term)]
        for _ in range(draw(st.integers(0, 2))):
            row += [draw(st.sampled_from([*SIGNS])), draw(term)]
        rows.append(tuple(row))
    return rows, draw(st.lists(st.sampled_from([0, 1, 0.5]), min_size=count, max_size=count))


@examples(few=60, nightly=3000)
@given(bodies(), st.sampled_from(["float32", "float64", "float16", "int32"]), st.sampled_from([EAGER, LAZY]))
def test_drawn_bodies(drawn: tuple[Body, list[Any]], dtype: str, stack: Any) -> None:
    body, start = drawn
    x = np.dtype(dtype).type(1)
    xs = stack.asarray([x])
    traces = []

    def step(i: Any, c: Any) -> Any:
        traces.append(1)
        return tuple(computed(row, c, xs[0]) for row in body)

    try:
        with np.errstate(all="ignore"):
            wanted = plainly(body, start, x, 3)
    except OperatorError:
        with pytest.raises(OperatorError, match="a carry keeps its dtype"):
            stack.fori(0, 3, step, tuple(start))
        return
    with np.errstate(all="ignore"):
        found = stack.fori(0, 3, step, tuple(start))
    assert names(found) == names(wanted)
    assert len(traces) <= 3
    for one, other in zip(found, wanted, strict=True):  # products and sums may be rounded once: ten ulps of float16
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-2 if dtype == "float16" else 1e-5)


@every
def test_numbers_that_a_body_gives_lose_nothing(stack: Any) -> None:
    for i, c in ((0, 0.5), (False, 2), (1, 2j)):
        found = stack.fori(0, 3, lambda _, carry, c=c: (c,), (i,))[0]
        assert found.item() == c
    assert stack.while_loop(lambda c: c < 0.5, lambda c: (None, 0.5), 0)[1].item() == 0.5
    for start in (np.int32(0), np.bool_(False)):
        with pytest.raises(OperatorError, match="a carry keeps its dtype"):
            stack.fori(0, 3, lambda i, c: 0.5, stack.asarray(start))
