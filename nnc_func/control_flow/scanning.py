"""Loops along an axis or of so many steps: `foreach`, `scan`, `fold`, `map`, `fori`.

Each is one operator, whatever its number of steps. The function is traced to a body, at most three times, on every
engine. What it captures is an operand, and is differentiated. MXNet's `foreach` and JAX's `scan` and `fori_loop` are
the models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.control_flow.carries import Carry, alike, integer
from nnc_func.control_flow.slices import first, last, one_extent
from nnc_func.control_flow.steps import Steps, in_order
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, carrier_of, is_numbers, traced
from nnc_func.errors import OperatorError, ShapeError, check_function
from nnc_func.facets.dims import known
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten

Checkpoint = None | str | int


def scan(
    stack: Any, f: Callable[..., Any], init: Any, xs: Any, *, axis: int = 0, reverse: bool = False,
    length: Any = None, unroll: int | bool = 1, checkpoint: Checkpoint = None,
) -> tuple[Any, Any]:  # fmt: skip
    """What a function carries along an axis, and its outputs side by side.

    Parameters
    ----------
    f
        ``f(carry, x)`` returns the next carry and an output.
    init
        The first carry: a tensor, a Python number, or a tree of them. A number takes the dtype that it has after `f`.
    xs
        A tensor, or a tree of them, of which `x` has a slice each, without the axis. None: `x` is None.
    axis
        Of all tensors in `xs`, and of the outputs.
    reverse
        From the last slice to the first; the outputs stand where their slices stood.
    length
        The number of steps, where `xs` has no tensor; known, or a tensor of one integer, which bounds it: outputs of
        steps that did not happen are zeros.
    unroll
        Steps that are written out one after another within one turn of the loop; True: all of them.
    checkpoint
        What is kept for the derivative. None, "full": what it reads, of each step. "sqrt": the carries of about √n
        steps, from which the others are computed again. A number: so many carries at most.

    Returns
    -------
    The last carry, and the outputs stacked along `axis`: trees as `f` returns them.

    What `f` computes of values from around it alone is computed once, outside, even where there is no step.

    Raises
    ------
    ShapeError
        Extents that differ.
    OperatorError
        A carry that changes its structure, a shape or a dtype; no number of steps.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> total, sums = stack.scan(lambda total, x: (total + x, total), stack.asarray(0.0), [1.0, 2.0, 3.0])
    >>> total.numpy(), sums.numpy()
    (array(6.), array([0., 1., 3.]))
    """
    check_function(f, "scan")

    def pair(carry: Any, x: Any) -> tuple[Any, Any]:
        found = f(carry, x)
        if not isinstance(found, tuple) or len(found) != 2:
            raise OperatorError("a function that is scanned returns a pair: the next carry and an output")
        return found

    return _Scan(stack, pair, init, xs, axis, reverse, length).run(unroll, checkpoint)


def foreach(
    stack: Any, body: Callable[..., Any], data: Any, init: Any, *, length: Any = None, reverse: bool = False,
    unroll: int | bool = 1, checkpoint: Checkpoint = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The outputs of a body along the first axis of data, side by side, and the last states.

    ``body(x, states)`` returns an output and the next states; all else is as in `scan`, whose order is the other way.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> outs, total = stack.foreach(lambda x, total: (x * total, total + x), [1.0, 2.0, 3.0], 10.0)
    >>> outs.numpy(), total.item()
    (array([10., 22., 39.]), 16.0)
    """
    check_function(body, "foreach")

    def turned(states: Any, x: Any) -> tuple[Any, Any]:
        found = body(x, states)
        if not isinstance(found, tuple) or len(found) != 2:
            raise OperatorError("the body of foreach returns a pair: an output and the next states")
        return found[1], found[0]

    states, outs = _Scan(stack, turned, init, data, 0, reverse, length, "state").run(unroll, checkpoint)
    return outs, states


def fold(
    stack: Any, f: Callable[..., Any], init: Any, xs: Any, *, axis: int = 0, reverse: bool = False
) -> Any:  # fmt: skip
    """What a function carries along an axis: ``f(carry, x)`` returns the next carry; see `scan`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.fold(lambda value, x: value * 10 + x, stack.asarray(0), [1, 2, 3]).numpy()
    array(123)
    """
    return scan(stack, lambda carry, x: (f(carry, x), None), init, xs, axis=axis, reverse=reverse)[0]


