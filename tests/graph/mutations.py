"""Mutations: rules made wrong in small ways, to learn whether `check_rule` would notice.

Each mutation of a rule is a rule: a condition less, operands or axes exchanged, another number or parameter, other
numerics, an operator's neighbour in its place. One that is refuted shows that the kit sees that part of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import process_time
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.declaration import REQUIRED
from nnc_func.facets import shapes
from nnc_func.graph.rules.conditions import SOUNDNESS, Condition
from nnc_func.graph.rules.pattern import Apply, Computed, Folded, Full, Param, Scalar, Tensor, parts
from nnc_func.graph.rules.rule import EXACT, ROUNDING, SIGNED_ZERO, AnyRule, Family, Rule
from nnc_func.op import Catalogue, Op
from nnc_func.testing.rules import examined
from tests.graph.alterations import alterations_of, altered_function

Made = tuple[str, str, Any]

PAIRS = (
    ("add", "subtract"), ("multiply", "divide"), ("maximum", "minimum"), ("max", "min"), ("sum", "mean"),
    ("sin", "cos"), ("less", "less_equal"), ("greater", "greater_equal"), ("equal", "not_equal"), ("any", "all"),
    ("logical_and", "logical_or"), ("bitwise_and", "bitwise_or"), ("floor", "ceil"), ("argmax", "argmin"),
    ("real", "imag"), ("sigmoid", "tanh"), ("softmax", "log_softmax"), ("floor_divide", "remainder"),
    ("exp", "expm1"), ("log", "log1p"), ("square", "abs"), ("cumulative_sum", "cumulative_prod"),
    ("max_pool2d", "average_pool2d"), ("logical_not", "isnan"), ("relu", "abs"), ("negative", "abs"),
    ("sqrt", "square"), ("power", "multiply"), ("isfinite", "isinf"), ("sort", "flip"), ("fma", "where"),
)  # fmt: skip


SYMMETRIC = frozenset(("hypot", "logaddexp"))  # though they do not say that they commute


def neighbours(op: Op, ops: Catalogue) -> Iterator[Op]:
    """Operators that are easily taken for this one.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> list(neighbours(CATALOGUE["sin"], CATALOGUE))
    [cos]
    """
    for pair in PAIRS:
        if op.name in pair:
            other = ops.get(pair[1 - pair.index(op.name)])
            if other is not None and len(other.args) == len(op.args):
                yield other


@frozen(eq=False, repr=False)
class Mutant(Family):
    """Rules that are mutations, as a family."""

    rules: tuple[AnyRule, ...] = ()

    def instances(self, ops: Catalogue) -> Iterator[Any]:
        """These rules."""
        yield from self.rules


@frozen(eq=False, repr=False)
class Mutation:
    """A rule made wrong.

    Attributes
    ----------
    of
        The rule's name; of one of a family with its operator.
    kind
        ``"condition"``, ``"operands"``, ``"parameter"``, ``"constant"``, ``"operator"``; ``"numerics"``: it says that
        it keeps to more than it does; ``"claim"``: it says that it keeps to less.
    text
        What was done.
    rule
        What came of it.
    """

    of: str
    kind: str
    text: str
    rule: Mutant

    def __repr__(self) -> str:
        return f"{self.of}: {self.text}"


def mutations(rule: AnyRule, ops: Catalogue, members: int | None = None) -> Iterator[Mutation]:
    """All mutations of a rule; of a family those of so many members, spread over it, or of all.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> from nnc_func.graph.rules.signs import subtract_negative
    >>> for each in mutations(subtract_negative, CATALOGUE):
    ...     print(each)
    subtract_negative: signed zero for exact
    subtract_negative: with fast math
    subtract_negative: without -y and all of it have one dtype
    subtract_negative: subtract for add in (x + y)
    subtract_negative: y for x in (x + y)
    subtract_negative: x for y in (x + y)
    """
    found: list[Any] = list(rule.instances(ops))
    own = set(map(str, found))  # another one of a family is no mutation
    for kind, text, made in (*_numerics(found), *_conditions(found)):
        yield Mutation(rule.name, kind, text, _family(rule, made))
    every = max(1, len(found) // members) if members else 1
    for each in found[::every]:
        name = f"{rule.name}[{each.lhs.op.name}]" if len(found) > 1 else rule.name
        told = set()
        for kind, text, one in _altered(each, ops):
            if text not in told and (not isinstance(one, Rule) or str(one) not in own):
                told.add(text)
                yield Mutation(name, kind, text, _family(rule, [one]))


def _family(rule: AnyRule, made: list[Any]) -> Mutant:
    return Mutant(rule.name, rule.doc, _no_function, _no_choice, "is a mutation", rule.module, rules=tuple(made))


def _no_function(*_: Any) -> Any:
    raise AssertionError("a mutation is made already")


def _no_choice(op: Op) -> Any:
    return ()


def _conditions(family: list[Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """Of a family all rules without their first condition, without their second one, and so on."""
    for i in range(max((len(r.conditions) for r in family if isinstance(r, Rule)), default=0)):
        weaker = [r for r in family if len(r.conditions) > i and r.conditions[i].kind == SOUNDNESS]
        if weaker:
            text = str(weaker[0].conditions[i]).replace(str(weaker[0].lhs), "all of it")
            yield "condition", f"without {text}", [r.without(r.conditions[i]) for r in weaker]


def _numerics(family: list[Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """Stricter and weaker numerics of those rules of a family that have one level; and the same for fast math."""
    for level in sorted({r.numerics for r in family}):
        own = [r for r in family if r.numerics == level]
        others = {EXACT: (SIGNED_ZERO,), SIGNED_ZERO: (EXACT, ROUNDING)}.get(level, (SIGNED_ZERO,))
        for other in others:
            yield (
                "claim" if other > level else "numerics",
                f"{other} for {level}",
                [evolve(r, numerics=other) for r in own],
            )
    for fast in sorted({r.fast_math for r in family}):
        changed = [evolve(r, fast_math=not fast) for r in family if r.fast_math is fast]
        yield "numerics" if fast else "claim", "without fast math" if fast else "with fast math", changed


def _altered(rule: Any, ops: Catalogue) -> Iterator[Made]:
    """Other sides; of a function other results."""
    if isinstance(rule, Rule):
        yield from _sides(rule, ops)
        return
    for kind, text, alter in alterations_of(ops, neighbours):
        yield kind, text, evolve(rule, function=altered_function(rule, alter))


# --- sides ---------------------------------------------------------------------------------------------


def _sides(rule: Rule, ops: Catalogue) -> Iterator[Made]:
    """Other right sides; other left sides where the right one is only a variable."""
    bound = {id(p) for p in parts(rule.lhs)}
    inside = {id(q) for p in parts(rule.rhs) if isinstance(p, Computed) for q in p.of}  # seen by its function alone
    own = [p for p in parts(rule.rhs) if id(p) not in bound | inside and isinstance(p, (Apply, Full, Computed))]
    if own:
        for part in own:
            for kind, text, other in _parts(part, ops, rule):
                made = {id(part): other}
                yield kind, text, evolve(rule, rhs=_replaced(rule.rhs, made))
        return
    for part in parts(rule.lhs):
        for kind, text, other in _parts(part, ops, rule):
            made = {id(part): other}
            lhs = _replaced(rule.lhs, made)
            rhs = made.get(id(rule.rhs), rule.rhs)
            if all(id(p) in {id(q) for q in parts(lhs)} for p in parts(rhs) if isinstance(p, (Tensor, Param, Scalar))):
                conditions = tuple(_moved(c, made) for c in rule.conditions)
                yield kind, text, evolve(rule, lhs=lhs, rhs=rhs, conditions=conditions)


def _parts(part: Any, ops: Catalogue, rule: Rule) -> Iterator[Made]:
    """Other parts in the place of one."""
    if isinstance(part, Full):
        for value in dict.fromkeys((part.value + 1, -part.value)):
            if value != part.value:
                yield "constant", f"{value:g} for {part}", Full(value)
    elif isinstance(part, Computed):
        yield "constant", f"another number or parameter than {part}", Computed(_changed, (part,))
    elif isinstance(part, Apply):
        yield from _operators(part, ops)
        yield from _operands(part, rule)
        yield from _parameters(part)


def _operators(part: Apply, ops: Catalogue) -> Iterator[Made]:
    for other in neighbours(part.op, ops):
        params = tuple((k, dict(part.params).get(k, d)) for k, d in other.params.items())
        if any(v is REQUIRED for _, v in params):
            continue
        yield "operator", f"{other} for {part.op} in {part}", Apply(other, part.args, params)


def _operands(part: Apply, rule: Rule) -> Iterator[Made]:
    args = part.args
    if not part.op.has("commutative") and part.op.name not in SYMMETRIC:
        for i in range(len(args) - 1):
            if args[i] is not args[i + 1]:
                swapped = (*args[:i], args[i + 1], args[i], *args[i + 2 :])
                yield "operands", f"operands {i} and {i + 1} of {part} exchanged", evolve(part, args=swapped)
    tensors = [p for p in parts(rule.lhs) if isinstance(p, Tensor)]
    for i, arg in enumerate(args):
        for other in tensors:
            if isinstance(arg, Tensor) and other is not arg:
                changed = (*args[:i], other, *args[i + 1 :])
                yield "operands", f"{other} for {arg} in {part}", evolve(part, args=changed)


def _parameters(part: Apply) -> Iterator[Made]:
    for i, (name, value) in enumerate(part.params):
        if isinstance(value, Param) or (
            type(value) in (bool, int, float, tuple) and part.op.shape is not shapes.broadcast
        ):
            other = Computed(_changed, (value,)) if isinstance(value, Param) else _changed(value)
            if other is not value and not _same(other, value):
                changed = (*part.params[:i], (name, other), *part.params[i + 1 :])
                yield "parameter", f"another {name} in {part}", evolve(part, params=changed)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and not isinstance(a, Computed) and bool(a == b)


def _changed(value: Any) -> Any:
    """Another value of its kind: an axis more, the row turned around, the opposite, a dtype twice as wide."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1 if value >= 0 else value - 1
    if isinstance(value, tuple):
        return (value[::-1] if value != value[::-1] else tuple(map(_changed, value))) if value else (1,)
    if isinstance(value, np.dtype):
        return np.dtype("float64" if value != "float64" else "float32")
    return {"NHWC": "NCHW", "NCHW": "NHWC", "VALID": "SAME", "SAME": "VALID", None: 0}.get(value, value)


