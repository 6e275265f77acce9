"""vmap of loops and branches is one loop of whole batches, and equals the rows one by one (`batching`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.body import Application, Body
from nnc_func.errors import BatchingError, NncError
from nnc_func.graph.ops import CATALOGUE as OPS
from tests.engine.drawn_loops import Drawn, loops
from tests.profiles import examples

EAGER, LAZY = nnc.eager(), nnc.lazy()
OWN = nnc.eager().insert(nnc.Batching)
STACKS = {"eager": EAGER, "lazy": LAZY, "with its layer": OWN}
each_stack = pytest.mark.parametrize("stack", [*STACKS.values()], ids=[*STACKS])
Function = Callable[..., Any]


def arrays_of(found: Any) -> list[Any]:
    """Leaves as arrays."""
    if isinstance(found, (tuple, list)):
        return [x for each in found for x in arrays_of(each)]
    return [] if found is None else [np.asarray(found.numpy())]


def by_rows(f: Function, args: Any, axes: Any) -> list[Any]:
    """What the function gives of one row after another, stacked."""
    size = next(x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
    rows = [
        arrays_of(f(*(x if a is None else np.take(x, n, a) for x, a in zip(args, axes, strict=True))))
        for n in range(size)
    ]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def same(found: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    """All are equal, and none is NaN."""
    found = arrays_of(found)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert np.isfinite(other).all()
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def total(stack: Any, f: Function) -> Function:
    """The sum of all that a function gives, of numbers that have a derivative."""

    def summed(*args: Any) -> Any:
        found: Any = 0.0
        for leaf in leaves_of(f(*args)):
            if leaf.dtype.kind == "f":
                found = found + stack.ops.sum(stack.ops.sin(leaf) + leaf, axis=None)
        return found

    return summed


def leaves_of(found: Any) -> list[Any]:
    """Tensors of a tree."""
    if isinstance(found, (tuple, list)):
        return [x for each in found for x in leaves_of(each)]
    return [] if found is None else [found]


def agree(stack: Any, f: Function, *args: Any, axes: Any = None, second: bool = False) -> None:
    """Values, gradients of rows, and the gradient of the whole are those of the rows one by one."""
    args = tuple(np.asarray(a) for a in args)
    axes = axes or (0,) * len(args)
    smooth = tuple(n for n, a in enumerate(args) if a.dtype.kind == "f")
    lifted = partial(map, stack.asarray)
    one = lambda *xs: f(*lifted(xs))  # noqa: E731
    with np.errstate(all="ignore"):
        same(nnc.vmap(f, in_axes=axes, stack=stack)(*lifted(args)), by_rows(one, args, axes))
        slope = stack.grad(total(stack, f), smooth)
        wanted = by_rows(lambda *xs: slope(*lifted(xs)), args, axes)
        same(nnc.vmap(slope, in_axes=axes, stack=stack)(*lifted(args)), wanted)
        whole = stack.grad(total(stack, nnc.vmap(f, in_axes=axes, stack=stack)), smooth)(*lifted(args))
        same(whole, [w if axes[n] is not None else w.sum(0) for n, w in zip(smooth, wanted, strict=True)])
        if second:
            twice = stack.grad(lambda *xs: total(stack, lambda *ys: slope(*ys))(*xs), smooth)
            wanted = by_rows(lambda *xs: twice(*lifted(xs)), args, axes)
            same(nnc.vmap(twice, in_axes=axes, stack=stack)(*lifted(args)), wanted, 1e-9)


def counted(f: Function, *shapes: Any) -> Counter[str]:
    """The operators of the graph that a function makes of float64 inputs of these shapes."""
    inputs = [LAZY.input(f"x{n}", shape, "float64") for n, shape in enumerate(shapes)]
    graph = LAZY.graph.close([x.value for x in inputs], [x.value for x in leaves_of(f(*inputs))])
    return Counter(node.op.name for node in graph.nodes)


RNG = np.random.default_rng(7)
X, W, H = RNG.normal(size=(4, 5, 2)), RNG.normal(size=(2, 3)) / 2, RNG.normal(size=(4, 3))


# --- loops whose rows go equally often -----------------------------------------------------------------------


def recurrent(stack: Any, **how: Any) -> Function:
    """A recurrent layer."""

    def f(x: Any, w: Any, h: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            after = stack.ops.tanh(x @ w + 0.5 * h)
            return after, after * h

        return stack.scan(step, h, x, **how)

    return f


@each_stack
@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"checkpoint": "sqrt"}, {"unroll": 2}], ids=str)
@pytest.mark.parametrize("axes", [(0, None, 0), (None, None, 0), (0, None, None)], ids=str)
def test_a_scan_of_batches(stack: Any, how: Any, axes: Any) -> None:
    args = (X if axes[0] == 0 else X[0], W, H if axes[2] == 0 else H[0])
    agree(stack, recurrent(stack, **how), *args, axes=axes, second=not how and stack is EAGER)


def test_there_is_one_loop_and_one_product_of_each_time() -> None:
    f = nnc.vmap(recurrent(LAZY), in_axes=(0, None, 0), stack=LAZY)
    found = counted(f, (4, 5, 2), (2, 3), (4, 3))
    assert found["loop"] == 1
    assert "slice" not in found
    inputs = [LAZY.input("x", s, "float64") for s in ((4, 5, 2), (2, 3), (4, 3))]
    node = f(*inputs)[0].value.node
    while node.op.name != "loop":
        node = node.args[0].node
    body = node.params["body"]
    assert [each.op.name for each in body.applications].count("matmul") == 1


def test_what_has_no_rows_is_computed_once() -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            i, a, b = carry
            return (i + 1, LAZY.ops.tanh(a), b + x * a), a

        return LAZY.scan(step, (0, 2.0, 1.0), None, length=3)

    (i, a, b), ys = nnc.vmap(f, out_axes=((None, None, 0), None), stack=LAZY)(LAZY.asarray([1.0, 2.0]))
    assert (i.item(), a.shape, b.shape, ys.shape) == (3, (), (2,), (3,))


# of floats alone: conditions and counts are drawn here
plain = loops().filter(lambda drawn: not drawn.conditional).map(lambda drawn: evolve(drawn, times=None, reverse=False))


@examples(few=12, nightly=400)
@given(drawn=plain, data=st.data())
def test_drawn_loops(drawn: Drawn, data: Any) -> None:
    arrays = drawn.arrays()
    has = data.draw(st.lists(st.booleans(), min_size=len(arrays), max_size=len(arrays)))
    if not any(has):
        return
    size = data.draw(st.integers(1, 3))
    axes = tuple(data.draw(st.integers(0, 1)) if h else None for h in has)
    given = [
        x if a is None else np.stack([x * 0.75**n for n in range(size)], a) for x, a in zip(arrays, axes, strict=True)
    ]
    params = dict(drawn.params, reverse=data.draw(st.booleans()))
    stack = data.draw(st.sampled_from([EAGER, LAZY]))

    def f(*xs: Any) -> Any:
        return stack.ops.loop(*xs, **params)

    args = [*map(stack.asarray, given)]
    wanted = by_rows(lambda *xs: f(*map(stack.asarray, xs)), given, axes)
    same(nnc.vmap(f, in_axes=axes, stack=stack)(*args), wanted)


@examples(few=8, nightly=200)
@given(drawn=plain, data=st.data())
def test_drawn_loops_of_several_counts(drawn: Drawn, data: Any) -> None:
    counts = np.array(data.draw(st.lists(st.integers(-1, drawn.count + 1), min_size=1, max_size=3)))
    arrays = drawn.arrays()
    has = data.draw(st.lists(st.booleans(), min_size=len(arrays), max_size=len(arrays)))
    axes = (*(0 if h else None for h in has), 0)
    given = [np.stack([x * 0.75**n for n in range(len(counts))]) if h else x for x, h in zip(arrays, has, strict=True)]
    params = dict(drawn.params, reverse=data.draw(st.booleans()), counted=True)
    stack = data.draw(st.sampled_from([EAGER, LAZY]))

    def f(*xs: Any) -> Any:
        return stack.ops.loop(*xs, **params)

    smooth = tuple(n for n in range(len(arrays)))
    agree_on = [*map(stack.asarray, [*given, counts])]
    wanted = by_rows(lambda *xs: f(*map(stack.asarray, xs)), [*given, counts], axes)
    found = nnc.vmap(f, in_axes=axes, stack=stack)(*agree_on)
    same(found, wanted)
    if smooth:
        slope = stack.grad(total(stack, f), smooth)
        wanted = by_rows(lambda *xs: slope(*map(stack.asarray, xs)), [*given, counts], axes)
        same(nnc.vmap(slope, in_axes=axes, stack=stack)(*agree_on), wanted)


# --- loops whose rows go differently often -------------------------------------------------------------------


def until_nine(stack: Any, most: int | None = 8) -> Function:
    """Goes until a square root, and its slope, would be of a negative number."""

    def f(s: Any, c: Any) -> Any:
        def body(s: Any) -> Any:
            row = stack.ops.sqrt(10.0 - s) * c
            return (row if most else None), (s + 1.0 + 0.1 * row,)

        rows, (s,), n = stack.while_loop(lambda s: s < 9.0, body, (s,), most)
        return rows, s, n

    return f


STARTS = np.array([1.0, 5.0, 8.5, 9.0, 11.0, 20.0])  # of the last ones the loop does not go once


@each_stack
@pytest.mark.parametrize("most", [8, 3, None])
@pytest.mark.parametrize("batched", [True, False])
def test_a_row_that_has_ended_meets_no_nan(stack: Any, most: int | None, batched: bool) -> None:
    c = RNG.uniform(0.5, 1.5, STARTS.shape) if batched else np.array(0.75)
    agree(stack, until_nine(stack, most), STARTS, c, axes=(0, 0 if batched else None), second=stack is EAGER)


def test_rows_none_of_which_goes() -> None:
    for stack in (EAGER, LAZY):
        agree(stack, until_nine(stack), STARTS[3:], np.array(2.0), axes=(0, None))
        agree(stack, until_nine(stack, 0), STARTS, np.array(2.0), axes=(0, None))


def test_a_while_loop_of_rows_is_one_loop() -> None:
    found = counted(nnc.vmap(until_nine(LAZY), in_axes=(0, None), stack=LAZY), (6,), ())
    assert found["loop"] == 1
    under = counted(LAZY.grad(total(LAZY, nnc.vmap(until_nine(LAZY), in_axes=(0, None), stack=LAZY)), (0, 1)), (6,), ())
    assert under["loop"] == 2


def lengths(stack: Any, reverse: bool) -> Function:
    """A loop of some first slices, whose others may be anything."""

    def f(x: Any, n: Any, h: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            after = h * 0.5 + stack.ops.sqrt(x) * stack.ops.log(x)
            return after, 1.0 / x

        return stack.scan(step, h, x, length=n, reverse=reverse)

    return f


@each_stack
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("which", ["each its data", "the same data"])
def test_slices_after_the_last_are_anything(stack: Any, reverse: bool, which: str) -> None:
    n = np.array([3, 0, 5, 1, 9])
    x = RNG.uniform(0.5, 2.0, (5, 5))
    for row, count in zip(x, n, strict=True):
        row[count:] = -1.0 if count % 2 else 0.0
    h = RNG.normal(size=5)
    if which == "the same data":
        x, n = x[0], np.array([3, 0, 2, 1, 3])
        agree(stack, lengths(stack, reverse), x, n, h, axes=(None, 0, 0))
    else:
        agree(stack, lengths(stack, reverse), x, n, h)


@each_stack
@pytest.mark.parametrize("which", [0, 1])
def test_fori_to_a_number_of_each_row(stack: Any, which: int) -> None:
    def f(n: Any, s: Any) -> Any:
        bounds = (0, n) if which else (n, 4)
        return stack.fori(*bounds, lambda i, s: s * 1.5 + stack.ops.sqrt(5.0 - i), s)

    agree(stack, f, np.array([0, 3, 5, 2]), np.array([1.0, 2.0, 3.0, 4.0]))


@each_stack
def test_conditional_and_counted_loops_with_slices(stack: Any) -> None:
    """What only the operator itself says: slices and a number of times, of a loop with a condition."""
    body = Body(
        4,  # a limit, whether it goes on, a sum, a slice
        [
            Application(OPS["subtract"], (0, 2)),
            Application(OPS["sqrt"], (4,)),
            Application(OPS["add"], (2, 3)),
            Application(OPS["less"], (6, 0)),
        ],
        (7, 6, 5),
    )
    for counted in (False, True):
        for n in (np.array([4, 2, 6, 5]), np.array(3)):

            def f(limit: Any, s: Any, x: Any, *n: Any, counted: bool = counted) -> Any:
                more = stack.ops.less(s, limit)
                return stack.ops.loop(
                    limit, more, s, x, *n, body=body, constants=1, carries=2, conditional=True, counted=counted
                )

            x = RNG.uniform(0.5, 1.0, (4, 6))
            args = (np.array([3.0, 4.0, 2.5, 1.0]), np.array([0.0, 1.0, 0.5, 2.0]), x)
            axes = (0, 0, 0)
            if counted:
                args, axes = (*args, n), (*axes, 0 if n.ndim else None)
            agree(stack, f, *args, axes=axes)
            agree(stack, f, np.array(3.0), args[1], x[0], *args[3:], axes=(None, 0, None, *axes[3:]))


@each_stack
def test_loops_within_loops_and_branches_within_them(stack: Any) -> None:
    def f(x: Any, s: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            _, (s,), n = stack.while_loop(
                lambda s: s < 1.9, lambda s: (None, (s + stack.ops.sqrt(2.0 - s) * x,)), (s,), 9
            )  # fmt: skip
            s = stack.cond(n > 1, lambda: s - 2.0, lambda: s * x)
            return s, n

        return stack.scan(step, s, x)

    agree(stack, f, RNG.uniform(0.3, 1.0, (3, 4)), np.array([0.0, 3.0, 1.5]))


@each_stack
def test_vmap_within_a_loop_and_within_vmap(stack: Any) -> None:
    def inner(v: Any, limit: Any) -> Any:
        return stack.while_loop(
            lambda v: v < limit, lambda v: (None, (v + stack.ops.sqrt(limit - v) + 0.1,)), (v,), 20
        )[1][0]  # fmt: skip

    def middle(v: Any, limit: Any) -> Any:
        def step(v: Any, _: Any) -> Any:
            return nnc.vmap(inner, in_axes=(0, None), stack=stack)(v, limit) - 1.0, None

        return stack.scan(step, v, None, length=2)[0]

    v, limits = RNG.uniform(0, 3, (4, 3)), np.array([1.0, 2.0, 0.0, 4.0])
    agree(stack, middle, v, limits)
    if stack is LAZY:
        found = counted(nnc.vmap(middle, stack=LAZY), (4, 3), (4,))
        assert found["loop"] == 1


# --- branches ------------------------------------------------------------------------------------------------


def reciprocal(stack: Any) -> Function:
    """A number's reciprocal, with an infinite slope at zero, where it is not zero; times another."""
    return lambda x, w: stack.cond(x > 0, lambda: w / x + stack.ops.sqrt(x) * w, lambda: 3.0 * x * w)


