"""Loops that a condition ends: `while_loop`, after MXNet's, and NNC's ``while``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.carries import Carry, Growing, integer, is_held, of_extents, truth_value
from nnc_func.control_flow.checkpoints import Checkpoint, spelled
from nnc_func.control_flow.growing import Grown, counted_carry, padded, value_now
from nnc_func.control_flow.host import decided, refuse_traced
from nnc_func.control_flow.messages import check_body, leaves_of, pair, traced_always, whose
from nnc_func.control_flow.stages import staged
from nnc_func.control_flow.steps import Steps, in_order
from nnc_func.control_flow.tracing import SCALARS, TracedBody, traced
from nnc_func.engine.effects import first
from nnc_func.errors import OperatorError, RunError, UnboundError
from nnc_func.facets.dims import known
from nnc_func.facets.late_extents import late_extent
from nnc_func.graph.ops.silent_bodies import silenced, unconditional
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten

SINGLE = {flatten(tree)[1] for tree in (0, [0], (0,))}


def while_loop(
    stack: Any, cond: Callable[..., Any], body: Callable[..., Any], vars: Any, max_iterations: Any = None, *,
    checkpoint: Checkpoint = None, exact: bool = False, on_limit: str = "stop", dynamic: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The outputs of a body while a condition holds, side by side, the last variables, and how often it was computed.

    Parameters
    ----------
    cond
        ``cond(*vars)`` returns one truth value: a tensor without axes, or a Python number; or `nnc.host`, a function
        of NumPy arrays.
    body
        ``body(*vars)`` returns an output, None or a tree, and the next variables.
    vars
        A list or a tuple, whose parts are given one by one; anything else is given as one argument.
    max_iterations
        The most there are: then it stops, and how often says so. Without it nothing bounds the loop.
    checkpoint
        What is kept for the derivative: as of `scan`. Without `max_iterations` that is a number of carries, 100 where
        none is said, or as many as fit into a budget: how many times there are is not known before the run.
    exact
        Outputs have one row for each time; else they have `max_iterations` rows, where it is given, of which those of
        times that did not happen are zeros. How many there are is then computed at once.
    on_limit
        "stop", or "raise": a RunError where the condition still holds after the last time, which is then computed at
        once.

    dynamic
        Variables may change their extents from time to time, along axes that they have; then all of it is computed at
        once. In `cond` their extents are compared by ``<``, ``<=``, ``>``, ``>=``. An output that changes its shape is
        a list of tensors, one for each time.

    Returns
    -------
    Outputs, variables, and an int64: how many times.

    Raises
    ------
    OperatorError
        Variables that change their structure, shapes or dtypes; a condition that is no truth value.
    ShapeError
        A condition of several truth values.
    UnboundError
        How many rows there are depends on what has no value yet: `max_iterations` says how many at most. With
        `dynamic`, any value is not known yet, or is a row of a `vmap`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> _, (i, total), times = stack.while_loop(lambda i, s: i <= 5, lambda i, s: (None, (i + 1, s + i)), (1, 0))
    >>> i.item(), total.item(), times.item()
    (6, 15, 5)

    >>> _, x, _ = stack.while_loop(
    ...     lambda x: x.shape[0] < 5, lambda x: (None, stack.ops.concat(x, 2 * x[-1:], axis=0)),
    ...     stack.asarray([1.0, 3.0]), dynamic=True)
    >>> x.numpy()
    array([ 1.,  3.,  6., 12., 24.])
    """
    if on_limit not in ("stop", "raise"):
        raise OperatorError(f'on_limit= is "stop" or "raise", given {on_limit!r}')
    if dynamic and checkpoint not in (None, "full"):
        raise OperatorError("checkpoint= is for loops whose carries keep their shapes, and dynamic=True lets them grow")
    found = _While(stack, cond, body, vars, max_iterations, {} if dynamic else None, checkpoint)
    return (found.grown if dynamic else found.run)(exact or max_iterations is None, on_limit == "raise")