def map_(stack: Any, f: Callable[..., Any], *xs: Any, axis: int = 0, batch: int | None = None) -> Any:
    """The outputs of a function of each slice of tensors, or of trees of them, along an axis, stacked along it.

    Parameters
    ----------
    batch
        How many slices are computed at once, by `vmap`: a loop goes over blocks of so many, and the slices that are
        left are one smaller block (where the extent is symbolic, they go one by one). None: one by one.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.map(lambda x, y: x.sum() * y, [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).numpy()
    array([ 3., 70.])
    >>> stack.map(lambda x: x.sum(), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], batch=2).numpy()
    array([ 3.,  7., 11.])
    """
    check_function(f, "map")
    if batch is None:
        return scan(stack, lambda _, x: (None, f(*x)), None, xs, axis=axis)[1]
    if type(batch) is not int or batch < 1:
        raise OperatorError(f"batch= is how many slices go at once, 1 or more, or None; given {batch!r}")
    leaves, structure = flatten(xs, is_leaf=is_numbers)
    rows = [first(stack, x, axis) for x in leaves]
    if not rows:
        raise OperatorError("map goes along an axis of tensors, given none")
    extent = one_extent([x.shape[0] for x in rows], axis)
    blocks = extent // batch
    if known(blocks) and not blocks:
        blocks, batch = (1, extent) if extent else (0, 1)

    def single(given: Sequence[Any]) -> Any:
        outputs, made = flatten(f(*structure.build(given)), is_leaf=is_numbers)
        return made.build([Tensor(stack, carrier_of(stack, y)) for y in outputs])

    several = stack.vmap(single)
    start = blocks * batch
    long = [x[:start].reshape((blocks, batch, *x.shape[1:])) for x in rows]
    found, made = flatten(scan(stack, lambda _, x: (None, several(x)), None, long)[1])
    found = [y.reshape((start, *y.shape[2:])) for y in found]
    if not (known(extent) and start == extent):
        left = [x[start:] for x in rows]
        more = several(left) if known(extent) else scan(stack, lambda _, x: (None, single(x)), None, left)[1]
        found = [stack.ops.concat(a, b, axis=0) for a, b in zip(found, flatten(more)[0], strict=True)]
    return made.build([last(stack, y, axis) for y in found])


def fori(
    stack: Any, lower: Any, upper: Any, body: Callable[..., Any], init: Any, *, checkpoint: Checkpoint = None
) -> Any:
    """What a body carries from `lower` to below `upper`: ``body(i, state)`` returns the next state; i is an int64.

    Parameters
    ----------
    lower, upper
        Integers, or tensors of one.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.fori(0, 5, lambda i, total: total + i, 0).item()
    10
    """
    check_function(body, "fori")
    bounds = [integer(stack, each, name) for each, name in ((lower, "lower"), (upper, "upper"))]
    if all(type(each) is int for each in bounds):
        length: Any = max(0, bounds[1] - bounds[0])
    else:
        length = stack.ops.subtract(bounds[1], bounds[0])
    start = bounds[0] if isinstance(bounds[0], Tensor) else stack.asarray(np.int64(bounds[0]))

    def step(carry: Any, _: Any) -> tuple[Any, None]:
        i, state = carry
        return (i + 1, body(i, state)), None

    return scan(stack, step, (start, init), None, length=length, checkpoint=checkpoint)[0][1]


