"""Carries that grow within the bodies of other loops (`control_flow/stages`, `control_flow/growing`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import NncError, OperatorError, ShapeError

EAGER, LAZY = nnc.eager(), nnc.lazy()
STACKS = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
X = np.random.default_rng(3).normal(0, 0.4, (5, 2))


def grown(stack: Any, x: Any, limit: float) -> Any:
    """Half the last element behind it, until there are six elements or their sum is large."""
    _, x, n = stack.while_loop(
        lambda x: (x.shape[0] < 6) & (x.sum() < limit), lambda x: (None, stack.ops.concat(x, x[-1:] * 0.5, axis=0)), x,
        dynamic=True,
    )  # fmt: skip
    return x, n


def known(x: Any) -> float:
    """A number, under differentiation too."""
    carrier = x.value
    while hasattr(carrier, "primal"):
        carrier = carrier.primal
    return float(np.asarray(carrier))


def by_hand(stack: Any, x: Any, limit: float) -> Any:
    n = 0
    while x.shape[0] < 6 and known(x.sum()) < limit:
        x, n = stack.ops.concat(x, x[-1:] * 0.5, axis=0), n + 1
    return x, stack.asarray(np.int64(n))


# --- programs, each with the loop that grows, or by hand ----------------------------------------------------


def over_rows(s: Any, xs: Any, inner: Any, loops: Any) -> Any:
    """What grows depends on a carry, and so does what is given."""

    def body(c: Any, x: Any) -> Any:
        y, n = inner(s, x * c, 2.0)
        return s.ops.tanh(y).sum() + c * 0.5, y.sum() * c + n.astype("float64")

    return loops.scan(s, body, s.asarray(1.0), xs)


def backwards(s: Any, xs: Any, inner: Any, loops: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        return c + inner(s, x + c, 1.0)[0].sum(), inner(s, x, 2.0)[0][-1:]

    return loops.scan(s, body, s.asarray(0.0), xs, reverse=True)


def one_after_the_other(s: Any, xs: Any, inner: Any, loops: Any) -> Any:
    """The second one begins with what the first one has, and reads a value from before both."""

    def body(c: Any, x: Any) -> Any:
        before = s.ops.exp(x) * c
        first, _ = inner(s, before, 3.0)
        second, n = inner(s, s.ops.concat(first[-2:], x, axis=0) * first.mean(), 4.0)
        return (second * first.sum()).sum() * 0.1 + before.sum(), second.max() + n.astype("float64") * before[0]

    return loops.scan(s, body, s.asarray(0.5), xs)


def three_deep(s: Any, xs: Any, inner: Any, loops: Any) -> Any:
    def outer(c: Any, x: Any) -> Any:
        found, rows = loops.scan(
            s, lambda d, y: ((d + inner(s, s.ops.stack(y * c, d, axis=0), 1.0)[0].sum()) * 0.5, d), c, x
        )
        return found * 0.3, rows.sum()

    return loops.scan(s, outer, s.asarray(1.0), xs)


def that_grow_both(s: Any, xs: Any, inner: Any, loops: Any) -> Any:
    """The outer loop's carry is one element longer each time, and what grows within begins with it."""

    def body(c: Any, x: Any) -> Any:
        y, _ = inner(s, c * x[0], 2.0)
        return s.ops.concat(c, y.sum()[None] * 0.1, axis=0), y.sum() * x[1]

    return loops.scan(s, body, s.asarray(np.ones(1)), xs, dynamic=True)


class Written:
    """Loops written out."""

    @staticmethod
    def scan(s: Any, body: Any, c: Any, xs: Any, reverse: bool = False, dynamic: bool = False) -> Any:
        count, rows = xs.shape[0], []
        for t in reversed(range(count)) if reverse else range(count):
            c, row = body(c, xs[t])
            rows.append(row)
        return c, s.ops.stack(*(reversed(rows) if reverse else rows), axis=0)


class Loops:
    """Loops that are loops."""

    @staticmethod
    def scan(s: Any, body: Any, c: Any, xs: Any, **how: Any) -> Any:
        return s.scan(body, c, xs, **how)


PROGRAMS = pytest.mark.parametrize(
    "program", [over_rows, backwards, one_after_the_other, three_deep, that_grow_both], ids=lambda f: f.__name__
)


def both(program: Callable[..., Any], stack: Any, what: Callable[..., Any]) -> tuple[Any, Any]:
    """What is asked of a program with loops, and by hand."""
    found = what(stack, lambda xs: program(stack, xs, grown, Loops))
    wanted = what(EAGER, lambda xs: program(EAGER, xs, by_hand, Written))
    return found, wanted


def loss(f: Callable[..., Any]) -> Callable[..., Any]:
    def of(xs: Any) -> Any:
        last, rows = f(xs)
        return (last * last).sum() + (rows * rows * rows).sum()

    return of


