"""A body in the making: operators are applied to its values one after another, and other bodies are written into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nnc_func.body import Application, Body, is_pure
from nnc_func.errors import OperatorError
from nnc_func.op import Op


class BodyBuilder:
    """What makes a `Body`. Its values are numbers of its own; applications that no result needs are left out.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> builder = BodyBuilder()
    >>> x, y = builder.parameter(), builder.parameter()
    >>> doubled = builder.apply(OPS["add"], x, x)
    >>> builder.built([builder.apply(OPS["tanh"], doubled), y])
    (%0, %1) { %2 = add(%0, %0); %3 = tanh(%2); return %3, %1 }
    """

    def __init__(self) -> None:
        self._count = 0
        self._parameters: list[int] = []
        self._rows: list[tuple[Op, tuple[int, ...], Any, tuple[int, ...]]] = []
        self._known: dict[Any, tuple[int, ...]] = {}

    def parameter(self) -> int:
        """One more parameter, after those before."""
        self._parameters.append(self._count)
        self._count += 1
        return self._parameters[-1]

    def parameters(self, count: int) -> list[int]:
        """So many more parameters."""
        return [self.parameter() for _ in range(count)]

    def apply(self, op: Op, *operands: int, **params: Any) -> int:
        """The result of an operator that has one."""
        return self.applied(op, operands, params, 1)[0]

    def applied(self, op: Op, operands: Iterable[int], items: Any, count: int) -> tuple[int, ...]:
        """The results of an operator; what was applied before is not applied again."""
        given = tuple(operands)
        items = op.canonical(items if isinstance(items, Mapping) else dict(items))
        key = (op, given, op.key(items), count)
        found = self._known.get(key) if is_pure(op, items) else None
        if found is None:
            found = tuple(range(self._count, self._count + count))
            self._count += count
            self._rows.append((op, given, items, found))
            self._known[key] = found
        return found

    def include(self, body: Body, arguments: Sequence[int]) -> list[int]:
        """All values of a body, written into this one, where its parameters are these values.

        Raises
        ------
        OperatorError
            The body has more parameters, or fewer.
        """
        if len(arguments) != body.parameters:
            raise OperatorError(f"a body of {body.parameters} parameters is given {len(arguments)} values: {body}")
        found = list(arguments)
        for each in body.applications:
            found += self.applied(each.op, [found[i] for i in each.operands], each.items, each.count)
        return found

    def include_partly(self, body: Body, known: Mapping[int, int]) -> dict[int, int]:
        """Values of a body, by number, that can be made of those that are known, written into this one."""
        values, number = dict(known), body.parameters
        for each in body.applications:
            made = range(number, number + each.count)
            number += each.count
            if all(i in values for i in each.operands) and not all(i in values for i in made):
                found = self.applied(each.op, [values[i] for i in each.operands], each.items, each.count)
                values.update((i, v) for i, v in zip(made, found, strict=True) if i not in values)
        return values

    def built(self, results: Sequence[int]) -> Body:
        """The body with these results."""
        wanted, kept = set(results), []
        for row in reversed(self._rows):
            if not wanted.isdisjoint(row[3]):
                kept.append(row)
                wanted.update(row[1])
        number = {value: n for n, value in enumerate(self._parameters)}
        applications = []
        for op, operands, items, made in reversed(kept):
            applications.append(Application(op, tuple([number[i] for i in operands]), items, len(made)))
            for value in made:
                number[value] = len(number)
        return Body(len(self._parameters), applications, [number[i] for i in results])
