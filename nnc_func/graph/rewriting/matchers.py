"""A rule is matched by a function written out for it, that tests a node and what is below it, and makes the right side.

Where operands may be exchanged it is a loop over both orders, so what fails later, conditions included, goes on with
the other order. `Rule.source` shows what is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nnc_func.errors import OperatorError, RuleError
from nnc_func.facets.machine import Machine
from nnc_func.graph.node import Node, Result, Value
from nnc_func.graph.rules.conditions import USERS, Asked, Condition
from nnc_func.graph.rules.folding import folded
from nnc_func.graph.rules.pattern import (
    Apply,
    Computed,
    Constant,
    Folded,
    Full,
    Nonnegative,
    Param,
    Scalar,
    Tensor,
    parts,
)
from nnc_func.graph.rules.ranges import is_constant, is_nonnegative
from nnc_func.locks import cached_property

if TYPE_CHECKING:
    from nnc_func.graph.rewriting.building import Builder
    from nnc_func.graph.rules.rule import Rule

Users = Callable[[Value], int]
KNOWN = {Constant: is_constant, Nonnegative: is_nonnegative}  # kinds of variables that match some values only
MADE = -1  # the place of the right side
MATCHED = (Tensor, Scalar, Constant, Nonnegative, Param, Apply, Full)


class Match:
    """What the parts of a left side stand for, and for conditions of the result what was made of them.

    Attributes
    ----------
    users
        How often a value is used.
    machine
        Of the device, for which costs are estimated.
    """

    __slots__ = ("_found", "_made", "_places", "machine", "users")

    def __init__(
        self, found: tuple[Any, ...], places: dict[int, int], users: Users, machine: Machine, made: Any = None
    ) -> None:
        self._found = found
        self._places = places
        self._made = made
        self.users = users
        self.machine = machine

    def __getitem__(self, part: Any) -> Any:
        """A graph value; of a `Scalar` its number, of a `Param` the parameter."""
        place = self._places[id(part)]
        found = self._made if place == MADE else self._found[place]
        return found[0] if type(part) is Scalar else found

    def nodes(self) -> set[Node]:
        """All nodes that the left side has met."""
        numbers = (each[1] for each in self._found if type(each) is tuple and len(each) == 2)  # of a `Scalar`
        return {each.node for each in (*self._found, *numbers) if isinstance(each, Value)}


@lru_cache(maxsize=1024)
def written(rule: Rule) -> Written:
    """The rule written out: made once for all stacks."""
    return Written(rule)


class Written:
    """A rule as a function ``attempt(node, users, why)``: the replacement, or None; `why` gets conditions that failed.

    Attributes
    ----------
    source
        The function, as text.
    names
        What it means by the names that are not its own.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.parts = parts(rule.lhs)
        self.places = {id(part): i for i, part in enumerate(self.parts)}
        self.names: dict[str, Any] = {"Result": Result, "Match": Match, "same": same, "is_number": is_number}
        self.bound: set[int] = set()
        self.either = bool(rule.numerics)
        self.loops = 0
        self.lines: list[str] = []
        self._application(rule.lhs)
        self._end()
        told = " ".join(f"{rule.name}: {rule.lhs} -> {rule.rhs}".split())
        last = ["    return None"] if self.loops else []
        self.source = "\n".join(["def attempt(node, users, why=None):", f"    # {told}", *self.lines, *last, ""])

    def function(self, builder: Builder) -> Callable[..., Value | None]:
        """What the text means, with a builder that makes the right side."""
        names = {**self.names, "__name__": f"rule {self.rule.name}", "__loader__": self}
        names["machine"] = builder.machine
        names |= {"number_of": builder.number_of, "apply": builder.apply, "made": builder.made}
        names["fold"] = lambda value: _folded(value, builder)
        exec(self.code, names)
        return names["attempt"]  # type: ignore[no-any-return]

    @cached_property
    def code(self) -> Any:
        """The text, compiled."""
        return compile(self.source, f"nnc_func rule {self.rule.name}", "exec")  # no line of the user's

    def get_source(self, name: str) -> str:
        """The text, as tracebacks ask for it."""
        return self.source

    # --- lines ----------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self.lines.append("    " * (1 + self.loops) + text)

    def _unless(self, wrong: str, failed: str = "") -> None:
        """What comes after is reached only if that does not hold."""
        self._line(f"if {wrong}:")
        if failed:
            self._line(f"    {failed}")
        self._line("    continue" if self.loops else "    return None")

    def _named(self, value: Any, what: str) -> str:
        """A name for an object: the one that it has, if it has one."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{what}{len(self.names)}"
        self.names[name] = value
        return name

    def _of(self, part: Any) -> str:
        """The variable of a part of the left side."""
        return "node" if part is self.rule.lhs else f"v{self.places[id(part)]}"

    # --- the left side --------------------------------------------------------------------------------------

    def _application(self, part: Apply) -> None:
        """An application, which has been bound."""
        of, op = self._of(part), part.op
        more = f" or len({of}.args) != {len(part.args)}" if op.variadic else ""
        self._unless(f"type({of}) is Result or {of}.op is not {self._named(op, f'{op.name}_')}{more}")
        for i, (_, wanted) in enumerate(part.params):
            self._parameter(f"{of}.items[{i}][1]", wanted)
        names = [self._operand_name(part, i) for i in range(len(part.args))]
        if swaps(part):
            self._line(f"for {', '.join(names)} in ({of}.args, {of}.args[::-1]):")
            self.loops += 1
        elif names:
            self._line(f"{', '.join(names)}, = {of}.args")
        pairs = list(zip(part.args, names, strict=True))
        for arg, name in sorted(pairs, key=lambda pair: not self._is_again(*pair)):  # what costs least is tested first
            self._operand(arg, name)

    def _parameter(self, found: str, wanted: Any) -> None:
        if isinstance(wanted, Param) and id(wanted) not in self.bound:
            self.bound.add(id(wanted))
            self._line(f"{self._of(wanted)} = {found}")
        elif wanted is None or isinstance(wanted, bool):
            self._unless(f"{found} is not {wanted}")
        else:
            expected = self._of(wanted) if isinstance(wanted, Param) else self._named(wanted, "wanted_")
            self._unless(f"not same({found}, {expected})")

    def _operand_name(self, part: Apply, i: int) -> str:
        """The variable to which an operand is bound: the part's own, where it is met for the first time."""
        arg = part.args[i]
        own = id(arg) not in self.bound and not isinstance(arg, Scalar)
        if own:
            self.bound.add(id(arg))
        return self._of(arg) if own else f"{self._of(part)}_{i}"

    def _is_again(self, part: Any, name: str) -> bool:
        return not isinstance(part, Scalar) and name != self._of(part)

    def _operand(self, part: Any, name: str) -> None:
        own = self._of(part)
        if isinstance(part, Scalar):
            self._line(f"number = number_of({name})")
            again = f" or repr(number) != repr({own}[0])" if id(part) in self.bound else ""
            self._unless(f"number is None{again}")
            self._line(f"{own} = number, {name}")
            self.bound.add(id(part))
        elif self._is_again(part, name):
            self._unless(f"{name} is not {own}")
        elif type(part) in KNOWN:
            self._unless(f"not {self._named(KNOWN[type(part)], 'is_known_')}({name})")
        elif isinstance(part, Full):
            number = self._named(part.value, "number_")
            self._unless(f"{name}.node.args or not is_number(number_of({name}), {number}, {self.either})")
        elif isinstance(part, Apply):
            self._application(part)
        elif not isinstance(part, Tensor):
            raise RuleError(f"{part} cannot stand on the left side of a rule")

    # --- conditions and the right side ----------------------------------------------------------------------

    def _end(self) -> None:
        rule = self.rule
        self._conditions([c for c in rule.conditions if not c.of_result], self.places)
        self._line(f"made_of = {self._made(rule.rhs)}")
        self._conditions([c for c in rule.conditions if c.of_result], {id(rule.rhs): MADE, **self.places}, ", made_of")
        self._line("return made_of")

    def _conditions(self, conditions: list[Condition], places: dict[int, int], made: str = "") -> None:
        if not all(map(self._is_plain, conditions)):
            found = "".join(f"{self._of(part)}, " for part in self.parts)
            self._line(f"match = Match(({found}), {self._named(places, 'places_')}, users, machine{made})")
        for each in conditions:
            holds: Any = each.holds
            if self._is_plain(each):
                given = ", ".join(USERS if p is USERS else self._value(p) for p in holds.of)
                wrong = f"not {self._named(holds.test, 'holds_')}({given})"
            else:
                wrong = f"not {self._named(holds, 'holds_')}(match)"
            failed = f"why is None or why.append({self._named(each, 'condition_')})  # {each.text}"
            self._unless(wrong, " ".join(failed.split()))

    def _is_plain(self, condition: Condition) -> bool:
        """Whether it asks a function of parts of the left side."""
        of = condition.holds.of if isinstance(condition.holds, Asked) else (None,)
        return all(p is USERS or id(p) in self.places for p in of)

    def _made(self, part: Any) -> str:
        """An expression for what a part of the right side stands for; a number is lifted by whoever uses it."""
        if isinstance(part, Computed):
            return self._computed(part)
        if isinstance(part, Full):
            return self._named(part.value, "number_")
        if isinstance(part, Folded):
            return f"fold({self._made(part.part)})"
        if id(part) in self.places:
            return f"{self._of(part)}[1]" if isinstance(part, Scalar) else self._of(part)
        if not isinstance(part, Apply):
            raise RuleError(f"{part} cannot stand on the right side of a rule")
        op, args = self._named(part.op, f"{part.op.name}_"), "".join(f"{self._made(a)}, " for a in part.args)
        constant = not any(isinstance(value, (*MATCHED, Computed)) for _, value in part.params)
        if constant and not part.op.multi_result and not any(isinstance(a, (Computed, Full)) for a in part.args):
            return f"made({op}, ({args}), {self._named(part.op.canonical(dict(part.params)), 'items_')}, None)"
        params = ", ".join(f"{name!r}: {self._value(value)}" for name, value in part.params)
        return f"apply({op}, ({args}), {{{params}}})"

    def _value(self, value: Any) -> str:
        """An expression for a parameter, or for what a function is given."""
        if isinstance(value, Computed):
            return self._computed(value)
        if isinstance(value, MATCHED):
            return f"{self._of(value)}[0]" if isinstance(value, Scalar) else self._of(value)
        return self._named(value, "value_")

    def _computed(self, part: Computed) -> str:
        return f"{self._named(part.function, 'computed_')}({', '.join(map(self._value, part.of))})"


def swaps(part: Apply) -> bool:
    """Whether the operands may be exchanged, and are different."""
    return len(part.args) == 2 and part.args[0] is not part.args[1] and part.op.has("commutative") is not None


def same(value: Any, expected: Any) -> bool:
    """Whether two parameters are equal in type and bits."""
    if type(value) is not type(expected) or value != expected:
        return False
    return type(value) not in (float, complex, tuple) or repr(value) == repr(expected)


def is_number(number: Any, wanted: Any, either: bool) -> bool:
    """Whether it is that number; of zeros the one of its sign, unless either will do."""
    if number is None or number != wanted:
        return False
    return bool(number) or either or math.copysign(1.0, number) == math.copysign(1.0, wanted)


def _folded(value: Any, builder: Builder) -> Value:
    found: Value | None = folded(value, builder)
    if found is None:
        raise OperatorError(f"{value} is large, not finite, or depends on an unknown extent: it is not folded")
    return found
