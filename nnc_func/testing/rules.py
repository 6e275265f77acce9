"""Whether a rewrite rule is sound and worth having: graphs are drawn from its left side, rewritten, and both computed.

`check_rule` says within seconds, with a smallest counterexample as code, whether a rule keeps avals and values,
whether it fires at all, saves anything and comes to an end, and whether its conditions and its numerics are needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from attrs import evolve, frozen

from nnc_func.errors import RuleError, line_of
from nnc_func.facets.samples import EXACT as BITWISE
from nnc_func.graph.node import topological
from nnc_func.graph.origin import attributed, origin
from nnc_func.graph.rules.conditions import SOUNDNESS
from nnc_func.graph.rules.rule import EXACT, SIGNED_ZERO, AnyRule, Numerics, Pass, Rewriter, Rule
from nnc_func.testing.choices import Choices, Found, beside, elsewhere, met, shrunk, spread
from nnc_func.testing.classes import COORDINATES, RELATIONS, point
from nnc_func.testing.counterexamples import Instance
from nnc_func.testing.elements import with_elements
from nnc_func.testing.exactly import DIFFERS
from nnc_func.testing.firings import EACH, FIRINGS, Firings
from nnc_func.testing.instances import made
from nnc_func.testing.numbers import REGIMES
from nnc_func.testing.rewrites import FAILS, Outcome, Trial, quiet, size_of, told_of
from nnc_func.testing.simpler import simplified
from nnc_func.testing.together import ends_and_agrees
from nnc_func.testing.unknown import wrong_where_unknown
from nnc_func.testing.worth import never_saves, repeats_work, saves

AMPLE = 4  # times as many firings are drawn as a verdict needs, where they are reached
DISCOVERY = 500  # draws that learn which classes are reachable
EXPLORED = 300  # draws of forms beside known ones, for each part of what a verdict needs
ATTEMPTS = 2000  # at a class, or at a rule of a family, which lacks firings
MOST = 30_000  # draws in all
SMALL = 80  # draws of few elements, once something is wrong
KEPT = 30  # graphs on which it fired that are looked at again
EXACTLY = 2  # firings of a class that are computed without rounding, which depends on no element
PROGRAMS = 6  # times fewer random programs than graphs: they are larger
OPTIMISED = 6  # of the graphs kept, with all rules
EITHER_ZERO = frozenset((
    "maximum", "minimum", "max", "min", "relu", "clip", "max_pool2d", "max_pool2d_gradient", "cumulative_max",
    "cumulative_min", "scatter_max", "scatter_min",
))  # fmt: skip
"""Operators of which it depends on the kernel whether 0.0 or -0.0 is the larger."""

Drawn = tuple[Any, Instance, Outcome]
_NONE: Mapping[Any, Any] = {}
STRICTER = Outcome()
"""Of a graph on which the rule with all its conditions fires too."""


# --- what is found -------------------------------------------------------------------------------------


@frozen(repr=False)
class Report:
    """What `check_rule` found of a rule.

    Attributes
    ----------
    name
        Of the rule.
    instances, fired
        Graphs drawn, and on how many of them it fired.
    classes
        The firings by class, in words.
    counterexample
        A smallest graph of which it changes the value, as text and code; empty if none was found.
    nodes
        Applications in that graph.
    needless
        Conditions without which no counterexample was found either, where they forbid the rule to fire.
    undecided
        Conditions of which too few such graphs were drawn to say so.
    missing
        What a verdict lacks: it rests on 300 firings, on eight of each class that is reachable.
    filtered
        Conditions that do not say what they want before there is a graph: what does not fulfil them is left out.
    others
        What else is wrong: numerics weaker than needed, work never saved or repeated, rules that go on for ever.
    """

    name: str
    instances: int
    fired: int
    classes: str = ""
    counterexample: str = ""
    nodes: int = 0
    needless: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    missing: str = ""
    filtered: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with it."""
        found = []
        if self.counterexample:
            found.append(f"it is not sound:\n{self.counterexample}")
        elif not self.fired:
            found.append(f"it fires on 0 of {self.instances} graphs made from its own left side")
        found += [f"the condition {text!r} is not needed: without it nothing is wrong" for text in self.needless]
        return (*found, *self.others)

    @property
    def verdict(self) -> str:
        """In a line: a counterexample, none in so many firings, or that there were too few of them."""
        if self.counterexample:
            return f"refuted: a counterexample of {self.nodes} operators"
        told = f"no counterexample in {self.classes}"
        return f"{told}; not judged: {self.missing}" if self.missing else told

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict}", *self.faults]
        lines += [f"whether the condition {text!r} is needed was not judged" for text in self.undecided]
        lines += [f"drawn without regard to: {text}" for text in self.filtered if self.missing]
        return "\n".join(lines)

    __repr__ = __str__


