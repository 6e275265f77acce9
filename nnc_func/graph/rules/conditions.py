"""Side conditions of rules: data, so that each can be printed, tested and taken away."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from attrs import frozen

from nnc_func.errors import RuleError, ShapeError
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.shapes import broadcast
from nnc_func.graph.rules.pattern import Computed, Pattern

SOUNDNESS, PROFIT = "soundness", "profit"
USERS = "users"  # beside parts of a pattern: the function that tells how often a value is used


@frozen(eq=False, repr=False)
class Condition:
    """What must hold of a match for the rule to fire.

    Attributes
    ----------
    holds
        ``holds(match)``; ``match[pattern]`` is a graph value, of a `Scalar` a Python number, of a `Param` its value.
    text
        How it prints.
    kind
        ``"soundness"``: without it a value, a shape or a dtype may change. ``"profit"``: without it only work may be
        repeated or memory lost.
    of_result
        It speaks of the right side, too, which is made before it is asked: ``match[rhs]``.
    narrows
        ``narrows(classes)``: whether it may hold of operands so far as ``classes.get(pattern)`` knows them: by a dtype,
        and a shape, which is None before it is drawn. So the test kit draws what fulfils it, rather than leave out
        what does not; None where it asks for more than that.

    Examples
    --------
    >>> from nnc_func.graph.rules.pattern import Tensor
    >>> floating(Tensor("x"))
    x is floating
    """

    holds: Callable[[Any], bool]
    text: str
    kind: str = SOUNDNESS
    of_result: bool = False
    narrows: Callable[[Any], bool] | None = None

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def checked(given: Any) -> Condition:
    """What stands in ``when``, if it is a condition.

    Raises
    ------
    RuleError
        It is none.

    Examples
    --------
    >>> from nnc_func.graph.rules.pattern import Tensor
    >>> checked(floating(Tensor("x")))
    x is floating
    """
    if not isinstance(given, Condition):
        raise RuleError(f"when() takes conditions, as those of nnc_func.graph.rules.conditions; given {given!r}")
    return given


def check_parts(name: str, conditions: Iterable[Condition], right: Iterable[Any], bound: Container[int]) -> None:
    """Raise where a rule asks about a pattern that its left side does not have: what is written twice is two.

    Parameters
    ----------
    name
        Of the rule.
    right
        The parts of its right side.
    bound
        Identities of the parts of its left side.

    Raises
    ------
    RuleError
        Names the pattern, and where it is asked about.
    """
    asked = [(c, c.holds.of) for c in conditions if isinstance(c.holds, Asked) and not c.of_result]
    computed = [(part, part.of) for part in right if isinstance(part, Computed)]
    for by, of in (*asked, *computed):
        for part in of:
            if isinstance(part, Pattern) and id(part) not in bound:
                what = f"the condition '{by}'" if isinstance(by, Condition) else f"{by} on the right side"
                raise RuleError(
                    f"rule {name}: {what} is about {part}, which is no part of the left side; what is written anew is "
                    "another pattern: give it a name, and use the name in both places"
                )


@frozen(eq=False)
class Asked:
    """``holds`` of a condition that asks a plain function of what some parts match.

    Attributes
    ----------
    test
        The function.
    of
        The parts that it is given; where one of them is `USERS`, it is given the function that counts uses.
    """

    test: Callable[..., Any]
    of: tuple[Any, ...]

    def __call__(self, match: Any) -> bool:
        """Whether it holds of the match."""
        return bool(self.test(*[match.users if p is USERS else match[p] for p in self.of]))


@frozen(eq=False)
class Narrowing:
    """``narrows`` of a condition that asks a plain function of what is known of some parts.

    Attributes
    ----------
    test
        The function.
    of
        The parts that it is given; it may hold where one of them is not known.
    """

    test: Callable[..., Any]
    of: tuple[Any, ...]

    def __call__(self, classes: Any) -> bool:
        """Whether it may hold."""
        known_ = [classes.get(p) for p in self.of]
        return None in known_ or bool(self.test(*known_))


def asking(
    test: Callable[..., Any],
    of: tuple[Any, ...],
    text: str,
    kind: str = SOUNDNESS,
    narrows: Callable[..., Any] | None = None,
) -> Condition:
    """A plain function holds of what these parts match; another one may tell of their dtypes and shapes that it cannot.

    Examples
    --------
    >>> from nnc_func.graph.rules.pattern import Tensor
    >>> asking(lambda users, x: users(x) == 2, (USERS, Tensor("x")), "two use x", PROFIT)
    two use x
    """
    return Condition(Asked(test, of), text, kind, narrows=None if narrows is None else Narrowing(narrows, of))


def _same(x: Any, y: Any) -> bool:
    return bool(x.dtype == y.dtype) and _alike(x, y)


def _alike(x: Any, y: Any) -> bool:
    """Whether shapes are equal, as far as they are known."""
    return x.shape is None or y.shape is None or bool(x.shape == y.shape)


def of_dtypes(test: Callable[..., Any], of: tuple[Any, ...], text: str) -> Condition:
    """A plain function, which looks at dtypes alone, holds of what these parts match."""
    return asking(test, of, text, narrows=test)


def same_aval(x: Any, y: Any) -> Condition:
    """They have one shape and dtype."""
    return asking(lambda x, y: x.aval == y.aval, (x, y), f"{x} and {y} have one shape and dtype", narrows=_same)


def same_dtype(x: Any, y: Any) -> Condition:
    """They have one dtype."""
    return of_dtypes(lambda x, y: x.dtype == y.dtype, (x, y), f"{x} and {y} have one dtype")


def same_shape(x: Any, y: Any) -> Condition:
    """They have one shape."""
    return asking(lambda x, y: x.shape == y.shape, (x, y), f"{x} and {y} have one shape", narrows=_alike)


def floating(x: Any) -> Condition:
    """Its dtype is a real floating one."""
    return of_dtypes(lambda x: kind_of(x.dtype) == "f", (x,), f"{x} is floating")


def real(x: Any) -> Condition:
    """Its dtype is not complex."""
    return of_dtypes(lambda x: x.dtype.kind != "c", (x,), f"{x} is not complex")


def discrete(x: Any) -> Condition:
    """Integers or booleans: there is neither NaN, nor infinity, nor a signed zero."""
    return of_dtypes(lambda x: x.dtype.kind in "biu", (x,), f"{x} is made of integers or booleans")


def of_kinds(x: Any, kinds: str) -> Condition:
    """Its dtype is of one of these kinds, as a `Law` tells them."""
    return of_dtypes(lambda x: kind_of(x.dtype) in kinds, (x,), f"{x} is of a kind in {kinds}")


def alike(*of: Any, kinds: str) -> Condition:
    """They have one dtype, of one of these kinds, as a `Law` tells them."""

    def holds(*values: Any) -> bool:
        first, *others = (x.dtype for x in values)
        return kind_of(first) in kinds and all(d == first for d in others)

    return of_dtypes(holds, of, f"{', '.join(map(str, of))} have one dtype, of a kind in {kinds}")


def no_larger(x: Any, y: Any) -> Condition:
    """The first has at most as many elements as the second, as far as that is known."""

    def holds(x: Any, y: Any) -> bool:
        one, other = x.aval.size, y.aval.size
        return x.shape == y.shape or (known(one) and known(other) and one <= other)

    return asking(holds, (x, y), f"{x} is no larger than {y}", PROFIT)


def broadcasts(x: Any, y: Any, *, to: Any) -> Condition:
    """Together their shapes broadcast to a third, by extents that are known."""

    def holds(x: Any, y: Any, to: Any) -> bool:
        try:
            return bool(broadcast(x.shape, y.shape) == to.shape)
        except ShapeError:
            return False

    def may(*values: Any) -> bool:
        return any(v.shape is None for v in values) or holds(*values)

    return asking(holds, (x, y, to), f"{x} and {y} broadcast to the shape of {to}", narrows=may)


def used_once(x: Any) -> Condition:
    """Only the match uses it, so that it need not be computed any more."""
    return asking(_is_used_once, (USERS, x), f"only this uses {x}", PROFIT)


def _is_used_once(users: Any, x: Any) -> bool:
    return bool(users(x) == 1)


def that(
    predicate: Callable[..., bool],
    *of: Any,
    says: str = "",
    kind: str = SOUNDNESS,
    narrows: Callable[..., bool] | None = None,
) -> Condition:
    """Whatever a plain function says of what these patterns match.

    Parameters
    ----------
    predicate
        Is given what each pattern matches.
    says
        How the condition prints.
    narrows
        Is given what is known of each pattern before there is a graph, ``dtype`` and ``shape`` (None while it is not
        drawn): false where the predicate cannot hold. Without it the test kit draws, and leaves out what does not fit.

    Examples
    --------
    >>> from nnc_func.graph.rules.pattern import Tensor
    >>> that(lambda x: x.dtype == "int8", Tensor("x"), says="x has one byte", narrows=lambda x: x.dtype == "int8")
    x has one byte
    """
    text = says or f"{predicate.__name__.replace('_', ' ').strip()}({', '.join(map(str, of))})"
    return asking(predicate, of, text, kind, narrows)
