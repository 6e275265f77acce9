"""Loops copy nothing from one time to the next (`engine/planning/loops`, `engine/planning/branches`).

Bytes are counted twice: in the plan, of what a body's instructions copy, and on the device, of what kernels that only
move or fill have written; the difference between a long and a short loop is that of so many times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.plan import Plan
from nnc_func.tree import flatten

FEW, MANY = 12, 52
UNITS = 16
ROW = 8 * UNITS  # bytes
MOVES = ("copy", "fill", "concat", "stack", "assemble", "pad", "set_slice", "reshape", "permute_dims", "relayout")


class Counting(nnc.NumPy):
    """Counts bytes that are written by kernels that compute nothing."""

    moved = 0

    def writing(self, op: Any, kernel: Any, items: Any, outs: int, scratch: tuple[Any, ...]) -> Any:
        """The kernel, counted where it only moves or fills."""
        call = super().writing(op, kernel, items, outs, scratch)
        if op.name not in (*MOVES, "full"):
            return call

        def counted(*arrays: Any) -> None:
            Counting.moved += sum(a.nbytes for a in arrays[-outs:] if a.nbytes > 8)  # not a number
            call(*arrays)

        return counted


STACK: Any = nnc.lazy(Counting())
OPS = STACK.ops


def rnn(x: Any, w: Any, h: Any) -> Any:
    return STACK.foreach(lambda x, h: ((after := OPS.tanh(x + h @ w)), after), x, h)


def lstm(x: Any, w: Any, h: Any, c: Any) -> Any:
    def body(x: Any, states: Any) -> Any:
        h, c = states
        z = h @ w
        i, f, g, o = (x + z[:, k * UNITS : (k + 1) * UNITS] for k in range(4))
        c = OPS.sigmoid(f) * c + OPS.sigmoid(i) * OPS.tanh(g)
        h = OPS.sigmoid(o) * OPS.tanh(c)
        return h, [h, c]

    return STACK.foreach(body, x, [h, c])


def fibonacci(x: Any, a: Any, b: Any) -> Any:
    return STACK.fori(0, len(x), lambda i, v: (v[1], v[0] + v[1]), (a, b))


def swap(x: Any, a: Any, b: Any) -> Any:
    return STACK.fori(0, len(x), lambda i, v: (v[1], OPS.sort(v[0])), (a, b))


def four_before(x: Any, a: Any, b: Any) -> Any:
    """``y[i] = tanh(y[i - 4] + y[i - 1])``."""
    return STACK.fori(0, len(x), lambda i, v: (v[1], v[2], v[3], OPS.tanh(v[0] + v[3])), (a, b, a, b))


def convolved(x: Any, image: Any, w: Any) -> Any:
    return STACK.fori(0, len(x), lambda i, y: OPS.tanh(OPS.conv2d(y, w, padding="SAME")), image)


def passing(x: Any, c: Any) -> Any:
    return STACK.fold(lambda c, x: STACK.cond(x[0] > 0, lambda c: c, lambda c: OPS.tanh(c + x), c), c, x)


def bypassed(x: Any, c: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        index = OPS.cast(x[0] * 4, dtype="int64")
        return STACK.case_of(index, [lambda c: OPS.tanh(c), lambda c: OPS.sort(c)], c, default=nnc.bypass)

    return STACK.fold(body, c, x)


def computing(x: Any, c: Any) -> Any:
    return STACK.fold(lambda c, x: STACK.cond(x[0] > 0, lambda c: OPS.sort(c + x), lambda c: OPS.tanh(c), c), c, x)


def stacked(x: Any, c: Any) -> Any:
    return STACK.scan(lambda c, x: ((after := OPS.sort(c + x)), after), c, x)


def buffer(x: Any, c: Any) -> Any:
    """``x[i] = f(x[i - 1])``."""

    def body(i: Any, x: Any) -> Any:
        x[i] = OPS.tanh(x[i - 1] + c)
        return x

    return STACK.fori(1, x.shape[0], body, x)


def guarded_buffer(x: Any, c: Any) -> Any:
    """``if c[0] > 0: x[i] = f(x[i - 1])``."""

    def written(i: Any, x: Any) -> Any:
        x[i] = OPS.tanh(x[i - 1] + c)
        return x

    return STACK.fori(1, x.shape[0], lambda i, x: STACK.cond(x[i][0] > 0, written, lambda i, x: x, i, x), x)


VECTOR, MATRIX = (UNITS,), (2, UNITS)
SHAPES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[int, ...]]] = {
    "rnn": (rnn, [(UNITS, UNITS), MATRIX], MATRIX),
    "lstm": (lstm, [(UNITS, 4 * UNITS), MATRIX, MATRIX], MATRIX),
    "fibonacci": (fibonacci, [VECTOR, VECTOR], VECTOR),
    "swap": (swap, [VECTOR, VECTOR], VECTOR),
    "x[c-4]": (four_before, [VECTOR, VECTOR], VECTOR),
    "convolution": (convolved, [(1, 5, 5, 2), (3, 3, 2, 2)], VECTOR),
    "pass-through cond": (passing, [VECTOR], VECTOR),
    "bypass": (bypassed, [VECTOR], VECTOR),
    "cond": (computing, [VECTOR], VECTOR),
    "a carry that is also a y": (stacked, [VECTOR], VECTOR),
    "buf[i] = f(buf[i - 1])": (buffer, [VECTOR], VECTOR),
    "buf[i] = f(buf[i - 1]) in a cond": (guarded_buffer, [VECTOR], VECTOR),
}


def compiled(name: str, times: int, grad: bool) -> tuple[Any, list[Any]]:
    """The program of so many times, and arrays for it."""
    f, shapes, of_rows = SHAPES[name]
    every = [(times, *of_rows), *shapes]
    inputs = [STACK.input(f"x{n}", shape, "float64") for n, shape in enumerate(every)]

    def total(*given: Any) -> Any:
        return sum((y.sum() for y in flatten(f(*given))[0] if y is not None), STACK.asarray(0.0))

    made = STACK.grad(total, argnums=tuple(range(len(every))))(*inputs) if grad else flatten(f(*inputs))[0]
    draw = np.random.default_rng(0)
    arrays = [draw.normal(0, 0.3, shape) for shape in every]
    arrays[0].reshape(times, -1)[:, 0] = 0.5 - (np.arange(times) % 2 == 0)  # what branches ask: one, then the other
    return STACK.compile(inputs, [*made]), arrays


def bodies(plan: Plan) -> Iterator[tuple[Plan, Any]]:
    """The plans of bodies, and the instructions that have them."""
    for i in plan.instructions:
        for loop in i.loops:
            yield loop.plan, (plan, i, loop)
            yield from bodies(loop.plan)


def copied(plan: Plan) -> int:
    """Bytes that bodies copy, of what is larger than a number, each body once."""
    found = 0
    for inner, (outer, i, loop) in bodies(plan):
        found += sum(
            inner.slots[s].aval.nbytes
            for each in inner.instructions if each.op.name in MOVES and not each.view
            for s in each.results if inner.slots[s].aval.nbytes > 8
        )  # fmt: skip
        for n, array, _ in loop.copies if i.op.name == "branch" else ():
            if outer.slots[i.operands[array]].buffer != outer.slots[i.results[n]].buffer:
                found += outer.slots[i.results[n]].aval.nbytes
    return found


def moved(program: Any, arrays: list[Any]) -> int:
    """Bytes that its kernels move in a run."""
    program(*arrays)
    Counting.moved = 0
    program(*arrays)
    return Counting.moved


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_is_copied_from_one_time_to_the_next(name: str) -> None:
    few, many = (compiled(name, times, grad=False) for times in (FEW, MANY))
    assert copied(many[0].plan.verify()) == 0
    assert moved(*many) == moved(*few)


@pytest.mark.parametrize("name", ["rnn", "lstm", "fibonacci", "x[c-4]", "a carry that is also a y", "swap"])
def test_the_gradient_copies_nothing_either_within_loops(name: str) -> None:
    """What was carried into each time is read from the rows of what was carried out of it."""
    assert copied(compiled(name, MANY, grad=True)[0].plan.verify()) == 0


@pytest.mark.parametrize("name", ["buf[i] = f(buf[i - 1])", "buf[i] = f(buf[i - 1]) in a cond", "pass-through cond"])
def test_bytes_a_time_do_not_grow_with_the_number_of_times(name: str) -> None:
    """Under grad a row or two of cotangents are filled with zeros, and not the whole buffer."""
    few, more, many = (moved(*compiled(name, times, grad=True)) for times in (FEW, FEW + 40, FEW + 80))
    assert many - more <= 40 * 8 * ROW
    assert abs((many - more) - (more - few)) <= 40 * ROW
