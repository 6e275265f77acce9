"""One way in which a rule may fire: both sides built of leaves whose ranks, dtypes and parameters are chosen.

The rule's own conditions, and what it computes for its right side, are run as they are. A condition of profit is no
matter of soundness, and one that asks for what is not there (a graph's node, a digit) is dropped: then more has to be
proved than holds of the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import product
from nnc_func.facets.dtypes import weak
from nnc_func.graph.rewriting.matchers import is_number
from nnc_func.graph.rules.conditions import PROFIT, Condition
from nnc_func.graph.rules.pattern import (
    Apply,
    Computed,
    Constant,
    Folded,
    Full,
    Nonnegative,
    Param,
    Scalar,
)
from nnc_func.graph.rules.pattern import Tensor as Variable
from nnc_func.graph.rules.rule import Rule
from nnc_func.testing.proofs.parameters import Unknowns, parameter
from nnc_func.testing.proofs.paths import Paths, PathsExhausted, Untranslatable, Whole
from nnc_func.testing.proofs.tensors import Fill, Leaf, Symbol, applied

REFUSALS = (ShapeError, DTypeError, OperatorError)  # with these a driver lets a rule not fire
NUMBERS = (bool, int, float, complex)


@frozen
class Given:
    """From what leaves and parameters are taken.

    Attributes
    ----------
    ranks, dtypes
        Of leaves.
    one_each
        Instead of `dtypes`: that of each leaf, and of each parameter that is one.
    choices
        What is chosen besides dtypes, if it is not to be every option: as they were before.
    """

    ranks: Sequence[int]
    dtypes: Sequence[str] = ()
    one_each: Sequence[str] | None = None
    choices: Sequence[Any] | None = None


class Drawn(Unknowns):
    """Unknowns of the paths of a proof; what was chosen is remembered, so that it can be replayed.

    Attributes
    ----------
    choices, numbers, taken, symbols
        What was chosen; unknown numbers; dtypes; symbols: each in the order in which it was asked for.
    """

    def __init__(self, paths: Paths, given: Given, coupled: list[str]) -> None:
        self.paths, self.ranks, self.given, self.coupled = paths, given.ranks, given, coupled
        self.choices: list[Any] = []
        self.numbers: list[Any] = []
        self.taken: list[str] = []
        self.symbols: list[Symbol] = []

    def choose(self, options: Sequence[Any]) -> Any:
        """One of some options."""
        made = self.given.choices
        if made is not None and len(self.choices) >= len(made):
            raise Untranslatable("what there is to choose depends on dtypes")
        self.choices.append(self.paths.choose(options) if made is None else made[len(self.choices)])
        return self.choices[-1]

    def fresh(self, name: str, least: int | None = 0) -> Any:
        """An unknown whole number."""
        self.numbers.append(self.paths.fresh(name, least))
        return self.numbers[-1]

    def dtype(self) -> Any:
        """An unknown dtype."""
        one_each = self.given.one_each
        self.taken.append(self.paths.choose(self.given.dtypes) if one_each is None else one_each[len(self.taken)])
        return np.dtype(self.taken[-1])

    def symbol(self, name: str, dtype: Any) -> Any:
        """An unknown number of that dtype."""
        self.symbols.append(Symbol(f"{name}{len(self.symbols)}", dtype))
        return self.symbols[-1]


@frozen(eq=False)
class Scenario:
    """Both sides of a rule that fires.

    Attributes
    ----------
    left, right
        Tensors.
    leaves
        Those of the left side, in its order.
    dropped
        Conditions that could not be asked.
    unknown
        Why there is no right side, where what the rule computes for it cannot be followed.
    """

    left: Any
    right: Any
    leaves: tuple[Any, ...]
    dropped: tuple[str, ...] = ()
    unknown: str = ""


class Seen:
    """A tensor as a rule's functions see it, which notes what they ask of it."""

    def __init__(self, tensor: Any, asked: set[str]) -> None:
        self._tensor, self._asked = tensor, asked

    @property
    def shape(self) -> Any:
        """Its shape."""
        self._asked.add("shape")
        return self._tensor.shape

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        self._asked.add("dtype")
        return self._tensor.dtype

    @property
    def aval(self) -> Any:
        """Both, to be compared."""
        return SeenAval(self._tensor.shape, self._tensor.dtype, self._asked)

    @property
    def node(self) -> Any:
        """There is none."""
        raise Untranslatable("it looks at nodes")


