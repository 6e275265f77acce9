"""Place rules: from the places of an operator's arguments to that of its results.

A place is one of the memories of a device, by its name (`nnc_func.device.places`); None is the device's own, or the
first that it has. Operands in different places are refused: what moves between them is the operator `transfer`.
"""

from __future__ import annotations

from typing import Any

from nnc_func.errors import PlaceError

Place = str | None
OWN = "the device's own place"


def named(place: Place) -> str:
    """A place, as messages name it.

    Examples
    --------
    >>> named("gpu"), named(None)
    ("place 'gpu'", "the device's own place")
    """
    return OWN if place is None else f"place {place!r}"


def settled(place: Place, known: tuple[str, ...]) -> Place:
    """A place as avals name it: None for the first of those known.

    Raises
    ------
    PlaceError
        It is not among them.

    Examples
    --------
    >>> settled("host", ("host", "gpu")), settled("gpu", ("host", "gpu"))
    (None, 'gpu')
    """
    if place is None or (known and place == known[0]):
        return None
    if place in known:
        return place
    have = f"its places are {', '.join(map(repr, known))}" if known else "it has one place, its own, without a name"
    raise PlaceError(f"the device has no place {place!r}: {have}; compose one that has: Places(host=..., gpu=...)")


def common(places: tuple[Place, ...], /, **_: Any) -> Place:
    """The one place in which all arguments are; the device's own for an operator without arguments.

    Raises
    ------
    PlaceError
        They are in different ones.
    """
    if not places:
        return None
    first = places[0]
    if any(p != first for p in places):
        raise PlaceError(f"its operands are in different places: {', '.join(map(named, places))}; {ADVICE}")
    return first


def given(places: tuple[Place, ...], /, *, place: Place, **_: Any) -> Place:
    """That of the parameter ``place``."""
    return place


ADVICE = "bring them together with transfer(x, place=...)"
