"""Effects in blocks of `map`, and up to the exits of a loop (`control_flow/blocks`, `control_flow/breakpoints`).

The order is that of the lines a plain Python function would print.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.effects import numbers_of_times, recording
from nnc_func.errors import BatchingError, CheckError, OperatorError

LAZY, EAGER = nnc.lazy(), nnc.eager()
STACKS = {"eager": EAGER, "lazy": LAZY, "eager over lazy": EAGER.swap(device=LAZY)}
every = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
Said = Callable[[Callable[[], Any]], tuple[list[str], Any]]
draw = np.random.default_rng(3)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What a function prints, line by line, and what it gives."""

    def of(f: Callable[[], Any]) -> tuple[list[str], Any]:
        capsys.readouterr()
        found = f()
        return capsys.readouterr().out.splitlines(), found

    return of


# --- blocks of a map ---------------------------------------------------------------------------------------------


def in_blocks(stack: Any, xs: Any, batch: int | None) -> Any:
    """Two effects, one of which gives something, and one in a branch that some rows take."""

    def f(x: Any) -> Any:
        stack.ops.print(x, text="x")
        (half,) = stack.ops.callback(
            stack.ops.stop_gradient(x), function=lambda v: v / 2, shapes=((),), dtypes=("float64",)
        )
        y = stack.cond(x > 2, lambda: (stack.ops.print(x, text="large"), x * x)[1], lambda: -x)
        return {"y": y * half, "same": stack.asarray(7.0), "none": None}

    return stack.map(f, xs, batch=batch)


@every
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5])
def test_block_after_block_and_effect_after_effect(stack: Any, n: int, said: Said) -> None:
    xs = np.arange(1.0, n + 1)
    wanted = []
    for first in range(0, n, 2):
        block = xs[first : first + 2]
        wanted += [f"x {x}" for x in block] + [f"large {x}" for x in block if x > 2]
    for f in (lambda xs: in_blocks(stack, xs, 2), stack.jit(lambda xs: in_blocks(stack, xs, 2))):
        lines, found = said(lambda f=f: {k: v if v is None else v.numpy() for k, v in f(stack.asarray(xs)).items()})
        assert lines == wanted
        np.testing.assert_array_equal(found["y"], np.where(xs > 2, xs * xs, -xs) * xs / 2)
        np.testing.assert_array_equal(found["same"], np.full(n, 7.0))
        assert found["none"] is None


@every
def test_derivatives_of_blocks_do_not_repeat_them(stack: Any, said: Said) -> None:
    xs, w = draw.uniform(1, 4, 5), draw.normal(size=5)

    def loss(xs: Any, batch: int | None = 2) -> Any:
        return (in_blocks(stack, xs, batch)["y"] * w).sum()

    count = 5 + int((xs > 2).sum())
    wanted = stack.grad(lambda xs: loss(xs, None))(xs).numpy()
    for f in (stack.grad(loss), stack.jit(stack.grad(loss))):
        lines, slope = said(lambda f=f: f(xs).numpy())
        assert len(lines) == count
        np.testing.assert_allclose(slope, wanted)
    lines, (_, tangent) = said(lambda: stack.jvp(loss, (xs,), (w,)))
    assert len(lines) == count
    np.testing.assert_allclose(tangent.numpy(), wanted @ w)


@every
def test_loops_within_a_block_go_row_by_row(stack: Any, said: Said) -> None:
    def f(x: Any) -> Any:
        return stack.while_loop(lambda v: v < 3, lambda v: (None, (stack.ops.print(v), v + x)[1]), x, 9)[1]

    lines, found = said(lambda: stack.map(f, np.array([1.0, 2.0, 5.0]), batch=3).numpy().tolist())
    assert (lines, found) == (["1.0", "2.0", "2.0"], [3, 4, 5])
    lines, found = said(lambda: stack.map(f, np.array([1.0, 2.0, 5.0])).numpy().tolist())
    assert (lines, found) == (["1.0", "2.0", "2.0"], [3, 4, 5])


