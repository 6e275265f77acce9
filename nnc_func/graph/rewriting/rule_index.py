"""The rules of phases by the operators of nodes: what is the same in all stacks that have them, and is found once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from nnc_func.graph.rewriting.compiled import Rooted, facts_of
from nnc_func.graph.rules.rule import AnyRule, Family, Numerics, Pass, Rewriter, Rule
from nnc_func.op import Catalogue, Op

AtOperator = tuple[tuple[Rule | Rewriter, ...], Rooted]  # the rules for its nodes, and which of them can match


def allows(numerics: Numerics, fast_math: bool) -> Callable[[Any], bool]:
    """What tells whether a rule may fire where values may differ so far, and `fast_math` says whether NaN may be lost.

    Examples
    --------
    >>> from nnc_func.graph.rules.powers import root_of_any_power, root_of_power
    >>> [*map(allows(Numerics("rounding"), False), (root_of_power, root_of_any_power))]
    [True, False]
    """
    return lambda rule: rule.numerics <= numerics and (fast_math or not rule.fast_math)


class RuleIndex:
    """The rules of a phase, and those of the phases before it, that a catalogue has and that numerics allow.

    Attributes
    ----------
    earlier
        That of the phases before it.
    own, own_passes
        What the phase itself brings in. Families that say where their rules are stay families.
    passes
        Of the phase and of those before it.
    depth
        How far rewriters of all nodes look.
    """

    __slots__ = ("_allows", "_at", "_ops", "depth", "earlier", "own", "own_passes", "passes")

    def __init__(
        self,
        rules: tuple[AnyRule, ...],
        ops: Catalogue,
        numerics: Numerics,
        fast_math: bool,
        earlier: RuleIndex | None = None,
    ) -> None:
        self.earlier, self._ops, self._allows = earlier, ops, allows(numerics, fast_math)
        made: list[Any] = []
        for each in rules:
            late = isinstance(each, Family) and each.at is not None
            made += [each] if late else filter(self._allows, each.instances(ops))
        self.own = tuple([each for each in made if not isinstance(each, Pass)])
        self.own_passes: tuple[Pass, ...] = tuple([each for each in made if isinstance(each, Pass)])
        self.passes: tuple[Pass, ...] = (*(earlier.passes if earlier else ()), *self.own_passes)
        everywhere = [each.looks for each in self.own if isinstance(each, Rewriter) and each.roots is None]
        self.depth: int = max((earlier.depth if earlier else 0, *everywhere))
        self._at: dict[Op, tuple[AtOperator, AtOperator]] = {}

    def rooted(self, op: Op) -> tuple[AtOperator, AtOperator]:
        """The rules for nodes of an operator, all and the phase's own, in the order in which they are tried."""
        found = self._at.get(op)
        if found is None:
            every = [rule for each in self.own for rule in each.rooted(op, self._ops)]
            mine = tuple(filter(self._allows, every))
            own = mine, Rooted(op, tuple(map(facts_of, mine)))
            both = own
            if self.earlier:
                rules = (*self.earlier.rooted(op)[0][0], *mine)
                both = rules, Rooted(op, tuple(map(facts_of, rules)))
            found = self._at[op] = both, own
        return found


index_of = lru_cache(maxsize=256)(RuleIndex)
