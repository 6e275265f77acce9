"""Programs with control flow, drawn: a tree of statements on arrays, run by a stack and by plain Python and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from hypothesis import strategies as st

COUNT = 3  # variables of a program: numbers, or arrays of one shape
SHAPES = ((), (2,), (1, 3), (0,))


@frozen
class Assign:
    """A variable becomes an operator of variables."""

    target: int
    op: str
    args: tuple[int, ...]


@frozen
class If:
    """One of several blocks, by the sign of a sum, or by a counter."""

    kind: str  # "cond", or "case": by the number of what is taken, with the last one where there is none
    by: int
    blocks: tuple[tuple[Any, ...], ...]


@frozen
class For:
    """A block so many times; variables in `rows` are gathered time by time, and what they sum up to comes back."""

    kind: str  # "scan", "fori", "counted"
    times: int
    most: int
    reverse: bool
    how: tuple[tuple[str, Any], ...]
    rows: int | None
    sliced: int | None
    block: tuple[Any, ...]


@frozen
class While:
    """A block while the sum of a variable's magnitudes is small, and at most so many times (None: while it is)."""

    by: int
    most: int
    bounded: bool
    rows: int | None
    block: tuple[Any, ...]


BINARY = ("add", "multiply", "subtract", "where")
UNARY = ("tanh", "sin", "scale", "square", "stop", "sum", "carry")


@st.composite
def blocks(draw: Any, depth: int = 2, most: int = 3) -> tuple[Any, ...]:
    """A few statements, with others inside."""
    made = []
    variable = st.integers(0, COUNT - 1)
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.integers(0, 7 if depth else 3))
        if kind < 4:
            op = draw(st.sampled_from(BINARY + UNARY))
            made.append(Assign(draw(variable), op, tuple(draw(variable) for _ in range(2 if op in BINARY else 1))))
        elif kind == 4:
            which = draw(st.sampled_from(("cond", "case")))
            count = 2 if which == "cond" else draw(st.integers(1, 3))
            inside = tuple(draw(blocks(depth - 1, 2)) for _ in range(count))
            made.append(If(which, draw(variable), inside))
        elif kind < 7:
            which = draw(st.sampled_from(("scan", "scan", "fori", "counted")))
            times = draw(st.integers(0, 4))
            how: tuple[Any, ...] = ()
            if which == "scan":
                how = draw(st.sampled_from((
                    (), (("checkpoint", "sqrt"),), (("checkpoint", 2),), (("unroll", 2),), (("checkpoint", "full"),),
                )))  # fmt: skip
            made.append(
                For(
                    which, times, times + draw(st.integers(-1, 2)) if which == "counted" else times,
                    which != "fori" and draw(st.booleans()), how,
                    draw(st.none() | variable) if which != "fori" else None,
                    draw(st.none() | variable) if which != "fori" else None, draw(blocks(depth - 1, 2)),
                )
            )  # fmt: skip
        else:
            made.append(
                While(
                    draw(variable),
                    draw(st.integers(0, 4)),
                    True,
                    draw(st.none() | variable),
                    draw(blocks(depth - 1, 2)),
                )
            )
    return tuple(made)


# --- by a stack ----------------------------------------------------------------------------------------------


def _applied(ops: Any, op: str, args: list[Any], counter: Any) -> Any:
    if op in ("add", "multiply", "subtract"):
        return getattr(ops, op)(*args) * 0.7
    if op == "where":
        return ops.where(args[0] > 0.1, args[0], args[1])
    (x,) = args
    if op in ("tanh", "sin"):
        return getattr(ops, op)(x)
    if op == "scale":
        return x * 0.5 + 0.25
    if op == "square":
        return ops.tanh(x) ** 2
    if op == "stop":
        return ops.stop_gradient(x) * x
    if op == "sum":
        return x - ops.tanh(x.sum()) * 0.3
    return x * (1 + counter * 0.1)


def by_stack(stack: Any, block: tuple[Any, ...], values: list[Any], counter: Any = 0) -> list[Any]:
    """The variables after a block."""
    ops = stack.ops
    values = list(values)
    for each in block:
        if isinstance(each, Assign):
            values[each.target] = _applied(ops, each.op, [values[i] for i in each.args], counter)
        elif isinstance(each, If):

            def made(inner: Any, values: list[Any] = values) -> Any:
                return lambda *given: by_stack(stack, inner, [*given] or values, counter)

            operands = values if each.by else ()  # else they are captured
            if each.kind == "cond":
                values = stack.cond(values[each.by].sum() > 0, made(each.blocks[0]), made(each.blocks[1]), *operands)
            else:
                index = ops.floor(values[each.by].sum() * 2).astype("int64")
                values = [
                    *stack.case_of(
                        index,
                        [*map(made, each.blocks)],
                        *operands,
                        default=lambda *given, values=values: [*given] or values,
                    )
                ]
        elif isinstance(each, For):
            values = _for(stack, each, values)
        else:
            values = _while(stack, each, values, counter)
    return values


