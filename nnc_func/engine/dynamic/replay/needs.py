"""What is to be computed of a sequence that ends, and recorded: what is held, and what gradients may flow through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from nnc_func.engine.dynamic.replay.places import Gradients, Place

READS = dict[Place, tuple[int, ...]]


@frozen(eq=False)
class Needs:
    """What is to be computed, as if each operator had been when it was applied, and dropped since.

    Attributes
    ----------
    outputs
        Numbers of results that are values from now on.
    recorded
        Places whose applications are recorded: something that they were made of is held, and something made of them.
    leaves
        Numbers of those that take gradients and are made of nothing that is held.
    """

    outputs: tuple[int, ...]
    recorded: tuple[Place, ...]
    leaves: frozenset[int]


def needs(path: Sequence[Place], held: Sequence[Any], above: Sequence[Any], reads: READS) -> Needs:
    """What is needed of a sequence.

    Parameters
    ----------
    held
        For each result whether a tensor holds it.
    above
        For each value from outside whether it takes gradients and is held by others too, or made of what is.
    reads
        Of gradients the numbers of the values that they read, where these are known: all that they were asked of is
        assumed where they are not.

    Examples
    --------
    >>> place = Place(None, None, None)
    >>> needs([], [], [], {}).outputs
    ()
    """
    count = path[-1].first + len(path[-1].avals) if path else 0
    reaches, takes = [False] * count, [False] * count
    for place in path:
        up = place.records and any(
            above[-1 - n] if n < 0 else reaches[n] or (bool(held[n]) and takes[n]) for n in _numbers(place, reads)
        )
        for n, recorded in enumerate(place.recorded, place.first):
            takes[n], reaches[n] = recorded, up and recorded
    wanted = [bool(each) for each in held]
    outputs = {n for n, each in enumerate(wanted) if each}
    kept: list[Place] = []
    for place in reversed(path):
        results = range(place.first, place.first + len(place.avals))
        if any(reaches[n] and wanted[n] for n in results):
            kept.append(place)
            outputs.update(results)
            for n in _numbers(place, reads):
                if n >= 0:
                    outputs.add(n)
                    wanted[n] = True
    leaves = frozenset([n for n in outputs if takes[n] and not reaches[n]])
    return Needs(tuple(sorted(outputs)), tuple(reversed(kept)), leaves)


def _numbers(place: Place, reads: READS) -> list[int]:
    if type(place.op) is Gradients and place in reads:
        return list(reads[place])
    return [n for n in place.operands if type(n) is int]


def ancestors(path: Sequence[Place], outputs: Sequence[int]) -> set[Place]:
    """The places that are computed for the sake of some results."""
    wanted, found = {*outputs}, set[Place]()
    for place in reversed(path):
        if not wanted.isdisjoint(range(place.first, place.first + len(place.avals))):
            found.add(place)
            wanted.update([n for n in place.operands if type(n) is int])
    return found
