"""What NNC tests of loops and branches, and leaves out (`control_flow/while_loops`, `control_flow/branches`).

The numbers are those of its scalar tests of `while`, `case..of` and the tape; the loop in a loop and the branch in a
loop, which it never differentiates, are here too. Every case runs at once and as a graph, under `jit`, as a program and
from a file, however carries are kept for the derivative, and in memory that is filled with NaN. What it is to give is
the same in plain Python; its derivatives are the imaginary part of that, a tiny imaginary step away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import nnc_func as nnc
from nnc_func.config import config
from tests.profiles import NIGHTLY

EAGER, LAZY = nnc.eager(), nnc.lazy()
OF_BOUNDED = ("full", "carries", "sqrt")
KEPT: list[Any] = [None, *OF_BOUNDED, 1, 2, "budget:300B", "budget:1MB"]
STEP = 1e-30


@frozen
class Case:
    """A function of a stack, and of plain numbers; inputs, and values that NNC's own test states."""

    of: Callable[..., Any]
    plain: Callable[..., Any]
    inputs: dict[str, float]
    published: tuple[float, ...] = ()

    def wanted(self) -> list[float]:
        """The values, and the derivatives of their sum by each input."""
        values = [*self.plain(**self.inputs)]
        return [*values, *(self.slope(name) for name in self.inputs)]

    def slope(self, name: str) -> float:
        """The derivative of the sum of the values."""
        found = self.plain(**(self.inputs | {name: self.inputs[name] + 1j * STEP}))
        return float(sum(np.imag(each) for each in found) / STEP)

    def all_of(self, stack: Any, *given: Any, checkpoint: Any = None) -> list[Any]:
        """The same of tensors."""
        (_, values), slopes = stack.value_and_grad(
            lambda *xs: self.summed(stack, xs, checkpoint), argnums=tuple(range(len(given))), has_aux=True
        )(*given)
        return [*values, *slopes]

    def summed(self, stack: Any, given: Any, checkpoint: Any) -> Any:
        found = self.of(stack, *given, checkpoint=checkpoint)
        return sum(found[1:], found[0]), found


def bound(checkpoint: Any) -> int | None:
    """The most times of a while; None where that can be kept without one."""
    return 9 if checkpoint in OF_BOUNDED else None


def times(stack: Any, count: int, step: Callable[[Any], Any], init: Any, checkpoint: Any, most: Any = None) -> Any:
    """`while n < count`, as NNC counts: n is a tensor of the graph."""

    def body(n: Any, value: Any) -> Any:
        return None, (n + 1, step(value))

    most = most or bound(checkpoint)
    return stack.while_loop(lambda n, value: n < count, body, (0, init), most, checkpoint=checkpoint)[1][1]


# --- while ------------------------------------------------------------------------------------------------


def multiplied(stack: Any, x: Any, y: Any, checkpoint: Any) -> Any:
    """x ← x·y, five times."""
    return [times(stack, 5, lambda x: x * y, x, checkpoint)]


def preserved(stack: Any, x: Any, y: Any, a: Any, checkpoint: Any) -> Any:
    """y ← x·y, five times; what the loop begins with is used again after it, so its memory may not be the loop's."""
    z = times(stack, 5, lambda y: x * y, y, checkpoint)
    return [z, a * z + a, y * x + z]


def chained(stack: Any, x0: Any, x1: Any, x2: Any, x3: Any, y: Any, checkpoint: Any) -> Any:
    """x0 ← x1 ← x2 ← x3 ← the sum of all: each is needed until all have moved, so four lie side by side."""

    def step(xs: Any) -> Any:
        return (xs[1], xs[2], xs[3], y + xs[3] + xs[2] + xs[1] + xs[0])

    xs = times(stack, 5, step, (x0, x1, x2, x3), checkpoint)
    return [y + xs[3] + xs[2] + xs[1] + xs[0], *xs]


def chained_plain(x0: Any, x1: Any, x2: Any, x3: Any, y: Any) -> Any:
    xs = [x0, x1, x2, x3]
    for _ in range(5):
        xs = [*xs[1:], y + sum(xs)]
    return [y + sum(xs), *xs]


def crossed(stack: Any, x: Any, a: Any, checkpoint: Any) -> Any:
    """y = x + a; b = x + y; (x, a) ← (y, b): the example in NNC's source of a body that is unrolled for its plan."""

    def step(xs: Any) -> Any:
        y = xs[0] + xs[1]
        return y, xs[0] + y

    return [*times(stack, 6, step, (x, a), checkpoint)]


def crossed_plain(x: Any, a: Any) -> Any:
    for _ in range(6):
        y = x + a
        x, a = y, x + y
    return [x, a]


