"""Loops along an axis or of so many steps: `foreach`, `scan`, `fold`, `map`, `fori`.

Each is one operator, whatever its number of steps. The function is traced to a body, at most three times, on every
engine. What it captures is an operand, and is differentiated. MXNet's `foreach` and JAX's `scan` and `fori_loop` are
the models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from nnc_func.control_flow.blocks import Blocks
from nnc_func.control_flow.carries import Carry, Growing, integer, is_held
from nnc_func.control_flow.checkpoints import Checkpoint, spelled
from nnc_func.control_flow.messages import check_body, leaves_of, pair, traced_always, whose
from nnc_func.control_flow.slices import Slices, back
from nnc_func.control_flow.steps import Steps, in_order
from nnc_func.control_flow.tracing import OUTSIDE, TracedBody, aval_of, traced
from nnc_func.errors import DTypeError, OperatorError, ShapeError, UnboundError
from nnc_func.facets.dims import known
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure


def scan(
    stack: Any, f: Callable[..., Any], init: Any, xs: Any, *, axis: int = 0, reverse: bool = False,
    length: Any = None, unroll: int | bool = 1, checkpoint: Checkpoint = None, dynamic: bool = False,
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
        What is kept for the derivative. None: what it reads, of each step; or, where nothing bounds the number of
        steps, 100 carries, as if that were said. "full": what it reads, of each step, which wants a bound. "sqrt": the
        carries of about √n steps, and what is read of about √n steps. A number: so many carries at most, from which the
        others are computed again as seldom as that allows. "budget:64MB" (B, kB, MB, GB, KiB, MiB, GiB): as much as
        fits into so many bytes: all that is read, else segments as of "sqrt", else a number of carries. Where the
        number of steps is not known when the graph is built, "sqrt" is 100 carries. A policy: a function of an
        application of an operator, in `f` or in what its derivative makes of it, that says by True or False whether its
        results are kept where they are read; it is given a `graph.ops.loop_policies.Candidate`. The others are computed
        again, from these and from the carries of each step, which are kept. "carries" is the policy that keeps no
        result, "products" keeps products of matrices and convolutions, "costly" all but what is elementwise. With a
        number, a budget that they do not fit into, or "carries", products of what is sliced are computed step by step,
        not for all steps before the loop.
    dynamic
        Carries may change their extents from step to step, along axes that they have; then all of it is computed at
        once, see `while_loop`. An output that changes its shape is a list of tensors, one for each step.

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
    check_body(f, "scan", ("carry", "x"), "the function")
    told = whose("scan", f)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        return pair(f(carry, x), "a function that is scanned returns a pair: the next carry and an output", told)

    return _Scan(stack, step, init, xs, axis, reverse, length, told, dynamic=dynamic).run(unroll, checkpoint)


def foreach(
    stack: Any, body: Callable[..., Any], data: Any, init: Any, *, length: Any = None, reverse: bool = False,
    unroll: int | bool = 1, checkpoint: Checkpoint = None, dynamic: bool = False,
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
    check_body(body, "foreach", ("x", "states"))
    told = whose("foreach", body)

    def turned(states: Any, x: Any) -> tuple[Any, Any]:
        output, after = pair(body(x, states), "the body of foreach returns a pair: an output and the next states", told)
        return after, output

    found = _Scan(stack, turned, init, data, 0, reverse, length, told, carry="state", xs_are="data", dynamic=dynamic)
    states, outs = found.run(unroll, checkpoint)
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
    check_body(f, "fold", ("carry", "x"), "the function")
    told = whose("fold", f)
    return _Scan(stack, lambda carry, x: (f(carry, x), None), init, xs, axis, reverse, None, told).run()[0]


def map_(stack: Any, f: Callable[..., Any], *xs: Any, axis: int = 0, batch: int | None = None) -> Any:
    """The outputs of a function of each slice of tensors, or of trees of them, along an axis, stacked along it.

    Parameters
    ----------
    batch
        How many slices are computed at once, by `vmap`: a loop goes over blocks of so many, and the slices that are
        left are one smaller block (where the extent is symbolic, they go one by one). None: one by one. Effects
        (`ops.print`, …) happen block after block, and in a block one effect after another, each for one slice after
        another: a loop or a branch that has one within goes through the slices of a block one by one.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.map(lambda x, y: x.sum() * y, [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).numpy()
    array([ 3., 70.])
    >>> stack.map(lambda x: x.sum(), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], batch=2).numpy()
    array([ 3.,  7., 11.])
    """
    check_body(f, "map", [f"x{n}" for n in range(len(xs))], "the function")
    told = whose("map", f)
    if batch is None:
        return _Scan(stack, lambda _, x: (None, f(*x)), None, xs, axis, False, None, told).run()[1]
    if type(batch) is not int or batch < 1:
        raise OperatorError(f"batch= is how many slices go at once, 1 or more, or None; given {batch!r}")
    slices = Slices(stack, xs, axis, told=told)
    rows, structure, extent = slices.tensors, slices.structure, slices.extent()
    if not rows:
        raise OperatorError("map goes along an axis of tensors, given none")
    blocks = extent // batch
    if known(blocks) and not blocks:
        blocks, batch = (1, extent) if extent else (0, 1)

    avals = [a.having(shape=a.shape[1:]) for a in (aval_of(stack, stack.carrier(x)) for x in rows)]
    made: Structure | None = None

    def single(given: list[Any]) -> list[Any]:
        nonlocal made
        outputs, made = leaves_of(f(*structure.build(given)), "an output", told)
        return outputs

    body = Blocks(stack, traced(stack, single, avals, effects=True, counted=True))
    assert made is not None
    if body.body.is_counted:
        ones = stack.ops.full(shape=(extent,), value=1, dtype="int64")
        rows = [*rows, stack.ops.cumulative_sum(ones, axis=0) - 1]
    start = blocks * batch
    long = [x[:start].reshape((blocks, batch, *x.shape[1:])) for x in rows]
    found = scan(stack, lambda _, x: (None, body.of_block(x, batch)), None, long)[1]
    found = [y.reshape((start, *y.shape[2:])) for y in found]
    if known(extent):
        left = [x[start:] for x in rows] if start < extent else []
        more = body.of_block(left, extent - start) if left else []
    else:
        left = [x[start:].reshape((extent - start, 1, *x.shape[1:])) for x in rows]
        more = scan(stack, lambda _, x: (None, body.of_block(x, 1)), None, left)[1]
        more = [y.reshape((extent - start, *y.shape[2:])) for y in more]
    found = [stack.ops.concat(a, b, axis=0) for a, b in zip(found, more, strict=True)] if more else found
    return made.build([back(stack, y, axis, path, told) for y, path in zip(found, made.paths, strict=True)])


def fori(
    stack: Any, lower: Any, upper: Any, body: Callable[..., Any], init: Any, *, checkpoint: Checkpoint = None
) -> Any:
    """What a body carries from `lower` to below `upper`: ``body(i, state)`` returns the next state; i is an int64.

    Parameters
    ----------
    lower, upper
        Integers of 64 bits, or tensors of one. Where `lower` is not below `upper`, there is no step.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.fori(0, 5, lambda i, total: total + i, 0).item()
    10
    """
    check_body(body, "fori", ("i", "state"))
    bounds = [integer(stack, each, name) for each, name in ((lower, "lower"), (upper, "upper"))]
    for each, name in zip(bounds, ("lower", "upper"), strict=True):
        if type(each) is int and not -(2**63) <= each < 2**63:
            raise DTypeError(f"{name} is an integer of 64 bits, as i is, given {each}{whose('fori', body)}")
    if all(type(each) is int for each in bounds):
        length: Any = max(0, bounds[1] - bounds[0])
    else:
        ops = stack.ops  # the difference of numbers that are far apart is none of 64 bits
        length = ops.where(ops.less(*bounds), ops.subtract(bounds[1], bounds[0]), 0)
    start = bounds[0] if isinstance(bounds[0], Tensor) else stack.asarray(np.int64(bounds[0]))

    def step(carry: Any, _: Any) -> tuple[Any, None]:
        i, state = carry
        return (i + 1, body(i, state)), None

    told = whose("fori", body)
    found = _Scan(stack, step, (start, init), None, 0, False, length, told, carry="state", is_inner=True)
    return found.run(checkpoint=checkpoint)[0][1]


class _Scan:
    """One scan: what goes in, and the body."""

    def __init__(
        self, stack: Any, f: Callable[..., Any], init: Any, xs: Any, axis: int, reverse: bool, length: Any,
        told: str, carry: str = "carry", xs_are: str = "xs", is_inner: bool = False,
        dynamic: bool = False,
    ) -> None:  # fmt: skip
        self.growing: Growing = {} if dynamic else None
        self.stack, self.f, self.axis, self.reverse, self.told = stack, f, axis, bool(reverse), told
        self.carry = Carry.of(stack, init, carry, told, is_inner)
        self.slices = Slices(stack, xs, axis, xs_are, told)
        self.xs, self.structure = self.slices.tensors, self.slices.structure
        self.count: Any = None  # a tensor
        self.length = self._length(length)
        self.outputs: Structure | None = None

    def _length(self, length: Any) -> Any:
        if length is not None and not getattr(length, "is_symbolic", False):
            length = integer(self.stack, length, "length")
        if isinstance(length, Tensor):
            self.count, length = length, None
        if length is not None and known(length) and length < 0:
            raise ShapeError(f"a number of steps is not negative, given length={length}{self.told}")
        extent = self.slices.extent(length)
        if extent is None and self.count is None:
            raise OperatorError(f"a scan of no tensor wants length=, the number of steps{self.told}")
        return extent

    def trace(self, before: Sequence[Any]) -> tuple[TracedBody, list[Any]]:
        """The body, for carries of these avals; and what each carry is after it."""
        slices = [aval_of(self.stack, self.stack.carrier(x)) for x in self.xs]
        slices = [a.having(shape=a.shape[1:]) for a in slices]
        numbers: list[bool] = []
        goes = self.count is None and known(self.length) and self.length

        def flat(given: list[Any]) -> list[Any]:
            count = len(before)
            carry, x = self.carry.structure.build(given[:count]), self.structure.build(given[count:])
            with nullcontext() if goes else traced_always(f"a body is traced, though there may be no step{self.told}"):
                after, output = self.f(carry, x)
            found = self.carry.after(after)
            rows, self.outputs = leaves_of(output, "an output", self.told)
            numbers[:] = [*map(is_held, found, before)]
            return [*self.carry.held(found, before), *rows]

        symbols = frozenset((self.growing or {}).values())
        given = [*before, *slices]
        body = traced(self.stack, flat, given, effects=True, counted=True, symbols=symbols, in_stages=True)
        return body, [None if n else a for n, a in zip(numbers, body.avals, strict=False)]

    def run(self, unroll: int | bool = 1, checkpoint: Checkpoint = None) -> tuple[Any, Any]:
        """The last carry, and the outputs."""
        body, avals = self.carry.settled(self.trace, growing=self.growing)
        carries = self.carry.carriers(avals)
        if self.growing is not None or body.stages:
            given = {"unroll": unroll not in (1, False), "checkpoint": checkpoint not in (None, "full")}
            if any(given.values()):
                names = " and ".join(f"{name}=" for name, each in given.items() if each)
                raise OperatorError(
                    f"{names} is for loops whose carries keep their shapes, and dynamic=True lets them grow"
                )
            return self.staged(body, carries) if body.stages else self.grown(body, carries)
        count = len(carries)
        found = in_order(
            self.stack, "a loop with effects", body, (count, count), [*carries, *map(self.stack.carrier, self.xs)],
            lambda body, more: self.applied(body, [*carries, *more], unroll, checkpoint),
        )  # fmt: skip
        assert self.outputs is not None
        rows = zip(found[count:], self.outputs.paths, strict=True)
        outputs = [back(self.stack, y, self.axis, path, self.told) for y, path in rows]
        return self.carry.structure.build(found[:count]), self.outputs.build(outputs)

    def staged(self, body: TracedBody, carries: list[Any]) -> tuple[Any, Any]:
        """As `run`, of a body that waits for loops whose carries grow."""
        from nnc_func.control_flow.stages import staged  # few loops do

        stack, count = self.stack, len(carries)
        slices = [stack.carrier(x) for x in self.xs]
        given = body.parameters[: count + len(slices)]
        loop = staged(
            stack, body, range(len(given)), given, count, self.growing or {}, self.told, slices=len(slices),
            most=self._most(), reverse=self.reverse, names=tuple(self.carry.names("a scan")),
        )  # fmt: skip
        found, rows = loop.applied([*body.captured, *carries, *slices])
        return self.carry.structure.build(found), self._built(rows)

    def _built(self, rows: Sequence[Any]) -> Any:
        """The outputs: a tensor with a row for each time, or a list with a tensor for each."""
        from nnc_func.control_flow.growing import padded

        assert self.outputs is not None
        found = [
            y
            if isinstance(y, list)
            else back(self.stack, padded(self.stack, y, self.length), self.axis, path, self.told)
            for y, path in zip(rows, self.outputs.paths, strict=True)
        ]
        return self.outputs.build(found)

    def _most(self) -> Any:
        """How often it goes at most, as a number."""
        from nnc_func.control_flow.growing import value_now

        if self.xs and not known(self.length) and self.count is None:
            return None  # what is sliced tells it
        if self.length is not None and not known(self.length):
            raise UnboundError(OUTSIDE)
        if self.count is None:
            return self.length
        most = max(0, int(value_now(self.stack, self.count, "how many steps there are")))
        return most if self.length is None else min(most, self.length)

    def grown(self, body: TracedBody, carries: list[Any]) -> tuple[Any, Any]:
        """As `run`, of carries that may grow."""
        from nnc_func.control_flow.growing import Grown, counted_carry  # few loops do

        stack, growing, count = self.stack, self.growing, len(carries)
        assert growing is not None
        body, more = counted_carry(stack, body, (count, count))
        whole = [*carries, *more]
        inner, operands = body.over(whole, [stack.carrier(x) for x in self.xs])
        constants, own = len(body.captured), len(whole) + len(self.xs)
        most = self._most()
        loop = Grown(
            stack, inner, [*body.parameters[own:], *body.parameters[:own]], body.avals[len(whole) :],
            operands[:constants], operands[constants : constants + len(whole)], operands[constants + len(whole) :],
            growing, self.carry.names("a scan"),
        )  # fmt: skip
        found, rows = loop.applied(most=most, reverse=self.reverse)
        return self.carry.structure.build(found[:count]), self._built(rows)

    def applied(self, body: TracedBody, carries: list[Any], unroll: int | bool, checkpoint: Checkpoint) -> list[Any]:
        """The loop, in one of its forms."""
        stacked = len(body.body.results) > len(carries)
        if not body.body.results:
            return []  # nothing is carried, and nothing is given
        if self.length is None and stacked:
            raise OperatorError("a scan of no tensor with outputs wants length= a known number of steps")
        inner, operands = body.over(carries, [self.stack.carrier(x) for x in self.xs])
        steps = Steps(self.stack, inner, operands, len(body.captured), len(carries), self.length, self.reverse)
        if type(unroll) is not bool and (type(unroll) is not int or unroll < 1):
            raise OperatorError(f"unroll= is a number of steps, 1 or more, or True: all of them; given {unroll!r}")
        kept = spelled(checkpoint, self.length)
        if kept and (unroll is True or unroll > 1):
            raise OperatorError(
                f"a loop has checkpoint={checkpoint!r} or unroll={unroll!r}, not both: steps that are written out are "
                "not computed again one by one"
            )
        if (unroll is True or unroll > 1) and self.count is None and not known(self.length):
            raise OperatorError(
                f"for unroll={unroll!r} the number of steps must be known when the loop is built, and here it is "
                f"{self.length}: leave unroll= out, or build the loop for inputs of a known extent{self.told}"
            )
        if self.count is not None:
            return steps.loop(count=self.stack.carrier(self.count), checkpoint=kept)
        if unroll is True:
            return steps.written_out()
        return steps.in_parts(unroll) if unroll > 1 else steps.loop(checkpoint=kept)
