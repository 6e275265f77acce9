"""Loops: `foreach`, `scan`, `fold`, `map`, `fori`, `while_loop`; each is one operator, whatever its number of times.

The function is traced to a body, at most three times, on every engine. What it captures is an operand, and is
differentiated. MXNet's `foreach` and `while_loop`, and JAX's `scan` and `fori_loop`, are the models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.control_flow.carries import Carry
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, is_numbers, tensor_of, traced
from nnc_func.errors import DTypeError, OperatorError, RunError, ShapeError, UnboundError, check_function
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.ops.loop import loop
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten

SHORT = 8  # steps at most that `unroll` of a loop in parts leaves to be written out after it
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
    >>> outs, states = stack.foreach(lambda x, s: (x * s[0], [s[0] + x]), [1.0, 2.0, 3.0], [10.0])
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


def map_(stack: Any, f: Callable[..., Any], *xs: Any, axis: int = 0) -> Any:
    """The outputs of a function of each slice of tensors, or of trees of them, along an axis, stacked along it.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.map(lambda x, y: x.sum() * y, [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).numpy()
    array([ 3., 70.])
    """
    return scan(stack, lambda _, x: (None, f(*x)), None, xs, axis=axis)[1]


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
    bounds = [_integer(stack, each, name) for each, name in ((lower, "lower"), (upper, "upper"))]
    if all(type(each) is int for each in bounds):
        length: Any = max(0, bounds[1] - bounds[0])
    else:
        length = stack.ops.subtract(bounds[1], bounds[0])
    start = bounds[0] if isinstance(bounds[0], Tensor) else stack.asarray(np.int64(bounds[0]))

    def step(carry: Any, _: Any) -> tuple[Any, None]:
        i, state = carry
        return (i + 1, body(i, state)), None

    return scan(stack, step, (start, init), None, length=length, checkpoint=checkpoint)[0][1]


def _integer(stack: Any, value: Any, name: str) -> Any:
    """A Python integer, or a tensor of one, of int64."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    found = tensor_of(stack, value)
    if not isinstance(found, Tensor) or found.shape != () or found.dtype.kind not in "iu":
        given = f"{found.dtype}{list(found.shape)}" if isinstance(found, Tensor) else repr(value)
        raise DTypeError(f"{name} is an integer, or a tensor of one, given {given}")
    return found if found.dtype == np.int64 else found.astype("int64")


class _Scan:
    """One scan: what goes in, and the body."""

    def __init__(
        self, stack: Any, f: Callable[..., Any], init: Any, xs: Any, axis: int, reverse: bool, length: Any,
        what: str = "carry",
    ) -> None:  # fmt: skip
        self.stack, self.f, self.axis, self.reverse = stack, f, axis, bool(reverse)
        self.carry = Carry.of(stack, init, what)
        leaves, self.structure = flatten(xs, is_leaf=is_numbers)
        self.xs = [_first(stack, stack.asarray(x) if type(x) in SCALARS else tensor_of(stack, x), axis) for x in leaves]
        self.count: Any = None  # a tensor
        self.length = self._length(length)
        self.outputs: Structure | None = None

    def _length(self, length: Any) -> Any:
        found = [x.shape[0] for x in self.xs]
        if length is not None:
            given = length if getattr(length, "is_symbolic", False) else _integer(self.stack, length, "length")
            if isinstance(given, Tensor):
                self.count = given
            else:
                found.insert(0, given)
        if not found:
            if self.count is None:
                raise OperatorError("a scan of no tensor wants length=, the number of steps")
            return None
        if not all(same_extent(n, found[0]) for n in found):
            raise ShapeError(f"what goes together step by step has one extent along axis {self.axis}, given {found}")
        if known(found[0]) and found[0] < 0:
            raise ShapeError(f"a number of steps is not negative, given length={found[0]}")
        return found[0]

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
            return [*map(_alike(self.stack), found, before), *rows]

        body = traced(self.stack, flat, [*before, *slices])
        return body, [None if n else a for n, a in zip(numbers, body.avals, strict=False)]

    def run(self, unroll: int | bool, checkpoint: Checkpoint) -> tuple[Any, Any]:
        """The last carry, and the outputs."""
        body, avals = self.carry.settled(self.trace)
        carries = self.carry.carriers(avals)
        found = self.applied(body, carries, unroll, checkpoint)
        count = len(carries)
        outputs = [_last(self.stack, y, self.axis) for y in found[count:]]
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


class Steps:
    """A loop as it may be applied: at once, in segments that are computed again, in parts, or written out.

    Parameters
    ----------
    body
        Of constants, carries, slices.
    operands
        What flows through the layers.
    length
        How many steps; symbolic, or None where something else bounds it.
    """

    def __init__(
        self, stack: Any, body: Any, operands: Sequence[Any], constants: int, carries: int, length: Any, reverse: bool
    ) -> None:
        self.stack, self.body, self.length, self.reverse = stack, body, length, reverse
        self.constants, self.carries = [*operands[:constants]], [*operands[constants : constants + carries]]
        self.slices = [*operands[constants + carries :]]

    def bind(self, *operands: Any, **params: Any) -> list[Tensor]:
        """The operator: tensors."""
        tensors = [x if isinstance(x, Tensor) else Tensor(self.stack, x) for x in operands]
        return [*self.stack.bind(loop, *tensors, **params)]

    def loop(self, count: Any = None, conditional: bool = False, recompute: bool = False) -> list[Tensor]:
        """All steps by one loop."""
        given = [*self.constants, *self.carries, *self.slices]
        return self.bind(
            *given, *([] if count is None else [count]), body=self.body, constants=len(self.constants),
            carries=len(self.carries), length=None if self.slices else self.length, reverse=self.reverse,
            counted=count is not None, conditional=conditional, recompute=recompute,
        )  # fmt: skip

    def having(self, body: Any, carries: Sequence[Any], slices: Sequence[Any], length: Any) -> Steps:
        """Other steps on the same constants."""
        operands = [*self.constants, *carries, *slices]
        return Steps(self.stack, body, operands, len(self.constants), len(carries), length, self.reverse)

    def written_out(self) -> list[Tensor]:
        """One step after another, without a loop."""
        if not known(self.length):
            raise OperatorError(f"a loop of {self.length} steps is not written out: how many there are must be known")
        carry, rows = self.carries, list[list[Any]]()
        for i in reversed(range(self.length)) if self.reverse else range(self.length):
            slices = [self.slice(x, i, i + 1, True) for x in self.slices]
            values = self.body.values(self.apply, [*self.constants, *carry, *slices])
            found = [values[n] for n in self.body.results]
            carry = found[: len(carry)]
            rows.append(found[len(carry) :])
        if not rows:
            return self.loop()
        if self.reverse:
            rows.reverse()
        ops, tensor = self.stack.ops, self.tensor
        columns = [ops.stack(*map(tensor, column), axis=0) for column in zip(*rows, strict=True)]
        return [*map(tensor, carry), *columns]

    def apply(self, op: Any, operands: list[Any], items: Any) -> Any:
        """An operator of the body on what flows through the layers."""
        found = self.stack.bind(op, *map(self.tensor, operands), **dict(items))
        return [t.value for t in found] if op.multi_result else found.value

    def tensor(self, value: Any) -> Any:
        """A tensor of what flows through the layers."""
        return value if isinstance(value, Tensor) else Tensor(self.stack, value)

    def slice(self, x: Any, start: int, stop: int, single: bool = False) -> Any:
        """Some rows, or one of them, as what flows through the layers."""
        found = self.tensor(x)[start] if single else self.tensor(x)[start:stop]
        return self.stack.carrier(found)

    def in_parts(self, unroll: int) -> list[Tensor]:
        """A loop of which each turn has several steps, written out; and the steps that are left, as a loop."""
        return self._nested(unroll, lambda steps: steps.written_out(), recompute=False)

    def in_segments(self, segment: int) -> list[Tensor]:
        """A loop over segments, which for the derivative are computed again from the carries at their beginnings."""
        return self._nested(segment, lambda steps: steps.loop(), recompute=True)

    def _nested(self, size: int, inner: Callable[[Steps], list[Tensor]], recompute: bool) -> list[Tensor]:
        if not known(self.length):
            raise OperatorError(f"a loop of {self.length} steps has no parts: how many there are must be known")
        whole = self.length // size
        rest = self.length - whole * size
        if not whole:
            return self.loop()
        first, last = (rest, self.length) if self.reverse else (0, whole * size)
        long = [
            self.stack.carrier(
                self.tensor(self.slice(x, first, last)).reshape((whole, size, *self.tensor(x).shape[1:]))
            )
            for x in self.slices
        ]
        carries = len(self.carries)

        def turn(given: list[Any]) -> list[Any]:
            values = [*map(self.stack.carrier, given)]
            count = len(self.constants)
            operands = [*values[:count], *values[count:]]
            return inner(Steps(self.stack, self.body, operands, count, carries, size, self.reverse))

        avals = [aval_of(self.stack, x) for x in (*self.constants, *self.carries)]
        avals += [a.having(shape=a.shape[1:]) for a in (aval_of(self.stack, x) for x in long)]
        body = traced(self.stack, turn, avals)
        inside, operands = body.over(self.constants, self.carries, long)
        constants = len(body.captured) + len(self.constants)
        outer = Steps(self.stack, inside, operands, constants, carries, None if long else whole, self.reverse)
        found = outer.loop(recompute=recompute)
        columns = [y.reshape((whole * size, *y.shape[2:])) for y in found[carries:]]
        if not rest:
            return [*found[:carries], *columns]
        bounds = (0, rest) if self.reverse else (whole * size, self.length)
        left = self.having(
            self.body, [self.stack.carrier(t) for t in found[:carries]],
            [self.slice(x, *bounds) for x in self.slices], rest,
        ).loop()  # fmt: skip
        ops = self.stack.ops
        pairs = zip(columns, left[carries:], strict=True)
        joined = [ops.concat(b, a, axis=0) if self.reverse else ops.concat(a, b, axis=0) for a, b in pairs]
        return [*left[:carries], *joined]


def _alike(stack: Any) -> Callable[[Any, Any], Any]:
    """A Python number that is carried on, as a tensor of the dtype of the carry."""

    def of(leaf: Any, before: Any) -> Any:
        if type(leaf) not in SCALARS or type(before) in SCALARS:
            return tensor_of(stack, leaf)
        return stack.asarray(leaf, before.dtype)

    return of


def _first(stack: Any, x: Any, axis: int) -> Any:
    """A tensor with an axis moved to the front."""
    if not isinstance(x, Tensor):
        raise OperatorError(
            f"what is sliced step by step is a tensor, or a tree of tensors, given a {type(x).__name__}"
        )
    rank = len(x.shape)
    if not rank:
        raise ShapeError("what is sliced step by step has an axis; one tensor has none")
    at = normalise_axis(axis, rank)
    return x if at == 0 else stack.ops.permute_dims(x, axes=(at, *(n for n in range(rank) if n != at)))


def _last(stack: Any, y: Any, axis: int) -> Any:
    """A tensor with its first axis moved to where it belongs."""
    rank = len(y.shape)
    at = normalise_axis(axis, rank)
    order = [*range(1, at + 1), 0, *range(at + 1, rank)]
    return y if at == 0 else stack.ops.permute_dims(y, axes=tuple(order))


# --- while ---------------------------------------------------------------------------------------------------


def while_loop(
    stack: Any, cond: Callable[..., Any], body: Callable[..., Any], vars: Any, max_iterations: Any = None, *,
    exact: bool = False, on_limit: str = "stop",
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The outputs of a body while a condition holds, side by side, the last variables, and how often it was computed.

    Parameters
    ----------
    cond
        ``cond(*vars)`` returns one truth value: a tensor without axes, or a Python number.
    body
        ``body(*vars)`` returns an output, None or a tree, and the next variables.
    vars
        A list or a tuple, whose parts are given one by one; anything else is given as one argument.
    max_iterations
        The most there are: then it stops, and how often says so. Without it nothing bounds the loop.
    exact
        Outputs have one row for each time; else they have `max_iterations` rows, where it is given, of which those of
        times that did not happen are zeros. How many there are is then computed at once.
    on_limit
        "stop", or "raise": a RunError where the condition still holds after the last time, which is then computed at
        once.

    Returns
    -------
    Outputs, variables, and an int64: how many times.

    Raises
    ------
    OperatorError
        Variables that change their structure, shapes or dtypes; a condition that is not one truth value.
    UnboundError
        How many rows there are depends on what has no value yet: `max_iterations` says how many at most.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> _, (i, total), times = stack.while_loop(lambda i, s: i <= 5, lambda i, s: (None, (i + 1, s + i)), (1, 0))
    >>> i.item(), total.item(), times.item()
    (6, 15, 5)
    """
    check_function(cond, "while_loop")
    check_function(body, "while_loop")
    if on_limit not in ("stop", "raise"):
        raise OperatorError(f'on_limit= is "stop" or "raise", given {on_limit!r}')
    found = _While(stack, cond, body, vars, max_iterations)
    return found.run(exact or max_iterations is None, on_limit == "raise")


class _While:
    """One while loop: what goes in, and its body, which begins with the condition for the next time."""

    def __init__(self, stack: Any, cond: Any, body: Any, variables: Any, most: Any) -> None:
        self.stack, self.cond, self.body = stack, cond, body
        self.unpacked = isinstance(variables, (list, tuple)) and not hasattr(variables, "_fields")
        self.variables = Carry.of(stack, variables, "variable")
        symbolic = most is None or getattr(most, "is_symbolic", False)
        self.most = most if symbolic else _integer(stack, most, "max_iterations")
        if isinstance(self.most, Tensor):
            raise OperatorError("max_iterations is a number, or a symbolic extent; a tensor belongs into the condition")
        if known(self.most) and self.most is not None and self.most < 0:
            raise OperatorError(f"max_iterations is not negative, given {self.most}")
        self.outputs: Structure | None = None

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """What both functions take."""
        tree = self.variables.structure.build(leaves)
        return tuple(tree) if self.unpacked else (tree,)

    def condition(self, leaves: Sequence[Any]) -> Any:
        """One truth value."""
        found = tensor_of(self.stack, self.cond(*self.arguments(leaves)))
        if type(found) in SCALARS:
            return self.stack.asarray(bool(found))
        if not isinstance(found, Tensor):
            raise OperatorError(f"the condition of while_loop is one truth value, given a {type(found).__name__}")
        if found.shape != ():
            raise OperatorError(
                f"the condition of while_loop is one truth value, given shape {found.shape}; take all() or any() of it"
            )
        return found if found.dtype == np.bool_ else self.stack.ops.not_equal(found, 0)

    def trace(self, before: Sequence[Any]) -> tuple[TracedBody, list[Any]]:
        """The body, for variables of these avals; and what each is after it."""
        numbers: list[bool] = []
        count = len(before)
        typed = not any(type(each) in SCALARS for each in before)

        def flat(given: list[Any]) -> list[Any]:
            *variables, times = given
            found = self.body(*self.arguments(variables))
            if not isinstance(found, tuple) or len(found) != 2:
                raise OperatorError("the body of while_loop returns a pair: an output, or None, and the next variables")
            output, after = found
            leaves, structure = flatten(after)
            if structure != self.variables.structure and len(leaves) == count == 1:
                structure = self.variables.structure  # the one variable as it is
            self.variables.same_structure(structure)
            rows, self.outputs = flatten(output, is_leaf=is_numbers)
            numbers[:] = [type(leaf) in SCALARS for leaf in leaves]
            following = [*map(_alike(self.stack), leaves, before)]
            more = self.condition(following) if typed else False
            return [more, times + 1, *following, *rows]

        body = traced(self.stack, flat, [*before, Aval((), "int64")])
        return body, [None if n else a for n, a in zip(numbers, body.avals[2:], strict=False)]

    def run(self, exact: bool, raises: bool) -> tuple[Any, Any, Any]:
        """Outputs, variables, and how many times."""
        stack = self.stack
        traced_body, avals = self.variables.settled(self.trace, first=2)
        variables = self.variables.carriers(avals)
        count = len(variables)
        more = stack.carrier(self.condition([Tensor(stack, each) for each in variables]))
        zero = stack.carrier(stack.asarray(np.int64(0)))
        builder_body, captured = _condition_first(traced_body, count)
        steps = Steps(
            stack, builder_body, [*captured, more, zero, *variables], len(captured), 2 + count, self.most, False
        )
        rows = len(builder_body.results) - 2 - count
        if rows and exact:
            times = self._times(steps, count)
            steps = Steps(
                stack, builder_body, [*captured, more, zero, *variables], len(captured), 2 + count, times, False
            )
        found = steps.loop(conditional=True)
        if raises and bool(self._now(found[0], "whether the condition holds in the end")):
            raise RunError(f"while_loop: the condition still holds after max_iterations={self.most} times")
        assert self.outputs is not None
        outputs = self.outputs.build(found[2 + count :])
        return outputs, self.variables.structure.build(found[2 : 2 + count]), found[1]

    def _times(self, steps: Steps, count: int) -> int:
        """How many times it goes, computed now: by a loop that stacks nothing."""
        from nnc_func.body import Body

        bare = Body(steps.body.parameters, steps.body.applications, steps.body.results[: 2 + count])
        found = steps.having(bare, steps.carries, (), self.most).loop(conditional=True)
        return int(self._now(found[1], "how many rows the outputs of while_loop have"))

    def _now(self, value: Tensor, what: str) -> Any:
        from nnc_func.autodiff.traced import Traced

        carrier = self.stack.carrier(value)
        while type(carrier) is Traced:
            carrier = carrier.primal
        try:
            return self.stack.engine.force([carrier])[0]
        except (UnboundError, TypeError, AttributeError) as error:
            raise UnboundError(
                f"{what} depends on what has no value yet: say max_iterations=, without exact ({error})"
            ) from None


def _condition_first(found: TracedBody, count: int) -> tuple[Any, tuple[Any, ...]]:
    """The body of a while loop as the operator wants it: what is captured, condition, times, variables."""
    from nnc_func.body_builder import BodyBuilder

    builder = BodyBuilder()
    constants = builder.parameters(len(found.captured))
    builder.parameter()  # the condition, which nothing reads
    times, *variables = builder.parameters(1 + count)
    values = builder.include(found.body, [*variables, times, *constants])
    return builder.built([values[n] for n in found.body.results]), found.captured
