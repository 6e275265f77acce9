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
        self._rows: list[tuple[Application, tuple[int, ...]]] = []
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
        return self._added(Application(op, tuple(operands), items, count))

    def again(self, applied: Application, operands: Iterable[int]) -> tuple[int, ...]:
        """The results of what is applied in another body, of operands in this one."""
        return self._added(applied.of_others(tuple(operands)))

    def _added(self, made: Application) -> tuple[int, ...]:
        found = self._known.get(made.key) if is_pure(made.op, made.items) else None
        if found is None:
            found = tuple(range(self._count, self._count + made.count))
            self._count += made.count
            self._rows.append((made, found))
            self._known[made.key] = found
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
            found += self.again(each, [found[i] for i in each.operands])
        return found

    def include_partly(self, body: Body, known: Mapping[int, int]) -> dict[int, int]:
        """Values of a body, by number, that can be made of those that are known, written into this one.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE as OPS
        >>> builder = BodyBuilder()
        >>> body = Body.of(2, (OPS["tanh"], 0), (OPS["sin"], 1))
        >>> builder.include_partly(body, {0: builder.parameter()})
        {0: 0, 2: 1}
        """
        values, number = dict(known), body.parameters
        for each in body.applications:
            made = range(number, number + each.count)
            number += each.count
            if all(i in values for i in each.operands) and not all(i in values for i in made):
                found = self.again(each, [values[i] for i in each.operands])
                values.update((i, v) for i, v in zip(made, found, strict=True) if i not in values)
        return values

    def built(self, results: Sequence[int]) -> Body:
        """The body with these results."""
        wanted, kept = set(results), []
        for row in reversed(self._rows):
            if not wanted.isdisjoint(row[1]):
                kept.append(row)
                wanted.update(row[0].operands)
        number = {value: n for n, value in enumerate(self._parameters)}
        applications = []
        for applied, made in reversed(kept):
            applications.append(applied.of_others(tuple([number[i] for i in applied.operands])))
            for value in made:
                number[value] = len(number)
        return Body(len(self._parameters), applications, [number[i] for i in results])
