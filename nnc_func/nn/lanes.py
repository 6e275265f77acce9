"""Sequences of different lengths, in lanes: one loop that computes hardly more than there are elements.

The elements of all sequences are laid end to end, and that line is cut into as many equal parts as there are lanes. One
time of the loop takes an element of each lane. A sequence that a cut goes through has its first elements at the
beginning of the next lane, and its others at the end of the one before, where they come later: what it carries is kept
meanwhile. So the loop goes ``max(longest, ceil(sum of lengths / lanes))`` times, whatever the order of the lengths. The
cut is McNaughton's (Scheduling with deadlines and loss functions, Management Science 6, 1959).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import known, same_extent

Step = Callable[[Any, tuple[Any, ...]], Sequence[Any]]
SHARE = (3, 8)  # lanes for a sample: of lengths that are uniform, a time is seldom longer for the longest sequence


def over_lengths(
    step: Step, x: Any, lengths: Any, states: Sequence[Any], lanes: int | None = None
) -> tuple[Any, tuple[Any, ...]]:
    """The first state of a recurrence after each element of sequences, and all states after the last of each.

    Parameters
    ----------
    step
        ``step(rows, states)`` takes elements ``(lanes, …)`` and states ``(lanes, units)``, and gives the next states.
    x
        Sequences side by side, ``(samples, steps, …)``; what is behind the end of one counts for nothing.
    lengths
        Of each sequence, ``(samples,)`` integers from 0 to `steps`, known or not.
    states
        Those at the beginnings, ``(samples, units)`` each; a number stands for zeros of so many units.
    lanes
        How many rows a time of the loop computes; 3/8 of the samples unless said. As many as the sum of lengths divided
        by the longest waste nothing; fewer never waste more, and take more times.

    Returns
    -------
    ``(samples, steps, units)``, zeros behind the end of each; and the states, ``(samples, units)``.

    Raises
    ------
    ShapeError
        Shapes that do not fit, or unknown extents where lanes are not said.
    DTypeError
        Lengths that are no integers.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> x = stack.asarray(np.arange(6.0).reshape(2, 3, 1))
    >>> total = lambda rows, states: (states[0] + rows,)
    >>> sums, (last,) = over_lengths(total, x, np.array([3, 1]), [np.zeros((2, 1))])
    >>> sums.numpy()[..., 0].tolist(), last.numpy()[:, 0].tolist()
    ([[0.0, 1.0, 3.0], [3.0, 0.0, 0.0]], [3.0, 3.0])
    """
    stack, ops = x.stack, x.stack.ops
    given = stack.tensor(lengths)
    begins: list[Any] = [s if type(s) is int else stack.tensor(s) for s in states]
    lanes = _checked(x, given, begins, lanes)
    widths = [s if type(s) is int else s.shape[1] for s in begins]
    all_zero = all(type(s) is int for s in begins)
    begins = [ops.full(shape=(x.shape[0], s), value=0, dtype=x.dtype) if type(s) is int else s for s in begins]
    if 0 in x.shape[:2]:
        return ops.full(shape=(*x.shape[:2], widths[0]), value=0, dtype=begins[0].dtype), tuple(begins)
    places = _places(stack, x, given, lanes)
    first = begins[0] if len(begins) == 1 else ops.concat(*begins, axis=1)
    rows = ops.take(x.reshape((places.samples * places.steps, *x.shape[2:])), places.rows)
    beginning = None if all_zero else ops.take(first, places.sample)

    def turn(carry: Any, now: Any) -> Any:
        before, waiting = carry
        row, start, is_further, is_resumed, is_cut = now
        before = ops.where(is_further, before, 0 if start is None else start)
        before = ops.where(is_resumed, waiting, before)
        parts = (before,) if len(widths) == 1 else ops.split(before, sections=tuple(widths), axis=1)
        found = tuple(step(row, tuple(parts)))
        after = found[0] if len(found) == 1 else ops.concat(*found, axis=1)
        beside = after if places.lanes == 1 else ops.concat(after[1:], after[:1], axis=0)
        return (after, ops.where(is_cut, beside, waiting)), after

    zero = ops.full(shape=(places.lanes, sum(widths)), value=0, dtype=first.dtype)
    _, found = stack.scan(
        turn, (zero, zero), (rows, beginning, places.is_further, places.is_resumed, places.is_cut), length=places.times
    )
    flat = found.reshape((places.most * places.lanes, sum(widths)))
    outs = ops.where(places.is_live, ops.take(flat[:, : widths[0]], places.at), 0)
    last = ops.where(places.is_any, ops.take(flat, places.end), first)
    ends = (last,) if len(widths) == 1 else ops.split(last, sections=tuple(widths), axis=1)
    return outs, tuple(ends)


@frozen
class _Places:
    """Where elements are: of each time and lane what it takes, of each element where its states are.

    Attributes
    ----------
    samples, steps, lanes, most, times
        Extents; the most times that there may be; how many there are, a tensor.
    rows, sample
        Of each time and lane, which element it takes, and of which sample.
    is_further, is_resumed, is_cut
        Of each time and lane, whether its element is not the first of its sequence; whether what was kept goes on;
        whether what the next lane has after it is to be kept.
    at, is_live
        Of each element, its place among times and lanes, and whether it is one of its sequence.
    end, is_any
        Of each sequence, the place of its last element, and whether there is one.
    """

    samples: Any
    steps: Any
    lanes: int
    most: Any
    times: Any
    rows: Any
    sample: Any
    is_further: Any
    is_resumed: Any
    is_cut: Any
    at: Any
    is_live: Any
    end: Any
    is_any: Any


def _checked(x: Any, lengths: Any, begins: Sequence[Any], lanes: int | None) -> int:
    """How many lanes there are; raises where shapes and dtypes do not fit."""
    if x.ndim < 2 or lengths.ndim != 1 or not same_extent(lengths.shape[0], x.shape[0]):
        raise ShapeError(f"sequences (samples, steps, …) want lengths (samples,); given {x.shape}, {lengths.shape}")
    if lengths.dtype.kind not in "iu":
        raise DTypeError(f"lengths are integers, given {lengths.dtype}")
    if not begins or any(
        type(s) is not int and (s.ndim != 2 or not same_extent(s.shape[0], x.shape[0])) for s in begins
    ):
        raise ShapeError(f"states of {x.shape[0]} samples are (samples, units); given {begins}")
    samples = x.shape[0]
    if lanes is None:
        if not known(samples):
            raise ShapeError(
                f"how many lanes there are is part of a program, and {samples} samples are not: say lanes="
            )
        lanes = max(1, samples * SHARE[0] // SHARE[1])
    if type(lanes) is not int or lanes < 1:
        raise OperatorError(f"lanes= is a number of rows, 1 or more, given {lanes!r}")
    return lanes


def _places(stack: Any, x: Any, lengths: Any, lanes: int) -> _Places:
    ops, (samples, steps) = stack.ops, x.shape[:2]
    most = steps * (-(-samples // lanes))

    def counting(n: Any) -> Any:
        return ops.cumulative_sum(ops.full(shape=(n,), value=1, dtype="int64"), axis=0) - 1

    length = ops.clip(lengths.astype("int64"), min=0, max=None).reshape((samples, 1))
    length = ops.minimum(length, ops.full(shape=(), value=steps, dtype="int64"))
    ends = ops.cumulative_sum(length, axis=0)
    start, total = ends - length, length.sum()
    times = ops.maximum(ops.maximum(length.max(), 1), (total + (lanes - 1)) // lanes)
    cut = (start // times + 1) * times
    late = ops.where(ends > cut, cut - start, 0)  # how many elements of a sequence come late
    early = length - late
    t = counting(steps).reshape((1, steps))
    live = t < length
    place = start + ops.where(t < early, t + late, t - early)
    lane = place // times
    at = ops.where(live, (place - lane * times) * lanes + lane, most * lanes)

    def table(values: Any, at: Any, rest: Any) -> Any:
        """By time and lane what is said of elements; `rest` of those lanes that take none."""
        count = most * lanes + 1  # the last one is that of no element
        whole = ops.full(shape=(count,), value=rest, dtype=values.dtype)
        found = ops.scatter_set(whole, at.reshape((samples * steps,)), values.reshape((samples * steps,)))
        return found[: most * lanes].reshape((most, lanes))

    def flag(which: Any, at: Any) -> Any:
        return table(ops.broadcast_to(which, shape=(samples, steps)), at, False).reshape((most, lanes, 1))

    sample = counting(samples).reshape((samples, 1))
    is_cut = ops.logical_and(late > 0, t == early - 1)
    last = start + ops.maximum(ops.where(late > 0, late, length) - 1, 0)
    last_lane = ops.minimum(last // times, lanes - 1)
    return _Places(
        samples, steps, lanes, most, ops.where(total > 0, times, 0),
        table(sample * steps + t, at, 0), table(sample + 0 * t, at, 0),
        flag(t > 0, at), flag(ops.logical_and(late > 0, t == early), at),
        flag(is_cut, ops.where(is_cut, at - 1, most * lanes)),
        ops.where(live, at, 0), live.reshape((samples, steps, 1)),
        ((last - last_lane * times) * lanes + last_lane).reshape((samples,)), length > 0,
    )  # fmt: skip