@each_stack
@pytest.mark.parametrize("x", [[1.0, 0.0, 2.0, -1.0], [0.0, 0.0], [1.0, 2.0]], ids=str)
@pytest.mark.parametrize("batched", [True, False])
def test_a_branch_that_a_row_does_not_take_gives_no_nan(stack: Any, x: Any, batched: bool) -> None:
    w = RNG.normal(size=len(x)) if batched else np.array(1.5)
    agree(stack, reciprocal(stack), np.array(x), w, axes=(0, 0 if batched else None), second=stack is EAGER)


def test_rows_that_choose_become_a_select_and_one_choice_stays_a_branch() -> None:
    assert counted(nnc.vmap(reciprocal(LAZY), in_axes=(0, None), stack=LAZY), (4,), ())["branch"] == 0
    assert counted(nnc.vmap(reciprocal(LAZY), in_axes=(None, 0), stack=LAZY), (), (4,))["branch"] == 1
    for stack in STACKS.values():
        agree(stack, reciprocal(stack), np.array(0.0), np.array([1.0, 2.0]), axes=(None, 0))
        agree(stack, reciprocal(stack), np.array(2.0), np.array([1.0, 2.0]), axes=(None, 0))


@each_stack
def test_one_of_several(stack: Any) -> None:
    def f(i: Any, x: Any) -> Any:
        bodies = [lambda x: (stack.ops.log(x), x), lambda x: (x * x, x + 1.0), lambda x: (stack.ops.exp(x), 2.0 * x)]
        return stack.case_of(i, bodies, x, default=lambda x: (x, stack.ops.sqrt(-x)))

    agree(stack, f, np.array([0, 2, 1, 3, -1, 0]), np.array([1.0, 0.5, -2.0, -3.0, -1.0, 2.0]))
    agree(stack, f, np.array(1), np.array([1.0, -1.0]), axes=(None, 0))
    agree(stack, f, np.array([1, 0, 2]), np.array(1.0), axes=(0, None))


