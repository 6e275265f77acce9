"""A function of one slice, traced to a body, on blocks of slices: operators on all at once, effects one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.body import Application, is_pure
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.steps import Steps
from nnc_func.control_flow.tracing import TracedBody
from nnc_func.engine.effects import ordered
from nnc_func.errors import OperatorError
from nnc_func.graph.ops.cut_bodies import avals_in
from nnc_func.graph.ops.effects import TOKEN
from nnc_func.graph.ops.silent_bodies import only_asks
from nnc_func.graph.tensors.tensor import Tensor


class Blocks:
    """A body on blocks of slices.

    An application that only computes is computed for all slices of a block at once, by `vmap`. One that has an effect,
    itself or in a loop or a branch that it holds, goes through the slices one after the other.

    Parameters
    ----------
    body
        Of one slice of each tensor; and of the number of the slice, where it is counted.
    """

    def __init__(self, stack: Any, body: TracedBody) -> None:
        self.stack, self.body = stack, body
        self.captured = [Tensor(stack, each) for each in body.captured]
        self.avals = avals_in(body.body, body.parameters)

    def of_one(self, *leaves: Tensor) -> tuple[Tensor, ...]:
        """What it gives of one slice; it has no effects."""
        body = self.body.body
        values = body.values(lambda op, xs, items: self.stack.bind(op, *xs, **dict(items)), [*leaves, *self.captured])
        return tuple([values[n] for n in self.results])

    @property
    def results(self) -> tuple[int, ...]:
        """What the function gives, without what is carried besides."""
        found = self.body.body.results
        return found[: len(found) - self.body.has_effects - self.body.is_counted]

    def of_block(self, rows: Sequence[Tensor], size: Any) -> list[Tensor]:
        """What it gives of slices that lie side by side along a first axis, of that extent: the results do, too.

        Parameters
        ----------
        rows
            The slices of each tensor; and their numbers, where the body is counted.

        Raises
        ------
        OperatorError
            An effect has more tokens than it takes, or fewer.
        """
        if not self.body.has_effects:
            return [*self.stack.vmap(self.of_one)(*rows)]
        given = [*rows, *self.captured]
        is_lost = not only_asks(self.body.body)
        found: list[Tensor] = ordered(
            self.stack, "a map with effects", given, lambda token: self._in_turn(rows, token, size), is_lost
        )
        return found

    def _in_turn(self, rows: Sequence[Tensor], token: Tensor, size: Any) -> tuple[list[Tensor], Tensor]:
        """The results, application after application, and the token after them."""
        body, number = self.body.body, self.body.body.parameters
        own = len(rows) - self.body.is_counted
        values = [*rows[:own], token, *rows[own:], *self.captured]
        along = [n != own and n <= len(rows) for n in range(number)]  # which of them lie along an axis of slices
        for each in body.applications:
            made = range(number, number + each.count)
            number += each.count
            operands, its = [values[i] for i in each.operands], [along[i] for i in each.operands]
            if is_pure(each.op, each.items):
                values += self._at_once(each, operands, its)
                along += [any(its)] * each.count
            else:
                found = self._one_by_one(each, made, operands, its, size)
                values += found
                along += [self.avals[n] != TOKEN for n in made]
        last = body.results[len(self.results)]
        return [values[n] if along[n] else self._spread(values[n], size) for n in self.results], values[last]

    def _at_once(self, each: Application, operands: Sequence[Tensor], along: Sequence[bool]) -> list[Tensor]:
        def f(*given: Tensor) -> Any:
            return self.stack.bind(each.op, *given, **dict(each.items))

        f = self.stack.vmap(f, in_axes=tuple([0 if its else None for its in along])) if any(along) else f
        found = f(*operands)
        return [*found] if each.op.multi_result else [found]

    def _one_by_one(
        self, each: Application, made: range, operands: Sequence[Tensor], along: Sequence[bool], size: Any
    ) -> list[Tensor]:  # fmt: skip
        """A loop over the slices, which carries the tokens."""
        is_token = [not its and self.avals[i] == TOKEN for i, its in zip(each.operands, along, strict=True)]
        carried = [n for n, its in enumerate(is_token) if its]
        tokens = [n - made.start for n in made if self.avals[n] == TOKEN]
        if len(tokens) != len(carried):
            raise OperatorError(
                f"map with batch= goes through the slices of a block where there is an effect: {each.op.name} is given "
                f"{len(carried)} tokens, and gives {len(tokens)}; leave batch= out"
            )
        same = [n for n, its in enumerate(along) if not its and not is_token[n]]
        sliced = [n for n, its in enumerate(along) if its]
        order = [*same, *carried, *sliced]
        builder = BodyBuilder()
        parameters = dict(zip(order, builder.parameters(len(order)), strict=True))
        found = builder.applied(each.op, [parameters[n] for n in range(len(order))], each.items, each.count)
        others = [n for n in range(each.count) if n not in tokens]
        body = builder.built([found[n] for n in (*tokens, *others)])
        given = [operands[n] for n in order]
        results = Steps(self.stack, body, given, len(same), len(carried), None if sliced else size, False).loop()
        in_order = dict(zip((*tokens, *others), results, strict=True))
        return [in_order[n] for n in range(each.count)]

    def _spread(self, x: Tensor, size: Any) -> Tensor:
        """The same for each slice."""
        ops, shape = self.stack.ops, tuple(x.shape)
        found: Tensor = ops.broadcast_to(x.reshape((1, *shape)), shape=(size, *shape))
        return found
