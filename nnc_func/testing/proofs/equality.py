"""Whether two tensors are equal: their extents, and their elements at an index that stands for all.

Indices and elements are proved apart. First each branch of either side is taken (which part of a join, inside of the
borders or on them); then reads of one leaf are compared, by whole numbers, and those that are at one place become one
symbol; what is left is an equation of scalars, with no index in it, that bit-vectors decide. Two places that may be
one stay two symbols, which is more than has to be proved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import z3
from attrs import evolve, frozen

from nnc_func.facets.lowering import LoweringError, position
from nnc_func.testing.proofs.paths import Paths, current, term_of
from nnc_func.testing.proofs.scalars import HALF, TERMS, Term, expressed, is_modelled, sort_of
from nnc_func.testing.proofs.tensors import Applied, Choice, Number, Read, Symbol

SECONDS = 5.0  # a query
BRANCHES = 256  # of one equation
CASES = 4  # choices of scalars that are followed before the prover is asked


@frozen
class Failure:
    """Why an equation is not proved.

    Attributes
    ----------
    reason
        For people.
    against
        Formulas that hold together where it does not hold, as far as the prover can tell.
    reads
        What the elements in them are read of, where it is a matter of their values.
    """

    reason: str
    against: tuple[Any, ...] = ()
    reads: tuple[Any, ...] = ()


class Prover:
    """Decides equations, and remembers those of scalars.

    Attributes
    ----------
    queries, slowest
        How many the prover was asked, and the seconds of the slowest.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.queries = 0
        self.slowest = 0.0
        self.equations: set[Any] = set()  # those of scalars that were left of the elements that were compared
        self._scalars: dict[Any, Failure | None] = {}
        self._wholes: dict[Any, Any] = {}
        self._kept: list[Any] = []

    def ask(self, *facts: Any) -> Any:
        """Whether the facts can hold together: z3's answer, and a model."""
        solver = z3.Solver()
        solver.set("timeout", int(1e3 * self.seconds))
        solver.add(*facts)
        start = time.perf_counter()
        found = solver.check()
        self.queries += 1
        self.slowest = max(self.slowest, time.perf_counter() - start)
        return found, (solver.model() if found == z3.sat else None)

    # --- whole numbers --------------------------------------------------------------------------------------

    def follows(self, goal: Any, facts: list[Any]) -> Any:
        """None if a statement about whole numbers follows from the facts, else what the prover says."""
        goal = z3.simplify(goal, som=True)
        if z3.is_true(goal):
            return None
        key = (goal.get_id(), *(f.get_id() for f in facts))
        if key not in self._wholes:
            self._kept.append((goal, list(facts)))
            found, _ = self.ask(*facts, z3.Not(goal))
            if found == z3.unknown and self._by_substitution(goal, facts):
                found = z3.unsat
            self._wholes[key] = None if found == z3.unsat else (found, (*facts, z3.Not(goal)))
        return self._wholes[key]

    def _by_substitution(self, goal: Any, facts: list[Any]) -> bool:
        """Whether it is an identity of polynomials once equations of the facts are put in: what products need."""
        known = [pair for fact in facts if (pair := _solved(fact)) is not None]
        for _ in range(len(known)):
            before, goal = goal, z3.simplify(z3.substitute(goal, *known), som=True)
            if z3.is_true(goal):
                return True
            if goal.eq(before):
                return False
        return False

    def equal_wholes(self, a: Any, b: Any, facts: list[Any]) -> Any:
        """None if two whole numbers are equal."""
        return self.follows(term_of(a) == term_of(b), facts)

    # --- tensors --------------------------------------------------------------------------------------------

    def equal(self, left: Any, right: Any, paths: Paths, signed_zero: bool = True) -> Failure | None:
        """None if two tensors are equal on this path.

        Parameters
        ----------
        signed_zero
            Zeros of different signs differ.
        """
        if left.dtype != right.dtype:
            return Failure(f"the left side is {left.dtype}, the right one {right.dtype}", tuple(paths.facts))
        if len(left.shape) != len(right.shape):
            told = f"the left side has rank {len(left.shape)}, the right one {len(right.shape)}"
            return Failure(told, tuple(paths.facts))
        for m, n in zip(left.shape, right.shape, strict=True):
            if (wrong := self.equal_wholes(m, n, paths.facts)) is not None:
                return _failure(f"an extent is {m} on the left and {n} on the right", wrong)
        index = [paths.fresh("i") for _ in left.shape]
        paths.assume(*(i < n for i, n in zip(index, left.shape, strict=True)))
        return self.equal_elements(left(index), right(index), paths.facts, signed_zero)

    def equal_elements(self, left: Any, right: Any, facts: list[Any], signed_zero: bool) -> Failure | None:
        """None if two elements are equal whenever the facts hold."""
        for count, (a, b, known) in enumerate(self._branches(left, right, list(facts))):
            if count == BRANCHES:
                return Failure(f"more than {BRANCHES} branches")
            failed = self._same(a, b, known, signed_zero)
            if failed is not None:
                return failed
        return None

    def _branches(self, left: Any, right: Any, facts: list[Any]) -> Iterator[tuple[Any, Any, list[Any]]]:
        """Both without branches, for each way in which these can be taken."""
        pending = [(left, right, facts)]
        while pending:
            a, b, facts = pending.pop()
            condition = _condition_in(a)
            condition = _condition_in(b) if condition is None else condition
            if condition is None:
                yield a, b, facts
                continue
            for holds in (False, True):
                fact = condition if holds else z3.Not(condition)
                if self.follows(z3.Not(fact), facts) is None:
                    continue
                pending.append((_taken(a, condition, holds), _taken(b, condition, holds), [*facts, fact]))

    # --- scalars --------------------------------------------------------------------------------------------

    def _same(self, left: Any, right: Any, facts: list[Any], signed_zero: bool) -> Failure | None:
        reads = _Reads(self, facts)
        one, other = reads.numbered(left), reads.numbered(right)
        if one == other:
            return None
        key = (one, other, signed_zero)
        self.equations.add(key)
        if key not in self._scalars:
            self._scalars[key] = self._equation(left, right, reads, signed_zero)
        failed = self._scalars[key]
        if failed is None:
            return None
        if reads.different is not None and not failed.reads:
            return _failure(f"{reads.describe()} are not at one place", reads.different)
        return evolve(failed, against=(*failed.against, *facts), reads=tuple(reads.first) if failed.reads else ())

    def _equation(self, left: Any, right: Any, reads: _Reads, signed_zero: bool) -> Failure | None:
        try:
            a, b = reads.term(left), reads.term(right)
        except LoweringError as error:
            return Failure(str(error))
        if HALF in (a.dtype, *(x.dtype for x in reads.first)) and signed_zero and _either_zero(left, right):
            return Failure("of 0.0 and -0.0 a kernel may take either")
        goal = a.term == b.term
        if a.dtype == HALF and not signed_zero:
            goal = z3.Or(goal, z3.And(z3.fpIsZero(a.term), z3.fpIsZero(b.term)))
        if _holds_by_cases(goal):
            return None
        found, _ = self.ask(*reads.facts, z3.Not(goal))
        if found == z3.unsat:
            return None
        if found == z3.unknown:
            return Failure(f"the prover gives up after {self.seconds:g} s")
        unknown = sorted({x.dtype.name for x in reads.first if not is_modelled(x.dtype)})
        if unknown:
            return Failure(f"what is computed of {', '.join(unknown)} is not modelled")
        return Failure("the prover has a counterexample", (*reads.facts, z3.Not(goal)), tuple(reads.first))


