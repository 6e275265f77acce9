"""Rules: rewriting as data. A rule is a function of its variables, and what it returns is its two sides."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Literal, overload

from attrs import evolve, field, frozen

from nnc_func.errors import RuleError, line_of
from nnc_func.graph.rules.conditions import Condition, check_parts, checked
from nnc_func.graph.rules.pattern import VARIABLES, Apply, Full, Param, Tensor, apply, parts, variables
from nnc_func.graph.rules.placing import placed, written_by
from nnc_func.op import Catalogue, Op


class Numerics(enum.IntEnum):
    """How far a value may be from what it replaces; NaN and infinity stay, but for what kernels decide.

    That is sums that overflow in one order alone, zeros around images times infinite weights, parts of complex NaN.
    """

    EXACT = 0  # the same bits
    SIGNED_ZERO = 1  # but for the sign of a zero
    ROUNDING = 2  # but for rounding, each element's own
    REASSOCIATION = 3  # sums in another order

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")

    @classmethod
    def _missing_(cls, value: object) -> Numerics:
        for each in cls:
            if str(each) == value:
                return each
        raise RuleError(f"numerics are {', '.join(map(repr, map(str, cls)))}, given {value!r}")


EXACT, SIGNED_ZERO, ROUNDING, REASSOCIATION = Numerics


@frozen
class rewrite:  # noqa: N801 - it reads as a verb
    """``rewrite(lhs).to(rhs).when(condition, ...).up_to(numerics)``: what a rule's function returns."""

    lhs: Any
    rhs: Any = None
    conditions: tuple[Condition, ...] = ()
    numerics: Numerics = EXACT
    fast_math: bool = False

    def to(self, rhs: Any) -> rewrite:
        """What it is replaced by."""
        return rewrite(self.lhs, rhs, self.conditions, self.numerics, self.fast_math)

    def when(self, *conditions: Condition) -> rewrite:
        """Only if all of these hold."""
        found = (*self.conditions, *map(checked, conditions))
        return rewrite(self.lhs, self.rhs, found, self.numerics, self.fast_math)

    def up_to(self, numerics: Numerics | str) -> rewrite:
        """Its value may differ that far: ``ROUNDING``, or its name, ``"rounding"``."""
        level = numerics if type(numerics) is Numerics else Numerics(numerics)  # type: ignore[arg-type]  # a name
        return rewrite(self.lhs, self.rhs, self.conditions, level, self.fast_math)

    def with_fast_math(self) -> rewrite:
        """It changes NaN or infinity: it fires only in a stack that allows fast math."""
        return evolve(self, fast_math=True)


@frozen(eq=False, repr=False)
class Rule:
    """A rewrite rule.

    Attributes
    ----------
    name, doc
        The function's; the docstring is one sentence for users.
    lhs, rhs
        Patterns.
    conditions
        All must hold of a match.
    numerics, fast_math
        How far it may change a value.
    module, dropped
        Where it was defined, and which conditions have been taken away: how it pickles.
    where
        File and line of its function.
    samples
        Functions of variables, as those of rules, that give graphs on which it fires: half of what the test kit draws.

    Examples
    --------
    >>> from nnc_func.graph.rules.signs import subtract_negative
    >>> print(subtract_negative)
    subtract_negative: (x - -y) -> (x + y)   when -y and all of it have one dtype
    """

    name: str
    doc: str
    lhs: Apply
    rhs: Any
    conditions: tuple[Condition, ...]
    numerics: Numerics
    fast_math: bool = False
    module: str = ""
    dropped: tuple[str, ...] = ()
    where: str = ""
    samples: tuple[Callable[..., Any], ...] = ()

    def __str__(self) -> str:
        when = " and ".join(map(str, self.conditions)).replace(str(self.lhs), "all of it")
        return f"{self.name}: {self.lhs} -> {self.rhs}" + (f"   when {when}" if when else "")

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.module, self.name, self.dropped)

    def without(self, condition: Condition | str) -> Rule:
        """The rule, one condition taken away: what the test kit does to learn whether it is needed."""
        kept = tuple(c for c in self.conditions if c is not condition and c.text != condition)
        if len(kept) == len(self.conditions):
            raise RuleError(f"{self.name} has no condition {str(condition)!r}")
        gone = tuple(c.text for c in self.conditions if c not in kept)
        return evolve(self, conditions=kept, dropped=(*self.dropped, *gone))

    def instances(self, ops: Catalogue) -> Iterator[Rule]:
        """Itself, if the catalogue has all its operators."""
        return iter((self,) if _is_within(self, ops) else ())

    def rooted(self, op: Op, ops: Catalogue) -> Iterator[Rule]:
        """Itself, if it may match a node of that operator."""
        return iter((self,) if self.lhs.op is op and _is_within(self, ops) else ())

    @property
    def source(self) -> str:
        """The function to which it is compiled."""
        from nnc_func.graph.rewriting.matchers import written

        return written(self).source

    def operators(self) -> set[Op]:
        """Operators that occur in it."""
        return {p.op for side in (self.lhs, self.rhs) for p in parts(side) if type(p) is Apply}