class _Scan:
    """One scan: what goes in, and the body."""

    def __init__(
        self, stack: Any, f: Callable[..., Any], init: Any, xs: Any, axis: int, reverse: bool, length: Any,
        what: str = "carry",
    ) -> None:  # fmt: skip
        self.stack, self.f, self.axis, self.reverse = stack, f, axis, bool(reverse)
        self.carry = Carry.of(stack, init, what)
        leaves, self.structure = flatten(xs, is_leaf=is_numbers)
        self.xs = [first(stack, x, axis) for x in leaves]
        self.count: Any = None  # a tensor
        self.length = self._length(length)
        self.outputs: Structure | None = None

    def _length(self, length: Any) -> Any:
        found = [x.shape[0] for x in self.xs]
        if length is not None:
            given = length if getattr(length, "is_symbolic", False) else integer(self.stack, length, "length")
            if isinstance(given, Tensor):
                self.count = given
            else:
                found.insert(0, given)
        if not found:
            if self.count is None:
                raise OperatorError("a scan of no tensor wants length=, the number of steps")
            return None
        extent = one_extent(found, self.axis)
        if known(extent) and extent < 0:
            raise ShapeError(f"a number of steps is not negative, given length={extent}")
        return extent

    def trace(self, before: Sequence[Any]) -> tuple[TracedBody, list[Any]]:
        """The body, for carries of these avals; and what each carry is after it."""
        slices = [aval_of(self.stack, self.stack.carrier(x)) for x in self.xs]
        slices = [a.having(shape=a.shape[1:]) for a in slices]
        numbers: list[bool] = []

        def flat(given: list[Any]) -> list[Any]:
            count = len(before)
            carry, x = self.carry.structure.build(given[:count]), self.structure.build(given[count:])
            after, output = self.f(carry, x)
            found, structure = flatten(after)
            self.carry.same_structure(structure)
            rows, self.outputs = flatten(output, is_leaf=is_numbers)
            numbers[:] = [type(leaf) in SCALARS for leaf in found]
            return [*map(alike(self.stack), found, before), *rows]

        body = traced(self.stack, flat, [*before, *slices], effects=True, counted=True)
        return body, [None if n else a for n, a in zip(numbers, body.avals, strict=False)]

    def run(self, unroll: int | bool, checkpoint: Checkpoint) -> tuple[Any, Any]:
        """The last carry, and the outputs."""
        body, avals = self.carry.settled(self.trace)
        carries = self.carry.carriers(avals)
        count = len(carries)
        found = in_order(
            self.stack, "a loop with effects", body, (count, count), [*carries, *map(self.stack.carrier, self.xs)],
            lambda body, more: self.applied(body, [*carries, *more], unroll, checkpoint),
        )  # fmt: skip
        outputs = [last(self.stack, y, self.axis) for y in found[count:]]
        assert self.outputs is not None
        return self.carry.structure.build(found[:count]), self.outputs.build(outputs)

    def applied(self, body: TracedBody, carries: list[Any], unroll: int | bool, checkpoint: Checkpoint) -> list[Any]:
        """The loop, in one of its forms."""
        stacked = len(body.body.results) > len(carries)
        if not body.body.results:
            return []  # nothing is carried, and nothing is given
        if self.length is None and stacked:
            raise OperatorError("a scan of no tensor with outputs wants length= a known number of steps")
        inner, operands = body.over(carries, [self.stack.carrier(x) for x in self.xs])
        steps = Steps(self.stack, inner, operands, len(body.captured), len(carries), self.length, self.reverse)
        if self.count is not None:
            if checkpoint not in (None, "full"):
                raise OperatorError("checkpoint= wants a known number of steps, and length= is a tensor")
            return steps.loop(count=self.stack.carrier(self.count))
        segment = _segment(checkpoint, self.length)
        if segment:
            return steps.in_segments(segment)
        if unroll is True:
            return steps.written_out()
        if type(unroll) is not int or unroll < 1:
            raise OperatorError(f"unroll= is a number of steps, 1 or more, or True: all of them; given {unroll!r}")
        return steps.in_parts(unroll) if unroll > 1 else steps.loop()


def _segment(checkpoint: Checkpoint, length: Any) -> int:
    """How many steps are computed again together; 0: none are."""
    if checkpoint is None or checkpoint == "full":
        return 0
    if not known(length):
        raise OperatorError(f"checkpoint={checkpoint!r} wants a known number of steps, given {length}")
    if checkpoint == "sqrt":
        return max(1, math.isqrt(max(0, length - 1)) + 1)
    if type(checkpoint) is int and checkpoint > 0:
        return max(1, -(-length // checkpoint))
    raise OperatorError(f'checkpoint= is None, "full", "sqrt", or a number of carries, given {checkpoint!r}')