@STACKS
@PROGRAMS
def test_values_are_those_written_out(stack: Any, program: Any, memory: None) -> None:
    found, wanted = both(program, stack, lambda s, f: f(s.asarray(X)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)


@STACKS
@PROGRAMS
def test_gradients_are_those_written_out(stack: Any, program: Any, memory: None) -> None:
    found, wanted = both(program, stack, lambda s, f: s.grad(loss(f))(s.asarray(X)))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-11)


@STACKS
def test_second_derivatives_and_forward_mode(stack: Any) -> None:
    def along(s: Any, f: Any) -> Any:
        return s.jvp(loss(f), [s.asarray(X[:2])], [s.asarray(X[2:4])])[1]

    def second(s: Any, f: Any) -> Any:
        return s.grad(lambda xs: (s.grad(loss(f))(xs) ** 2).sum())(s.asarray(X[:2]))

    for what in (along, second):
        found, wanted = both(over_rows, stack, what)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-7, atol=1e-9)


@STACKS
def test_in_a_while_loop(stack: Any) -> None:
    def outer(s: Any, inner: Any, x: Any) -> Any:
        def body(x: Any, total: Any) -> Any:
            y, n = inner(s, x, 2.0)
            return n, [x * 0.5 + y.sum() * 0.1, total + y.mean() * 0.1 + 0.2]

        if inner is grown:
            return s.while_loop(lambda x, total: total < 1.0, body, [x, s.asarray(0.0)], 20, exact=True)
        total, counts = s.asarray(0.0), []
        while total.item() < 1.0:
            n, (x, total) = body(x, total)
            counts.append(n)
        return s.ops.stack(*counts, axis=0), [x, total], s.asarray(np.int64(len(counts)))

    found, wanted = (outer(s, f, s.asarray(np.array([0.3, 0.2]))) for s, f in ((stack, grown), (EAGER, by_hand)))
    assert found[0].numpy().tolist() == wanted[0].numpy().tolist()
    assert found[2].item() == wanted[2].item() > 1
    for one, other in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


@STACKS
def test_in_fori_fold_and_map(stack: Any) -> None:
    x = stack.asarray(X)
    total = stack.fori(0, 3, lambda i, c: c + grown(stack, x[0] + c, 2.0)[0].sum() * i, 0.0)
    assert np.isfinite(total.item())
    rows = stack.map(lambda x: grown(stack, x, 2.0)[1], x)
    wanted = [by_hand(EAGER, EAGER.asarray(row), 2.0)[1].item() for row in X]
    assert rows.numpy().tolist() == wanted
    assert stack.fold(lambda c, x: c + grown(stack, x, 2.0)[1], np.int64(0), x).item() == sum(wanted)


@STACKS
def test_outputs_that_change_their_shape_are_lists(stack: Any) -> None:
    _, rows = stack.scan(lambda c, x: (c, grown(stack, x, 0.5)[0]), stack.asarray(0.0), stack.asarray(X))
    wanted = [by_hand(EAGER, EAGER.asarray(row), 0.5)[0].numpy() for row in X]
    assert [row.shape for row in rows] == [row.shape for row in wanted]
    for one, other in zip(rows, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other)


@STACKS
def test_no_times_at_all(stack: Any) -> None:
    total, rows = stack.scan(
        lambda c, x: (c + 1.0, grown(stack, x, 2.0)[0].sum()), stack.asarray(3.0), stack.asarray(np.zeros((0, 2)))
    )
    assert total.item() == 3.0
    assert rows.shape == (0,)


@STACKS
def test_functions_are_traced_and_planned_as_often_whatever_the_count(stack: Any) -> None:
    counts = []
    for times in (3, 30):
        traces = []

        def body(c: Any, x: Any, traces: list[None] = traces) -> Any:
            traces.append(None)
            y, _ = grown(stack, x, 9.0)
            return c + y.sum(), None

        stack.scan(body, 0.0, stack.asarray(np.ones((times, 2)) * 0.1))
        counts.append(len(traces))
    assert counts[0] == counts[1] <= 3


# --- between the regions of a compiled function -----------------------------------------------------------


def mixed(s: Any, x: Any, w: Any, inner: Any) -> Any:
    """What grows, a mask of that, another one that begins with both, and what only adds up."""
    y, n = inner(s, s.ops.sin(x) * w, 3.0)
    large = y[y > 0.2]
    z, _ = inner(s, s.ops.concat(large, x, axis=0)[:2] * 0.3, 4.0)
    return s.ops.tanh(z) * y.sum(), large, n, inner(s, x * 0.1, 0.5)[0].sum()


STARTS = [np.array(each) for each in ([0.3, 0.9], [1.4, 1.1], [0.1, 0.2], [2.0, 0.3])]