@lru_cache(maxsize=1 << 12)
def _is_within(rule: Rule, ops: Catalogue) -> bool:
    """Whether the catalogue has all operators of a rule."""
    return all(ops.get(op.name) is op for op in rule.operators())


def _restored(module: str, name: str, dropped: tuple[str, ...]) -> Any:
    found = getattr(importlib.import_module(module), name, None)
    if found is None:
        raise RuleError(f"no rule {name!r} in {module}: a rule must be a module's member to be pickled")
    for text in dropped:
        found = found.without(text)
    return found


@overload
def rule(function: Callable[..., rewrite]) -> Rule: ...


@overload
def rule(*, samples: Iterable[Callable[..., Any]]) -> Callable[[Callable[..., rewrite]], Rule]: ...


def rule(function: Any = None, *, samples: Iterable[Callable[..., Any]] = ()) -> Any:
    """A rule from a function of its variables: bare for any tensor, or a `Scalar`, `Constant`, `Nonnegative`, `Param`.

    Parameters
    ----------
    samples
        Functions of variables too, each of which gives a graph such as the rule is meant for, of the catalogue's
        operators: of a rule that fires on few graphs of its left side the test kit draws half of its graphs from these.

    Raises
    ------
    RuleError
        No docstring, a left side that is no application, an effect in it, or a right side with unbound variables;
        names the rule and its line.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> def of_zeros(x):
    ...     return CATALOGUE["maximum"](x * 0, 0)
    >>> @rule(samples=[of_zeros])
    ... def drop_bound(x):
    ...     '''What is bounded by zero is bounded.'''
    ...     bounded = CATALOGUE["maximum"](x, 0)
    ...     return rewrite(bounded).to(x)
    >>> len(drop_bound.samples)
    1
    """
    if function is None:
        return lambda function: evolve(rule(function), samples=tuple(samples))
    name = getattr(function, "__name__", "")
    return _checked(function, written_by(function, name, **variables(function)), name)[0]


def _checked(function: Callable[..., Any], made: rewrite, name: str) -> tuple[Rule, set[Op]]:
    """The rule that a function writes, and the operators that occur in it."""
    doc = _doc(function)
    if not isinstance(made, rewrite) or not isinstance(made.lhs, Apply) or made.rhs is None:
        raise RuleError(f"rule {name} must return rewrite(lhs).to(rhs), its left side an application of an operator")
    left = parts(made.lhs)
    for p in left:
        if type(p) is not Tensor and (why := _unmatchable(p)):
            raise placed(name, function, why)
    bound = set(map(id, left))
    right = parts(made.rhs)
    loose = [p for p in right if id(p) not in bound and isinstance(p, VARIABLES)]
    if loose:
        raise RuleError(f"rule {name}: {', '.join(map(str, loose))} on the right side is not bound by the left")
    check_parts(name, made.conditions, right, bound)
    told = (made.conditions, made.numerics, made.fast_math, function.__module__)
    operators = {p.op for p in (*left, *right) if type(p) is Apply}
    return Rule(name, doc, made.lhs, made.rhs, *told, where=line_of(function)), operators


def _unmatchable(part: Any) -> str:
    """Why nothing matches a part of a left side; empty if something may."""
    if isinstance(part, Apply) and part.op.multi_result:
        return f"{part.op.name} has several results, so no pattern can have it"
    if isinstance(part, Apply) and not part.op.pure:
        return f"{part.op.name} is an effect, which is never merged or dropped, so no pattern can have it"
    if isinstance(part, Full) and part.value != part.value:
        return "NaN on the left side equals no number, NaN neither; take a Constant, and ask of it in .when(that(…))"
    if isinstance(part, Full) and isinstance(part.value, complex):
        return (
            f"numbers of a pattern are real, and {part.value} on the left side is complex; "
            "take a Constant, and ask of it in .when(that(…))"
        )
    return ""


@cache
def _doc(function: Any, what: str = "rule") -> str:
    found = inspect.getdoc(function)
    if not found:
        raise RuleError(f"{what} {function.__name__} has no docstring: one sentence that says what it does")
    return found


