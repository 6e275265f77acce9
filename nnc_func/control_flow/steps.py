"""One loop as it may be applied: at once, in parts, or written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.body import is_pure
from nnc_func.control_flow.tracing import TracedBody, aval_of, traced
from nnc_func.engine.effects import ordered, recorder
from nnc_func.graph.ops.loop import loop
from nnc_func.graph.ops.silent_bodies import only_asks
from nnc_func.graph.tensors.tensor import Tensor


def in_order(
    stack: Any, what: str, body: TracedBody, places: tuple[int, int], operands: Sequence[Any],
    apply: Callable[[TracedBody, list[Any]], Any],
) -> Any:  # fmt: skip
    """What a loop gives that has a body, after the effects before it; tokens and its number of times are carries too.

    Parameters
    ----------
    places
        Where these carries stand among the parameters of the function, and among its results.
    operands
        What flows into the loop.
    apply
        Of a body, and of what is carried besides: what the loop gives, the carries first.
    """
    hidden, at = body.has_effects + body.is_counted, places[1]
    if not hidden:
        return apply(body, [])
    zero = [stack.carrier(stack.asarray(np.int64(0)))] * body.is_counted

    def after(*token: Tensor) -> tuple[Any, Tensor]:
        found = apply(body.carrying(*places), [*map(stack.carrier, token), *zero])
        return [*found[:at], *found[at + hidden :]], found[at]

    if not body.has_effects:
        return after()[0]
    return ordered(stack, what, [*operands, *body.captured], after, not only_asks(body.body))


class Steps:
    """A loop as it may be applied: at once, in parts, or written out.

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

    def loop(self, count: Any = None, conditional: bool = False, checkpoint: Any = "") -> list[Tensor]:
        """All steps by one loop."""
        given = [*self.constants, *self.carries, *self.slices]
        return self.bind(
            *given, *([] if count is None else [count]), body=self.body, constants=len(self.constants),
            carries=len(self.carries), length=None if self.slices else self.length, reverse=self.reverse,
            counted=count is not None, conditional=conditional, checkpoint=checkpoint,
        )  # fmt: skip

    def having(self, body: Any, carries: Sequence[Any], slices: Sequence[Any], length: Any) -> Steps:
        """Other steps on the same constants."""
        operands = [*self.constants, *carries, *slices]
        return Steps(self.stack, body, operands, len(self.constants), len(carries), length, self.reverse)

    def written_out(self) -> list[Tensor]:
        """One step after another, without a loop."""
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
        """An operator of the body on what flows through the layers; of an effect these have its token."""
        given, params = tuple(map(self.tensor, operands)), dict(items)
        is_said = not is_pure(op, items) and recorder(self.stack) is not None
        found = self.stack.applied(op, given, params) if is_said else self.stack.bind(op, *given, **params)
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
        whole = self.length // unroll
        rest = self.length - whole * unroll
        if not whole:
            return self.loop()
        first, last = (rest, self.length) if self.reverse else (0, whole * unroll)
        long = [
            self.stack.carrier(
                self.tensor(self.slice(x, first, last)).reshape((whole, unroll, *self.tensor(x).shape[1:]))
            )
            for x in self.slices
        ]
        carries = len(self.carries)

        def turn(given: list[Any]) -> list[Any]:
            values = [*map(self.stack.carrier, given)]
            count = len(self.constants)
            operands = [*values[:count], *values[count:]]
            return Steps(self.stack, self.body, operands, count, carries, unroll, self.reverse).written_out()

        avals = [aval_of(self.stack, x) for x in (*self.constants, *self.carries)]
        avals += [a.having(shape=a.shape[1:]) for a in (aval_of(self.stack, x) for x in long)]
        body = traced(self.stack, turn, avals)
        inside, operands = body.over(self.constants, self.carries, long)
        constants = len(body.captured) + len(self.constants)
        outer = Steps(self.stack, inside, operands, constants, carries, None if long else whole, self.reverse)
        found = outer.loop()
        columns = [y.reshape((whole * unroll, *y.shape[2:])) for y in found[carries:]]
        if not rest:
            return [*found[:carries], *columns]
        bounds = (0, rest) if self.reverse else (whole * unroll, self.length)
        left = self.having(
            self.body, [self.stack.carrier(t) for t in found[:carries]],
            [self.slice(x, *bounds) for x in self.slices], rest,
        ).loop()  # fmt: skip
        ops = self.stack.ops
        pairs = zip(columns, left[carries:], strict=True)
        joined = [ops.concat(b, a, axis=0) if self.reverse else ops.concat(a, b, axis=0) for a, b in pairs]
        return [*left[:carries], *joined]