@each_stack
def test_a_branch_that_no_row_takes_is_not_computed_where_it_holds_a_loop(stack: Any) -> None:
    def f(x: Any, most: int | None = None) -> Any:
        def loop() -> Any:  # does not end for a negative number
            return stack.while_loop(lambda v: v < 10.0, lambda v: (None, (v * 2.0,)), (x,), most)[1][0]

        return stack.cond(x > 0, loop, lambda: -x)

    assert nnc.vmap(f, stack=stack)(stack.asarray([-1.0, -2.0])).tolist() == [1.0, 2.0]
    assert nnc.vmap(f, stack=stack)(stack.asarray([-1.0, 3.0, 0.5])).tolist() == [1.0, 12.0, 16.0]
    agree(stack, partial(f, most=9), np.array([-1.0, -2.0]))
    agree(stack, partial(f, most=9), np.array([-1.0, 3.0, 0.5]))


def test_an_index_of_no_branch_is_refused() -> None:
    for stack in (EAGER, LAZY):

        def f(i: Any, stack: Any = stack) -> Any:
            return stack.case_of(i, [lambda: 1.0, lambda: 2.0])

        with pytest.raises(NncError, match="index 2 chooses none of 2 branches"):
            nnc.vmap(f, stack=stack)(stack.asarray([0, 2, 5])).numpy()