@every
def test_host_predicates_in_blocks(stack: Any) -> None:
    asked: list[float] = []

    def large(x: Any) -> bool:
        asked.append(float(x))
        return bool(x > 1)

    def f(x: Any) -> Any:
        y = stack.while_loop(nnc.host(lambda v: bool(v < 5)), lambda v: (None, (v * 2 + 1,)), (x,), 9)[1][0]
        return stack.cond(nnc.host(large), lambda x: x * 10, lambda x: x, x) + y

    xs = np.array([0.0, 2.0, 1.0, 3.0, 7.0])
    wanted = stack.map(f, xs).numpy()
    assert asked == xs.tolist()
    for g in (f, stack.jit(f)):
        asked.clear()
        np.testing.assert_array_equal(stack.map(g, xs, batch=2).numpy(), wanted)
        assert asked == xs.tolist()
    slopes = [stack.grad(lambda xs, n=n: (stack.map(f, xs, batch=n) ** 2).sum())(xs).numpy() for n in (None, 2)]
    np.testing.assert_allclose(slopes[1], slopes[0])


@every
def test_a_check_in_a_block_fails_before_the_next_block(stack: Any, said: Said) -> None:
    def f(x: Any) -> Any:
        stack.ops.print(x)
        stack.ops.check(x < 2.5, x, text="x={} is small")
        return x

    def run() -> None:
        with pytest.raises(CheckError, match=r"x=3.0 is small .*test_effects_in_blocks.py"):
            stack.map(f, np.arange(1.0, 7.0), batch=2).numpy()

    assert said(run)[0] == ["1.0", "2.0", "3.0", "4.0"]


@every
def test_each_slice_knows_its_number(stack: Any, said: Said) -> None:
    """So that it draws the numbers that it would draw on its own."""

    def f(x: Any, speaks: bool) -> Any:
        number = numbers_of_times(stack)[0]
        if speaks:
            stack.ops.print(number)
        key = stack.ops.random_fold_in(stack.key(1), number)
        return x * 10 + number, stack.ops.random_uniform(key, shape=(2,))

    xs = np.arange(5.0)
    for speaks in (False, True):
        lines, found = said(lambda speaks=speaks: stack.map(lambda x: f(x, speaks), xs, batch=2))
        wanted = stack.map(lambda x: f(x, False), xs)
        assert lines == ["0", "1", "2", "3", "4"] * speaks
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert len({*wanted[1].numpy().ravel().tolist()}) == 10


def test_of_a_symbolic_extent_in_a_file(said: Said, tmp_path: Any) -> None:
    x = LAZY.input("x", ("n",), "float64")
    with recording(LAZY) as scope:
        y = LAZY.map(lambda x: (LAZY.ops.print(x), x * 2)[1], x, batch=2)
    program = LAZY.compile([x], y, effects=scope.effects)
    program.save(tmp_path / "program")
    for f in (program, nnc.load_program(tmp_path / "program", allow=("print",))):
        for n in (0, 1, 4, 5):
            xs = np.arange(float(n))
            lines, found = said(lambda f=f, xs=xs: np.asarray(f(xs)))
            assert lines == [str(x) for x in xs]
            np.testing.assert_array_equal(found, xs * 2)


@every
def test_rows_of_a_vmap_still_have_none(stack: Any) -> None:
    with pytest.raises(BatchingError, match="print, within loop, has an effect, which happens once"):
        stack.vmap(lambda xs: in_blocks(stack, xs, 2)["y"])(np.ones((2, 4)))


# --- exits -------------------------------------------------------------------------------------------------------


def with_exits(stack: Any, start: Any, xs: Any, shift: int = 0, **how: Any) -> Any:
    """A product, which two exits ask about; each segment prints what it is given."""
    say = stack.ops.print

    def first(total: Any, x: Any) -> Any:
        say(total, text="first")
        return total * (x + shift), total

    def second(total: Any, x: Any) -> Any:
        say(total, text="second")
        return total + 1, None

    def third(total: Any, x: Any) -> Any:
        say(total, text="third")
        return total, x

    def is_large(total: Any) -> Any:
        say(total, text="large?")
        return total > 20

    return stack.loop_until([first, is_large, second, lambda total: total < 0, third], start, xs, **how)


