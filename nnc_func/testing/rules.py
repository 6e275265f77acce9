"""Whether a rewrite rule is sound: graphs are drawn from its left side, rewritten, and both computed.

`check_rule` says within seconds, with a smallest counterexample, whether a rule keeps avals and values, whether it
fires at all, and whether each of its conditions is needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample, UnsatisfiedAssumption

from nnc_func.errors import NncError, RuleError
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.conditions import SOUNDNESS
from nnc_func.graph.rules.evaluating import differs, evaluated, short, told
from nnc_func.graph.rules.match import Builder, compiled
from nnc_func.graph.rules.rule import SIGNED_ZERO, Family, Numerics, Pass, Rewriter, Rule
from nnc_func.testing.instances import Instance, instances

FIRES = 0.05  # of its own instances, at least


# --- one instance --------------------------------------------------------------------------------------


def _attempted(rule: Rule | Rewriter, root: Node, operator: Any) -> Value | None:
    return compiled(rule, Builder(operator)).attempt(root, lambda value: 1)


def _fault(rule: Rule | Rewriter, instance: Instance, operator: Any) -> tuple[bool, str]:
    """Whether the rule fires there, and what is wrong then."""
    root, device = instance.root, operator.device
    try:
        new = _attempted(rule, root, operator)
    except Exception as error:
        return True, f"the right side cannot be built: {type(error).__name__}: {error}"
    if new is None or new is root:
        return False, ""
    if new.aval != root.aval:
        return True, f"{root.aval} became {new.aval}\nafter:  {told(new)}"
    old_value, new_value, oracle, scale = _values(root, new, instance.feeds, device, rule.numerics)
    if old_value is None:
        return False, ""
    if new_value is None:
        return True, f"after:  {told(new)}\nwhich fails"
    why = differs(old_value, new_value, rule.numerics, rule.fast_math, oracle, scale)
    return True, why and f"{why}\nafter:  {told(new)}\nwas:    {short(old_value)}\nis:     {short(new_value)}"


def _values(root: Value, new: Value, feeds: Any, device: Any, numerics: Numerics) -> tuple[Any, Any, Any, float]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            (old_value,), scale = evaluated([root], feeds, device)
        except NncError:
            return None, None, None, 0.0  # not a legal graph after all
        try:
            (new_value,), _ = evaluated([new], feeds, device)
        except NncError:
            return old_value, None, None, 0.0
        oracle = None
        if numerics > SIGNED_ZERO and root.dtype.kind == "f":
            try:
                (oracle,), _ = evaluated([root], feeds, device, np.float64)
            except NncError:
                oracle = None
    return old_value, new_value, oracle, scale


# --- all of them ---------------------------------------------------------------------------------------


@frozen(repr=False)
class Report:
    """What `check_rule` found of a rule.

    Attributes
    ----------
    name
        Of the rule.
    instances, fired
        Graphs drawn, and on how many of them it fired.
    counterexample
        A smallest graph of which it changes the value, as text; empty if none was found.
    needless
        Conditions without which no counterexample was found either.
    """

    name: str
    instances: int
    fired: int
    counterexample: str
    needless: tuple[str, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with it."""
        found = []
        if self.counterexample:
            found.append(f"it is not sound:\n{self.counterexample}")
        elif self.fired < FIRES * self.instances or not self.fired:
            found.append(f"it fires on {self.fired} of {self.instances} graphs made from its own left side")
        found += [f"the condition {text!r} is not needed: without it nothing is wrong" for text in self.needless]
        return tuple(found)

    def __str__(self) -> str:
        told_of = f"{self.name}: fires on {self.fired} of {self.instances} graphs"
        return "\n".join([told_of, *self.faults]) if self.faults else f"{told_of}; sound, every condition needed"

    __repr__ = __str__


def check_rule(rule: Rule | Family | Rewriter, stack: Any, *, examples: int = 300) -> Report:
    """Draw graphs from a rule's left side, near misses included, and compare values before and after.

    Parameters
    ----------
    rule
        Of a family each operator's rule is drawn.
    stack
        A stack, or a layer above Operator: its device computes, its catalogue has the operators.
    examples
        Graphs to draw, for the rule and again for each of its soundness conditions.

    Returns
    -------
    What was found, if nothing is wrong.

    Raises
    ------
    RuleError
        It changes an aval, or a value by more than its numerics; or fires on less than 5 % of its own instances; or
        has a condition that is not needed. The message has a minimal counterexample.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.rules import rewrite, rule
    >>> @rule
    ... def cancel(x):
    ...     '''What is subtracted from itself is zero.'''
    ...     return rewrite(x - x).to(x * 0)
    >>> check_rule(cancel, nnc.eager())  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    nnc_func.errors.RuleError: cancel is not sound
    """
    report = examined(rule, stack, examples=examples)
    if report.faults:
        raise RuleError(str(report))
    return report


def examined(rule: Rule | Family | Rewriter, stack: Any, *, examples: int = 300) -> Report:
    """As `check_rule`, but what is wrong is in the report."""
    if isinstance(rule, Pass):
        raise RuleError(f"{rule.name} is a pass over whole graphs, not a rule: it has no left side to draw graphs from")
    operator = getattr(stack, "operator", stack)
    family = [_sound_part(r) for r in rule.instances(operator.type.ops)]
    if not family:
        raise RuleError(f"{rule.name} has no instance: the stack's catalogue lacks its operators")
    seen, fired, counterexample = _searched(family, operator, examples)
    needless = []
    if not counterexample:
        for i in range(max(len(_conditions(r)) for r in family)):
            weaker = [r.without(r.conditions[i]) for r in family if isinstance(r, Rule) and len(r.conditions) > i]
            if not _searched(weaker, operator, 4 * examples)[2]:
                needless.append(str(_conditions(family[0])[i]))
    return Report(rule.name, seen, fired, counterexample, tuple(needless))


def _conditions(rule: Rule | Rewriter) -> tuple[Any, ...]:
    return rule.conditions if isinstance(rule, Rule) else ()


def _sound_part(rule: Any) -> Any:
    """Without conditions of profit, which a single instance cannot fulfil."""
    if not isinstance(rule, Rule):
        return rule
    return evolve(rule, conditions=tuple(c for c in rule.conditions if c.kind == SOUNDNESS))


def _searched(family: Sequence[Rule | Rewriter], operator: Any, examples: int) -> tuple[int, int, str]:
    """How many graphs were drawn, on how many a rule fired, and the smallest on which it was wrong."""
    seen = fired = 0
    faults: dict[int, str] = {}

    def wrong(drawn: tuple[Rule | Rewriter, Instance] | None) -> bool:
        nonlocal seen, fired
        if drawn is None:
            return False
        rule, instance = drawn
        fires, why = _fault(rule, instance, operator)
        seen += 1
        fired += fires
        if why:
            faults[id(instance)] = f"{rule}\nbefore: {told(instance.root)}\n{_inputs(instance)}{why}"
            held.append(instance)  # so that its id is not given away
        return bool(why)

    held: list[Instance] = []
    chosen = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    try:
        _, smallest = find(instances(tuple(family), operator), wrong, settings=chosen)
    except (NoSuchExample, UnsatisfiedAssumption):
        return seen, fired, ""
    return seen, fired, faults[id(smallest)] if id(smallest) in faults else next(reversed(faults.values()))


def _inputs(instance: Instance) -> str:
    return "".join(f"  {n.data} = {n.aval!r} {short(a)}\n" for n, a in instance.feeds.items())