def affine(stack: Any, x: Any, a: Any, b: Any, checkpoint: Any) -> Any:
    """x ← a·x + b; whether it goes on is asked at the end of a time: five of them for `count < 4`."""
    found = stack.loop_until(
        [lambda x, n: ((n, a * x + b), None), lambda mid: mid[0] >= 4, lambda mid, n: (mid[1], None)], x,
        max_iterations=bound(checkpoint),
    )  # fmt: skip
    return [found.mids[0][1]]


def affine_plain(x: Any, a: Any, b: Any) -> Any:
    for _ in range(5):
        x = a * x + b
    return [x]


def logarithms(stack: Any, x: Any, y: Any, v: Any, checkpoint: Any) -> Any:
    """x ← ln(x·y), five times, times v: y is read each time, so its derivative is a sum over the times."""
    return [v * times(stack, 5, lambda x: stack.ops.log(x * y), x, checkpoint)]


def logarithms_plain(x: Any, y: Any, v: Any) -> Any:
    for _ in range(5):
        x = np.log(x * y)
    return [v * x]


def two_sums(stack: Any, x: Any, y: Any, z: Any, checkpoint: Any) -> Any:
    """Two values that every time reads, one of them twice, and one that a bound stops."""
    value = times(stack, 9, lambda x: stack.ops.sin(x * y) + z * x * z, x, checkpoint, most=4)
    return [value, value * z]


def two_sums_plain(x: Any, y: Any, z: Any) -> Any:
    for _ in range(4):
        x = np.sin(x * y) + z * x * z
    return [x, x * z]


# --- case..of ----------------------------------------------------------------------------------------------


def pieces(stack: Any, x: Any, checkpoint: Any = None) -> Any:
    """0 below 0, x below 1, x/2 + 1/2 below 2, then 3/2: between 0 and 1 no branch is taken, and x passes."""
    o = stack.ops
    index = o.where(x < 0, 0, o.where(x < 1, -1, o.where(x < 2, 1, 2)))
    branches = [lambda x: x * 0, lambda x: 0.5 * x + 0.5, lambda x: o.zeros_like(x) + 1.5]
    return [stack.case_of(index, branches, x, default=nnc.bypass)]


def piece(x: Any) -> Any:
    at = np.real(x)
    return 0 * x if at < 0 else x if at < 1 else 0.5 * x + 0.5 if at < 2 else 1.5 + 0 * x


def chosen_each_time(stack: Any, x: Any, a: Any, checkpoint: Any) -> Any:
    """A branch in a loop: the piece, and then a step up; what is taken changes from time to time."""
    return [times(stack, 6, lambda x: pieces(stack, x)[0] * a + 0.3, x, checkpoint)]


def chosen_each_time_plain(x: Any, a: Any) -> Any:
    for _ in range(6):
        x = piece(x) * a + 0.3
    return [x]


def loops_in_branches(stack: Any, x: Any, a: Any, checkpoint: Any) -> Any:
    """A loop in a branch of a loop: both go as often as their values say."""

    def step(x: Any) -> Any:
        halved = lambda x: stack.while_loop(  # noqa: E731
            lambda x: x > 1, lambda x: (None, x * a), x, bound(checkpoint), checkpoint=checkpoint
        )[1]
        return stack.cond(x > 2, halved, lambda x: x * x + 1, x)

    return [times(stack, 5, step, x, checkpoint)]


def loops_in_branches_plain(x: Any, a: Any) -> Any:
    for _ in range(5):
        if np.real(x) > 2:
            while np.real(x) > 1:
                x = x * a
        else:
            x = x * x + 1
    return [x]


def loops_in_loops(stack: Any, x: Any, a: Any, checkpoint: Any) -> Any:
    """The inner one ends by its value, the outer one by the inner one's."""

    def inner(x: Any) -> Any:
        return stack.while_loop(
            lambda x: x < 4, lambda x: (None, x * a + 0.1), x, bound(checkpoint), checkpoint=checkpoint
        )[1]

    def outer(x: Any, n: Any) -> Any:
        return None, (0.2 * stack.ops.sin(inner(x)) + 1.5, n + 1)

    _, (x, _), _ = stack.while_loop(lambda x, n: n < 4, outer, (x, 0), bound(checkpoint), checkpoint=checkpoint)
    return [x, x * a]


def loops_in_loops_plain(x: Any, a: Any) -> Any:
    for _ in range(4):
        while np.real(x) < 4:
            x = x * a + 0.1
        x = 0.2 * np.sin(x) + 1.5
    return [x, x * a]


# --- all of them --------------------------------------------------------------------------------------------