def check_rule(rule: AnyRule, stack: Any, *, examples: int = 300) -> Report:
    """Draw graphs from a rule's left side, near misses included, and compare values before and after.

    Parameters
    ----------
    rule
        Of a family each operator's rule is drawn. A pass is also held against random programs, of which it need change
        none; what a function finds by itself (a rewriter, a pass) is drawn from its samples, where it declares them.
    stack
        A stack, or a layer above Operator: its device computes, its catalogue has the operators.
    examples
        Firings that are wanted. A verdict rests on 300, eight in each class of dtype, rank and extents that is
        reachable, and twenty of each rule of a family; for fewer, or more, so many more or fewer of each.

    Returns
    -------
    What was found, if nothing is wrong; where there were too few firings it says "not judged", and what was missing.

    Raises
    ------
    RuleError
        It changes an aval, or a value by more than its numerics; never fires on what is made from its own left side;
        has a condition that is not needed, or numerics weaker than needed; never saves work, or repeats some; does not
        end, alone or with the rules of the library, or has another value with these. The message has a minimal
        counterexample.

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


def examined(rule: AnyRule, stack: Any, *, examples: int = 300, conditions: bool = True) -> Report:
    """As `check_rule`, but what is wrong is in the report; whether conditions are needed is asked only if told to."""
    if not isinstance(rule, AnyRule):
        line = line_of(rule)
        given = f"the function {rule.__name__}{f' ({line})' if line else ''}" if callable(rule) else repr(rule)
        raise RuleError(f"check_rule takes a rule, given {given}; write it with a docstring, decorated with @nnc.rule")
    operator = with_elements(getattr(stack, "operator", stack))
    checking = Checking(rule, operator, examples)
    with quiet(), attributed(origin()):
        fault = checking.fault() or (checking.fault_on_programs() if isinstance(rule, Pass) else None)
        if fault is not None:
            return checking.report(*fault)
        needless, undecided = checking.needless() if conditions else ((), ())
        return checking.report(needless=needless, undecided=undecided, others=tuple(checking.others()))


# --- finding it ----------------------------------------------------------------------------------------


class Checking:
    """One rule under examination.

    Attributes
    ----------
    family
        The rule, or one for each operator, without conditions of profit: a single instance cannot fulfil these.
    whole
        Each of these to the rule with all conditions.
    seen, firings
        Graphs drawn, and those on which it fired, counted.
    kept, missed
        Some of these, and some of the others.
    levels
        Numerics that were made use of; "fast math" if NaN or infinity moved.
    """

    def __init__(self, rule: Any, operator: Any, examples: int) -> None:
        self.rule = rule
        self.operator = operator
        self.examples = examples
        self.thorough = max(EACH * 10, examples * 2)  # draws that look for a use of numerics
        self.trial = Trial(operator)
        self.whole = {_sound_part(r): r for r in rule.instances(operator.type.ops)}
        self.family = tuple(self.whole)
        if not self.family:
            raise RuleError(f"{rule.name} has no instance: the stack's catalogue lacks its operators")
        self.firings = Firings(self.family, AMPLE * examples / FIRINGS)
        self.seen = 0
        self.kept: list[Drawn] = []
        self.saving: list[Drawn] = []  # the first firing that was worth it, of all
        self.missed: list[Drawn] = []
        self.levels: set[Numerics | str] = set()

    @property
    def fired(self) -> int:
        """On how many graphs it fired."""
        return self.firings.total

    def report(self, counterexample: str = "", nodes: int = 0, **found: Any) -> Report:
        """What was found."""
        missing = "" if counterexample else self.firings.missing()
        filtered = dict.fromkeys(str(c) for r in self.family for c in _conditions(r) if c.narrows is None)
        told = (str(self.firings), counterexample, nodes)
        return Report(self.rule.name, self.seen, self.fired, *told, missing=missing, filtered=(*filtered,), **found)

    def fault(self) -> tuple[str, int] | None:
        """A smallest graph on which the rule is wrong, and its size."""
        found = next((f for f in map(self._met, self._draws(self.firings)) if f is not None), None)
        if found is None:
            return None
        exactly = found.value[2].why.startswith(DIFFERS)
        wrong = self.wrong(self.family, exactly)
        rule, instance, outcome = shrunk(wrong, self._small(found, wrong)).value
        instance, outcome = simplified(self.trial, rule, *self.trial.seen(rule, instance, outcome))
        return told_of(rule, instance, outcome), size_of(instance)[0]

    def _small(self, found: Found[Drawn], wrong: Any) -> Found[Drawn]:
        """As wrong as what was found, of operands of few elements: drawn anew, as what is wrong may be far back."""
        rule, mixed, which, _, _, regime, seed = found.choices[:COORDINATES]
        for number in range(SMALL):
            relation, rank = number // 2 % 2 * RELATIONS.index("one"), number % 4
            first = (rule, mixed, which, relation, rank, regime if number % 3 else number % len(REGIMES), seed + number)
            smaller = met(wrong, Choices(first, Random(number)))
            if smaller is not None and smaller.size < found.size:
                found = smaller
        return found

    def _met(self, choices: Choices) -> Found[Drawn] | None:
        return met(self._counted, choices)

    def _draws(self, firings: Firings) -> Iterator[Choices]:
        """Draws of every class, spread evenly; then forms beside those that are known; then what lacks firings."""
        discovery = math.ceil(DISCOVERY * firings.share)
        number = discovery + math.ceil(EXPLORED * firings.share)
        yield from map(spread, range(discovery))
        for explored in range(discovery, number):
            yield _towards(firings, None, [], explored)
        tried: Counter[Any] = Counter()
        while number < MOST * max(1.0, firings.share / AMPLE):
            lacking = [(what, ways) for what, ways in firings.lacking() if tried[what] < ATTEMPTS]
            if not lacking:
                if firings.total >= firings.enough or tried[None] >= ATTEMPTS:
                    return
                lacking = [(None, [])]
            for what, ways in lacking:
                number += 1
                tried[what] += 1
                yield _towards(firings, what, ways, number)

    def fault_on_programs(self) -> tuple[str, int] | None:
        """A smallest random program that a pass breaks, and its size."""
        from nnc_func.testing.passes import on_programs  # Hypothesis draws these

        found = on_programs(self.rule, self.trial.builder, max(1, self.examples // PROGRAMS))
        return (found.counterexample, found.nodes) if found.counterexample else None

    def drawn(self, family: Sequence[Any], choose: Choices, stricter: Mapping[Any, Any] = _NONE) -> Drawn | None:
        """A rule, a graph for it and what becomes of that; None where what was drawn does not go together.

        Where a stricter rule fires too, that is told nowhere: of the graph nothing is learned about the difference.
        """
        drawn = made(tuple(family), self.operator, choose)
        if drawn is None:
            return None
        rule, instance = drawn
        if rule in stricter and self.trial.fires(stricter[rule], instance.root):
            return rule, instance, STRICTER
        outcome, whole = self.trial.outcome(rule, instance), self.whole.get(rule)
        if outcome.why.startswith(FAILS) and whole and self.trial.attempt(whole, instance.root) is None:
            outcome = Outcome()  # an empty result, say, of which nothing need be computed
        return rule, instance, outcome

    def wrong(self, family: Sequence[Any], exactly: bool = False) -> Any:
        """What finds graphs on which a rule of the family is wrong; if told to, also by computing without rounding."""

        def test(choose: Choices) -> tuple[Drawn, tuple[int, ...]] | None:
            drawn = self.drawn(family, choose)
            if drawn is None:
                return None
            rule, instance, outcome = drawn
            outcome = self.trial.exactly(rule, instance, outcome) if exactly else outcome
            return ((rule, instance, outcome), size_of(instance)) if outcome.why else None

        return test

    def _counted(self, choose: Choices) -> tuple[Drawn, tuple[int, ...]] | None:
        drawn = self.drawn(self.family, choose)
        if drawn is None:
            return None
        rule, instance, outcome = drawn
        self.seen += 1
        if outcome.fires:
            self.levels.add("fast math" if outcome.changes_nonfinite else outcome.level)
            self.levels.add(outcome.level)
            several = self.firings.count(rule, instance, tuple(choose.taken))
            if several <= EXACTLY and not outcome.why:
                outcome = self.trial.exactly(rule, instance, outcome)
            if several == 1 and len(self.kept) < KEPT and instance.root.aval.size:
                self.kept.append((rule, instance, outcome))
            if not self.saving and not outcome.why:
                found = (self.whole[rule], instance, outcome)
                self.saving = [found] if saves(self.trial, *found) else []
        else:
            self.firings.miss(rule, self.trial.held(rule, instance.root), instance.root, tuple(choose.taken))
            if len(self.missed) < KEPT:
                self.missed.append(drawn)
        return ((rule, instance, outcome), size_of(instance)) if outcome.why else None

    # --- what is needed

    def needless(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Soundness conditions that may be taken away, and those of which that cannot be told.

        Only graphs tell on which the rule fires without the condition, and with it does not.
        """
        found: tuple[list[str], list[str]] = ([], [])
        for i in range(max(len(_conditions(r)) for r in self.family)):
            weaker = {r.without(r.conditions[i]): r for r in self.family if len(_conditions(r)) > i}
            wrong, enough = self._without(weaker)
            if not wrong:
                found[0 if enough else 1].append(str(_conditions(next(iter(weaker.values())))[i]))
        return tuple(found[0]), tuple(found[1])

    def _without(self, weaker: Mapping[Any, Any]) -> tuple[bool, bool]:
        """Whether a weaker rule is wrong where the stricter one does not fire, and whether it fired there enough."""
        firings = Firings(tuple(weaker), AMPLE)
        for choices in self._draws(firings):
            drawn = self.drawn(firings.members, choices, weaker)
            if drawn is None:
                continue
            rule, instance, outcome = drawn
            if not outcome.fires:  # where only the stricter rule fires, what it asks for is near to failing
                held = len(_conditions(rule)) if outcome is STRICTER else self.trial.held(rule, instance.root)
                firings.miss(rule, held, instance.root, tuple(choices.taken))
                continue
            several = firings.count(rule, instance, tuple(choices.taken))
            if outcome.why or (several <= EXACTLY and self.trial.exactly(rule, instance, outcome).why):
                return True, False
        return False, not firings.missing()

    def loose(self) -> list[str]:
        """Numerics that are weaker than what the rule was seen to do."""
        found = []
        for level in sorted({r.numerics for r in self.family} - {EXACT}):
            family = [r for r in self.family if r.numerics == level]
            told = level in self.levels or self._depends_on_kernels(level)
            if not told and not self._witness(family, partial(_is_of, level)):
                stricter = SIGNED_ZERO if level > SIGNED_ZERO else EXACT
                found.append(f"it says {level}, but keeps to {stricter}: say that")
        family = [r for r in self.family if r.fast_math]
        if family and "fast math" not in self.levels and not self._witness(family, _moves):
            found.append("it says fast math, but keeps NaN and infinity where they are")
        return found

    def _depends_on_kernels(self, level: Numerics) -> bool:
        """Whether what the rule does at that level is the affair of operators' kernels, and may differ elsewhere."""
        if level == SIGNED_ZERO:
            return any(n.op.name in EITHER_ZERO for _, i, _ in self.kept for n in topological([i.root]))
        met = {n.op for _, i, o in self.kept for n in topological([i.root, o.new or i.root]) if n.args}
        return any(op.tolerance != BITWISE for op in met)

    def _witness(self, family: Sequence[Any], wanted: Callable[[Outcome], bool]) -> bool:
        """Whether a rule of these does that: mostly on graphs beside those on which it fired, of other elements."""
        known = [way for rule in family for way in self.firings.beside(rule)]
        random = Random(1)
        for number in range(self.thorough):
            near = known and number % 4
            choices = Choices(beside(random.choice(known), random), random) if near else spread(number, seed=1)
            drawn = self.drawn(self.family, choices)
            if drawn is not None and drawn[0] in family and drawn[2].fires and wanted(drawn[2]):
                return True
        return False

    # --- what else is asked

    def others(self) -> list[str]:
        """What is wrong with a rule that keeps values."""
        if not self.kept:
            return []
        found = self.loose()
        found += wrong_where_unknown(self.trial, [(r, i) for r, i, _ in (*self.kept, *self.missed)])
        found += [] if self.saving else never_saves(self.trial, [(self.whole[r], i, o) for r, i, o in self.kept])
        found += repeats_work(self.trial, [(self.whole[r], i) for r, i, _ in self.kept])
        found += ends_and_agrees(self.rule, self.operator, [(i, o) for _, i, o in self.kept[:OPTIMISED]])
        return found


def _towards(firings: Firings, what: Any, ways: Sequence[tuple[int, ...]], number: int) -> Choices:
    """Choices that lead to a class as some did before; or that may lead to a rule of a family, or to another form."""
    random = Random(number)
    if ways:
        return Choices(elsewhere(random.choice(ways), random), random)
    family = firings.members
    member = family[number % len(family)] if what is None else what
    known = firings.beside(member)
    if known and number % 4:
        return Choices(beside(random.choice(known), random), random)
    if what is None:
        return spread(number)
    return Choices(((family.index(what) + 0.5) / len(family), *point(number)[1:]), random)


def _is_of(level: Numerics, outcome: Outcome) -> bool:
    return outcome.level == level


def _moves(outcome: Outcome) -> bool:
    return outcome.changes_nonfinite


def _conditions(rule: Rule | Rewriter) -> tuple[Any, ...]:
    return rule.conditions if isinstance(rule, Rule) else ()


def _sound_part(rule: Any) -> Any:
    """Without conditions of profit."""
    if not isinstance(rule, Rule):
        return rule
    return evolve(rule, conditions=tuple(c for c in rule.conditions if c.kind == SOUNDNESS))