def _for(stack: Any, each: For, values: list[Any]) -> list[Any]:
    before = list(values)
    if each.kind == "fori":
        return stack.fori(0, each.times, lambda i, vs: by_stack(stack, each.block, vs, i), values)
    number = max(each.most, 0)

    def step(carry: Any, x: Any) -> Any:
        i, vs = carry
        if x is not None:
            vs = [vs[0] + x, *vs[1:]]
        vs = by_stack(stack, each.block, vs, i)
        return (i + 1, vs), None if each.rows is None else vs[each.rows]

    xs = None
    if each.sliced is not None:
        x = before[each.sliced]
        xs = stack.ops.stack(*[x * (0.1 * n) for n in range(number)], axis=0) if number else x[None][:0]
    more: dict[str, Any] = {"length": number}
    inner = step
    if each.kind == "counted":  # what is sliced bounds it, so that it has a derivative wherever it stands
        more = {"length": stack.asarray(each.times)}
        if xs is None:
            xs = stack.asarray(np.zeros(number))

            def step(carry: Any, _: Any) -> Any:
                return inner(carry, None)

    (_, values), ys = stack.scan(step, (0, values), xs, reverse=each.reverse, **more, **dict(each.how))
    values = list(values)
    if ys is not None:
        weights = np.arange(1.0, number + 1).reshape((number, *[1] * len(before[0].shape)))
        values[0] = values[0] + (ys * weights).sum(axis=0) * 0.1
    return values


def _while(stack: Any, each: While, values: list[Any], counter: Any) -> list[Any]:
    def holds(i: Any, vs: Any) -> Any:
        small = stack.ops.abs(vs[each.by]).sum() < 3
        return small if each.bounded else stack.ops.logical_and(small, i < each.most)

    def body(i: Any, vs: Any) -> Any:
        vs = by_stack(stack, each.block, vs, i)
        return (None if each.rows is None else vs[each.rows]), (i + 1, vs)

    most = {"max_iterations": each.most} if each.bounded else {}
    ys, (_, values), n = stack.while_loop(holds, body, (0, values), **most)
    values = list(values)
    if ys is not None:
        values[1] = values[1] + ys.sum(axis=0) * 0.1 + n * 0.01
    return values


# --- by Python -----------------------------------------------------------------------------------------------


class Plain:
    """NumPy as what `_applied` calls."""

    tanh, sin, where, add, multiply, subtract, abs, floor = (
        np.tanh, np.sin, np.where, np.add, np.multiply, np.subtract, np.abs, np.floor,
    )  # fmt: skip

    @staticmethod
    def stop_gradient(x: Any) -> Any:
        return x


def by_python(block: tuple[Any, ...], values: list[Any], counter: Any = 0) -> list[Any]:
    """The variables after a block."""
    values = list(values)
    for each in block:
        if isinstance(each, Assign):
            values[each.target] = np.asarray(_applied(Plain, each.op, [values[i] for i in each.args], counter))
        elif isinstance(each, If):
            found = values[each.by].sum()
            if each.kind == "cond":
                values = by_python(each.blocks[0 if found > 0 else 1], values, counter)
            elif 0 <= np.floor(found * 2) < len(each.blocks):
                values = by_python(each.blocks[int(np.floor(found * 2))], values, counter)
        elif isinstance(each, For):
            before, number = list(values), max(each.most, 0)
            times = min(each.times, number)
            rows = [np.zeros(values[0].shape)] * number
            for i in range(times):
                at = times - 1 - i if each.reverse else i
                if each.sliced is not None and each.kind != "fori":
                    values[0] = values[0] + before[each.sliced] * (0.1 * at)
                values = by_python(each.block, values, i)
                if each.rows is not None:
                    rows[at] = values[each.rows]
            if each.rows is not None:
                values[0] = values[0] + sum(((n + 1) * y for n, y in enumerate(rows)), np.zeros(values[0].shape)) * 0.1
        else:
            n, total = 0, np.zeros(values[0].shape)
            while n < each.most and np.abs(values[each.by]).sum() < 3:
                values = by_python(each.block, values, n)
                n += 1
                if each.rows is not None:
                    total = total + values[each.rows]
            if each.rows is not None:
                values[1] = values[1] + total * 0.1 + n * 0.01
    return values


@frozen
class Program:
    """A block, and the shape and a seed of the variables that it starts with."""

    shape: tuple[int, ...]
    seed: int
    block: tuple[Any, ...]

    def arrays(self) -> list[Any]:
        """What the variables start with."""
        return [np.asarray(a) for a in np.random.default_rng(self.seed).uniform(-1, 1, (COUNT, *self.shape))]


def programs(depth: int = 2) -> Any:
    """Programs with loops and branches, so many inside each other."""
    return st.builds(Program, st.sampled_from(SHAPES), st.integers(0, 999), blocks(depth))