# --- functions with a derivative of their own ----------------------------------------------------------------


@each_stack
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=str)
def test_a_derivative_of_ones_own_in_a_body(stack: Any, axes: Any) -> None:
    @nnc.custom_vjp
    def product(x: Any, w: Any) -> Any:
        return x * w

    product.defvjp(lambda x, w: (x * w, (x, w)), lambda saved, g: (g * saved[1] * 3.0, g * saved[0] * 5.0))

    def f(x: Any, w: Any) -> Any:
        return stack.scan(lambda s, _: (product(s, w) + 1.0, s), x, None, length=3)

    x, w = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    agree(stack, f, x if axes[0] == 0 else x[0], w if axes[1] == 0 else w[0], axes=axes)


# --- all together --------------------------------------------------------------------------------------------


def test_under_jit() -> None:
    c = np.array(0.75)
    plain = nnc.vmap(until_nine(LAZY), in_axes=(0, None), stack=LAZY)
    wanted = by_rows(lambda *xs: until_nine(EAGER)(*map(EAGER.asarray, xs)), (STARTS, c), (0, None))
    for one, other in zip(LAZY.jit(plain)(STARTS, c), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-10)
    slope = EAGER.grad(total(EAGER, until_nine(EAGER)))
    wanted = by_rows(lambda *xs: slope(*map(EAGER.asarray, xs)), (STARTS, c), (0, None))
    each = nnc.vmap(LAZY.grad(total(LAZY, until_nine(LAZY))), in_axes=(0, None), stack=LAZY)
    np.testing.assert_allclose(np.asarray(LAZY.jit(each)(STARTS, c)), wanted[0], rtol=1e-10)
    whole = LAZY.jit(LAZY.grad(total(LAZY, plain)))
    np.testing.assert_allclose(np.asarray(whole(STARTS, c)), wanted[0], rtol=1e-10)