XS = np.array([2.0, 3.0, 4.0, 5.0])
LINES = [
    "first 1.0", "large? 2.0", "second 2.0", "third 3.0",
    "first 3.0", "large? 9.0", "second 9.0", "third 10.0",
    "first 10.0", "large? 40.0",
]  # fmt: skip


@every
@pytest.mark.parametrize("exact", [False, True])
def test_up_to_the_exit(stack: Any, exact: bool, said: Said) -> None:
    lines, found = said(lambda: with_exits(stack, 1.0, XS, exact=exact))
    assert lines == LINES
    assert (found.carry.item(), found.exit.item(), found.times.item()) == (10.0, 0, 2)
    assert [len(y) for y in found.outputs if y is not None] == ([3, 2] if exact else [4, 4])

    def last(start: Any) -> Any:
        return with_exits(stack, start, XS).carry ** 2

    slope = 2 * 10 * 6  # of (2 a + 1) * 3 + 1
    for f in (stack.grad(last), stack.jit(stack.grad(last))):
        lines, found = said(lambda f=f: f(1.0).item())
        assert (lines, found) == (LINES, slope)
    lines, (_, tangent) = said(lambda: stack.jvp(last, (1.0,), (1.0,)))
    assert (lines, tangent.item()) == (LINES, slope)


@every
def test_where_nothing_bounds_it(stack: Any, said: Said) -> None:
    """Rows are counted first, in silence; the derivative computes again, in silence."""
    lines, found = said(lambda: with_exits(stack, 1.0, None, 2))
    wanted, total, slope, factor = list[str](), 1.0, 1, 2
    while True:
        wanted += [f"first {total}", f"large? {total * factor}"]
        if total * factor > 20:
            break
        wanted += [f"second {total * factor}", f"third {total * factor + 1}"]
        total, slope, factor = total * factor + 1, slope * factor, factor + 1
    assert (lines, found.exit.item(), found.carry.item(), slope) == (wanted, 0, 10.0, 6)
    lines, found = said(lambda: stack.grad(lambda a: with_exits(stack, a, None, 2).carry)(1.0).item())
    assert (lines, found) == (wanted, slope)


@every
def test_in_other_loops_and_with_their_numbers(stack: Any, said: Said) -> None:
    def f(xs: Any) -> Any:
        def inner(x: Any) -> Any:
            def before(s: Any, i: Any) -> Any:
                outer, own = numbers_of_times(stack)
                stack.ops.print(outer, own)
                return s + x, None

            return stack.loop_until([before, lambda s: s > 2, lambda s, i: (s, None)], 0.0, max_iterations=5).times

        return stack.map(inner, xs)

    for g in (f, stack.jit(f)):
        lines, found = said(lambda g=g: g(stack.asarray(np.array([1.0, 3.0]))).numpy().tolist())
        assert (lines, found) == (["0 0", "0 1", "0 2", "1 0"], [2, 0])


@every
def test_a_check_behind_an_exit_fails_in_its_time(stack: Any) -> None:
    def after(s: Any, x: Any) -> Any:
        stack.ops.check(x < 2.5, x, text="x={} is small")
        return s, None

    def f(xs: Any) -> Any:
        return stack.loop_until([lambda s, x: (s + x, None), lambda s: s > 1000, after], 0.0, xs).carry

    for g in (f, stack.jit(f)):
        with pytest.raises(CheckError, match=r"x=3.0 is small .*test_effects_in_blocks.py"):
            g(stack.asarray(XS)).item()


@every
def test_what_would_be_called_twice_is_refused(stack: Any) -> None:
    def before(s: Any, x: Any) -> Any:
        (t,) = stack.ops.callback(stack.ops.stop_gradient(s), function=np.abs, shapes=((),), dtypes=("float64",))
        return s + t, s

    segments = [before, lambda s: s > 9, lambda s, x: (s, None)]
    with pytest.raises(OperatorError, match=r"rows the outputs of loop_until have is counted first, without its eff"):
        stack.loop_until(segments, 1.0)
    assert stack.loop_until(segments, 1.0, max_iterations=9).mids[0].item() == 16.0
