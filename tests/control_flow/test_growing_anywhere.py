"""Loops that grow, and masks, in branches, rows and bodies (`control_flow/branch_stages`, `control_flow/counts`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import (
    BatchingError,
    ExtentError,
    GraphError,
    NncError,
    OperatorError,
    RunError,
    ShapeError,
    UnboundError,
)

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
ROWS = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, -4.0]])


def grown(s: Any, x: Any, count: int = 5) -> Any:
    """As many elements as `count`: the next one is twice the product of the last and the first."""
    after = lambda x: s.ops.concat(x, 2 * x[-1:] * x[:1], axis=0)  # noqa: E731
    return s.while_loop(lambda x: x.shape[0] < count, lambda x: (None, after(x)), x, dynamic=True)[1]


def by_hand(x: Any, count: int = 5) -> Any:
    while x.shape[0] < count:
        x = EAGER.ops.concat(x, 2 * x[-1:] * x[:1], axis=0)
    return x


def agree(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found.numpy()), np.asarray(wanted.numpy()), rtol=1e-10, atol=1e-12)


def each_way(stack: Any, f: Callable[[Any, Any], Any], plain: Callable[[Any], Any], x: Any) -> None:
    """Values, gradients, slopes and second derivatives are those of plain Python, and of the compiled function, too."""
    x = np.asarray(x)
    agree(f(stack, stack.asarray(x)), plain(EAGER.asarray(x)))
    agree(stack.jit(lambda x: f(stack, x), dynamic=True)(x), plain(EAGER.asarray(x)))
    loss, wanted = lambda x: (f(stack, x) ** 2).sum(), lambda x: (plain(x) ** 2).sum()
    agree(stack.grad(loss)(x), EAGER.grad(wanted)(x))
    direction = np.linspace(1.0, 2.0, x.size).reshape(x.shape)
    for s, g in ((stack, loss), (EAGER, wanted)):
        found = s.jvp(g, [s.asarray(x)], [s.asarray(direction)])[1], s.hvp(g, [s.asarray(x)], [s.asarray(direction)])[0]
        if s is stack:
            first = found
    for one, other in zip(first, found, strict=True):
        agree(one, other)


# --- branches -----------------------------------------------------------------------------------------------------


def larger(s: Any, x: Any) -> Any:
    return s.cond(x.sum() > 0, lambda: grown(s, x) * 2, lambda: x * 3)


def of_three(s: Any, x: Any) -> Any:
    index = (x[0] > 0).astype("int64") + (x[1] > 0).astype("int64")
    branches = [lambda x: x.sum(), lambda x: grown(s, x).sum(), lambda x: grown(s, x * x, 3)[-1] + x[0]]
    return s.case_of(index, branches, x)


def with_a_default(s: Any, x: Any) -> Any:
    index = (x[0] * 2).astype("int64")
    return s.case_of(index, [lambda x: grown(s, x)], x, default=nnc.bypass)


def in_a_scan(s: Any, xs: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        return c + s.cond(x[0] > 0, lambda: grown(s, x * c).sum(), lambda: x.sum()), c

    c, rows = s.scan(body, s.asarray(1.0), xs)
    return rows * c


def plain_scan(xs: Any) -> Any:
    c, rows = EAGER.asarray(1.0), []
    for n, x in enumerate(ROWS):
        rows.append(c)
        c = c + (by_hand(xs[n] * c).sum() if x[0] > 0 else xs[n].sum())
    return EAGER.ops.stack(*rows, axis=0) * c


@STACKS
@pytest.mark.parametrize("x", ROWS, ids=["ones", "second", "third"])
def test_branches_wait_for_loops_that_grow(stack: Any, x: Any) -> None:
    plain = (lambda y: by_hand(y) * 2) if x.sum() > 0 else (lambda y: y * 3)
    each_way(stack, larger, plain, x)
    which = int(x[0] > 0) + int(x[1] > 0)
    three = [lambda y: y.sum(), lambda y: by_hand(y).sum(), lambda y: by_hand(y * y, 3)[-1] + y[0]]
    each_way(stack, of_three, three[which], x)
    each_way(stack, with_a_default, by_hand if int(x[0] * 2) == 0 else lambda y: y, x)


@STACKS
def test_branches_within_bodies_wait_for_them(stack: Any) -> None:
    each_way(stack, in_a_scan, plain_scan, ROWS)


@STACKS
def test_what_is_not_taken_is_not_computed(stack: Any) -> None:
    def endless() -> Any:
        again = lambda x: (None, stack.ops.concat(x, x[:1], axis=0))  # noqa: E731
        return stack.while_loop(lambda x: x[0] > 0, again, stack.asarray([1.0]), dynamic=True)[1].sum()

    assert stack.cond(stack.asarray(False), endless, lambda: stack.asarray(2.0)).item() == 2.0


@STACKS
def test_branches_that_differ_are_told(stack: Any) -> None:
    x = stack.asarray(ROWS[0])
    with pytest.raises(
        OperatorError, match=r"result 0 is \(2,\) in else, \(3,\) in then, and no loop grows along axis"
    ):
        stack.cond(x[0] > 0, lambda: grown(stack, x).sum() + stack.asarray(np.ones(3)), lambda: x)
    with pytest.raises(OperatorError, match="float64 in else, float32 in then; cast one"):
        stack.cond(x[0] > 0, lambda: grown(stack, x).astype("float32"), lambda: x)
    with pytest.raises(OperatorError, match="a branch of cond has an effect"):
        stack.cond(x[0] > 0, lambda: grown(stack, x).sum(), lambda: (stack.ops.print(x), x.sum())[1])
    with pytest.raises(RunError, match="index 4 chooses none of 2 branches"):
        stack.case_of(4, [lambda: grown(stack, x), lambda: x]).numpy()


# --- masks --------------------------------------------------------------------------------------------------------


def of_those_that_are_positive(s: Any, x: Any) -> Any:
    after = lambda x: s.ops.concat(x, x[x > 0] * x[0], axis=0)  # noqa: E731
    return s.while_loop(lambda x: x.shape[0] < 6, lambda x: (None, after(x)), x, dynamic=True)[1]


def without_the_largest(s: Any, x: Any) -> Any:
    return s.while_loop(lambda x: x.sum() > 1, lambda x: (None, x[x < x.max()] * 1.5), x, dynamic=True)[1]


def by_hand_positive(x: Any) -> Any:
    while x.shape[0] < 6:
        x = EAGER.ops.concat(x, x[np.flatnonzero(values(x) > 0)] * x[0], axis=0)
    return x


def by_hand_largest(x: Any) -> Any:
    while values(x).sum() > 1:
        x = x[np.flatnonzero(values(x) < values(x).max())] * 1.5
    return x


def values(x: Any) -> Any:
    found = x.value
    while hasattr(found, "primal"):
        found = found.primal
    return np.asarray(EAGER.engine.device.to_numpy(found))


@STACKS
def test_masks_in_bodies_that_grow(stack: Any) -> None:
    each_way(stack, of_those_that_are_positive, by_hand_positive, ROWS[0])
    each_way(stack, of_those_that_are_positive, by_hand_positive, np.array([0.5, -1.0, 2.0]))
    each_way(stack, without_the_largest, by_hand_largest, np.array([1.0, 3.0, -0.5, 2.0]))


@STACKS
def test_masks_in_bodies_of_other_loops_and_branches(stack: Any) -> None:
    def f(s: Any, xs: Any) -> Any:
        total = s.foreach(lambda x, c: (None, c + x[x > 0].sum() * c), xs, s.asarray(1.0))[1]
        return total * s.cond(xs[0, 0] > 0, lambda: xs[xs > 0].sum(), lambda: xs.sum())

    def plain(xs: Any) -> Any:
        c = EAGER.asarray(1.0)
        for n, x in enumerate(ROWS):
            c = c + xs[n][np.flatnonzero(x > 0)].sum() * c
        return c * xs[np.nonzero(ROWS > 0)].sum()

    each_way(stack, f, plain, ROWS)


# --- vmap ---------------------------------------------------------------------------------------------------------


@STACKS
def test_vmap_is_a_loop_over_rows(stack: Any) -> None:
    f = lambda x: grown(stack, x).sum() * x[0]  # noqa: E731
    xs = stack.asarray(ROWS)
    wanted = EAGER.ops.stack(*[by_hand(EAGER.asarray(x)).sum() * x[0] for x in ROWS], axis=0)
    agree(stack.vmap(f)(xs), wanted)
    agree(stack.vmap(stack.vmap(f))(stack.ops.stack(xs, xs, axis=0)), EAGER.ops.stack(wanted, wanted, axis=0))
    slopes = [EAGER.grad(lambda x: by_hand(x).sum() * x[0])(EAGER.asarray(x)) for x in ROWS]
    agree(stack.vmap(stack.grad(f))(xs), EAGER.ops.stack(*slopes, axis=0))
    agree(stack.grad(lambda xs: stack.vmap(f)(xs).sum())(xs), EAGER.ops.stack(*slopes, axis=0))
    taken = stack.vmap(lambda x: larger(stack, x).sum())(xs[:1])
    agree(taken, EAGER.ops.stack((by_hand(EAGER.asarray(ROWS[0])) * 2).sum(), axis=0))
    rows = stack.vmap(lambda x: stack.scan(lambda c, _: (grown(stack, c, 4)[:2], c), x, None, length=2)[1])(xs)
    assert rows.shape == (3, 2, 2)
    assert stack.vmap(lambda x, y: grown(stack, x).sum() * y, in_axes=(None, 0))(xs[0], xs[:, 0]).shape == (3,)


@STACKS
def test_matrices_of_derivatives(stack: Any) -> None:
    x = np.array([1.5, -0.5])
    agree(stack.jacobian(lambda x: grown(stack, x))(x), EAGER.jacobian(by_hand)(x))
    agree(stack.hessian(lambda x: (grown(stack, x) ** 2).sum())(x), EAGER.hessian(lambda x: (by_hand(x) ** 2).sum())(x))


@STACKS
def test_rows_that_end_differently_are_told(stack: Any) -> None:
    def f(x: Any) -> Any:
        after = lambda x: (None, stack.ops.concat(x, x[:1] + 1, axis=0))  # noqa: E731
        return stack.while_loop(lambda x: x.sum() < 9, after, x, dynamic=True)[1].sum()

    xs = stack.asarray([[1.0, 2.0], [3.0, 4.0]])
    message = (
        r"the variable of while_loop ends as \(5,\) in row 0 of a vmap, and as \(3,\) in row 1: .*stack\.map\(f, xs\)"
    )
    with pytest.raises(BatchingError, match=message):
        stack.vmap(f)(xs)
    assert stack.map(f, xs).tolist() == [9, 11]
    with pytest.raises(UnboundError, match="vmap of 0 rows"):
        stack.vmap(f)(xs[:0])


# --- graphs, files, exits -----------------------------------------------------------------------------------------


@STACKS
def test_what_has_no_value_yet_is_told(stack: Any) -> None:
    x = stack.input("x", (2,), "float64")
    for f in (lambda x: grown(stack, x), lambda x: larger(stack, x)):
        with pytest.raises(UnboundError, match=r"stack\.jit\(f, dynamic=True\)"):
            stack.compile([x], f(x))
    with pytest.raises(NncError, match="in place of map"):
        stack.map(lambda x: grown(stack, x).sum(), stack.asarray(ROWS), batch=2)
    segments = [
        lambda c, _: (c + grown(stack, stack.asarray(ROWS[0]) * c).sum(), None),
        lambda m: m > 9,
        lambda m, _: (m, None),
    ]
    with pytest.raises(NncError, match="loop_until"):
        stack.loop_until(segments, stack.asarray(1.0))
    with pytest.raises(NncError, match="converted if"):
        stack.jit(branching, control_flow=True, dynamic=True)(ROWS[0])


def branching(x: Any) -> Any:
    if x[0] > 0:
        return grown(x.stack, x).sum()
    return x.sum()


@STACKS
def test_exits_within_bodies_that_grow(stack: Any) -> None:
    def halved(x: Any) -> Any:
        segments = [lambda c, _: (c + 1, None), lambda m: m > 3, lambda m, _: (m * 1.5, None)]
        return stack.loop_until(segments, x, max_iterations=4).carry

    def f(x: Any) -> Any:
        after = lambda x: (None, stack.ops.concat(x, halved(x[-1])[None], axis=0))  # noqa: E731
        return stack.while_loop(lambda x: x.shape[0] < 4, after, x, dynamic=True)[1]

    assert f(stack.asarray([0.0])).tolist() == [0, 3.75, 3.75, 3.75]
    assert stack.grad(lambda x: f(x).sum())([0.0]).tolist() == [1 + 3 * 1.5**2]
    segments = [lambda c, _: (stack.ops.concat(c, c, axis=0), None), lambda m: m.sum() > 9, lambda m, _: (m, None)]
    with pytest.raises(OperatorError, match=r"a carry keeps its shape: carry is \(1,\), and \(2,\).*loop_until"):
        stack.loop_until(segments, stack.asarray([1.0]))


@STACKS
def test_programs_of_regions_say_that_they_are_not_saved(stack: Any, tmp_path: Path) -> None:
    jitted = stack.jit(lambda x: grown(stack, x) * 2, dynamic=True)
    agree(jitted(ROWS[0]), by_hand(EAGER.asarray(ROWS[0])) * 2)
    with pytest.raises(GraphError, match="no such program is saved: save what it reads"):
        jitted.program(ROWS[0]).save(tmp_path / "program.nnc")


def test_a_region_reads_one_of_several_results() -> None:
    def f(x: Any) -> Any:
        _, (c, _) = LAZY.foreach(lambda x, c: (None, (c[0] + x, c[1] * 2)), x, (x[0], x[0]))
        return c + x[x > 0].sum(), x[x > c].sum()

    found = LAZY.jit(f, dynamic=True)(np.array([1.0, -2.0, 3.0]))
    assert [y.item() for y in found] == [7.0, 0.0]


@STACKS
def test_who_cannot_wait_is_told_of_what_can(stack: Any) -> None:
    """Nobody is told to say dynamic=True who has said it; a map over what grows waits, too."""

    def grown_by(f: Any) -> Any:
        more = lambda x: (None, stack.ops.concat(x, f(x), axis=0))  # noqa: E731
        return stack.while_loop(lambda x: x.shape[0] < 5, more, stack.asarray([1.0, 3.0, -2.0]), dynamic=True)[1]

    for f in (
        lambda x: stack.map(lambda y: x[x > y].sum(), x, batch=2),
        lambda x: stack.fixed_point(lambda c: x[x > c].sum() * 0 + c * 0.5, stack.asarray(1.0))[None],
    ):
        with pytest.raises(ExtentError, match=r"use map, while_loop, foreach or cond in place of") as caught:
            grown_by(f)
        assert "dynamic=True" not in str(caught.value)
    with pytest.raises(ExtentError, match=r"use stack.map in place of vmap") as caught:
        stack.jit(lambda x: stack.vmap(lambda y: y[y > 0].sum())(x), dynamic=True)(np.ones((2, 2)))
    assert "dynamic=True" not in str(caught.value)
    with pytest.raises(ShapeError, match=r"the variable at 1 of while_loop is \(2,\), and \(1,\)"):
        stack.while_loop(lambda i, x: i < 3, lambda i, x: (None, (i + 1, x[x > 0])), (0, stack.asarray([1.0, -1.0])))
    found = grown_by(lambda x: stack.map(lambda y: x[x > y].sum(), x))
    assert found.tolist() == [1, 3, -2, 3, 0, 4]


@STACKS
def test_counts_of_numbers_tell_an_extent(stack: Any) -> None:
    def counted(x: Any) -> Any:
        return stack.ops.bincount(x[x > 0]) * 2

    f = stack.jit(counted, dynamic=True)
    for given in ([1, 3, 3, -2], [5], [-1]):
        positive = [n for n in given if n > 0]
        assert f(np.array(given)).tolist() == (2 * np.bincount(np.array(positive, np.int64))).tolist()