@each_stack
def test_forward_mode(stack: Any) -> None:
    f = until_nine(stack)
    ones = stack.asarray(np.ones_like(STARTS))
    c = stack.asarray(0.75)

    def pushed(s: Any, t: Any) -> Any:
        return stack.jvp(lambda s: f(s, c)[:2], (s,), (t,))[1]

    wanted = by_rows(lambda *xs: pushed(*map(stack.asarray, xs)), (STARTS, np.ones_like(STARTS)), (0, 0))
    same(nnc.vmap(pushed, stack=stack)(stack.asarray(STARTS), ones), wanted)
    whole = stack.jvp(lambda s: nnc.vmap(lambda s: f(s, c)[:2], stack=stack)(s), (stack.asarray(STARTS),), (ones,))[1]
    same(whole, wanted)


def test_of_no_rows_and_of_a_stack_without_nodes() -> None:
    found = nnc.vmap(until_nine(EAGER), in_axes=(0, None))(EAGER.asarray(np.zeros(0)), EAGER.asarray(1.0))
    assert [x.shape for x in found] == [(0, 8), (0,), (0,)]
    bare = nnc.Stack(nnc.Batching(nnc.NumPy()))
    body = Body.of(2, (OPS["multiply"], 0, 1))
    (y,) = nnc.vmap(lambda w, c: bare.bind(OPS["loop"], w, c, body=body, constants=1, carries=1, length=3), stack=bare)(
        np.array([2.0, 3.0]), np.array([1.0, 2.0])
    )
    assert np.asarray(y.numpy()).tolist() == [8.0, 54.0]