# --- rules that quantify over operators ---------------------------------------------------------------


@frozen(eq=False, slots=True)
class Each:
    """The operator over which a rule quantifies, as its function sees it: call it on patterns.

    Its own parameters match anything, but the same in every application.
    """

    op: Op
    flipped: bool = False
    params: dict[str, Param] = field(factory=dict)

    def __call__(self, *args: Any) -> Apply:
        op, params = self.op, self.params
        if len(params) < len(op.params):
            for name in op.params:
                params.setdefault(name, Param(name))
        return apply(op, *(args[::-1] if self.flipped else args), **params)


Selected = Iterable[tuple[Each, Any]]
OWN: Literal["own"] = "own"  # a rule's left side is an application of the operator that it is for


@frozen(eq=False, repr=False)
class Family:
    """One rule for each operator that `select` picks from a catalogue: rules quantify over laws, not over names.

    `at` says what their left sides are applications of: `OWN`, some operators, or None, where that is not said.
    """

    name: str
    doc: str
    function: Callable[..., rewrite]
    select: Callable[[Op], Selected]
    over: str
    module: str
    at: frozenset[Op] | Literal["own"] | None = None

    def instances(self, ops: Catalogue) -> Iterator[Rule]:
        """The rule for each operator of the catalogue that it is about."""
        return (rule for op in _selectable(ops) for rule in _instances(self, op, ops))

    def rooted(self, op: Op, ops: Catalogue) -> Iterator[Rule]:
        """Those of its rules that may match a node of that operator; no others are made where it says what they are at.

        Examples
        --------
        >>> from nnc_func.graph.ops import CATALOGUE
        >>> from nnc_func.graph.rules.algebra import drop_unit
        >>> print(*drop_unit.rooted(CATALOGUE["divide"], CATALOGUE))
        drop_unit: (x / 1) -> x   when x and all of it have one shape and dtype and x is of a kind in iuf
        """
        if self.at == OWN:
            return iter(_instances(self, op, ops) if op in _selectable(ops) else ())
        if self.at is not None and op not in self.at:
            return iter(())
        return (found for each in self.instances(ops) for found in each.rooted(op, ops))

    @property
    def numerics(self) -> str:
        """That of its instances."""
        return "its operators' own"

    def __str__(self) -> str:
        return f"{self.name}: for every operator that {self.over}: {self.doc}"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.module, self.name, ())


@lru_cache(maxsize=1 << 16)
def _instances(family: Family, op: Op, ops: Catalogue) -> tuple[Rule, ...]:
    function, name, at, found = family.function, family.name, family.at, list[Rule]()
    for each, value in family.select(op):
        rule, operators = _checked(function, written_by(function, name, each, value, **_variables(family)), name)
        if at is not None and (rule.lhs.op is not op if at == OWN else rule.lhs.op not in at):
            raise placed(name, function, f"its left side is an application of {rule.lhs.op.name}, unlike `at` says")
        if all(ops.get(each.name) is each for each in operators):
            found.append(rule)
    return tuple(found)


@cache
def _variables(family: Family) -> dict[str, Any]:
    """The same in all instances: a variable is bound anew by each match."""
    return variables(family.function, 2)


@lru_cache(maxsize=16)
def _selectable(ops: Catalogue) -> Mapping[Op, None]:
    """The operators of a catalogue of which there may be rules."""
    return {op: None for op in ops.values() if op.pure and not op.multi_result}


def for_each(
    select: Callable[[Op], Selected], over: str, *, at: Iterable[Op] | Literal["own"] | None = None
) -> Callable[[Callable[..., rewrite]], Family]:
    """A rule for each operator that `select` picks; its function is given the operator, a value, then variables.

    Parameters
    ----------
    at
        What the left sides are applications of: ``OWN``, each of the operator that its rule is for, or some operators.
        Rules are then made when such a node is first met. None: it is not said, and all are made with the first graph.

    Raises
    ------
    RuleError
        Where a rule is made: its left side is not what `at` says.
    """
    roots = at if at is None or isinstance(at, str) else frozenset(at)

    def decorate(function: Callable[..., rewrite]) -> Family:
        return Family(function.__name__, _doc(function), function, select, over, function.__module__, roots)

    return decorate