def test_compiled_functions_compute_them_between_regions(memory: None) -> None:
    w = LAZY.variable("w", np.array([1.0, 0.7]))
    f = LAZY.jit(lambda x: mixed(LAZY, x, w, grown), dynamic=True)
    for x in STARTS:
        wanted = mixed(EAGER, EAGER.asarray(x), EAGER.asarray(np.array([1.0, 0.7])), by_hand)
        for one, other in zip(f(x), wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    assert f.traces == 1
    program = f.program(STARTS[0])
    assert len(program.regions) == 4
    known = program.plans
    f(STARTS[0])
    assert program.plans == known


def test_a_region_that_only_adds_up_what_has_grown() -> None:
    f = LAZY.jit(lambda x: grown(LAZY, x, 9.0)[0].sum(), dynamic=True)
    assert f(np.ones(2)).item() == by_hand(EAGER, EAGER.asarray(np.ones(2)), 9.0)[0].sum().item()
    assert f(np.ones(6)).item() == 6.0


def test_a_function_that_only_gives_what_has_grown() -> None:
    f = LAZY.jit(lambda x: grown(LAZY, x, 9.0), dynamic=True)
    for x in STARTS:
        for one, other in zip(f(x), by_hand(EAGER, EAGER.asarray(x), 9.0), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    assert f.traces == 1


@PROGRAMS
def test_loops_around_them_between_regions(program: Any) -> None:
    f = LAZY.jit(lambda xs: program(LAZY, LAZY.ops.sin(xs), grown, Loops), dynamic=True)
    for scale in (1.0, 0.5):
        wanted = program(EAGER, EAGER.asarray(np.sin(X * scale)), by_hand, Written)
        for one, other in zip(f(X * scale), wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)
    assert f.traces == 1


def test_gradients_of_compiled_functions_and_within_them() -> None:
    def f(x: Any) -> Any:
        return (grown(LAZY, x, 3.0)[0] ** 2).sum()

    wanted = EAGER.grad(lambda x: (by_hand(EAGER, x, 3.0)[0] ** 2).sum())(EAGER.asarray(STARTS[0]))
    np.testing.assert_allclose(LAZY.grad(LAZY.jit(f, dynamic=True))(LAZY.asarray(STARTS[0])).numpy(), wanted.numpy())
    np.testing.assert_allclose(LAZY.jit(LAZY.grad(f), dynamic=True)(STARTS[0]).numpy(), wanted.numpy(), rtol=1e-12)


def test_branches_are_computed_between_regions() -> None:
    def f(x: Any) -> Any:
        return LAZY.cond(x.sum() > 0, lambda: grown(LAZY, x, 2.0)[0].sum(), lambda: x.sum())

    wanted = by_hand(EAGER, EAGER.asarray(STARTS[0]), 2.0)[0].sum()
    np.testing.assert_allclose(LAZY.jit(f, dynamic=True)(STARTS[0]).numpy(), wanted.numpy())


# --- what is refused ---------------------------------------------------------------------------------------


@STACKS
def test_a_carry_that_takes_on_a_shape_that_grew_is_told(stack: Any) -> None:
    with pytest.raises(ShapeError, match=r"a carry keeps its shape.*\(2,\), and \(6,\).*dynamic=True"):
        stack.scan(lambda c, x: (grown(stack, c + x, 99.0)[0], None), stack.asarray(np.ones(2)), stack.asarray(X))


@STACKS
def test_lists_within_a_body_are_told(stack: Any) -> None:
    def listed(c: Any, x: Any) -> Any:
        rows, _, _ = stack.while_loop(
            lambda y: y.shape[0] < 4, lambda y: (y, stack.ops.concat(y, y[:1], axis=0)), x, dynamic=True
        )
        return c + rows[0].sum(), None

    with pytest.raises(OperatorError, match="list of tensors"):
        stack.scan(listed, 0.0, stack.asarray(X))


@STACKS
def test_effects_are_told(stack: Any) -> None:
    def body(c: Any, x: Any) -> Any:
        stack.ops.print(x)
        return c + grown(stack, x, 2.0)[0].sum(), None

    with pytest.raises(OperatorError, match="has no effects"):
        stack.scan(body, 0.0, stack.asarray(X))


@STACKS
def test_where_nothing_is_known_it_is_still_refused(stack: Any) -> None:
    def f(xs: Any) -> Any:
        return stack.map(lambda x: grown(stack, x, 2.0)[0].sum(), xs)

    with pytest.raises(NncError, match="outside of jit"):
        stack.jit(f)(X)
    many = np.stack([X, X + 1])
    rows = [f(stack.asarray(xs)).numpy() for xs in many]
    np.testing.assert_allclose(stack.vmap(f)(stack.asarray(many)).numpy(), rows)
