"""Unknown whole numbers that Python's own code computes with, and the paths that it takes for them.

A rule's functions (conditions, computed parameters, shape rules) are run as they are, with `Whole` numbers for extents
and bounds. Where such code asks a question, ``if n == 1``, the run follows each answer that is possible, one path
after the other; what a path has answered are its facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import z3

from nnc_func.errors import NncError

T = TypeVar("T")
MOST = 20_000  # paths of one run
PATIENCE = 200  # milliseconds for whether an answer is possible: what is not decided is followed
_current: ContextVar[Paths] = ContextVar("paths")


class Untranslatable(NncError):  # noqa: N818 - it says what a rule's code is
    """A rule's code asks of an unknown what only a number has: a hash, an index into a list, a float."""


class PathsExhausted(NncError):  # noqa: N818
    """More paths than are followed."""


class Paths:
    """The paths of a function that is run again for each, by the answers it is given.

    Attributes
    ----------
    facts
        What the path that is being run has answered, and what is assumed on it.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.facts: list[z3.BoolRef] = []
        self._answers: list[tuple[int, int]] = []  # of each question the answer that is given, and how many there are
        self._at = 0
        self._solver: z3.Solver | None = None  # with the facts, once somebody asks
        self._names: dict[str, int] = {}
        self.indices: dict[Any, list[Any]] = {}  # of row-major positions
        self.kept: list[Any] = []  # terms whose identities are keys
        self.positions: dict[int, Any] = {}  # by term: the index and the shape of which it is the row-major position
        self.branches: list[z3.BoolRef] = []  # of elements: those that are being taken

    def each(self, function: Callable[[], T]) -> Iterator[T]:
        """What the function returns, on each path.

        Raises
        ------
        PathsExhausted
            There are more than `most`.
        """
        for _ in range(self.most):
            self.facts, self._at, self._names, self.branches = [], 0, {}, []
            self.indices, self.kept, self.positions = {}, [], {}
            self._solver = None
            before = _current.set(self)
            try:
                yield function()
            finally:
                _current.reset(before)
            del self._answers[self._at :]
            while self._answers and self._answers[-1][0] + 1 == self._answers[-1][1]:
                self._answers.pop()
            if not self._answers:
                return
            answer, count = self._answers[-1]
            self._answers[-1] = answer + 1, count
        raise PathsExhausted(f"more than {self.most} paths")

    def choose(self, options: Sequence[T]) -> T:
        """One of them on each path."""
        return options[self._answer(len(options))]

    def _answer(self, count: int) -> int:
        if self._at == len(self._answers):
            self._answers.append((0, count))
        self._at += 1
        return self._answers[self._at - 1][0]

    def decide(self, condition: z3.BoolRef) -> bool:
        """Whether it holds, on this path."""
        condition = z3.simplify(condition)
        if z3.is_true(condition) or z3.is_false(condition):
            return bool(z3.is_true(condition))
        if self._at == len(self._answers):
            possible = [answer for answer in (True, False) if self._is_possible(condition, answer)]
            self._answers.append((1, 2) if possible == [False] else (0, max(len(possible), 1)))
        holds = self._answer(2) == 0
        self.assume(condition if holds else z3.Not(condition))
        return holds

    def note_position(self, at: Any, index: tuple[Any, ...], shape: tuple[Any, ...]) -> None:
        """That is the row-major position of an index of a shape."""
        term = term_of(at)
        self.kept.append(term)
        self.positions[term.get_id()] = index, shape

    def entails(self, condition: z3.BoolRef) -> bool:
        """Whether it must hold, on this path, as far as the prover can tell."""
        condition = z3.simplify(condition)
        return bool(z3.is_true(condition)) or not (z3.is_false(condition) or self._is_possible(condition, False))

    def _is_possible(self, condition: z3.BoolRef, answer: bool) -> bool:
        if self._solver is None:
            self._solver = z3.SimpleSolver()
            self._solver.set("timeout", PATIENCE)
            self._solver.add(*self.facts)
        return bool(self._solver.check(condition if answer else z3.Not(condition)) != z3.unsat)

    def assume(self, *facts: Any) -> None:
        """That holds, on this path."""
        for fact in facts:
            term = fact.term if isinstance(fact, Truth) else z3.BoolVal(fact) if isinstance(fact, bool) else fact
            self.facts.append(term)
            if self._solver is not None:
                self._solver.add(term)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is assumed and found inside of it is forgotten: a question beside the path."""
        kept = list(self.facts), dict(self.indices), dict(self.positions)
        try:
            yield
        finally:
            self.facts, self.indices, self.positions = kept
            self._solver = None

    def fresh(self, name: str, least: int | None = 0) -> Whole:
        """A number that is not known, not below `least`."""
        count = self._names[name] = self._names.get(name, 0) + 1
        term = z3.Int(name if count == 1 else f"{name}#{count}")
        if least is not None:
            self.assume(term >= least)
        return Whole(term)


