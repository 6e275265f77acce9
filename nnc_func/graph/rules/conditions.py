"""Side conditions of rules: data, so that each can be printed, tested and taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.shapes import broadcast

SOUNDNESS, PROFIT = "soundness", "profit"


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

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def same_aval(x: Any, y: Any) -> Condition:
    """They have one shape and dtype."""
    return Condition(lambda m: m[x].aval == m[y].aval, f"{x} and {y} have one shape and dtype")


def same_dtype(x: Any, y: Any) -> Condition:
    """They have one dtype."""
    return Condition(lambda m: m[x].dtype == m[y].dtype, f"{x} and {y} have one dtype")


def same_shape(x: Any, y: Any) -> Condition:
    """They have one shape."""
    return Condition(lambda m: m[x].shape == m[y].shape, f"{x} and {y} have one shape")


def floating(x: Any) -> Condition:
    """Its dtype is a real floating one."""
    return Condition(lambda m: kind_of(m[x].dtype) == "f", f"{x} is floating")


def real(x: Any) -> Condition:
    """Its dtype is not complex."""
    return Condition(lambda m: m[x].dtype.kind != "c", f"{x} is not complex")


def discrete(x: Any) -> Condition:
    """Integers or booleans: there is neither NaN, nor infinity, nor a signed zero."""
    return Condition(lambda m: m[x].dtype.kind in "biu", f"{x} is made of integers or booleans")


def of_kinds(x: Any, kinds: str) -> Condition:
    """Its dtype is of one of these kinds, as a `Law` tells them."""
    return Condition(lambda m: kind_of(m[x].dtype) in kinds, f"{x} is of a kind in {kinds}")


def alike(*of: Any, kinds: str) -> Condition:
    """They have one dtype, of one of these kinds, as a `Law` tells them."""

    def holds(m: Any) -> bool:
        first, *others = (m[x].dtype for x in of)
        return kind_of(first) in kinds and all(d == first for d in others)

    return Condition(holds, f"{', '.join(map(str, of))} have one dtype, of a kind in {kinds}")


def no_larger(x: Any, y: Any) -> Condition:
    """The first has at most as many elements as the second, as far as that is known."""

    def holds(m: Any) -> bool:
        one, other = m[x].aval.size, m[y].aval.size
        return m[x].shape == m[y].shape or (known(one) and known(other) and one <= other)

    return Condition(holds, f"{x} is no larger than {y}", PROFIT)


def broadcasts(x: Any, y: Any, *, to: Any) -> Condition:
    """Together their shapes broadcast to a third, by extents that are known."""

    def holds(m: Any) -> bool:
        try:
            return bool(broadcast(m[x].shape, m[y].shape) == m[to].shape)
        except ShapeError:
            return False

    return Condition(holds, f"{x} and {y} broadcast to the shape of {to}")


def used_once(x: Any) -> Condition:
    """Only the match uses it, so that it need not be computed any more."""
    return Condition(lambda m: m.users(m[x]) == 1, f"only this uses {x}", PROFIT)


def that(predicate: Callable[..., bool], *of: Any, says: str = "", kind: str = SOUNDNESS) -> Condition:
    """Whatever a plain function says of what these patterns match."""
    text = says or f"{predicate.__name__.replace('_', ' ').strip()}({', '.join(map(str, of))})"
    return Condition(lambda m: bool(predicate(*(m[p] for p in of))), text, kind)
