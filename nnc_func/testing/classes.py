"""Classes of draws: what a graph for a rule is drawn like, before anything of it is drawn.

A class is a point of a cube: which rule of a family, which dtypes, what rank, how extents go together, what elements.
The points of one row (multiples of irrational numbers) fill the cube evenly, so that every class is met soon, and every
two properties together almost as soon (Kronecker's sequence).
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

Shape = tuple[int, ...]
Choose = Callable[[int], int]

RANKS = (0, 1, 2, 3, 4)
RELATIONS = ("equal", "one", "zero", "prime", "square", "wide")
PRIMES = (2, 3, 5, 7)
WIDE = (9, 17, 40, 64)
COORDINATES = 7  # rule, whether dtypes are mixed, which, relation, rank, regime, seed of elements
SEED = 6  # the place of the last of them
FORM = (3, 4)  # the places of those that extents depend on
_STEPS = tuple(p**0.5 % 1 for p in (2, 3, 5, 7, 11, 13, 17))


def point(number: int) -> tuple[float, ...]:
    """A point of the cube; the first is where everything is simplest.

    Examples
    --------
    >>> point(0), [round(x, 2) for x in point(1)]
    ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), [0.41, 0.73, 0.24, 0.65, 0.32, 0.61, 0.12])
    """
    return tuple(number * step % 1 for step in _STEPS)


@frozen
class Relation:
    """How the extents of a graph go together.

    Attributes
    ----------
    name
        One of `RELATIONS`.
    rank
        Of operands whose rank is open.
    """

    name: str
    rank: int

    @property
    def broadcasts(self) -> bool:
        """Whether operands may be of smaller shapes."""
        return self.name not in ("equal", "square")

    def shape(self, choose: Choose) -> Shape:
        """A shape of that rank.

        Examples
        --------
        >>> Relation("square", 2).shape(lambda count: 1)
        (3, 3)
        """
        rank = self.rank
        if self.name == "square":
            return (2 + choose(2),) * rank
        if self.name == "prime":
            left = list(PRIMES)
            found = [left.pop(choose(len(left))) for _ in range(rank)]
        else:
            found = [(1, 2, 3)[choose(3)] for _ in range(rank)]
        options = {"one": (1,), "zero": (0,), "wide": WIDE if rank < 3 else WIDE[:2]}.get(self.name)
        if rank and options:
            found[choose(rank)] = options[choose(len(options))]
        return tuple(found)

    def extent(self, choose: Choose) -> int:
        """One extent, of a shape that something else decides."""
        if self.name == "square":
            return 3
        if self.name == "wide" and not choose(3):
            return WIDE[choose(len(WIDE))]
        if self.name == "zero" and not choose(6):
            return 0
        return (1, 2, 3, 4, 5, 7)[choose(6)]