def _holds_by_cases(goal: Any, cases: int = CASES) -> bool:
    """Whether it is an identity of polynomials, whichever way the first few choices in it are taken."""
    goal = z3.simplify(goal, som=True)
    if z3.is_true(goal) or z3.is_false(goal) or not cases:
        return bool(z3.is_true(goal))
    chosen = _choice_in(goal)
    if chosen is None:
        return False
    return all(_holds_by_cases(z3.substitute(goal, (chosen, z3.BoolVal(b))), cases - 1) for b in (True, False))


def _choice_in(term: Any) -> Any:
    """What an innermost choice of the term asks, or None."""
    pending, seen = [term], set()
    while pending:
        each = pending.pop()
        if each.get_id() in seen:
            continue
        seen.add(each.get_id())
        if z3.is_app_of(each, z3.Z3_OP_ITE) and not z3.is_bool(each.arg(1)):
            return each.arg(0)
        pending += each.children()
    return None


def _solved(fact: Any) -> tuple[Any, Any] | None:
    """An equation as what to put for what: a number or a product for one unknown."""
    if not z3.is_eq(fact):
        return None
    a, b = fact.children()
    if z3.is_const(a) and not z3.is_int_value(a) and not _occurs(a, b):
        return a, b
    if z3.is_const(b) and not z3.is_int_value(b) and not _occurs(b, a):
        return b, a
    return None


def _occurs(unknown: Any, term: Any) -> bool:
    return bool(unknown.eq(term) or any(_occurs(unknown, t) for t in term.children()))


def _either_zero(*elements: Any) -> bool:
    """Whether there is an operator in them that may take either of two zeros."""
    pending = list(elements)
    while pending:
        each = pending.pop()
        if isinstance(each, Applied):
            if getattr(each.op.lowering, "either_zero", False):
                return True
            pending += each.args
    return False


def _failure(reason: str, wrong: Any) -> Failure:
    found, against = wrong
    return Failure(reason if found == z3.sat else f"{reason}, as far as the prover can tell", against)


# --- branches --------------------------------------------------------------------------------------------


def _condition_in(element: Any) -> Any:
    """The condition of a branch that is not in another, or None."""
    stack = [element]
    while stack:
        each = stack.pop()
        if isinstance(each, Choice):
            return each.condition
        if isinstance(each, Applied):
            stack += each.args
    return None


