"""Extents of what grows: rests, carries passed on, as numbers, read by nobody (`engine/growing`, `facets/dims`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import ShapeError, UnboundError

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])


def padded(stack: Any, x: Any, size: int) -> Any:
    rest = stack.ops.full(shape=(size - x.shape[0],), value=0.0, dtype="float64")
    return stack.ops.concat(x, rest, axis=0)


@STACKS
def test_what_is_left_of_a_number_becomes_smaller(stack: Any) -> None:
    def run(x: Any) -> Any:
        outs, x, _ = stack.while_loop(
            lambda x: x.shape[0] < 25,
            lambda x: (padded(stack, x, 25), stack.ops.concat(x, x[-1:] * 0.9, axis=0)),
            x,
            dynamic=True,
        )
        return outs, x

    values = 2 * 0.9 ** np.arange(24)
    outs, x = run(stack.asarray([1.0, 2.0]))
    np.testing.assert_allclose(x.numpy(), [1.0, *values], rtol=1e-12)
    wanted = [[1.0, *values[: 1 + t], *[0.0] * (23 - t)] for t in range(23)]
    np.testing.assert_allclose(outs.numpy(), wanted, rtol=1e-12)
    slope = stack.grad(lambda x: (run(x)[0] ** 2).sum())(stack.asarray([1.0, 2.0]))
    np.testing.assert_allclose(slope.numpy(), [46.0, sum(2 * (np.array(row[1:]) ** 2 / 2).sum() for row in wanted)])


@STACKS
def test_few_plans_serve_a_rest_that_becomes_smaller(stack: Any) -> None:
    _, x, _ = stack.while_loop(
        lambda x: x.shape[0] < 300,
        lambda x: (padded(stack, x, 300).sum(), stack.ops.concat(x, x[:1], axis=0)),
        stack.asarray([1.0]),
        dynamic=True,
    )
    assert x.numpy().tolist() == [1.0] * 300
    if stack is LAZY:
        assert [*stack.engine.growing.values()][-1].plans <= 12  # 16, 32, … 256, then ever nearer to 300


def test_what_elements_tell_may_be_padded() -> None:
    f = LAZY.jit(lambda x: padded(LAZY, x[x > 0], 10), dynamic=True)
    for x in ([1.0, -1, 3], [-1.0], [1.0] * 10):
        kept = [v for v in x if v > 0]
        assert f(np.array(x)).numpy().tolist() == kept + [0.0] * (10 - len(kept))

    def bounded(x: Any) -> Any:
        return LAZY.while_loop(
            lambda x: x.shape[0] < 50,
            lambda x: (x.sum(), LAZY.ops.concat(x, x[-1:], axis=0)),
            x,
            max_iterations=5,
            dynamic=True,
        )

    outs, x, n = LAZY.jit(bounded, dynamic=True)(np.array([1.0, 2.0]))
    assert (outs.numpy().tolist(), x.shape, n.item()) == ([3, 5, 7, 9, 11], (7,), 5)


@STACKS
@pytest.mark.parametrize("first", [0, 2])
def test_a_carry_that_grows_is_passed_on_through_many(stack: Any, first: int) -> None:
    """Also where their extents are equal before; the last one is read in its first element alone."""
    sizes = [2 + first * n for n in range(5)]
    given = [stack.asarray(np.linspace(n, n + 1, size)) for n, size in enumerate(sizes)]

    def run(*vs: Any) -> Any:
        def body(*vs: Any) -> Any:
            return None, (stack.ops.concat(vs[0], vs[4][:1], axis=0), *vs[:4], vs[5] + 1)

        return stack.while_loop(lambda *vs: vs[5] < 20, body, (*vs, 0), dynamic=True)[1][:5]

    def by_hand(*vs: Any) -> Any:
        for _ in range(20):
            vs = (EAGER.ops.concat(vs[0], vs[4][:1], axis=0), *vs[:4])
        return vs

    plain = [EAGER.asarray(x.numpy()) for x in given]
    for one, other in zip(run(*given), by_hand(*plain), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    ways = [
        s.grad(lambda *vs, s=s, f=f: sum(s.ops.sin(x).sum() for x in f(*vs)), argnums=(0, 1, 2, 3, 4))(*args)
        for s, f, args in ((stack, run, given), (EAGER, by_hand, plain))
    ]
    for one, other in zip(*ways, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


PARTS = [
    (lambda x: -x[-3:], [0.5, 2.0]),
    (lambda x: -x[:3], [0.5]),
    (lambda x: -x[:3], [0.5, 2.0]),
    (lambda x: x[1:3] * 2, [0.5, 2.0]),
    (lambda x: x[5:1:-1] + 1, [0.5, 2.0, 1.0]),
    (lambda x: x[2][None] * 3, [0.5, 2.0]),
]


@STACKS
@pytest.mark.parametrize(("part", "start"), PARTS)
@pytest.mark.parametrize("within", ["body", "branch", "loop"])
def test_a_part_beyond_the_end_is_refused(stack: Any, part: Any, start: Any, within: str) -> None:
    """Plans for a capacity read what lay behind the end."""

    def body(x: Any) -> Any:
        if within == "body":
            return None, stack.ops.concat(x, part(x), axis=0)
        if within == "branch":
            found = stack.cond(x.sum() > 0, lambda: part(x).sum(), lambda: x.sum())
        else:
            _, found = stack.foreach(lambda y, total: (None, total + part(x).sum() * y), stack.asarray([1.0, 2.0]), 0.0)
        return None, stack.ops.concat(x, found[None], axis=0)

    with pytest.raises(ShapeError, match=r"(slice|index)\(.*outside of .*axis .*test_growing_extents"):
        stack.while_loop(lambda x: x.shape[0] < 9, body, stack.asarray(start), dynamic=True)


@STACKS
def test_a_part_that_is_within_is_taken_each_time(stack: Any) -> None:
    def body(x: Any) -> Any:
        return None, stack.ops.concat(x, -x[-3:], x[1:3] * 2, axis=0)

    x = np.array([0.5, 2.0, 1.0])
    _, found, _ = stack.while_loop(lambda x: x.shape[0] < 50, body, stack.asarray(x), dynamic=True)
    while len(x) < 50:
        x = np.concatenate([x, -x[-3:], x[1:3] * 2])
    np.testing.assert_array_equal(found.numpy(), x)


@STACKS
def test_extents_that_meet_are_compared_at_later_times_too(stack: Any) -> None:
    def body(x: Any, y: Any) -> Any:
        return None, (stack.ops.concat(x, x + y, axis=0), stack.ops.concat(y, y, axis=0)[:4])

    one = stack.asarray([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"meet|broadcast|outside"):
        stack.while_loop(lambda x, y: x.shape[0] < 99, body, (one, one * 3), dynamic=True)


@STACKS
def test_a_number_is_spread_over_what_grows(stack: Any) -> None:
    def body(x: Any) -> Any:
        y = stack.ops.concat(x, x[:1] * 1.1, axis=0)
        y[y > 1] = 0.5
        y[:1] = stack.ops.broadcast_to(stack.asarray(0.25), shape=y.shape)[:1] + y[:1]
        return None, y

    _, found, _ = stack.while_loop(lambda x: x.shape[0] < 5, body, stack.asarray([0.4, 0.95]), dynamic=True)
    np.testing.assert_allclose(found.numpy(), [1.15, 0.95, 0.44, 0.715, 0.99], rtol=1e-12)


EXTENTS = [
    (lambda s, x: x / x.shape[0], lambda x: x / len(x)),
    (lambda s, x: x.shape[0] / x, lambda x: len(x) / x),
    (lambda s, x: x.shape[0] - x, lambda x: len(x) - x),
    (lambda s, x: x.shape[0] * x + x.size, lambda x: len(x) * x + x.size),
    (lambda s, x: x * (0.5 * x.shape[0]), lambda x: x * 0.5 * len(x)),
    (lambda s, x: x * x.shape[0] ** -0.5, lambda x: x * len(x) ** -0.5),
    (lambda s, x: x * (1 / x.shape[0]), lambda x: x / len(x)),
    (lambda s, x: x / np.sqrt(x.shape[0]), lambda x: x / np.sqrt(len(x))),
    (lambda s, x: x.shape[0] ** (-x), lambda x: len(x) ** (-x)),
    (lambda s, x: x * (x.shape[0] % 3 + 1), lambda x: x * (len(x) % 3 + 1)),
    (lambda s, x: s.ops.where(x.shape[0] > x, x, -x), lambda x: np.where(len(x) > x, x, -x)),
    (lambda s, x: s.ops.where(x.shape[0] == x, x, -x), lambda x: np.where(len(x) == x, x, -x)),
    (lambda s, x: x + s.asarray(x.shape[0], "float64"), lambda x: x + len(x)),
    (lambda s, x: s.cond(x.shape[0] > 3, lambda: x, lambda: 2 * x), lambda x: x if len(x) > 3 else 2 * x),
    (lambda s, x: s.grad(lambda y: (y * y / y.shape[0]).sum())(x), lambda x: 2 * x / len(x)),
]


@STACKS
@pytest.mark.parametrize(("body", "plain"), EXTENTS)
def test_an_extent_is_a_number_among_tensors(stack: Any, body: Any, plain: Any) -> None:
    """Values and slopes of what is computed with the extent that there is; it was a DeviceError, or int() of a part."""

    def run(x: Any) -> Any:
        more = lambda x: (x.shape[0], stack.ops.concat(body(stack, x), x[-1:], axis=0))  # noqa: E731
        return stack.while_loop(lambda x: x.shape[0] < 5, more, x, dynamic=True)[:2]

    def by_hand(x: Any) -> Any:
        while len(x) < 5:
            x = np.concatenate([plain(x), x[-1:]])
        return x

    start = np.array([1.25, 2.0])
    counts, found = run(stack.asarray(start))
    assert counts.numpy().tolist() == [2, 3, 4]
    np.testing.assert_allclose(found.numpy(), by_hand(start), rtol=1e-12)
    slope = stack.grad(lambda x: (run(x)[1] * np.arange(1.0, 6)).sum())(stack.asarray([1.3, 1.7])).numpy()
    for n, step in enumerate(np.eye(2) * 1e-6):
        ends = [(by_hand(np.array([1.3, 1.7]) + sign * step) * np.arange(1.0, 6)).sum() for sign in (1, -1)]
        np.testing.assert_allclose(slope[n], (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


@STACKS
def test_an_extent_that_python_wants_is_refused_in_words(stack: Any) -> None:
    def grown(body: Any) -> Any:
        more = lambda x: (None, stack.ops.concat(body(x), x[-1:], axis=0))  # noqa: E731
        return stack.while_loop(lambda x: x.shape[0] < 5, more, stack.asarray([1.0, 2.0]), dynamic=True)

    with pytest.raises(ShapeError, match=r"Python wanted a number: .*stack\.asarray\(x\.shape\[0\]\)"):
        grown(lambda x: x * float(x.shape[0]))
    with pytest.raises(UnboundError, match=r"the extent n0 \(made at test_growing_extents.py:\d+ .*use stack\.cond, &"):
        grown(lambda x: x if x.shape[0] > 3 else 2 * x)


def test_an_extent_of_an_input_takes_no_fraction() -> None:
    x = LAZY.input("x", ("n", 2), "float32")
    with pytest.raises(ShapeError, match=r"n \* 0\.5 is no extent: .*stack\.asarray"):
        x.shape[0] * 0.5
    program = LAZY.compile([x], [x.shape[0] * x, x.shape[0] - x, LAZY.asarray(x.shape[0]) * 0.5])
    for found, wanted in zip(program(np.ones((3, 2), "float32")), (3.0, 2.0, 1.5), strict=True):
        assert np.all(found == wanted)
