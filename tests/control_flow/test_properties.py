"""Properties that loops and branches have whatever they compute (`control_flow/scanning`, `graph/ops/cut_bodies`).

Which test shows which property of the design's list:

- P1 (eager, lazy and jit, values, gradients, containers): `test_foreach.test_trees_come_back_as_they_are`,
  `test_drawn_programs`.
- P2 (some gradients, into buffers that hold NaN): here.
- P3 (saved, loaded, saved: the same bytes; a loaded program needs no function): `test_drawn_programs.test_files`,
  `test_cases.test_as_a_program_and_from_a_file`.
- P4 (what is captured is computed once; random numbers): here, `test_foreach.test_random_keys` and
  `test_what_is_computed_again_draws_the_same_numbers`.
- P5 (traces, and sizes for 10 and 10,000 times): here, `test_loop_sizes`.
- P6, P7, P8 (cost, memory, a derivative that nothing bounds): `test_loop_sizes`, `test_while`.
- P9 (an extent that is known late): here, `test_loop_sizes.test_a_symbolic_extent_takes_one_trace`.
- P10 (errors name the leaf): `test_foreach.test_a_carry_that_changes_is_named`,
  `test_branches.test_branches_that_differ_are_refused_with_the_leaf`, `test_what_is_no_loop_is_refused_in_words`.
- P11 (second derivatives): here, `test_drawn_programs.test_second_derivatives`.
- P12 (functions of Python converted): `test_conversion`, on generated programs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

EAGER, LAZY = nnc.eager(), nnc.lazy()
every = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])


# --- P2: gradients that are asked for, and buffers ------------------------------------------------------------


def foreach_of(times: int) -> Callable[..., Any]:
    def loss(stack: Any, x: Any, w: Any, u: Any, unread: Any) -> Any:
        rows = stack.ops.stack(*[x * (n + 1) for n in range(times)], axis=0) if times else x[None][:0]
        outs, (last, kept) = stack.foreach(lambda row, s: (s[0] * w, (s[0] * w + row, s[1])), rows, (u, unread))
        return (outs**2).sum() + last.sum() + kept.sum() * 0

    return loss


def while_of(times: int) -> Callable[..., Any]:
    def loss(stack: Any, x: Any, w: Any, u: Any, unread: Any) -> Any:
        rows, (_, last), n = stack.while_loop(
            lambda i, s: i < times, lambda i, s: (s * x, (i + 1, s * w + x)), (0, u), max_iterations=4
        )
        return (rows**2).sum() + last.sum() + n + unread.sum() * 0

    return loss


def cond_of(taken: bool) -> Callable[..., Any]:
    def loss(stack: Any, x: Any, w: Any, u: Any, unread: Any) -> Any:
        return stack.cond(
            (unread.sum() > 0) == taken, lambda: (x * w).sum(), lambda: (1 / (u - u) * w + u**3).sum()
        ) + (u * u).sum()  # fmt: skip

    return loss


LOSSES = {
    **{f"foreach, {n} times": foreach_of(n) for n in (0, 1, 3)},
    **{f"while, {n} times": while_of(n) for n in (0, 1, 3)},
    "cond": cond_of(True),
}  # fmt: skip
GIVEN = [np.array([0.5, -1.0]), np.array([0.25, 2.0]), np.array([1.5, -0.5]), np.array([1.0, 1.0])]
SUBSETS = [*chain.from_iterable(combinations(range(4), n) for n in range(1, 5))]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_every_choice_of_gradients_is_written_over_buffers_of_nan(loss: Callable[..., Any]) -> None:
    def of(*xs: Any, stack: Any) -> Any:
        return loss(stack, *xs)

    wanted = [g.numpy() for g in EAGER.grad(lambda *xs: loss(EAGER, *xs), argnums=(0, 1, 2, 3))(*GIVEN)]
    slopes = [[of(*_moved(n, at, e), stack=EAGER).item() for e in (1e-6, -1e-6)] for n in range(4) for at in (0, 1)]
    differences = (np.array(slopes) @ [1, -1] / 2e-6).reshape(4, 2)
    np.testing.assert_allclose(wanted, differences, rtol=1e-6, atol=1e-6)
    for stack in (EAGER, LAZY):
        inputs = [stack.input(name, (2,), "float64") for name in "xwuz"]
        for subset in SUBSETS:
            program = stack.compile(inputs, list(stack.grad(lambda *xs, s=stack: of(*xs, stack=s), subset)(*inputs)))
            outs = [np.full(2, np.nan) for _ in subset]
            for _ in range(2):
                program(*GIVEN, out=outs)
                for out, n in zip(outs, subset, strict=True):
                    np.testing.assert_allclose(out, wanted[n], rtol=1e-12, atol=1e-12)


def _moved(number: int, at: int, by: float) -> list[Any]:
    found = [x.copy() for x in GIVEN]
    found[number][at] += by
    return [EAGER.asarray(x) for x in found]


@every
def test_gradients_may_be_added_to_what_is_there(stack: Any) -> None:
    variables = [stack.variable(name, np.full(2, 7.0)) for name in "xwuz"]
    inputs = [stack.input(name, (2,), "float64") for name in "xwuz"]
    found = stack.grad(lambda *xs: foreach_of(3)(stack, *xs), (0, 1, 2, 3))(*inputs)
    program = stack.compile(inputs, [], [(v, v + g) for v, g in zip(variables, found, strict=True)])
    wanted = [g.numpy() for g in EAGER.grad(lambda *xs: foreach_of(3)(EAGER, *xs), (0, 1, 2, 3))(*GIVEN)]
    for times in (1, 2):
        program(*GIVEN)
        for variable, g in zip(variables, wanted, strict=True):
            np.testing.assert_allclose(variable.numpy(), 7 + times * g, rtol=1e-12)


# --- what has no cotangent ---------------------------------------------------------------------------------


@every
def test_what_nothing_is_wanted_of_is_not_multiplied_by_an_infinite_slope(stack: Any) -> None:
    """As in the loop written out: there no cotangent flows into it, and zero times infinity is not computed."""
    x = np.array([0.0, 4.0])

    def in_a_loop(x: Any) -> Any:
        root, plain = stack.fori(0, 2, lambda i, s: (stack.ops.sqrt(x) + 0 * i, s[1] * x), (x, x))
        del root
        return plain.sum()

    def in_rows(x: Any) -> Any:
        rows, last = stack.foreach(lambda row, s: (stack.ops.sqrt(x), s * x), x[:, None], x)
        del rows
        return last.sum()

    def in_a_branch(x: Any) -> Any:
        return stack.cond(x.sum() > 0, lambda: (stack.ops.sqrt(x), x**3), lambda: (x, x))[1].sum()

    for f in (in_a_loop, in_rows, in_a_branch):
        np.testing.assert_allclose(stack.grad(f)(x).numpy(), 3 * x**2)
        np.testing.assert_allclose(stack.jit(lambda x, f=f: stack.grad(f)(x))(x).numpy(), 3 * x**2)


@every
def test_results_of_a_branch_lie_apart(stack: Any) -> None:
    x = stack.input("x", (3,), "float64")

    def double(x: Any) -> Any:
        y = stack.ops.exp(x)
        return y, y, stack.ops.flip(y), x

    program = stack.compile([x], list(stack.cond(x.sum() > 0, double, lambda x: (x, x, x, x), x)))
    for sign in (1, -1):
        given = np.full(3, float(sign))
        found = program(given)
        for n, one in enumerate(found):
            assert not any(np.shares_memory(one, other) for other in (*found[:n], given))


# --- P4: what is captured is computed once ----------------------------------------------------------------


class Counting(nnc.NumPy):
    """Counts applications of exp."""

    calls = 0

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        Counting.calls += op.name == "exp"
        return super().bind(op, *args, **params)


KINDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scan": lambda s, x, y: s.scan(lambda c, _: (c * y, None), x, None, length=5)[0],
    "while": lambda s, x, y: s.while_loop(lambda i, c: i < 5, lambda i, c: (None, (i + 1, c * y)), (0, x), 9)[1][1],
    "in each other": lambda s, x, y: s.fori(
        0, 3, lambda i, c: s.cond(i > 0, lambda: s.fori(0, 2, lambda j, d: d * y, c), lambda: c + y), x
    ),
}


@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("f", KINDS.values(), ids=KINDS)
def test_what_is_captured_is_computed_once_in_a_run(f: Callable[[Any, Any, Any], Any], differentiated: bool) -> None:
    stack = nnc.eager(Counting())

    def loss(x: Any) -> Any:
        return f(stack, x, stack.ops.exp(x)).sum()

    before = Counting.calls
    (stack.grad(loss) if differentiated else loss)(stack.asarray(np.ones(2)))
    assert Counting.calls - before == 1


# --- P5: traces and sizes ---------------------------------------------------------------------------------

Body = Callable[[Any, Any], Any]


def traced_often(stack: Any, note: Callable[[], None], times: int) -> dict[str, Callable[[Any], Any]]:
    def cell(c: Any, x: Any = 0.5) -> Any:
        note()
        return stack.ops.tanh(c * 0.5 + x)

    rows = np.zeros((times, 2))
    return {
        "scan": lambda x: stack.scan(lambda c, r: (cell(c, r), c), x, rows)[1],
        "from the last": lambda x: stack.scan(lambda c, r: (cell(c, r), None), x, rows, reverse=True)[0],
        "foreach": lambda x: stack.foreach(lambda r, c: (None, cell(c, r)), rows, x)[1],
        "fold": lambda x: stack.fold(cell, x, rows),
        "map": lambda x: stack.map(lambda r: cell(x, r), rows),
        "fori": lambda x: stack.fori(0, times, lambda i, c: cell(c), x),
        "while": lambda x: stack.while_loop(
            lambda i, c: i < times, lambda i, c: (None, (i + 1, cell(c))), (0, x), times
        )[1][1],
        "sqrt": lambda x: stack.scan(lambda c, r: (cell(c, r), None), x, rows, checkpoint="sqrt")[0],
        "in each other": lambda x: stack.fori(
            0, times, lambda i, c: stack.cond(i > 5, lambda: cell(c), lambda: stack.fori(0, 2, lambda j, d: d, c)), x
        ),
    }


@pytest.mark.parametrize("kind", [*traced_often(EAGER, lambda: None, 1)])
def test_a_body_is_traced_three_times_at_most_and_graphs_are_as_large_for_any_number_of_times(kind: str) -> None:
    few = 16 if kind == "sqrt" else 10  # so that no segment is shorter than others, as of 10,000
    sizes: dict[int, list[int]] = {}
    for times in (few, 10_000):
        for differentiated in (False, True):
            traces: list[int] = []
            f = traced_often(LAZY, lambda traces=traces: traces.append(1), times)[kind]
            x = LAZY.input("x", (2,), "float64")
            y = (LAZY.grad(lambda x, f=f: (f(x) ** 2).sum()) if differentiated else f)(x)
            assert 1 <= len(traces) <= 3
            written = str(LAZY.graph.close([x.value], [y.value]))
            sizes.setdefault(times, []).append(written.count(" = "))
    assert sizes[few][0] == sizes[10_000][0] > 0
    if kind != "sqrt":  # what is summed after a loop depends on how long its segments are
        assert sizes[few] == sizes[10_000]


@pytest.mark.parametrize("kind", [*traced_often(EAGER, lambda: None, 1)])
def test_an_eager_body_is_traced_three_times_at_most(kind: str) -> None:
    traces: list[int] = []
    traced_often(EAGER, lambda: traces.append(1), 50)[kind](EAGER.asarray(np.ones(2)))
    assert 1 <= len(traces) <= 3


# --- P9: an extent that is known late ----------------------------------------------------------------------


def test_images_of_an_unknown_number_take_one_trace_and_one_program() -> None:
    traces: list[int] = []
    data = LAZY.input("data", (None, 3, 8, 8), "float32")

    def body(x: Any, s: Any) -> Any:
        traces.append(1)
        return LAZY.ops.relu(x * s), s + x.mean()

    outs, last = LAZY.foreach(body, data, np.float32(1))
    assert outs.shape[1:] == (3, 8, 8)
    assert outs.shape[0] == data.shape[0]
    program, seen = LAZY.compile([data], [outs, last]), len(traces)
    for n in (2, 5, 2, 0):
        images = np.random.default_rng(n).normal(size=(n, 3, 8, 8)).astype("float32")
        found, s = program(images)
        state = np.float32(1)
        for x, y in zip(images, found, strict=True):
            np.testing.assert_allclose(y, np.maximum(x * state, 0), rtol=1e-5)
            state += x.mean()
        np.testing.assert_allclose(s, state, rtol=1e-5)
    assert len(traces) == seen <= 3


# --- P11: second derivatives ---------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("how", [{}, {"checkpoint": "sqrt"}, {"checkpoint": 3}], ids=str)
def test_second_derivatives_of_the_logistic_map(stack: Any, how: Any) -> None:
    def last(p: Any) -> Any:
        return stack.fori(0, 20, lambda _, s: p[1] * s * (1 - s), p[0], **how)

    found = stack.hessian(last)(np.array([0.3, 2.9])).numpy()
    np.testing.assert_allclose(found, [[-1.217374, -2.060594], [-2.060594, 1.591758]], rtol=1e-6)
    np.testing.assert_allclose(found, found.T, rtol=1e-9)
    scanned = stack.hessian(
        lambda p: stack.foreach(lambda _, s: (None, p[1] * s * (1 - s)), np.zeros(20), p[0], **how)[1]
    )(np.array([0.3, 2.9]))
    np.testing.assert_allclose(scanned.numpy(), found, rtol=1e-9)