class _While:
    """One while loop: what goes in, and its body, which begins with the condition for the next time."""

    def __init__(
        self, stack: Any, cond: Any, body: Any, variables: Any, most: Any, growing: Growing, checkpoint: Checkpoint
    ) -> None:
        self.stack, self.cond, self.body, self.growing = stack, cond, body, growing
        self.unpacked = isinstance(variables, (list, tuple)) and not hasattr(variables, "_fields")
        names = [f"v{n}" for n in range(len(variables))] if self.unpacked else ["variables"]
        check_body(cond, "while_loop", names, "the condition")
        check_body(body, "while_loop", names)
        self.told = whose("while_loop", body)
        self.variables = Carry.of(stack, variables, "variable", self.told)
        symbolic = most is None or getattr(most, "is_symbolic", False)
        self.most = most if symbolic else integer(stack, most, "max_iterations")
        if isinstance(self.most, Tensor):
            raise OperatorError("max_iterations is a number, or a symbolic extent; a tensor belongs into the condition")
        if known(self.most) and self.most is not None and self.most < 0:
            raise OperatorError(f"max_iterations is not negative, given {self.most}")
        self.checkpoint = spelled(checkpoint, self.most)
        self.outputs: Structure | None = None
        self.decided = False

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """What both functions take."""
        tree = self.variables.structure.build(leaves)
        return tuple(tree) if self.unpacked else (tree,)

    def condition(self, leaves: Sequence[Any]) -> Any:
        """One truth value."""
        with of_extents(self.stack, self.growing):
            found = decided(self.stack, self.cond, self.arguments(leaves))
        self.decided = type(found) in SCALARS and bool(found)  # by Python, to go on
        told = whose("while_loop", self.cond)
        return truth_value(self.stack, found, "the condition of while_loop", told)

    def trace(self, before: Sequence[Any]) -> tuple[TracedBody, list[Any]]:
        """The body, for variables of these avals; and what each is after it."""
        numbers: list[bool] = []
        typed = not any(type(each) in SCALARS for each in before)

        def flat(given: list[Any]) -> list[Any]:
            *variables, times = given
            wanted = "the body of while_loop returns a pair: an output, or None, and the next variables"
            with traced_always("the body of while_loop is traced before anything is known of how often it goes"):
                found = self.body(*self.arguments(variables))
            output, after = pair(found, wanted, self.told)
            leaves, structure = flatten(after)
            if {structure, self.variables.structure} <= SINGLE:  # the one variable as it is, or in a list
                after = self.variables.structure.build(leaves)
            leaves = self.variables.after(after)
            rows, self.outputs = leaves_of(output, "an output", self.told)
            numbers[:] = [*map(is_held, leaves, before)]
            following = self.variables.held(leaves, before)
            more = self.condition(following) if typed else False
            return [more, times + 1, *following, *rows]

        symbols = frozenset((self.growing or {}).values())
        given = [*before, Aval((), "int64")]
        body = traced(self.stack, flat, given, effects=True, counted=True, symbols=symbols, in_stages=True)
        return body, [None if n else a for n, a in zip(numbers, body.avals[2:], strict=False)]

    def run(self, exact: bool, raises: bool) -> tuple[Any, Any, Any]:
        """Outputs, variables, and how many times."""
        stack = self.stack
        traced_body, avals = self.variables.settled(self.trace, first=2)
        variables = self.variables.carriers(avals)
        count = len(variables)
        more = stack.carrier(self.condition([Tensor(stack, each) for each in variables]))
        zero = stack.carrier(stack.asarray(np.int64(0)))

        def apply(body: TracedBody, token: list[Any]) -> list[Tensor]:
            inner, captured = _condition_first(body, count + len(token))
            carries = [more, zero, *variables, *token]
            steps = Steps(stack, inner, [*captured, *carries], len(captured), len(carries), self.most, False)
            if not (exact and len(inner.results) > len(carries)):
                return steps.loop(conditional=True, checkpoint=self.checkpoint)
            goes_on, times, after = self._times(steps, token)
            steps = steps.having(unconditional(inner, len(captured)), steps.carries, (), times)
            _, *found = steps.loop(checkpoint=self.checkpoint)
            if token and steps.body.is_pure:  # all that has an effect is the condition, which was asked when counting
                found[1 + count] = after
            return [goes_on, *found]

        if traced_body.stages:
            return self._staged(traced_body, [more, zero, *variables], exact, raises)
        found = in_order(stack, "a loop with effects", traced_body, (count, 2 + count), [more, *variables], apply)
        if raises and bool(value_now(stack, found[0], "whether the condition of while_loop holds in the end")):
            raise RunError(f"while_loop: the condition still holds after max_iterations={self.most} times")
        assert self.outputs is not None
        outputs = self.outputs.build(found[2 + count :])
        return outputs, self.variables.structure.build(found[2 : 2 + count]), found[1]

    def grown(self, exact: bool, raises: bool) -> tuple[Any, Any, Any]:
        """As `run`, of variables that may grow."""
        stack, growing = self.stack, self.growing
        assert growing is not None
        traced_body, avals = self.variables.settled(self.trace, first=2, growing=growing)
        if self.decided and self.most is None:
            raise OperatorError(
                "a while_loop whose condition is a Python truth value ends nowhere: let a tensor decide, or compare "
                "extents by <, <=, >, >= (whether they are equal is not known while the body is traced)"
            )
        variables = self.variables.carriers(avals)
        count, zero = len(variables), stack.carrier(stack.asarray(np.int64(0)))
        more = stack.carrier(self.condition([Tensor(stack, each) for each in variables]))
        if traced_body.stages:
            return self._staged(traced_body, [more, zero, *variables], exact, raises)
        body, counter = counted_carry(stack, traced_body, (count, 2 + count))
        whole = count + len(counter)
        inner, captured = _condition_first(body, whole)
        given = [*body.parameters[whole + 1 :], Aval((), "bool"), Aval((), "int64"), *body.parameters[:whole]]
        loop = Grown(
            stack, inner, given, body.avals[2 + whole :], [*captured], [more, zero, *variables, *counter], (),
            {(2 + n, axis): symbol for (n, axis), symbol in growing.items()}, self._names(),
        )  # fmt: skip
        found, rows = loop.applied(most=self.most, conditional=True)
        return self._ended(found, rows, exact, raises)

    def _names(self) -> list[str]:
        return ["the condition of while_loop", "the number of times", *self.variables.names("while_loop")]

    def _staged(self, body: TracedBody, carries: list[Any], exact: bool, raises: bool) -> tuple[Any, Any, Any]:
        """As `run`, of a body that waits for loops whose carries grow."""
        count, growing = len(carries) - 2, self.growing or {}
        avals = [Aval((), "bool"), Aval((), "int64"), *body.parameters[:count]]
        loop = staged(
            self.stack, body, (None, count, *range(count)), avals, len(carries),
            {(2 + n, axis): symbol for (n, axis), symbol in growing.items()}, self.told, most=self.most,
            conditional=True, names=tuple(self._names()),
        )  # fmt: skip
        found, rows = loop.applied([*body.captured, *carries])
        return self._ended(found, rows, exact, raises)

    def _ended(self, found: Sequence[Any], rows: Sequence[Any], exact: bool, raises: bool) -> tuple[Any, Any, Any]:
        """What it gives, of condition, number of times and variables, and of outputs, that were computed at once."""
        stack, count = self.stack, len(self.variables.leaves)
        if raises and bool(value_now(stack, found[0], "whether the condition of while_loop holds in the end")):
            raise RunError(f"while_loop: the condition still holds after max_iterations={self.most} times")
        if not exact:
            rows = [padded(stack, y, self.most) for y in rows]
        assert self.outputs is not None
        return self.outputs.build(rows), self.variables.structure.build(found[2 : 2 + count]), found[1]

    def _times(self, steps: Steps, token: Sequence[Any]) -> tuple[Tensor, Any, Any]:
        """Whether it would go on, how many times it goes, and the token after that.

        A loop that stacks nothing, and only asks, says it: now, or later. What is traced asks nothing now.
        """
        silent = silenced((("body", steps.body),))
        if silent is None:
            raise OperatorError(
                "how many rows the outputs of while_loop have is counted first, without its effects, but these give "
                "what its variables are made of: say max_iterations=, without exact"
            )
        body: Body = silent[0][1]
        bare = Body(body.parameters, body.applications, body.results[: len(steps.carries)])
        at, carries = 2 + len(self.variables.leaves), [*steps.carries]
        if token and bare.is_pure:  # it waits for no effect
            carries[at] = self.stack.carrier(first(self.stack))
        found = steps.having(bare, carries, (), self.most).loop(conditional=True)
        after = found[at] if token else None
        try:
            what = "how many rows the outputs of while_loop have"
            refuse_traced(self.stack, bare, what, "max_iterations=, without exact")
            return found[0], int(value_now(self.stack, found[1], what)), after
        except UnboundError as error:
            late = late_extent(found[1], error)
            if late is None:
                raise
            return found[0], late, after


def _condition_first(found: TracedBody, count: int) -> tuple[Any, tuple[Any, ...]]:
    """The body of a while loop as the operator wants it: what is captured, condition, times, variables."""
    builder = BodyBuilder()
    constants = builder.parameters(len(found.captured))
    builder.parameter()  # the condition, which nothing reads
    times, *variables = builder.parameters(1 + count)
    values = builder.include(found.body, [*variables, times, *constants])
    return builder.built([values[n] for n in found.body.results]), found.captured
