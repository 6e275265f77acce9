"""Proofs of rules: `prove_rule` proves each instance, for the dtypes, ranks and parameters that it says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from nnc_func.errors import RuleError
from nnc_func.facets.dtypes import promote
from nnc_func.graph.rules.pattern import VARIABLES, Param, parts
from nnc_func.graph.rules.rule import EXACT, SIGNED_ZERO, Family, Rule
from nnc_func.testing.proofs.equality import Failure, Prover
from nnc_func.testing.proofs.parameters import DISCRETE
from nnc_func.testing.proofs.paths import MOST, Paths, PathsExhausted, Untranslatable
from nnc_func.testing.proofs.replay import replayed
from nnc_func.testing.proofs.scenarios import Drawn, Given, NoFiring, Scenario, scenario
from nnc_func.testing.proofs.tensors import Application, Fill, is_elementwise

PROVED, UNKNOWN, VACUOUS, REFUTED = "proved", "unknown", "vacuous", "refuted"
RANKS = (0, 1, 2, 3, 4)
FEW = RANKS[:3]  # where there are many leaves
ENOUGH = 2  # a proof is of so many ranks at least
MOST_OF_SHAPES = 1200  # paths of one dtype
HALVES = ("float16", "bool")
EVERY_DTYPE = ("float32", "float64", "float16", *DISCRETE, "complex64", "complex128")
COUPLED = "it asks of dtypes and shapes at once: {}"
ELEMENTWISE, MOVEMENT, OTHER = "elementwise", "movement", "other"
ANY = "any"  # dtype


@frozen
class Verdict:
    """What is known of one instance, of elements of one dtype.

    Attributes
    ----------
    instance
        As it prints.
    of
        ``"elementwise"``, ``"movement"`` or ``"other"``: what its operators are.
    case
        The dtype of its first tensor; of what is not elementwise only, of which dtypes are proved together, ``"any"``.
    verdict
        ``"proved"``; ``"unknown"``, for the `reason`; ``"vacuous"``: it never fires; ``"refuted"``: kernels disagree.
    firings
        In how many ways (ranks, dtypes, parameters, paths of its code) it fires.
    ranks
        Up to which rank its first tensor is proved: up to 4, unless there are too many ways.
    """

    instance: str
    of: str
    case: str
    verdict: str
    reason: str = ""
    firings: int = 0
    seconds: float = 0.0
    ranks: int = max(RANKS)


@frozen
class Proof:
    """What is known of a rule: a `Verdict` for each instance and dtype."""

    name: str
    verdicts: tuple[Verdict, ...]

    def __str__(self) -> str:
        counts = Counter(v.verdict for v in self.verdicts)
        told = ", ".join(f"{n} {what}" for what, n in counts.items()) or "nothing to prove"
        lines = [f"{self.name}: {told}"]
        lines += [f"  {v.verdict}: {v.instance} of {v.case}: {v.reason}" for v in self.verdicts if v.verdict != PROVED]
        return "\n".join(lines)


def prove_rule(rule: Rule | Family, stack: Any, *, seconds: float = 5.0) -> Proof:
    """Prove a rule: both sides have one shape, one dtype and equal elements, whatever the extents and elements are.

    Parameters
    ----------
    rule
        A rule or a family; what a function computes of a graph is not proved.
    stack
        Whose operators the rule is about; its device replays what the prover takes for a counterexample.
    seconds
        For one query.

    Raises
    ------
    RuleError
        It is neither a rule nor a family, or it has no instance in the stack's catalogue.
    """
    if not isinstance(rule, (Rule, Family)):
        raise RuleError(f"{rule.name} is a function of graphs; what has two sides is proved, use check_rule for others")
    found = list(rule.instances(stack.type.ops))
    if not found:
        raise RuleError(f"{rule.name} has no instance: the stack's catalogue lacks its operators")
    prover = Prover(seconds)
    return Proof(rule.name, tuple(v for each in found for v in prove_instance(each, prover, stack.device)))


def kind_of(rule: Rule) -> str:
    """What its operators are: elementwise or movement only (constants may be among them), or something else.

    Examples
    --------
    >>> from nnc_func.graph.rules.move import merge_transposes
    >>> kind_of(merge_transposes)
    'movement'
    """
    ops = rule.operators()
    if all(is_elementwise(op) or op.name == "full" for op in ops):
        return ELEMENTWISE
    if all((op.data_movement or op.name == "full") and not is_elementwise(op) for op in ops):
        return MOVEMENT
    return OTHER


def prove_instance(rule: Rule, prover: Prover, device: Any) -> list[Verdict]:
    """A verdict for each dtype, or one for all."""
    if kind_of(rule) == ELEMENTWISE:
        return _Elementwise(rule, prover, device).verdicts()
    return [_Together(rule, prover, device).verdict()]


def eligible(rule: Rule) -> tuple[str, ...]:
    """What of an instance counts: of elementwise operators each dtype of integers and booleans of which it fires.

    Of movement it is one for all dtypes; of anything else, and of what is computed of floats, nothing is expected.

    Examples
    --------
    >>> from nnc_func.graph.rules.signs import add_negative
    >>> eligible(add_negative)[:3]
    ('bool', 'int16', 'int32')
    """
    kind = kind_of(rule)
    if kind != ELEMENTWISE:
        return (ANY,) if kind == MOVEMENT else ()
    try:
        fired = [f for f in Firings(rule, None).of(Given((0,), DISCRETE)) if is_discrete(f.scenario.left)]
    except (Untranslatable, PathsExhausted):
        return DISCRETE
    return tuple(sorted({_case(f.scenario) for f in fired}))


def _failed(rule: Rule, firing: Firing, prover: Prover, device: Any) -> tuple[str, str]:
    """The verdict on a rule of which one firing is not proved, and why."""
    assert firing.failure is not None
    seen = replayed(rule, firing.drawn, firing.failure, prover, device)
    return (REFUTED, seen) if seen else (UNKNOWN, firing.failure.reason)


# --- one run ---------------------------------------------------------------------------------------------


@frozen(eq=False)
class Firing:
    """One way in which a rule fires, and why that is not proved, if it is not."""

    scenario: Scenario
    failure: Failure | None
    drawn: Drawn
    equations: frozenset[Any] = frozenset()
    facts: tuple[Any, ...] = ()

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Of leaves and of parameters."""
        return tuple(self.drawn.taken)