@frozen(eq=False)
class SeenAval:
    """An aval as a rule's functions see it. Layout and place are those of the device."""

    _shape: Any
    _dtype: Any
    _asked: set[str]
    layout: Any = None
    place: Any = None

    @property
    def shape(self) -> Any:
        """Its shape."""
        self._asked.add("shape")
        return self._shape

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        self._asked.add("dtype")
        return self._dtype

    @property
    def size(self) -> Any:
        """Number of elements."""
        return product(self.shape)

    @property
    def ndim(self) -> int:
        """Rank."""
        return len(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SeenAval):
            return False
        self._asked.add("aval")
        equal = bool(self._dtype == other._dtype and self._shape == other._shape)
        if not equal:
            self._asked.add("unequal")
        return equal

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


class NoFiring(Exception):  # noqa: N818 - no fault
    """The rule does not fire, or its left side does not exist."""


def scenario(rule: Rule, unknowns: Unknowns) -> Scenario:
    """Both sides, of leaves and parameters that are taken from there.

    Raises
    ------
    NoFiring
        The left side does not exist, a condition does not hold, or the right side is refused when it is built.
    Untranslatable
        The left side cannot be modelled.
    """
    built = _Built(rule, unknowns)
    try:
        left = built.left(rule.lhs)
    except REFUSALS as error:
        raise NoFiring(str(error)) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise Untranslatable(f"the left side: {error}") from None
    dropped = [c.text for c in rule.conditions if not c.of_result and not built.asks(c)]
    try:
        built.made = built.right(rule.rhs, ())
    except REFUSALS as error:
        raise NoFiring(str(error)) from None
    except Untranslatable as error:
        return Scenario(left, None, tuple(built.leaves), tuple(dropped), str(error))
    dropped += [c.text for c in rule.conditions if c.of_result and not built.asks(c)]
    return Scenario(left, built.made, tuple(built.leaves), tuple(dropped))


