"""Sequences of different lengths, in lanes: one loop that computes hardly more than there are elements.

The elements of all sequences are laid end to end, and that line is cut into as many equal parts as there are lanes. One
time of the loop takes an element of each lane. A sequence that a cut goes through has its first elements at the
beginning of the next lane, and its others at the end of the one before, where they come later. So the loop goes
``max(longest, ceil(sum of lengths / lanes))`` times, whatever the order of the lengths. The cut is McNaughton's
(Scheduling with deadlines and loss functions, Management Science 6, 1959).

States are rows of a table, which the loop carries: each time it reads one for each lane, and writes one for each lane,
and other tables say which. So a sequence that begins, one that waits and one that ends take nothing more than others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import known, same_extent
from nnc_func.graph.origin import with_line
from nnc_func.nn.inputs import in_tensor

Step = Callable[[Any, tuple[Any, ...]], Sequence[Any]]
BLOCK = 4  # the most times of a loop are a multiple of it, so that products of several times may be one
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
        Of each sequence, ``(samples,)`` integers from 0 to `steps`, known or not: those that are not are clipped.
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
        Shapes that do not fit, a known length that is none, or unknown extents where lanes are not said.
    DTypeError
        Lengths that are no integers.
    OperatorError
        A step gives other states than it takes.

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
    x = in_tensor("over_lengths", x, lengths, states)
    given = in_tensor("over_lengths", lengths, x)
    begins: list[Any] = [s if type(s) is int else in_tensor("over_lengths", s, x) for s in states]
    stack, ops = x.stack, x.stack.ops
    lanes = _checked(x, given, begins, lanes)
    widths = [s if type(s) is int else s.shape[1] for s in begins]
    begins = [ops.full(shape=(x.shape[0], s), value=0, dtype=x.dtype) if type(s) is int else s for s in begins]
    if 0 in x.shape[:2]:
        return ops.full(shape=(*x.shape[:2], widths[0]), value=0, dtype=begins[0].dtype), tuple(begins)
    places = _places(stack, x, given, lanes)
    rows = ops.take(x.reshape((places.samples * places.steps, *x.shape[2:])), places.rows)
    first = begins[0] if len(begins) == 1 else ops.concat(*begins, axis=1)
    none = ops.full(shape=(2 * lanes, sum(widths)), value=0, dtype=first.dtype)

    def turn(kept: Any, now: Any) -> Any:
        row, read, written = now
        before = ops.take(kept, read)
        parts = (before,) if len(widths) == 1 else tuple(_split(ops, before, widths))
        after = _next_states(step, row, parts)
        return ops.scatter_set(kept, written, after[0] if len(after) == 1 else ops.concat(*after, axis=1)), after[0]

    kept, found = stack.scan(
        turn, ops.concat(none, first, axis=0), (rows, places.read, places.written), length=places.times
    )
    outs = ops.take(found.reshape((places.most * lanes, widths[0])), places.at)
    last = kept[2 * lanes :]
    return outs, (last,) if len(widths) == 1 else tuple(_split(ops, last, widths))


def _next_states(step: Step, row: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the step gives; raises where these are no states like those before."""
    found = step(row, states)
    wanted = [(each.shape, each.dtype) for each in states]
    if (
        not isinstance(found, (tuple, list))
        or [(getattr(each, "shape", None), getattr(each, "dtype", None)) for each in found] != wanted
    ):
        raise OperatorError(
            f"a step over lengths gives a tuple of the next states, of the same shapes and dtypes as those before; of "
            f"{row} and {states} it gave {found}"
        )
    return tuple(found)


def _split(ops: Any, states: Any, widths: Sequence[int]) -> Any:
    return ops.split(states, sections=tuple(widths), axis=1)


@frozen
class _Places:
    """Where elements are: of each time and lane what it takes, of each element where its states are.

    States are kept in rows: of each lane what it goes on with, of each lane what the one before it goes on with later,
    and of each sample what it begins with, and ends with.

    Attributes
    ----------
    samples, steps, most, times
        Extents; more times than there may be, so that nothing is where the last one would be; how many there are, a
        tensor.
    rows, read, written
        Of each time and lane, which element it takes, and which row of states it reads and writes.
    at
        Of each element, its place among times and lanes; the last one of those behind an end, where zeros are.
    """

    samples: Any
    steps: Any
    most: Any
    times: Any
    rows: Any
    read: Any
    written: Any
    at: Any


def _checked(x: Any, lengths: Any, begins: Sequence[Any], lanes: int | None) -> int:
    """How many lanes there are; raises where shapes and dtypes do not fit."""
    if x.ndim < 2 or lengths.ndim != 1 or not same_extent(lengths.shape[0], x.shape[0]):
        raise ShapeError(f"sequences (samples, steps, …) want lengths (samples,); given {x.shape}, {lengths.shape}")
    if lengths.dtype.kind not in "iu":
        raise DTypeError(f"lengths are integers, given {lengths.dtype}")
    values, most = lengths.value, x.shape[1]
    if isinstance(values, np.ndarray) and values.size and (values.min() < 0 or (known(most) and values.max() > most)):
        raise ShapeError(with_line(f"lengths of {most} steps at most are given as {values.min()} to {values.max()}"))
    if not begins or not all(type(s) is int or (s.ndim == 2 and same_extent(s.shape[0], x.shape[0])) for s in begins):
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


def _most(samples: Any, steps: Any, lanes: int) -> Any:
    """How many times there are where all sequences are as long as they may be."""
    if not known(samples):
        return steps * -(-samples // lanes)
    return steps if samples <= lanes else -(-samples * steps // lanes)


def _places(stack: Any, x: Any, lengths: Any, lanes: int) -> _Places:
    ops, (samples, steps) = stack.ops, x.shape[:2]
    most = (_most(samples, steps, lanes) // BLOCK + 1) * BLOCK

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
    place = start + ops.where(t < early, t + late, t - early)
    lane = place // times
    at = ops.where(t < length, (place - lane * times) * lanes + lane, most * lanes - 1)
    sample = counting(samples).reshape((samples, 1))
    ending, beside = sample + 2 * lanes, lane + lanes
    is_cut = late > 0
    read = ops.where(t == 0, ending, ops.where(ops.logical_and(is_cut, t == early), beside + 1, lane))
    written = ops.where(ops.logical_and(is_cut, t == early - 1), beside, lane)
    written = ops.where(t == length - 1, ending, written)
    own = ops.broadcast_to(counting(lanes).reshape((1, lanes)), shape=(most, lanes))

    def table(values: Any, rest: Any) -> Any:
        """By time and lane what is said of elements; `rest` of those lanes that take none."""
        flat = [each.reshape((-1,)) for each in (rest, at, values)]
        return ops.scatter_set(*flat).reshape((most, lanes))

    longest = ops.argmax(length.reshape((samples,)), axis=0) * steps  # where any element is, its first one is
    element = ops.where(t < length, sample * steps + t, longest)
    return _Places(
        samples, steps, most, ops.where(total > 0, times, 0),
        table(element, ops.broadcast_to(longest, shape=(most, lanes))), table(read, own), table(written, own), at,
    )  # fmt: skip
