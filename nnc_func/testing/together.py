"""Rules together: whether rewriting ends, and whether the result's value depends on which rule came first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from nnc_func.errors import RuleError
from nnc_func.graph.node import Value
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.rules import RULES
from nnc_func.graph.rules.rule import REASSOCIATION
from nnc_func.testing.counterexamples import Instance, code
from nnc_func.testing.rewrites import values

_shipped: WeakKeyDictionary[Any, dict[bool, Any]] = WeakKeyDictionary()


def with_shipped(rule: Any, operator: Any) -> Any:
    """The Optimiser with all rules of the library and this one; those that change NaN only where this one does."""
    fast_math = any(r.fast_math for r in rule.instances(operator.type.ops))
    if rule not in RULES:
        others = Optimiser(operator, numerics=REASSOCIATION, fast_math=fast_math)
        if rule.name in {r.name for r in RULES}:
            others = others.without_rules(rule.name)
        return others.with_rules(rule)
    made = _shipped.setdefault(operator, {})
    if fast_math not in made:
        made[fast_math] = Optimiser(operator, numerics=REASSOCIATION, fast_math=fast_math)
    return made[fast_math]


def ends_and_agrees(rule: Any, operator: Any, drawn: Iterable[tuple[Instance, Any]]) -> list[str]:
    """What goes wrong when graphs are rewritten until nothing fires, by the rule alone and with those of the library.

    The value must be the same whether the rule or the others come first.
    """
    alone, together = Optimiser(operator, (rule,), REASSOCIATION, True), with_shipped(rule, operator)
    for instance, outcome in drawn:
        roots: list[Value] = [instance.root]
        try:
            alone.optimise(roots)
            last = together.optimise(roots).roots[0]
            other = last if outcome.new is None else together.optimise([outcome.new]).roots[0]
        except RuleError as error:
            return [f"{error}\n{code({'start': instance.root}, instance.feeds)}"]
        for found in dict.fromkeys((last, other)):
            both = values(instance.root, found, instance.feeds, operator.device)
            why = both.difference(REASSOCIATION, together.fast_math) if both is not None else ""
            if why:
                shown = code({"before": instance.root, "after": found}, instance.feeds)
                return [f"with the rules of the library the value is another: {why}\n{shown}"]
    return []
