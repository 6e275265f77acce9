"""Optimiser, the sixth layer: graphs rewritten by rules, each sound up to the numerics that it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from attrs import Factory, field

from nnc_func.errors import GraphError, RuleError
from nnc_func.garbage_collection import uncollected
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rewriting.driver import Table
from nnc_func.graph.rewriting.report import Rewritten
from nnc_func.graph.rewriting.rewriting import rewritten
from nnc_func.graph.rewriting.rule_index import RuleIndex, allows, index_of
from nnc_func.graph.rules import PHASES
from nnc_func.graph.rules.phases import Phase, as_phases, with_rules
from nnc_func.graph.rules.rule import ROUNDING, AnyRule, Numerics
from nnc_func.layer import Layer, forwards, layer
from nnc_func.layer_protocols import OperatorSignature
from nnc_func.memo import Few
from nnc_func.op import Catalogue

__all__ = ["Optimiser", "Rewritten"]

A = TypeVar("A")


def _unique(layer: Any, attribute: Any, phases: tuple[Phase, ...]) -> None:
    for what, names in (("phases", [p.name for p in phases]), ("rules", [r.name for p in phases for r in p.rules])):
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise RuleError(f"two {what} named {', '.join(twice)} in one optimiser; names tell them apart")


@layer(on="operator", needs=OperatorSignature)
class Optimiser(Layer, Generic[A]):
    """Rewriting: the same values, up to the allowed numerics, from a graph that costs less.

    Attributes
    ----------
    operator
        The layer below.
    phases
        Rules, families of rules, rewriters and passes, in phases that come into force one after the other; rules
        alone are one phase. Names are unique. A rule that names an operator which the catalogue lacks has nothing
        to fire on and is left out, see `dormant`.
    numerics
        Rules whose numerics are weaker do not fire.
    fast_math
        Rules that change NaN or infinity may fire.
    known_bodies
        What bodies of loops and branches were rewritten to, by body and avals: those within others are asked for again.

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
    phases: tuple[Phase, ...] = field(default=PHASES, converter=as_phases, repr=False, validator=_unique)
    numerics: Numerics = field(default=ROUNDING, converter=Numerics)
    fast_math: bool = False
    _tables: list[Table] = field(init=False, factory=list, eq=False, repr=False)
    _algebras: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)
    known_bodies: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)
    few_bodies: Few = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: Few(self.known_bodies), takes_self=True)
    )  # of these, those that hold functions of the user's

    role: ClassVar[Literal["optimiser"]] = "optimiser"

    def optimise(
        self,
        roots: Sequence[Value],
        *,
        nodes: Iterable[Node] | None = None,
        trace: bool = False,
        measure: bool = False,
    ) -> Rewritten:
        """The roots rewritten until no rule fires; nodes are made anew, never changed.

        Parameters
        ----------
        nodes
            Those that the roots depend on, operands first, where somebody has them; more do no harm. They are found
            if they are not given.
        trace
            Record each rewrite.
        measure
            Record each rewrite, and measure the rules: how often each was tried, for how long, what stood against it,
            and what it saved.

        Raises
        ------
        GraphError
            A root is a node of another stack.
        RuleError
            Rules undo each other, or grow a graph for ever.
        """
        tables = self.tables
        interned = self.operator.symbol.table
        for root in roots:
            if not isinstance(root, Value) or root.table is not interned:
                raise GraphError(f"{root!r} is no node of this stack; move its graph here with graph.to(stack)")
        with uncollected(interned.walking), interned.walking:
            return rewritten(tables, roots, nodes, trace, measure)

    @property
    def rules(self) -> tuple[AnyRule, ...]:
        """The rules of all phases, in their order."""
        return tuple(rule for phase in self.phases for rule in phase.rules)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The rules that may fire here, a table for each phase, made once; rules are compiled when they are needed."""
        if not self._tables:
            builder = Builder(self.operator)
            ops: Catalogue = self.operator.type.ops
            index: RuleIndex | None = None
            for phase in self.phases or (Phase("simplify"),):
                index = index_of(phase.rules, ops, self.numerics, self.fast_math, index)
                self._tables.append(Table(phase.name, builder, index, self._tables[-1] if self._tables else None))
        return tuple(self._tables)

    @property
    def dormant(self) -> tuple[str, ...]:
        """Names of the rules that cannot fire in this stack: weaker numerics, or operators that it has not."""
        ops, allowed = self.operator.type.ops, allows(self.numerics, self.fast_math)
        return tuple(r.name for r in self.rules if not any(map(allowed, r.instances(ops))))

    def with_rules(self, *rules: AnyRule, phase: str = "simplify") -> Optimiser[A]:
        """This layer with more rules, tried after those that the phase has.

        Raises
        ------
        RuleError
            It has a rule of that name, or no phase of that one.
        """
        return self._with(with_rules(self.phases, rules, phase))

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
        return self._with(Phase(p.name, tuple(r for r in p.rules if r.name not in names)) for p in self.phases)

    def up_to_phase(self, name: str) -> Optimiser[A]:
        """This layer with the phases up to the one of that name.

        Raises
        ------
        RuleError
            It has no phase of that name.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.lazy().optimiser.up_to_phase("recognise").phases[-1].name
        'recognise'
        """
        names = [p.name for p in self.phases]
        if name not in names:
            raise RuleError(f"there is no phase {name!r}; the phases are {', '.join(names)}")
        return self._with(self.phases[: names.index(name) + 1])

    def algebra(self, numerics: Numerics | str | None = None, fast_math: bool | None = None) -> Optimiser[A]:
        """This layer with its first phase alone, up to that level: what `simplify` uses; made once.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.lazy().optimiser.algebra("exact").phases
        (<phase 'simplify': ...>,)
        """
        key = (self.numerics if numerics is None else Numerics(numerics), fast_math)  # type: ignore[arg-type]
        if key not in self._algebras:
            self._algebras[key] = self._with(self.phases[:1]).with_numerics(key[0], fast_math=fast_math)
        return self._algebras[key]  # type: ignore[no-any-return]

    def with_numerics(self, level: Numerics, *, fast_math: bool | None = None) -> Optimiser[A]:
        """This layer, allowing rules up to that level."""
        return Optimiser(self.operator, self.phases, level, self.fast_math if fast_math is None else fast_math)

    def _with(self, phases: Iterable[Phase]) -> Optimiser[A]:
        return Optimiser(self.operator, phases, self.numerics, self.fast_math)  # type: ignore[arg-type]