# --- patterns made anew --------------------------------------------------------------------------------


def _replaced(part: Any, made: dict[int, Any]) -> Any:
    """A pattern in which some parts are others; the rest is as it was, and `made` tells what is not."""
    if id(part) in made:
        return made[id(part)]
    found = part
    if isinstance(part, Apply):
        args = tuple(_replaced(a, made) for a in part.args)
        params = tuple((k, _replaced(v, made)) for k, v in part.params)
        if _differ(args, part.args) or _differ([v for _, v in params], [v for _, v in part.params]):
            found = Apply(part.op, args, params)
    elif isinstance(part, Computed):
        of = tuple(_replaced(a, made) for a in part.of)
        found = Computed(part.function, of) if _differ(of, part.of) else part
    elif isinstance(part, Folded):
        inner = _replaced(part.part, made)
        found = Folded(inner) if inner is not part.part else part
    if found is not part:
        made[id(part)] = found
    return found


def _differ(these: Iterable[Any], those: Iterable[Any]) -> bool:
    return any(a is not b for a, b in zip(these, those, strict=True))


class _Moved:
    """A match in which parts that were made anew are found under those that they stand for."""

    def __init__(self, match: Any, made: dict[int, Any]) -> None:
        self._match = match
        self._made = made
        self.users = match.users

    def __getitem__(self, part: Any) -> Any:
        return self._match[self._made.get(id(part), part)]


