"""Phases: rules in named sets, each run to its fixed point before the next one's rules come in."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from attrs import field, frozen

from nnc_func.errors import RuleError
from nnc_func.graph.rules.rule import AnyRule


def _listed(rules: Iterable[AnyRule]) -> tuple[AnyRule, ...]:
    return tuple(rules)


@frozen(repr=False)
class Phase:
    """Rules that come into force together.

    The rules of earlier phases stay in force, so that what a later one makes is simplified too; a graph in which no
    rule of the last phase's fires is one in which none fires at all.

    Attributes
    ----------
    name
        Of the phase, unique in an Optimiser.
    rules
        In the order in which they are tried, those of earlier phases first.

    Examples
    --------
    >>> from nnc_func.graph.rules import PHASES
    >>> [phase.name for phase in PHASES]
    ['simplify', 'recognise', 'layout', 'fuse', 'combine']
    """

    name: str
    rules: tuple[AnyRule, ...] = field(default=(), converter=_listed)

    def __repr__(self) -> str:
        return f"<phase {self.name!r}: {len(self.rules)} rules>"


def rules_in(*modules: ModuleType) -> tuple[AnyRule, ...]:
    """All rules that these modules define, in their order: the order in which they are tried."""
    return tuple(
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, AnyRule) and found.module == module.__name__
    )


def as_phases(given: Iterable[Phase | AnyRule]) -> tuple[Phase, ...]:
    """Phases as they are given; rules alone are one phase.

    Raises
    ------
    RuleError
        Phases and rules are mixed.

    Examples
    --------
    >>> from nnc_func.graph.rules.signs import add_negative
    >>> as_phases([add_negative])
    (<phase 'simplify': 1 rules>,)
    """
    listed = tuple(given)
    phases = tuple(each for each in listed if isinstance(each, Phase))
    rules = tuple(each for each in listed if not isinstance(each, Phase))
    if phases and rules:
        raise RuleError("an Optimiser is given phases, or rules that are one phase, not both: put the rules in a Phase")
    return phases if phases or not rules else (Phase("simplify", rules),)


def with_rules(phases: tuple[Phase, ...], rules: tuple[AnyRule, ...], name: str) -> tuple[Phase, ...]:
    """The phases, these rules added at the end of the one of that name, or of the first where there is none.

    Raises
    ------
    RuleError
        There are phases, but none of that name.
    """
    names = [p.name for p in phases]
    if not phases:
        return (Phase(name, rules),)
    if name not in names:
        raise RuleError(f"there is no phase {name!r}; the phases are {', '.join(names)}")
    return tuple(Phase(p.name, (*p.rules, *rules)) if p.name == name else p for p in phases)