class Firings:
    """Each way in which a rule fires, proved or not.

    Attributes
    ----------
    prover
        None: it is only asked whether and how it fires.
    coupled
        What of the rule has asked of dtypes and of shapes at once, whether it fired or not.
    last
        What was drawn last.
    """

    def __init__(self, rule: Rule, prover: Prover | None) -> None:
        self.rule, self.prover = rule, prover
        self.coupled: list[str] = []
        self.last: Drawn | None = None

    def of(self, given: Given, most: int = MOST) -> Iterator[Firing]:
        """Those of such leaves and parameters.

        Raises
        ------
        Untranslatable
            The left side cannot be modelled.
        PathsExhausted
            There are too many.
        """
        paths = Paths(most)

        def run() -> Firing | None:
            unknowns = self.last = Drawn(paths, given, self.coupled)
            try:
                found = scenario(self.rule, unknowns)
            except NoFiring:
                return None
            if found.right is None:
                return Firing(found, Failure(found.unknown), unknowns)
            if self.prover is None:
                return Firing(found, None, unknowns)
            self.prover.equations = set()
            failure = self.prover.equal(found.left, found.right, paths, self.rule.numerics == EXACT)
            return Firing(found, failure, unknowns, frozenset(self.prover.equations), tuple(paths.facts))

        return (found for found in paths.each(run) if found is not None)


# --- elementwise -----------------------------------------------------------------------------------------


class _Elementwise:
    """Dtypes and shapes are proved apart: of scalars for all dtypes, of all shapes for the dtypes of one firing.

    That is as much as all of them together: an element is made of one of each operand, shape rules do not see dtypes
    and dtype rules do not see shapes, and no condition of the rule asks of both at once (where one does, nothing is
    proved). What is left to prove of elements is the same equation at every shape, as is checked.
    """

    def __init__(self, rule: Rule, prover: Prover, device: Any) -> None:
        self.rule, self.prover, self.device = rule, prover, device
        self.firings = Firings(rule, prover)
        self.ranks = max(RANKS)

    def verdicts(self) -> list[Verdict]:
        """One for each dtype of integers and booleans of which it fires, and one of float16 where it claims bits."""
        try:
            found = self._verdicts(DISCRETE, is_discrete)
        except (Untranslatable, PathsExhausted) as error:
            return [self._verdict(d, UNKNOWN, str(error)) for d in DISCRETE]
        if self.rule.numerics <= SIGNED_ZERO and not self.rule.fast_math:
            found += self._verdicts(HALVES, is_half)
        return found

    def _verdicts(self, dtypes: Sequence[str], admits: Callable[[Any], bool]) -> list[Verdict]:
        start = time.perf_counter()
        scalars = [f for f in self.firings.of(Given((0,), dtypes)) if admits(f.scenario.left)]
        cases: dict[str, list[Firing]] = {}
        for each in scalars:
            cases.setdefault(_case(each.scenario) if dtypes is DISCRETE else HALVES[0], []).append(each)
        if not cases:
            return []
        of_shapes = self._of_shapes(scalars)
        seconds = round((time.perf_counter() - start) / len(cases), 3)
        found = []
        for case, of in cases.items():
            failed = next((f for f in of if f.failure is not None), None)
            verdict, why = of_shapes if failed is None else _failed(self.rule, failed, self.prover, self.device)
            found.append(self._verdict(case, verdict, why, len(of), seconds))
        return found

    def _verdict(self, case: str, verdict: str, reason: str, count: int = 0, seconds: float = 0.0) -> Verdict:
        return Verdict(str(self.rule), ELEMENTWISE, case, verdict, reason, count, seconds, self.ranks)

    def _of_shapes(self, scalars: list[Firing]) -> tuple[str, str]:
        """Whether all shapes follow, and why not."""
        one = next((f for f in scalars if f.failure is None), scalars[0])
        proved = frozenset().union(*(f.equations for f in scalars if f.dtypes == one.dtypes))
        ranks = RANKS if len(one.scenario.leaves) <= 2 else FEW
        self.ranks = ranks[-1]
        try:
            for each in self.firings.of(Given(ranks, one_each=one.dtypes)):
                if each.failure is not None:
                    return _failed(self.rule, each, self.prover, self.device)
                if not each.equations <= proved:
                    return UNKNOWN, "its elements are made otherwise where shapes differ"
        except (Untranslatable, PathsExhausted) as error:
            return UNKNOWN, str(error)
        return (UNKNOWN, COUPLED.format(self.firings.coupled[0])) if self.firings.coupled else (PROVED, "")