def for_law(
    law: str,
    arity: int,
    *,
    nearly: bool = False,
    flips: bool = True,
    at: Iterable[Op] | Literal["own"] | None = None,
) -> Callable[[Callable[..., rewrite]], Family]:
    """A rule for each operator of that many arguments that declares the law; the value given is the law.

    Where the law holds on the left, or on both sides of an operator that does not commute, the operator is
    given flipped as well.

    Parameters
    ----------
    nearly
        Only laws that hold for finite numbers, of some kinds of dtype; else only those that hold for all of some.
    flips
        Whether flipped operators are given: a law without a number is mostly told with its operands in order.
    at
        As of `for_each`.
    """

    def select(op: Op) -> Iterator[tuple[Each, Any]]:
        if len(op.args) != arity or op.variadic:
            return
        declared = [each for each in op.laws if each.name == law]
        for each in sorted(declared, key=str) if len(declared) > 1 else declared:
            if not (each.nearly if nearly else each.kinds):
                continue
            if each.side != "left" or not flips:
                yield Each(op), each
            if flips and (each.side == "left" or (each.side == "both" and arity == 2 and not op.has("commutative"))):
                yield Each(op, flipped=True), each

    return for_each(select, f"has the law {law}" + (", but for NaN and infinities" if nearly else ""), at=at)


# --- rules that compute -------------------------------------------------------------------------------


class _Computing:
    """A rule that is a function."""

    __slots__ = ()
    name: str
    doc: str
    module: str

    def instances(self, ops: Catalogue) -> Iterator[Any]:
        """Itself."""
        yield self

    def __str__(self) -> str:
        return f"{self.name}: {self.doc}"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.module, self.name, ())


@frozen(eq=False, repr=False)
class Rewriter(_Computing):
    """A rule whose right side a function computes: ``function(node, builder)`` gives a value, or None.

    Attributes
    ----------
    wants
        ``wants(op, operand_ops)``: whether such a node is worth a look; asked once for each combination.
    roots
        The operators of such nodes; None where only `wants` tells.
    samples
        Functions of variables, as those of rules, that give graphs on which it may fire: what the test kit draws from.
    looks
        How many applications within each other it looks at.
    """

    name: str
    doc: str
    function: Callable[..., Any]
    wants: Callable[[Op, tuple[Op, ...]], bool]
    numerics: Numerics
    fast_math: bool
    module: str
    roots: frozenset[Op] | None = None
    samples: tuple[Callable[..., Any], ...] = ()
    looks: int = 2

    def rooted(self, op: Op, ops: Catalogue) -> Iterator[Rewriter]:
        """Itself, if it looks at nodes of that operator."""
        if self.roots is None or op in self.roots:
            yield self


def ANY(*given: Any) -> bool:  # noqa: N802 - it is given where a collection of operators may stand
    """Every node."""
    return True


def rewriter(
    wants: Callable[[Op, tuple[Op, ...]], bool] | Iterable[Op] = ANY,
    *,
    of: Iterable[Op] | None = None,
    numerics: Numerics = EXACT,
    fast_math: bool = False,
    samples: tuple[Callable[..., Any], ...] = (),
    looks: int = 2,
) -> Callable[[Callable[..., Any]], Rewriter]:
    """A rule from a function that computes the replacement, of nodes of these operators or for which `wants` holds."""
    given = of if callable(wants) else wants
    roots = None if given is None else frozenset(given)
    chosen = wants if callable(wants) else lambda op, operands, among=frozenset(wants): op in among

    def decorate(function: Callable[..., Any]) -> Rewriter:
        name, doc, module = function.__name__, _doc(function), function.__module__
        return Rewriter(name, doc, function, chosen, numerics, fast_math, module, roots, samples, looks)

    return decorate


# --- passes -------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class Pass(_Computing):
    """A rewrite of a whole graph, made once no rule fires any more.

    ``function(roots, order, builder)`` gives how often it found something, after new roots, or nodes with what replaces
    each, made of nodes as they were; `order` has the nodes, operands first. It must keep avals, and values up to its
    numerics, and find nothing the second time. `samples` are functions of variables, as those of rules, that give
    graphs on which it finds something. Where there is an operator in `of`, it is given graphs with one of these only.
    """

    name: str
    doc: str
    function: Callable[..., Any]
    numerics: Numerics
    fast_math: bool
    module: str
    samples: tuple[Callable[..., Any], ...] = ()
    of: frozenset[Op] = frozenset()


def whole_graph(
    *, of: Iterable[Op] = (), numerics: Numerics = EXACT, fast_math: bool = False, samples: tuple[Any, ...] = ()
) -> Callable[[Callable[..., Any]], Pass]:
    """A `Pass` from a function."""

    def decorate(function: Callable[..., Any]) -> Pass:
        doc = _doc(function, "pass")
        return Pass(function.__name__, doc, function, numerics, fast_math, function.__module__, samples, frozenset(of))

    return decorate


AnyRule = Rule | Family | Rewriter | Pass