def test_of_an_unknown_number_of_rows_and_of_times() -> None:
    rows = LAZY.input("rows", (None, None, 2), "float64")
    start = LAZY.input("start", (rows.shape[0], 3), "float64")
    w = LAZY.input("w", (2, 3), "float64")
    program = LAZY.compile(
        [rows, w, start], list(nnc.vmap(recurrent(LAZY), in_axes=(0, None, 0), stack=LAZY)(rows, w, start))
    )
    wanted = by_rows(lambda *xs: recurrent(EAGER)(*map(EAGER.asarray, xs)), (X, W, H), (0, None, 0))
    for one, other in zip(program(X, W, H), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_a_condition_of_an_unknown_number_of_rows() -> None:
    starts = LAZY.input("starts", (None,), "float64")
    found = nnc.vmap(lambda s: until_nine(LAZY)(s, LAZY.asarray(0.75)), stack=LAZY)(starts)
    program = LAZY.compile([starts], list(found))
    wanted = by_rows(lambda s: until_nine(EAGER)(EAGER.asarray(s), EAGER.asarray(0.75)), (STARTS,), (0,))
    for one, other in zip(program(STARTS), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_effects_in_a_body_are_refused() -> None:
    def f(x: Any) -> Any:
        return EAGER.scan(lambda s, _: (EAGER.ops.print(s), (s, None))[1], x, None, length=2)[0]

    with pytest.raises(BatchingError, match="print, within loop, has an effect"):
        nnc.vmap(f)(EAGER.asarray([1.0, 2.0]))