def _taken(element: Any, condition: Any, holds: bool) -> Any:
    if isinstance(element, Choice) and element.condition.eq(condition):
        return _taken(element.then if holds else element.otherwise, condition, holds)
    if isinstance(element, Choice):
        then, otherwise = (_taken(e, condition, holds) for e in (element.then, element.otherwise))
        return Choice(element.condition, then, otherwise, element.dtype)
    if isinstance(element, Applied):
        args = tuple(_taken(a, condition, holds) for a in element.args)
        return Applied(element.op, element.params, args, element.dtype)
    return element


# --- reads -----------------------------------------------------------------------------------------------


class _Reads:
    """The reads of one equation: those of one leaf at one place have one number.

    Attributes
    ----------
    first
        The first read of each number.
    facts
        What is known of the elements: some leaves are not below zero.
    different
        What the prover said of the last two that are not at one place.
    """

    def __init__(self, prover: Prover, facts: list[Any]) -> None:
        self.prover, self.known = prover, facts
        self.first: list[Read] = []
        self.facts: list[Any] = []
        self.different: Any = None
        self._pair: tuple[Read, Read] | None = None

    def number(self, read: Read) -> int:
        """That of its place."""
        for i, other in enumerate(self.first):
            if self._is_one_leaf(other.of, read.of):
                wrong = self._apart(other, read)
                if wrong is None:
                    return i
                self.different, self._pair = wrong, (other, read)
        self.first.append(read)
        return len(self.first) - 1

    def describe(self) -> str:
        """The last two that are not at one place."""
        assert self._pair is not None
        places = [[r.position] if r.index is None else list(r.index) for r in self._pair]
        return " and ".join(f"{_name(r.of)}{place}" for r, place in zip(self._pair, places, strict=True))

    def _is_one_leaf(self, one: Any, other: Any) -> bool:
        if one is other:
            return True
        if not hasattr(one, "op") or not hasattr(other, "op") or one.op is not other.op:
            return False
        return _equal_params(one.params, other.params) and self._have_equal_operands(one, other)

    def _have_equal_operands(self, one: Any, other: Any) -> bool:
        """Black boxes: equal operands, equal results."""
        if len(one.args) != len(other.args):
            return False
        for a, b in zip(one.args, other.args, strict=True):
            if a is b:
                continue
            if a.dtype != b.dtype or len(a.shape) != len(b.shape):
                return False
            extents = list(zip(a.shape, b.shape, strict=True))
            if any(self.prover.equal_wholes(m, n, self.known) is not None for m, n in extents):
                return False
            paths = current()
            with paths.aside():
                index = [paths.fresh("j") for _ in a.shape]
                paths.assume(*(i < n for i, n in zip(index, a.shape, strict=True)))
                one_element, other_element = a(index), b(index)
                facts = [*self.known, *paths.facts]
                if self.prover.equal_elements(one_element, other_element, facts, True) is not None:
                    return False
        return True

    def _apart(self, one: Read, other: Read) -> Any:
        """None if they are at one place."""
        if one.index is None or other.index is None:
            return self.prover.equal_wholes(_position(one), _position(other), self.known)
        for i, k in zip(one.index, other.index, strict=True):
            if (wrong := self.prover.equal_wholes(i, k, self.known)) is not None:
                return wrong
        return None

    def numbered(self, element: Any) -> Any:
        """The element as nested tuples, which are equal where it is written alike."""
        if isinstance(element, Read):
            return "read", self.number(element), element.dtype.name, getattr(element.of, "nonnegative", False)
        if isinstance(element, Number):
            value = element.value
            told = f"{value.name}:{value.dtype}" if isinstance(value, Symbol) else repr(value)
            return "number", told, type(value).__name__, element.dtype.name
        params = tuple((k, _told(v)) for k, v in element.params.items())
        return element.op.name, params, tuple(map(self.numbered, element.args)), element.dtype.name

    def term(self, element: Any) -> Term:
        """The element as a term."""
        if isinstance(element, Read):
            found = z3.Const(f"element {self.number(element)}", sort_of(element.dtype))
            if getattr(element.of, "nonnegative", False) and element.dtype == HALF:
                self.facts.append(z3.Or(z3.fpIsNaN(found), z3.fpGEQ(found, z3.FPVal(0, sort_of(HALF)))))
            return Term(found, element.dtype)
        if isinstance(element, Number):
            number: Term = TERMS.number(element.value, element.dtype)
            return number
        args = [self.term(a) for a in element.args]
        return expressed(element.op, args, element.params, element.dtype)


def _position(read: Read) -> Any:
    return read.position if read.index is None else position(read.index, read.of.shape)


def _name(of: Any) -> str:
    return of.name if hasattr(of, "name") else str(of.op.name)


def _told(value: Any) -> str:
    if isinstance(value, Symbol):
        return f"{value.name}:{value.dtype}"
    return f"{type(value).__name__}:{value}"


def _equal_params(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_told(one[k]) == _told(other[k]) for k in one)
