"""What a corpus is made of: rules, each with what it is about and an example on which both sides are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from nnc_func.graph.rules.conditions import Condition, that
from nnc_func.graph.rules.pattern import computed
from nnc_func.graph.rules.rule import Rule


@frozen
class Case:
    """A rule, its subject, and an example: an array for each variable, a number for a `Scalar`, what a `Param` is.

    Of an unsound rule the example is its witness: one on which both sides differ.
    """

    rule: Rule
    subject: str
    example: Mapping[str, Any]

    def __str__(self) -> str:
        return self.rule.name


@frozen
class Corpus:
    """Cases in their order; `case` adds the rule that it decorates."""

    cases: list[Case] = field(factory=list)

    def case(self, subject: str, **example: Any) -> Callable[[Rule], Rule]:
        """Add a rule with an example."""

        def add(rule: Rule) -> Rule:
            self.cases.append(Case(rule, subject, example))
            return rule

        return add


def whole(*of: Any) -> Condition:
    """They are all made of integers of 64 bits, which sums do not widen."""
    names = " and ".join(map(str, of))
    return that(lambda *xs: all(x.dtype.name == "int64" for x in xs), *of, says=f"{names} are of int64")


def of_rank(rank: int, *of: Any) -> Condition:
    """They all have so many axes."""
    names = " and ".join(map(str, of))
    return that(lambda *xs: all(len(x.shape) == rank for x in xs), *of, says=f"{names} have {rank} axes")


def integers(*of: Any, width: int = 8) -> Condition:
    """They are all made of integers of at most so many bytes, no booleans."""

    def holds(*xs: Any) -> bool:
        return all(x.dtype.kind in "iu" and x.dtype.itemsize <= width for x in xs)

    return that(holds, *of, says=f"{' and '.join(map(str, of))} are integers of at most {8 * width} bits")


def cubic(x: Any) -> Condition:
    """All its extents are equal: a square, a cube."""
    return that(lambda x: len(set(x.shape)) == 1, x, says=f"all extents of {x} are equal")


@computed
def number(c: Any) -> Any:
    """A constant as a number, of no shape and of the dtype that it meets."""
    return c
