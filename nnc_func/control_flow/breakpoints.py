"""Loops that end in the middle of their body: `loop_until`, after the breakpoints of NNC's ``while``.

What stands behind an exit is a branch of the body, so that it is not computed when the loop ends there. Its derivative
thus begins with the segments that ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from attrs import evolve

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.branches import chosen
from nnc_func.control_flow.carries import Carry, integer, truth_value
from nnc_func.control_flow.growing import value_now
from nnc_func.control_flow.host import decided, refuse_traced
from nnc_func.control_flow.messages import check_body, leaves_of, pair, whose
from nnc_func.control_flow.slices import Slices
from nnc_func.control_flow.steps import Steps, in_order
from nnc_func.control_flow.tracing import TracedBody, aval_of, carrier_of, traced
from nnc_func.errors import OperatorError
from nnc_func.facets.dims import known
from nnc_func.graph.ops.binary import add
from nnc_func.graph.ops.compare import less
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.silent_bodies import asks, of_results, silenced, unasked
from nnc_func.graph.ops.unary import cast
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import ONE_LEAF, Structure

NONE = -1  # the number of the exit where none was taken


class Ended(NamedTuple):
    """What a loop with exits leaves.

    Attributes
    ----------
    outputs
        A tree for each segment, its rows those of the times that the segment was computed.
    carry
        That of the last time which was completed.
    mids
        For each exit what it was asked about last. Where the loop ended at one, those behind it are zeros.
    times
        An int64: how many times were completed.
    exit
        An int64: the number of the exit taken, -1 where none was.
    """

    outputs: tuple[Any, ...]
    carry: Any
    mids: tuple[Any, ...]
    times: Any
    exit: Any


def loop_until(
    stack: Any, segments: Sequence[Callable[..., Any]], init: Any, xs: Any = None, *, max_iterations: Any = None,
    exact: bool = False,
) -> Ended:  # fmt: skip
    """A loop that ends where one of several conditions in its body holds: ``[before, until, after]``, or more of them.

    It is this, which computes `before` once more than `after`, unless `xs` or `max_iterations` ends it::

        for x in xs:
            mid, ys_before = before(carry, x)
            if until(mid):
                break
            carry, ys_after = after(mid, x)

    Parameters
    ----------
    segments
        Functions by turns: a segment, the condition of an exit, a segment, the condition of another one, …, a segment.
        A segment takes what the one before returned (the first one: the carry) and `x`, and returns a pair: what the
        next one is given (the last one: the next carry), and an output, None or a tree. A condition takes what the
        segment before it returned, and returns one truth value; or it is `nnc.host`, a function of that as NumPy
        arrays. Effects (`ops.print`, …) happen in the order of the segments, up to the exit.
    init
        The first carry: a tensor, a Python number, or a tree of them. A number takes the dtype that it has after the
        body.
    xs
        A tensor, or a tree of them, of which `x` is a slice along the first axis each time. None: `x` is the number of
        times so far, an int64. (``xs=(data, ops.arange(n))`` gives both.)
    max_iterations
        The most there are. Without it, and without `xs`, nothing bounds the loop.
    exact
        Outputs have a row for each time that their segment was computed: where the loop ended at an exit, and n times
        were completed, n + 1 before the exit and n after it. Else outputs have as many rows as there may be times, of
        which those that were not computed are zeros. How many there are is then computed at once.

    Raises
    ------
    OperatorError
        Other than an odd number of functions, 3 or more; a carry that changes; a segment that returns no pair; rows
        that are counted first, of carries that are made of what a callback gives.
    ShapeError
        A condition of more than one truth value; extents that differ.
    UnboundError
        How many rows there are depends on what has no value yet.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> found = stack.loop_until(
    ...     [lambda total, x: (total + x, total), lambda mid: mid > 5, lambda mid, x: (mid, x)],
    ...     0.0, [1.0, 2.0, 3.0, 4.0], exact=True,
    ... )
    >>> found.outputs[0].numpy(), found.outputs[1].numpy()
    (array([0., 1., 3.]), array([1., 2.]))
    >>> found.carry.item(), found.mids[0].item(), found.times.item(), found.exit.item()
    (3.0, 6.0, 2, 0)
    """
    if not isinstance(segments, (list, tuple)) or len(segments) < 3 or not len(segments) % 2:
        given = f"{len(segments)} of them" if isinstance(segments, (list, tuple)) else f"a {type(segments).__name__}"
        raise OperatorError(
            "loop_until takes a list of functions by turns, [before, until, after] or more, an odd number; "
            f"given {given}"
        )
    for n, each in enumerate(segments):
        names = ["mid"] if n % 2 else ["mid" if n else "carry", "x"]
        check_body(each, "loop_until", names, f"the condition of exit {n // 2}" if n % 2 else f"segment {n // 2}")
    return _Until(stack, segments, init, xs, max_iterations).run(exact)


class _Until:
    """One loop with exits: what goes in, and its body."""

    def __init__(self, stack: Any, segments: Sequence[Any], init: Any, xs: Any, most: Any) -> None:
        self.stack, self.segments, self.conditions = stack, segments[::2], segments[1::2]
        told = whose("loop_until", segments[-1])
        self.carry = Carry.of(stack, init, "carry", told)
        slices = Slices(stack, xs, 0, told=told)
        self.xs, self.structure = slices.tensors, slices.structure
        self.most = self._most(most, slices.extent())
        self.shapes: list[Structure] = []  # of what each segment passes on, and of its output
        self.ended: tuple[int, int] | None = None  # the exit, and how many times were completed, where that is known

    def _most(self, most: Any, extent: Any) -> Any:
        if most is None:
            return extent
        if not getattr(most, "is_symbolic", False):
            most = integer(self.stack, most, "max_iterations")
        if isinstance(most, Tensor):
            raise OperatorError("max_iterations is a number, or a symbolic extent; a tensor belongs into a condition")
        if known(most) and most < 0:
            raise OperatorError(f"max_iterations is not negative, given {most}")
        if extent is None or most == extent:
            return most
        if not (known(most) and known(extent)):
            raise OperatorError(
                f"either xs, of extent {extent}, or max_iterations={most} bounds the loop: which is less must be known"
            )
        least = min(most, extent)
        self.xs = [x[:least] for x in self.xs]
        return least

    # --- the body --------------------------------------------------------------------------------------------

    def trace(self, before: Sequence[Any]) -> tuple[TracedBody, list[Any]]:
        """The body, for carries of these avals: exit, carries, what is passed on, outputs; and each carry after it."""
        count = len(before)
        slices = [aval_of(self.stack, self.stack.carrier(x)) for x in self.xs]
        slices = [a.having(shape=a.shape[1:]) for a in slices]

        def flat(given: list[Any]) -> list[Any]:
            carry, time, rows = given[:count], given[count], given[count + 1 :]
            self.shapes = [ONE_LEAF] * (2 * len(self.segments))
            self.time = time
            x = self.structure.build(rows) if self.xs else time
            return self.rest(0, self.carry.structure.build(carry), x, carry, before)

        body = traced(self.stack, flat, [*before, Aval((), "int64"), *slices], effects=True, counted=True)
        return body, [*body.avals[1 : 1 + count]]

    def rest(self, number: int, state: Any, x: Any, carry: list[Any], before: Sequence[Any]) -> list[Any]:
        """What segments from that one on compute: the exit, the carry after them, what they pass on, their outputs."""
        stack, is_last = self.stack, number == len(self.conditions)
        segment = self.segments[number]
        told = whose("loop_until", segment)
        kind = "the next carry" if is_last else "what the next segment is given"
        wanted = f"segment {number} of loop_until returns a pair: {kind}, and an output, or None"
        after, output = pair(segment(state, x), wanted, told)
        rows, self.shapes[2 * number + 1] = leaves_of(output, "an output", told)
        outputs = [Tensor(stack, carrier_of(stack, y)) for y in rows]
        if is_last:
            return [NONE, *self.carry.held(self.carry.after(after), before), *outputs]
        passed, self.shapes[2 * number] = leaves_of(after, f"what segment {number} passes on", told, None)
        mids = [Tensor(stack, carrier_of(stack, y)) for y in passed]
        state = self.shapes[2 * number].build(mids)
        what = f"the condition of exit {number} of loop_until"
        ends = truth_value(
            stack, decided(stack, self.conditions[number], (state,)), what, whose("loop_until", self.conditions[number])
        )
        if self.ended is not None:
            taken, whole = self.ended
            ends = stack.ops.equal(self.time, whole) if number == taken else stack.asarray(False)
        later: list[Any] = []

        def on() -> tuple[Any, ...]:
            later[:] = self.rest(number + 1, state, x, carry, before)
            return tuple(later)  # a list of numbers would be one tensor

        def zeros(y: Any) -> Any:
            return stack.ops.full(shape=y.shape, value=0, dtype=y.dtype) if isinstance(y, Tensor) else type(y)(0)

        def off() -> tuple[Any, ...]:
            after = later[1 : 1 + len(carry)]  # where a carry changes that is said later, or settled by another trace
            kept = [c if _are_alike(c, y) else zeros(y) for c, y in zip(carry, after, strict=True)]
            return (number, *kept, *map(zeros, later[1 + len(carry) :]))

        exit_, *rest = chosen(stack, "loop_until", ends, {"the rest": on, f"exit {number}": off})
        following, others = rest[: len(carry)], rest[len(carry) :]
        between = sum(self.shapes[2 * k].size for k in range(number + 1, len(self.conditions)))
        return [exit_, *following, *mids, *others[:between], *outputs, *others[between:]]

    # --- the loop ----------------------------------------------------------------------------------------------

    def run(self, exact: bool) -> Ended:
        """What it leaves."""
        stack = self.stack
        found, avals = self.carry.settled(self.trace, first=1)
        carries = self.carry.carriers(avals)
        count = len(carries)
        between = sum(shape.size for shape in self.shapes[:-2:2])
        mids = [
            stack.carrier(stack.ops.full(shape=a.shape, value=0, dtype=a.dtype))
            for a in found.avals[1 + count : 1 + count + between]
        ]
        starts = [stack.carrier(stack.asarray(x)) for x in (True, np.int64(NONE), np.int64(0))]
        xs, places, times = [*map(stack.carrier, self.xs)], (count, 1 + count), list[int]()

        def steps(body: TracedBody, more: Sequence[Any]) -> Steps:
            carried = [*starts, *carries, *more, *mids]
            inner, constants = _exit_first(body, count + len(more), between), len(body.captured)
            return Steps(stack, inner, [*body.captured, *carried, *xs], constants, len(carried), self.most, False)

        def apply(body: TracedBody, more: Sequence[Any]) -> list[Any]:
            """The exit, carries, what is passed on, outputs, and how many times were completed."""
            loop = steps(body, more)
            if len(loop.body.results) > len(loop.carries) and (exact or self.most is None):
                taken, whole = self.counted(loop)
                times[:] = [whole + (number <= taken) for number in range(len(self.segments))]
                if asks(body.body):  # the host has said where it ends, and is not asked again
                    self.ended = taken, whole
                    again, _ = self.trace(avals)
                    loop = steps(evolve(again, body=unasked(again.body)).carrying(*places), more)
                rows = [x[: times[0]] for x in self.xs]
                loop = loop.having(loop.body, loop.carries, [*map(stack.carrier, rows)], times[0])
            _, exit_, completed, *rest = loop.loop(conditional=True)
            return [exit_, *rest, completed]

        exit_, *rest, completed = in_order(stack, "a loop with effects", found, places, [*carries, *xs], apply)
        carry, rest = rest[:count], rest[count:]
        passed, rows = self.parts(rest[:between], 0), self.parts(rest[between:], 1)
        if times:
            rows = [[y[:each] for y in part] for each, part in zip(times, rows, strict=True)]
        outputs = [shape.build(part) for shape, part in zip(self.shapes[1::2], rows, strict=True)]
        built = [shape.build(part) for shape, part in zip(self.shapes[:-2:2], passed, strict=True)]
        return Ended(tuple(outputs), self.carry.structure.build(carry), tuple(built), completed, exit_)

    def counted(self, loop: Steps) -> tuple[int, int]:
        """The exit, and how many times are completed, computed now, by a loop that stacks nothing and has no effect."""
        silent = silenced((("body", loop.body),))
        if silent is None:
            raise OperatorError(
                "how many rows the outputs of loop_until have is counted first, without its effects, but these give "
                "what it carries: say xs= or max_iterations=, without exact"
            )
        body: Body = silent[0][1]
        bare = of_results(body, body.results[: len(loop.carries)])
        what = "how many rows the outputs of loop_until have"
        refuse_traced(self.stack, bare, what, "xs= or max_iterations=, without exact")
        _, exit_, whole = loop.having(bare, loop.carries, loop.slices, self.most).loop(conditional=True)[:3]
        return int(value_now(self.stack, exit_, what)), int(value_now(self.stack, whole, what))

    def parts(self, leaves: Sequence[Tensor], which: int) -> list[list[Tensor]]:
        """Leaves, segment by segment: of what is passed on, or of outputs."""
        found, at = [], 0
        for shape in self.shapes[which : None if which else -2 : 2]:
            found.append([*leaves[at : at + shape.size]])
            at += shape.size
        return found


def _are_alike(one: Any, other: Any) -> bool:
    """Whether both have a shape and a dtype, or one of them is a Python number."""
    tensors = [x for x in (one, other) if isinstance(x, Tensor)]
    if len(tensors) < 2:
        return all(x.shape == () for x in tensors)
    return bool(one.shape == other.shape and one.dtype == other.dtype)


def _exit_first(found: TracedBody, count: int, between: int) -> Body:
    """The body as the operator wants it.

    Of what is captured, whether it goes on, exit, times, carries, what is passed on, slices; the exit and what is
    passed on are read by nothing.
    """
    builder = BodyBuilder()
    constants = builder.parameters(len(found.captured))
    builder.parameters(2)
    times, *carries = builder.parameters(1 + count)
    builder.parameters(between)
    slices = builder.parameters(found.body.parameters - len(constants) - count - 1)
    values = builder.include(found.body, [*carries, times, *slices, *constants])
    exit_, *rest = [values[n] for n in found.body.results]
    goes = builder.apply(less, exit_, builder.apply(full, shape=(), value=0, dtype="int64"))
    following = builder.apply(add, times, builder.apply(cast, goes, dtype=np.dtype("int64")))
    return builder.built([goes, exit_, following, *rest])
