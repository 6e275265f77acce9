"""Optimiser, the sixth layer: graphs rewritten by rules, each sound up to the numerics that it declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from attrs import field

from nnc_func.errors import GraphError, RuleError
from nnc_func.graph.node import Value
from nnc_func.graph.rules import RULES
from nnc_func.graph.rules.driver import Table, rewritten
from nnc_func.graph.rules.match import Builder, compiled
from nnc_func.graph.rules.report import Rewritten
from nnc_func.graph.rules.rule import ROUNDING, AnyRule, Numerics, Pass
from nnc_func.layer import Layer, forwards, layer
from nnc_func.signatures import OperatorSignature

__all__ = ["Optimiser", "Rewritten"]

A = TypeVar("A")


def _unique(layer: Any, attribute: Any, rules: tuple[AnyRule, ...]) -> None:
    names = [r.name for r in rules]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise RuleError(f"two rules named {', '.join(twice)} in one optimiser; names tell them apart")


@layer(on="operator", needs=("bind", "lift"))
class Optimiser(Layer, Generic[A]):
    """Rewriting: the same values, up to the allowed numerics, from a graph that costs less.

    Attributes
    ----------
    operator
        The layer below.
    rules
        Rules, families of rules, rewriters and passes; names are unique. A rule that names an operator which
        the catalogue lacks has nothing to fire on and is left out, see `dormant`.
    numerics
        Rules whose numerics are weaker do not fire.
    fast_math
        Rules that change NaN or infinity may fire.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> optimiser = nnc.lazy().optimiser
    >>> x = optimiser.operator.symbol.input("x", Aval((2,), "float32"))
    >>> add = optimiser.operator.type.ops["add"]
    >>> optimiser.optimise([optimiser.bind(add, x, 0)]).roots[0] is x
    True
    """

    operator: OperatorSignature[A]
    bind: Callable[..., Any] = forwards()
    rules: tuple[AnyRule, ...] = field(default=RULES, converter=tuple, repr=False, validator=_unique)
    numerics: Numerics = field(default=ROUNDING, converter=Numerics)
    fast_math: bool = False
    _table: list[Table] = field(init=False, factory=list, eq=False, repr=False)

    role: ClassVar[Literal["optimiser"]] = "optimiser"

    def optimise(self, roots: Sequence[Value], *, trace: bool = False) -> Rewritten:
        """The roots rewritten until no rule fires; nodes are made anew, never changed.

        Raises
        ------
        GraphError
            A root is a node of another stack.
        RuleError
            Rules undo each other, or grow a graph for ever.
        """
        for root in roots:
            if not isinstance(root, Value) or root.table is not self.table.builder.table:
                raise GraphError(f"{root!r} is no node of this stack; move its graph here with graph.to(stack)")
        with self.table.builder.table.walking:
            return rewritten(self.table, roots, trace)

    @property
    def table(self) -> Table:
        """The rules that may fire here, compiled: once, when they are first needed."""
        if not self._table:
            builder = Builder(self.operator)
            ops = self.operator.type.ops  # type: ignore[attr-defined]
            made = [i for rule in self.rules for i in rule.instances(ops) if self._allows(i)]
            rules = [compiled(i, builder) for i in made if not isinstance(i, Pass)]
            self._table.append(Table(builder, rules, [i for i in made if isinstance(i, Pass)]))
        return self._table[0]

    def _allows(self, rule: Any) -> bool:
        return rule.numerics <= self.numerics and (self.fast_math or not rule.fast_math)

    @property
    def dormant(self) -> tuple[str, ...]:
        """Names of the rules that cannot fire in this stack: weaker numerics, or operators that it has not."""
        live = {r.name for r in self.table.rules} | {r.name for r in self.table.passes}
        return tuple(r.name for r in self.rules if r.name not in live)

    def with_rules(self, *rules: AnyRule) -> Optimiser[A]:
        """This layer with more rules, tried after those that it has.

        Raises
        ------
        RuleError
            It has a rule of that name.
        """
        return self._with((*self.rules, *rules))

    def without_rules(self, *names: str) -> Optimiser[A]:
        """This layer without the rules of these names.

        Raises
        ------
        RuleError
            It has no rule of that name.
        """
        unknown = sorted(set(names) - {r.name for r in self.rules})
        if unknown:
            raise RuleError(f"there is no rule {', '.join(unknown)}; the rules are {[r.name for r in self.rules]}")
        return self._with(tuple(r for r in self.rules if r.name not in names))

    def with_numerics(self, level: Numerics, *, fast_math: bool | None = None) -> Optimiser[A]:
        """This layer, allowing rules up to that level."""
        return Optimiser(self.operator, self.rules, level, self.fast_math if fast_math is None else fast_math)

    def _with(self, rules: tuple[AnyRule, ...]) -> Optimiser[A]:
        return Optimiser(self.operator, rules, self.numerics, self.fast_math)
