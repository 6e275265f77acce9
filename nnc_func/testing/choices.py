"""Choices: what is drawn is a function of a row of whole numbers, so it can be drawn again, and made smaller.

Hypothesis draws and shrinks alike, but a draw of it costs many times what a small graph does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from attrs import frozen

from nnc_func.testing.classes import FORM, SEED, point

T = TypeVar("T")
ATTEMPTS = 600  # at making a thing smaller


class Choices:
    """A source of whole numbers: given ones first, then drawn ones, or zeros where there is no randomness.

    A number that is given as a share, from 0.0 to below 1.0, stands for that part of whatever count is asked for.

    Attributes
    ----------
    taken
        What was chosen so far.

    Examples
    --------
    >>> choices = Choices((2, 9))
    >>> choices(4), choices(4), choices(4), choices.taken
    (2, 3, 0, [2, 3, 0])
    """

    def __init__(self, given: Sequence[float] = (), random: Random | None = None) -> None:
        self.given = given
        self.random = random
        self.taken: list[int] = []

    def __call__(self, count: int) -> int:
        """A number from zero to below `count`; the least is the simplest."""
        place = len(self.taken)
        if place < len(self.given):
            given = self.given[place]
            found = int(given * count) if type(given) is float else min(int(given), count - 1)
        else:
            found = int(self.random.random() * count) if self.random is not None else 0
        self.taken.append(found)
        return found


@frozen
class Found(Generic[T]):
    """Something that was looked for.

    Attributes
    ----------
    value
        What it is.
    size
        How large it is: smaller ones are preferred.
    choices
        What it was made of.
    """

    value: T
    size: tuple[Any, ...]
    choices: tuple[int, ...]


Test = Callable[[Choices], tuple[T, tuple[Any, ...]] | None]


def met(test: Test[T], choices: Choices) -> Found[T] | None:
    """What the test finds of these choices."""
    found = test(choices)
    return None if found is None else Found(found[0], found[1], tuple(choices.taken))


def search(test: Test[T], examples: int, seed: int = 0) -> Found[T] | None:
    """The first that a test finds in so many draws; the simplest choices, all zeros, come first.

    Parameters
    ----------
    test
        Is given choices; gives what it made of them and its size where that is looked for, else None.
    seed
        Another one, and other draws; the first choices are spread evenly each time.

    Examples
    --------
    >>> found = search(lambda choose: ("large", ()) if choose(100) > 90 else None, 1000)
    >>> found.value, shrunk(lambda choose: ("large", ()) if choose(100) > 90 else None, found).choices
    ('large', (91,))
    """
    for i in range(examples):
        found = met(test, spread(i, seed))
        if found is not None:
            return found
    return None


def spread(number: int, seed: int = 0) -> Choices:
    """The choices of one of many draws: the first few fill what there is to choose from evenly, the others are random.

    Examples
    --------
    >>> [spread(n)(10) for n in range(6)]
    [0, 4, 8, 2, 6, 0]
    """
    return Choices(point(number + seed), Random(seed * 1_000_003 + number) if number else None)


def shrunk(test: Test[T], found: Found[T], attempts: int = ATTEMPTS) -> Found[T]:
    """The smallest that is met on the way from one to simpler ones, by leaving out and lowering choices."""
    left = attempts
    better = True
    while better and left > 0:
        better = False
        for given in _simpler(found.choices):
            if left <= 0:
                break
            left -= 1
            smaller = met(test, Choices(given))
            if smaller is not None and _rank(smaller) < _rank(found):
                found, better = smaller, True
                break
    return found


def _rank(found: Found[Any]) -> Any:
    return (found.size, len(found.choices), found.choices)


def _simpler(choices: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Simpler rows, the boldest first."""
    length = len(choices)
    for keep in (0, length // 4, length // 2, 3 * length // 4):
        yield choices[:keep]
    for width in (8, 4, 2, 1):
        for start in range(0, length - width + 1, max(1, width // 2)):
            yield choices[:start] + choices[start + width :]
            if any(choices[start : start + width]):
                yield (*choices[:start], *(0,) * width, *choices[start + width :])
    for i, chosen in enumerate(choices):
        for lower in dict.fromkeys((chosen // 2, chosen - 1)):
            if 0 < lower < chosen:
                yield (*choices[:i], lower, *choices[i + 1 :])


def elsewhere(given: Sequence[float], random: Random) -> list[float]:
    """The same choices for other elements, mostly of another regime.

    Examples
    --------
    >>> found = elsewhere((0, 1, 2, 3, 4, 5, 6, 7, 8), Random(1))
    >>> found[:5], found[SEED + 1 :], type(found[SEED])
    ([0, 1, 2, 3, 4], [7, 8], <class 'float'>)
    """
    found: list[float] = list(given)
    found[SEED] = random.random()
    if random.random() < 0.75:
        found[SEED - 1] = random.random()
    return found


def beside(given: Sequence[float], random: Random) -> list[float]:
    """Choices of a graph that is a little different, and of other elements and dtypes.

    Examples
    --------
    >>> found = beside((1, 0, 0, 2, 3, 0, 0, 1, 2, 3, 4), Random(1))
    >>> found[0], [i for i, n in enumerate(found[SEED + 1 :]) if type(n) is float]
    (1, [1])
    """
    found = elsewhere(given, random)
    if random.random() < 0.5:
        found[1], found[2] = random.random(), random.random()
    places = [*FORM, *range(SEED + 1, len(found))]
    for _ in range(1 + (random.random() < 0.25)):
        found[random.choice(places)] = random.random()
    return found[: random.randint(SEED + 1, len(found))] if random.random() < 0.2 else found