def _case(found: Scenario) -> str:
    tensors = [x for x in found.leaves if not isinstance(x, Fill)] or list(found.leaves)
    return str(tensors[0].dtype.name) if tensors else str(found.left.dtype.name)


def is_discrete(tensor: Any) -> bool:
    """Whether all that is computed for it is integers and booleans."""
    pending = [tensor]
    while pending:
        each = pending.pop()
        if each.dtype.kind not in "biu":
            return False
        if isinstance(each, Application) and each.args:
            if promote(*(x.dtype for x in each.args)).kind not in "biu":
                return False
            pending += each.args
    return True


def is_half(tensor: Any) -> bool:
    """Whether all that is computed for it is float16 and booleans, and not booleans alone."""
    pending, found = [tensor], set()
    while pending:
        each = pending.pop()
        found.add(each.dtype.name)
        pending += each.args if isinstance(each, Application) else ()
    return HALVES[0] in found and found <= set(HALVES)


# --- the others ------------------------------------------------------------------------------------------


class _Together:
    """All shapes for one dtype, then, where that fired, every dtype beside every other.

    As of elementwise rules that is as much as all of them together where no condition asks of both at once.
    """

    def __init__(self, rule: Rule, prover: Prover, device: Any) -> None:
        self.rule, self.prover, self.device = rule, prover, device
        self.firings = Firings(rule, prover)
        self.count = 0
        self.ranks = max(RANKS)

    def verdict(self) -> Verdict:
        start = time.perf_counter()
        try:
            verdict, reason = self._proved()
        except (Untranslatable, PathsExhausted) as error:
            verdict, reason = UNKNOWN, str(error)
        seconds = round(time.perf_counter() - start, 3)
        return Verdict(str(self.rule), kind_of(self.rule), ANY, verdict, reason, self.count, seconds, self.ranks)

    def _within(self, given: Given) -> Iterator[Firing]:
        """Each firing of as many ranks of the first tensor as there is time for: lower ranks are drawn first."""
        try:
            yield from self.firings.of(given, MOST_OF_SHAPES)
        except PathsExhausted:
            rank = self.firings.last.choices[0] if self.firings.last and self.firings.last.choices else 0
            if not isinstance(rank, int) or rank <= ENOUGH:
                raise
            self.ranks = rank - 1

    def _proved(self) -> tuple[str, str]:
        leaves = sum(isinstance(part, VARIABLES) and not isinstance(part, Param) for part in parts(self.rule.lhs))
        several = leaves > (2 if kind_of(self.rule) == MOVEMENT else 1)
        fired: list[Firing] = []
        for first in EVERY_DTYPE:  # the first of which it fires
            fired = []
            for each in self._within(Given(FEW if several else RANKS, (first,))):
                self.count += 1
                if each.failure is not None:
                    return _failed(self.rule, each, self.prover, self.device)
                fired.append(each)
            if fired:
                break
        real = next((f for f in fired if self.prover.ask(*f.facts)[1] is not None), None)
        if real is None:
            return VACUOUS, "it does not fire"
        for one in (real, fired[len(fired) // 2], fired[-1]):
            for each in self.firings.of(Given(RANKS, EVERY_DTYPE, choices=one.drawn.choices)):
                self.count += 1
                if each.failure is not None:
                    return _failed(self.rule, each, self.prover, self.device)
        return (UNKNOWN, COUPLED.format(self.firings.coupled[0])) if self.firings.coupled else (PROVED, "")