def _moved(condition: Condition, made: dict[int, Any]) -> Condition:
    holds: Callable[[Any], bool] = condition.holds
    return evolve(condition, holds=lambda match: holds(_Moved(match, made)))


# --- judging them --------------------------------------------------------------------------------------


@frozen
class Verdict:
    """What became of a mutation.

    Attributes
    ----------
    mutation
        It.
    how
        What was wrong with it, in a line; empty if nothing was found.
    nodes
        Applications in the counterexample, if there is one.
    seconds
        That it took.
    """

    mutation: Mutation
    how: str
    nodes: int
    seconds: float

    @property
    def refuted(self) -> bool:
        """Whether the kit noticed."""
        return bool(self.how)


def judged(mutation: Mutation, operator: Any, examples: int = 1000) -> Verdict | None:
    """Whether `check_rule` refutes a mutation; None where what a function returns was never altered by it.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.rules.signs import subtract_negative
    >>> operator = nnc.eager().operator
    >>> dropped = next(m for m in mutations(subtract_negative, operator.type.ops) if m.kind == "condition")
    >>> judged(dropped, operator).nodes
    2
    """
    start = process_time()
    report = examined(mutation.rule, operator, examples=examples)
    altered = getattr(getattr(mutation.rule.rules[0], "function", None), "altered", None)
    if altered is not None and not altered[0]:
        return None
    how = next(iter(report.faults), "").split("\n")[0]
    return Verdict(mutation, how, report.nodes, process_time() - start)