class _Built:
    """What the parts of a rule stand for."""

    def __init__(self, rule: Rule, unknowns: Unknowns) -> None:
        self.rule, self.unknowns = rule, unknowns
        self.found: dict[int, Any] = {}
        self.leaves: list[Any] = []
        self.made: Any = None
        self.asked: set[str] = set()  # by the function of the rule's that is being run
        self.either = bool(rule.numerics)

    def __getitem__(self, part: Any) -> Any:
        """What a part stands for, as a condition asks it."""
        found = self.made if part is self.rule.rhs and id(part) not in self.found else self.found[id(part)]
        if isinstance(part, Scalar):
            return found.value
        if isinstance(part, Param):
            self.asked |= {"dtype"} if isinstance(found, np.dtype) else set()
            return found
        return Seen(found, self.asked)

    def users(self, value: Any) -> int:
        """Nobody is known to use it."""
        raise Untranslatable("it asks who uses a value")

    # --- the left side --------------------------------------------------------------------------------------

    def left(self, part: Any) -> Any:
        """A part of the left side."""
        if id(part) in self.found:
            return self.found[id(part)]
        if isinstance(part, Apply):
            args = [self.left(a) for a in part.args]
            params = {name: self._bound(part.op, name, value, args) for name, value in part.params}
            value = applied(part.op, args, params)
        else:
            value = self._leaf(part)
            self.leaves.append(value)
        self.found[id(part)] = value
        return value

    def _bound(self, op: Any, name: str, value: Any, args: Sequence[Any]) -> Any:
        if not isinstance(value, Param):
            return value
        if id(value) not in self.found:
            self.found[id(value)] = _canonical(op, name, parameter(op, name, self.unknowns, args))
        return self.found[id(value)]

    def _leaf(self, part: Any) -> Any:
        dtype = self.unknowns.dtype()
        name = getattr(part, "name", "number")
        if isinstance(part, Nonnegative) and dtype.kind != "f":
            raise NoFiring("only floats are known to be not below zero")
        if isinstance(part, Full) and not _holds(part.value, dtype, self.either):
            raise NoFiring(f"{dtype} has no {part.value}")
        if isinstance(part, Scalar) and dtype.kind == "c":
            raise NoFiring("it is a real number")
        shape = tuple(self.unknowns.fresh(name) for _ in range(self.unknowns.choose(self.unknowns.ranks)))
        if isinstance(part, Full):
            return Fill(part.value, shape, dtype)
        if isinstance(part, Scalar):
            return Fill(self.unknowns.symbol(name, dtype), shape, dtype)
        if isinstance(part, (Variable, Constant, Nonnegative)):
            return Leaf(name, shape, dtype, isinstance(part, Nonnegative))
        raise Untranslatable(f"{part} is no variable that is modelled")

    # --- conditions and the right side ----------------------------------------------------------------------

    def asks(self, condition: Condition) -> bool:
        """Whether it could be asked; raises NoFiring where it does not hold."""
        if condition.kind == PROFIT:
            return True
        self.asked.clear()
        try:
            holds = bool(condition.holds(self))
        except (NoFiring, PathsExhausted):
            raise
        except REFUSALS as error:
            raise NoFiring(str(error)) from None
        except Exception:  # whatever a rule's function does with what it is not made for
            return False
        self._note(condition.text, holds)
        if not holds:
            raise NoFiring(condition.text)
        return True

    def _note(self, what: str, holds: bool = True) -> None:
        """Note what asks of dtypes and of shapes at once: then neither can be proved by itself.

        That both together are equal is as much as that each is; that they differ, or are equal beside something else
        that is asked, is not.
        """
        if len(self.asked - {"unequal"}) > 1 or ("unequal" in self.asked and holds):
            self.unknowns.coupled.append(what)

    def right(self, part: Any, beside: Sequence[Any]) -> Any:
        """A part of the right side; a number takes the dtype that promotion gives it beside the other operands."""
        if isinstance(part, Full):
            return self._lifted(part.value, beside)
        if isinstance(part, Computed):
            return self._lifted(self._computed(part), beside)
        if isinstance(part, Folded):
            return self.right(part.part, beside)
        if id(part) in self.found:
            return self.found[id(part)]
        args: list[Any] = [None if isinstance(a, (Full, Computed)) else self.right(a, ()) for a in part.args]
        known = [a.dtype for a in args if a is not None]
        args = [self.right(p, known) if a is None else a for a, p in zip(args, part.args, strict=True)]
        params = {name: self._value(value) for name, value in part.params}
        return applied(part.op, args, params)

    def _value(self, value: Any) -> Any:
        if isinstance(value, Computed):
            return self._computed(value)
        return self[value] if id(value) in self.found else value

    def _computed(self, part: Computed) -> Any:
        self.asked.clear()
        try:
            found = part.function(*(self._value(v) for v in part.of))
        except (Untranslatable, PathsExhausted, *REFUSALS):
            raise
        except Exception as error:  # whatever a rule's function does with what it is not made for
            raise Untranslatable(f"{part}: {error}") from None
        self._note(str(part))
        return found

    def _lifted(self, value: Any, beside: Sequence[Any]) -> Any:
        if type(value) in NUMBERS:
            return Fill(value, (), weak(value, beside))
        raise Untranslatable(f"{value!r} as an operand is not modelled")


def _canonical(op: Any, name: str, value: Any) -> Any:
    """A parameter as the operator takes it; raises NoFiring where it takes no such one."""
    if not isinstance(value, Whole) and isinstance(value, (int, bool, str)):
        try:
            return op.converters[name](value)
        except (TypeError, ValueError) as error:
            raise NoFiring(str(error)) from None
    return value


def _holds(value: Any, dtype: Any, either: bool) -> bool:
    """Whether a constant of that dtype may be that number, as a rule matches it."""
    if isinstance(value, complex) or dtype.kind == "c":
        return False
    with np.errstate(all="ignore"):
        held = np.asarray(value).astype(dtype).item()
    return is_number(held, value, either)
