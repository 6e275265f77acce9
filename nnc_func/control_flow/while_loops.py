"""Loops that a condition ends: `while_loop`, after MXNet's, and NNC's ``while``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.autodiff.traced import Traced
from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.carries import Carry, alike, integer, truth_value
from nnc_func.control_flow.steps import Steps, in_order
from nnc_func.control_flow.tracing import SCALARS, TracedBody, is_numbers, traced
from nnc_func.errors import OperatorError, RunError, UnboundError, check_function
from nnc_func.facets.dims import known
from nnc_func.graph.ops.bodies import silenced
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten


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
        Variables that change their structure, shapes or dtypes; a condition that is no truth value.
    ShapeError
        A condition of several truth values.
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
        self.most = most if symbolic else integer(stack, most, "max_iterations")
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
        return truth_value(self.stack, self.cond(*self.arguments(leaves)), "the condition of while_loop")

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
            following = [*map(alike(self.stack), leaves, before)]
            more = self.condition(following) if typed else False
            return [more, times + 1, *following, *rows]

        body = traced(self.stack, flat, [*before, Aval((), "int64")], effects=True, counted=True)
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
            if exact and len(inner.results) > len(carries):
                steps = steps.having(inner, steps.carries, (), self._times(steps))
            return steps.loop(conditional=True)

        found = in_order(stack, "a loop with effects", traced_body, (count, 2 + count), [more, *variables], apply)
        if raises and bool(value_now(stack, found[0], "whether the condition of while_loop holds in the end")):
            raise RunError(f"while_loop: the condition still holds after max_iterations={self.most} times")
        assert self.outputs is not None
        outputs = self.outputs.build(found[2 + count :])
        return outputs, self.variables.structure.build(found[2 : 2 + count]), found[1]

    def _times(self, steps: Steps) -> int:
        """How many times it goes, computed now: by a loop that stacks nothing, and has no effect."""
        silent = silenced((("body", steps.body),))
        if silent is None:
            raise OperatorError(
                "how many rows the outputs of while_loop have is counted first, without its effects, but these give "
                "what its variables are made of: say max_iterations=, without exact"
            )
        body: Body = silent[0][1]
        bare = Body(body.parameters, body.applications, body.results[: len(steps.carries)])
        found = steps.having(bare, steps.carries, (), self.most).loop(conditional=True)
        return int(value_now(self.stack, found[1], "how many rows the outputs of while_loop have"))


def value_now(stack: Any, value: Tensor, what: str) -> Any:
    """A device array, computed now.

    Raises
    ------
    UnboundError
        It depends on what has no value yet.
    """
    carrier = stack.carrier(value)
    while type(carrier) is Traced:
        carrier = carrier.primal
    try:
        return stack.engine.force([carrier])[0]
    except (UnboundError, TypeError, AttributeError) as error:
        raise UnboundError(
            f"{what} depends on what has no value yet: say max_iterations=, without exact ({error})"
        ) from None


def _condition_first(found: TracedBody, count: int) -> tuple[Any, tuple[Any, ...]]:
    """The body of a while loop as the operator wants it: what is captured, condition, times, variables."""
    builder = BodyBuilder()
    constants = builder.parameters(len(found.captured))
    builder.parameter()  # the condition, which nothing reads
    times, *variables = builder.parameters(1 + count)
    values = builder.include(found.body, [*variables, times, *constants])
    return builder.built([values[n] for n in found.body.results]), found.captured
