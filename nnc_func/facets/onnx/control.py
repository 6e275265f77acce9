"""Loops and branches in ONNX: Scan, Loop and If, whose graphs are the bodies; what is captured is read by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.facets.dims import known

INT64 = np.dtype("int64")


def loop(
    g: Any, *xs: Any, body: Any, constants: int, carries: int, length: Any, reverse: bool, counted: bool,
    conditional: bool, checkpoint: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """A Scan, where there is a slice at least and all are taken; else a Loop, whose rows are padded with zeros.

    A runtime's Scan of no slice fails, so one that may have none is a Loop.
    """
    results, (xs, count) = g.results, (xs[:-1], xs[-1]) if counted else (xs, None)
    fixed, carried, sliced = xs[:constants], xs[constants : constants + carries], xs[constants + carries :]
    most = sliced[0].shape[0] if sliced and length is None else length

    def step(*given: Any) -> tuple[Any, Any]:
        values = g.written_out(body, [*fixed, *given])
        found = [values[i] for i in body.results]
        return found[:carries], found[carries:]

    if sliced and not counted and not conditional and known(most) and most > 0:
        last, rows = g.scan(step, carried, sliced, reverse=reverse)
        return (*last, *rows)
    times = None if most is None else g.extent(most)
    if count is not None:
        times = g.maximum(g.having(g.converted(count, INT64), ()), 0)
        times = times if most is None else g.minimum(times, g.having(g.extent(most), ()))

    def turn(number: Any, *given: Any) -> tuple[Any, Any, Any]:
        at = g.Sub(g.Sub(times, g.scalar(1, INT64)), number) if reverse and sliced else number
        following, outputs = step(*given, *(g.having(g.Gather(x, at, axis=0), x.shape[1:]) for x in sliced))
        return following[0] if conditional else None, following, outputs

    last, rows = g.repeated(turn, carried, times, carried[0] if conditional else None)
    if reverse:
        first, end = g.integers((-1,)), g.integers((np.iinfo(INT64).min,))
        rows = tuple([g.Slice(y, first, end, g.integers((0,)), first) for y in rows])
    return (
        *last,
        *(_whole(g, y, r.shape, counted or conditional) for y, r in zip(rows, results[carries:], strict=True)),
    )


def lstm(g: Any, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, *, reverse: bool, body: Any) -> tuple[Any, ...]:
    """As a loop of that body: of weights of states, the state, the cell, and the inputs' share of a time."""
    given = g.add(g.matmul(x, w), b)
    *last, every = g.loop(r, h, c, given, body=body, constants=1, carries=2, reverse=reverse)
    return (every, *last)


def gru(g: Any, x: Any, w: Any, r: Any, b: Any, h: Any, *, reverse: bool, body: Any) -> tuple[Any, ...]:
    """As a loop of that body: of weights of states, the candidate's bias, the state, the inputs' share of a time."""
    hidden = h.shape[1]
    bias, again = g.split(b, sections=(3 * hidden, hidden), axis=0)
    given = g.add(g.matmul(x, w), bias)
    last, every = g.loop(r, again, h, given, body=body, constants=2, carries=1, reverse=reverse)
    return every, last


def _whole(g: Any, rows: Any, shape: Sequence[Any], shorter: bool) -> Any:
    """Rows of a Loop: in their shape, which those of no time do not have, and with zeros for times that were not."""
    row, exact = shape[1:], all(map(known, shape[1:]))
    if exact and not shorter:
        return rows
    count = g.Shape(rows, end=1)
    if not exact:
        rows = g.Reshape(rows, g.Concat(count, g.extents(row), axis=0), allowzero=1)
    if not shorter:
        return rows
    missing = g.Sub(g.extents(shape[:1]), count)
    zeros = g.ConstantOfShape(g.Concat(missing, g.extents(row), axis=0), value=np.zeros((1,), rows.dtype))
    return g.Concat(rows, zeros, axis=0)


def branch(g: Any, index: Any, *xs: Any, bodies: Sequence[Any], default: bool) -> tuple[Any, ...]:
    """An If, or one in another. An index of no body, where there is no default, is out of bounds of a Gather: a runtime
    says so, as we do.
    """

    def of(number: int) -> Any:
        values = g.written_out(bodies[number], xs)
        return [values[i] for i in bodies[number].results]

    count = len(bodies)
    if index.dtype == np.bool_ and count == 2:
        found: tuple[Any, ...] = g.chosen(index, lambda: of(1), lambda: of(0))
        return found
    place = g.having(g.converted(index, INT64), ())
    if default:
        place = g.where(g.less(place, 0), count - 1, g.minimum(place, count - 1))
    else:
        place = g.where(g.less(place, 0), count, place)  # those below zero would count from the end
        place = g.having(g.Gather(g.integers(range(count)), place, axis=0), ())

    def among(first: int) -> tuple[Any, ...]:
        last = first + 2 >= count

        def rest() -> Any:
            return of(min(first + 1, count - 1)) if last else among(first + 1)

        made: tuple[Any, ...] = g.chosen(g.equal(place, first), lambda: of(first), rest)
        return made

    return among(0)


def custom(g: Any, *xs: Any, body: Any, **_: Any) -> tuple[Any, ...]:
    """The operators of the body of its value."""
    values = g.written_out(body, xs)
    return tuple([values[i] for i in body.results])