CASES = {
    "x ← x·y": Case(multiplied, lambda x, y: [x * y**5], {"x": 0.34, "y": 1.11}, (0.34 * 1.11**5,)),
    "what the loop began with": Case(
        preserved, lambda x, y, a: [x**5 * y, a * x**5 * y + a, y * x + x**5 * y], {"x": 0.92, "y": 3.2, "a": 1.2},
        (0.92**5 * 3.2, 1.2 * 0.92**5 * 3.2 + 1.2),
    ),
    "a chain of carries": Case(
        chained, chained_plain, {"x0": 1.2, "x1": -0.3, "x2": 0.8, "x3": 2.1, "y": 0.4}
    ),
    "crossed carries": Case(crossed, crossed_plain, {"x": 1.3, "a": -0.4}),
    "asked at the end": Case(affine, affine_plain, {"x": 0.88, "a": 0.3, "b": 1.1}, (1.5697484,)),
    "a derivative that is a sum": Case(logarithms, logarithms_plain, {"x": 1, "y": 3.2, "v": 0.22}, (0.34877815,)),
    "two sums": Case(two_sums, two_sums_plain, {"x": 0.7, "y": 1.4, "z": 0.6}),
    "below 0": Case(pieces, lambda x: [piece(x)], {"x": -1}, (0,)),
    "no branch": Case(pieces, lambda x: [piece(x)], {"x": 0.76}, (0.76,)),
    "the second branch": Case(pieces, lambda x: [piece(x)], {"x": 1.226}, (1.113,)),
    "the last branch": Case(pieces, lambda x: [piece(x)], {"x": 2.1}, (1.5,)),
    "a branch in a loop": Case(chosen_each_time, chosen_each_time_plain, {"x": -0.4, "a": 1.2}),
    "a loop in a branch in a loop": Case(loops_in_branches, loops_in_branches_plain, {"x": 1.1, "a": 0.45}),
    "a loop in a loop": Case(loops_in_loops, loops_in_loops_plain, {"x": 0.9, "a": 1.7}),
}  # fmt: skip
cases = pytest.mark.parametrize("name", CASES)
kept = pytest.mark.parametrize("checkpoint", KEPT, ids=str)
some_kept = pytest.mark.parametrize("checkpoint", KEPT if NIGHTLY else [None, "sqrt", "budget:300B"], ids=str)


def agree(found: Any, wanted: Any, dtype: str) -> None:
    tolerance = {"float64": 1e-9, "float32": 1e-5}[dtype]
    for one, other in zip(found, wanted, strict=True):
        array = one.numpy() if hasattr(one, "numpy") else np.asarray(one)
        assert array.dtype == dtype
        np.testing.assert_allclose(array, other, rtol=tolerance, atol=tolerance)


def arrays(case: Case, dtype: str = "float64") -> list[Any]:
    return [np.asarray(x, dtype) for x in case.inputs.values()]


@cases
def test_plain_python_gives_what_nnc_states(name: str) -> None:
    """And the derivatives that it states."""
    case = CASES[name]
    for found, stated in zip(case.wanted(), case.published, strict=False):
        np.testing.assert_allclose(found, stated, rtol=1e-7)
    if name == "x ← x·y":
        np.testing.assert_allclose(case.slope("x"), 1.11**5, rtol=1e-12)
    if name == "a derivative that is a sum":
        np.testing.assert_allclose(case.slope("y"), 0.18960060, rtol=1e-7)


@kept
@cases
def test_values_and_derivatives(name: str, checkpoint: Any) -> None:
    case = CASES[name]
    for stack in (EAGER, LAZY):
        for dtype in ("float64", "float32"):
            given = [stack.asarray(x) for x in arrays(case, dtype)]
            agree(case.all_of(stack, *given, checkpoint=checkpoint), case.wanted(), dtype)