def current() -> Paths:
    """Those of the run that is going on."""
    return _current.get()


def term_of(value: Any) -> Any:
    """The prover's term of a number or an unknown."""
    return value.term if type(value) is Whole else z3.IntVal(int(value))


def whole(term: Any) -> Any:
    """A term as a number: Python's, where it is known."""
    term = z3.simplify(term)
    return term.as_long() if z3.is_int_value(term) else Whole(term)


def _truth(term: Any) -> Any:
    term = z3.simplify(term)
    return True if z3.is_true(term) else False if z3.is_false(term) else Truth(term)


def _is_whole(value: Any) -> bool:
    return type(value) is Whole or type(value) is int or type(value) is bool


class Truth:
    """An answer that is not known: asked for its truth it takes both, one path after the other."""

    __slots__ = ("term",)

    def __init__(self, term: Any) -> None:
        self.term = term

    def __bool__(self) -> bool:
        return current().decide(self.term)

    def __and__(self, other: Any) -> Any:
        return _truth(z3.And(self.term, condition_of(other)))

    __rand__ = __and__

    def __invert__(self) -> Any:
        return _truth(z3.Not(self.term))


def condition_of(value: Any) -> Any:
    """The prover's term of a truth."""
    return value.term if isinstance(value, Truth) else z3.BoolVal(bool(value))


def _arithmetic(name: str) -> Any:
    def forward(self: Any, other: Any) -> Any:
        return whole(getattr(self.term, name)(term_of(other))) if _is_whole(other) else NotImplemented

    return forward


def _comparison(name: str) -> Any:
    def compared(self: Any, other: Any) -> Any:
        return _truth(getattr(self.term, name)(term_of(other))) if _is_whole(other) else NotImplemented

    return compared


class Whole:
    """A whole number that is not known. It says that it is an ``int``, and refuses what needs its digits."""

    __slots__ = ("term",)
    __class__ = property(lambda self: int)  # isinstance(n, int): as of any extent

    def __init__(self, term: Any) -> None:
        self.term = term

    def __repr__(self) -> str:
        return str(self.term)

    def __hash__(self) -> int:
        raise Untranslatable(f"the hash of {self.term} depends on which number it is")

    def __index__(self) -> int:
        raise Untranslatable(f"{self.term} is not known: it is no index, and no count")

    __int__ = __float__ = __index__

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __neg__(self) -> Any:
        return whole(-self.term)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __eq__(self, other: object) -> Any:
        return _truth(self.term == term_of(other)) if _is_whole(other) else False

    def __ne__(self, other: object) -> Any:
        return _truth(self.term != term_of(other)) if _is_whole(other) else True

    __add__, __radd__ = _arithmetic("__add__"), _arithmetic("__radd__")
    __sub__, __rsub__ = _arithmetic("__sub__"), _arithmetic("__rsub__")
    __mul__, __rmul__ = _arithmetic("__mul__"), _arithmetic("__rmul__")
    __lt__, __le__ = _comparison("__lt__"), _comparison("__le__")
    __gt__, __ge__ = _comparison("__gt__"), _comparison("__ge__")

    def __floordiv__(self, other: Any) -> Any:
        return _divided(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divided(other, self)

    def __mod__(self, other: Any) -> Any:
        return self - _divided(self, other) * other

    def __rmod__(self, other: Any) -> Any:
        return other - _divided(other, self) * self


def _divided(a: Any, b: Any) -> Any:
    """The quotient, rounded down; z3's is so for positive divisors."""
    if not (_is_whole(a) and _is_whole(b)):
        return NotImplemented
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    upper, lower = term_of(a), term_of(b)
    if type(b) is Whole and b > 0:
        return whole(upper / lower)
    return whole(upper / lower) if type(b) is not Whole and b > 0 else whole((-upper) / (-lower))