@some_kept
@cases
def test_under_jit_as_a_program_and_from_a_file(
    name: str, checkpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice each, into arrays of NaN; in double precision in memory that is filled with NaN, rewrites checked."""
    case, wanted = CASES[name], CASES[name].wanted()
    for dtype, spec in (("float32", config.spec), ("float64", 3)):
        monkeypatch.setattr(config, "spec", spec)
        given = arrays(case, dtype)
        compiled = LAZY.jit(lambda *xs: case.all_of(LAZY, *xs, checkpoint=checkpoint))
        symbols = [LAZY.input(name, (), dtype) for name in case.inputs]
        program = LAZY.compile(symbols, case.all_of(LAZY, *symbols, checkpoint=checkpoint))
        program.plan.verify()
        program.save(tmp_path / "case.nnc")
        for each in (program, nnc.load_program(tmp_path / "case.nnc", LAZY)):
            for _ in range(2):
                outs = [np.full((), np.nan, dtype) for _ in wanted]
                each(*given, out=outs)
                agree(outs, wanted, dtype)
                agree(compiled(*given), wanted, dtype)


# --- memory -------------------------------------------------------------------------------------------------


def test_what_branches_compute_between_shares_memory() -> None:
    """z0 = x·x sorted in one branch, z1 = x·w sorted in another one: both lie in the same bytes."""
    o, shape = LAZY.ops, (16, 16)
    index, x, w = LAZY.input("i", (), "int64"), LAZY.input("x", shape), LAZY.input("w", shape)

    def branches(count: int) -> list[Callable[..., Any]]:
        return [lambda x: o.sort(x @ x) @ x, lambda x: o.sort(x @ w) @ w, lambda x: o.sort(w @ x) @ x][:count]

    plans = [LAZY.compile([index, x, w], LAZY.case_of(index, branches(count), x)).plan for count in (2, 3)]
    rows = [next(i for i in plan.instructions if i.op.name == "branch") for plan in plans]
    assert [len(row.loops) for row in rows] == [2, 3]
    assert plans[0].arena_bytes == plans[1].arena_bytes
    for plan, row in zip(plans, rows, strict=True):
        scratch = {plan.slots[n].buffer for n in row.scratch}
        assert len(scratch) == 1  # of all branches together
        assert all(loop.plan.arena_bytes <= plan.arena_bytes for loop in row.loops)
        assert sum(loop.plan.arena_bytes for loop in row.loops) > plan.arena_bytes


def test_three_branches_of_which_one_passes_its_operand_on() -> None:
    draw = np.random.default_rng(0)
    x, a, b = (draw.normal(size=(3, 3)) for _ in range(3))
    for stack in (EAGER, LAZY):
        for index, wanted in ((0, x @ a), (1, x), (2, x @ b), (-1, x), (7, x)):
            f = lambda x, a, b, stack=stack, index=index: stack.case_of(  # noqa: E731
                stack.asarray(index), [lambda x: x @ a, nnc.bypass, lambda x: x @ b], x, default=nnc.bypass
            )
            np.testing.assert_allclose(f(*map(stack.asarray, (x, a, b))).numpy(), wanted, rtol=1e-12)
            found = stack.grad(lambda *xs, f=f: f(*xs).sum(), argnums=(0, 1, 2))(*map(stack.asarray, (x, a, b)))
            ones, zero = np.ones((3, 3)), np.zeros((3, 3))
            slopes = {0: (ones @ a.T, x.T @ ones, zero), 2: (ones @ b.T, zero, x.T @ ones)}.get(
                index, (ones, zero, zero)
            )
            for one, other in zip(found, slopes, strict=True):
                np.testing.assert_allclose(one.numpy(), other, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "buffers"), [("x ← x·y", 1), ("crossed carries", 4), ("a chain of carries", 5)]
)  # fmt: skip
def test_carries_rotate_through_as_many_places_as_they_need(name: str, buffers: int) -> None:
    """NNC's multi-view tensors: nothing is copied from one time to the next, and no more lie side by side than live."""
    case, shape = CASES[name], (8, 8)
    symbols = [LAZY.input(name, shape, "float64") for name in case.inputs]
    program = LAZY.compile(symbols, case.of(LAZY, *symbols, checkpoint=None))
    (row,) = (i for i in program.plan.instructions if i.loops)
    (loop,) = row.loops
    assert not [i for i in loop.plan.instructions if i.op.name in ("copy", "assemble", "reshape")]
    places = {n for address in (*loop.reads, *loop.writes) if address.step == 0 for n in address.cycle}
    arrays = [*row.operands, *row.results, *row.scratch]
    own = range(len(row.operands), len(arrays))
    assert sum(program.plan.slots[arrays[n]].aval.shape == shape for n in places if n in own) == buffers
    found = program(*(np.full(shape, x) for x in case.inputs.values()))
    for one, other in zip(found if isinstance(found, (list, tuple)) else [found], case.wanted(), strict=False):
        np.testing.assert_allclose(one, np.full(shape, other), rtol=1e-12)


def test_the_piecewise_function_over_rows() -> None:
    """A branch over rows is a select: each row has its own."""
    xs = np.array([-1, 0.76, 1.226, 2.1, 0.0, 1.0, 2.0, -math.pi])
    for stack in (EAGER, LAZY):
        found = stack.vmap(lambda x, stack=stack: pieces(stack, x)[0])(stack.asarray(xs))
        np.testing.assert_allclose(found.numpy(), [piece(x) for x in xs], rtol=1e-12)
        slopes = stack.vmap(stack.grad(lambda x, stack=stack: pieces(stack, x)[0]))(stack.asarray(xs))
        np.testing.assert_allclose(slopes.numpy(), [0, 1, 0.5, 0, 1, 0.5, 0, 0], rtol=1e-12)
