"""Copies of what variables have, for the times of a loop: what is one container stays one, and each leaf is another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from nnc_func.control_flow.conversion.values import Rows
from nnc_func.tree import flatten, sorted_keys


class Copies:
    """Copies for one time of a loop.

    Parameters
    ----------
    replaced
        Gives for each leaf, in the order of `flatten`, what stands for it in the copy.
    parted
        Numbers of containers, see `id`, that are another one in each place: at later times they are.

    Attributes
    ----------
    originals
        Of each copy of a container, by identity: it, and what it is a copy of.
    """

    def __init__(self, replaced: Callable[[Any], Any], parted: Collection[int] = ()) -> None:
        self._replaced, self._parted = replaced, parted
        self.originals: dict[int, tuple[Any, Any]] = {}
        self._copies: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """The copy of a value."""
        if id(value) in self._copies and id(value) not in self._parted:
            for leaf in flatten(value.segments if type(value) is Rows else value)[0]:
                self._replaced(leaf)
            return self._copies[id(value)]
        kind = type(value)
        made: Any
        if kind is Rows:
            made = Rows(value.stack, [], value.open)
            made.segments[:] = [(self._replaced(name), self.of(tree)) for name, tree in value.segments]
        elif kind is list:
            made = [self.of(part) for part in value]
        elif kind is dict:
            named = {key: self.of(value[key]) for key in sorted_keys(value)}
            made = {key: named[key] for key in value}
        elif isinstance(value, tuple):
            parts = [self.of(part) for part in value]
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        else:
            leaves, structure = flatten(value)
            return self._replaced(value) if structure.kind == "leaf" else structure.build(list(map(self.of, leaves)))
        self._copies[id(value)] = made
        self.originals[id(made)] = (made, value)
        return made

    def original(self, made: Any) -> Any:
        """What something is a copy of; else itself."""
        return self.originals.get(id(made), (made, made))[1]


class Results:
    """What a loop leaves in its places: what is one container before it, and after each time, is one then."""

    def __init__(self) -> None:
        self.made: dict[tuple[int, int], tuple[Any, Any, Any]] = {}  # of a container before, and after a time

    def of(self, before: Any, end: Any, leaves: Iterator[Any]) -> Any:
        """A value like one before the loop, of other leaves.

        Parameters
        ----------
        end
            What it is at the end of a time, of the same structure.
        """
        key, kind = (id(before), id(end)), type(before)
        if kind is Rows:
            rows = zip(before.segments, end.segments, strict=True)
            made: Any = [(next(leaves), self.of(one[1], two[1], leaves)) for one, two in rows]
            return Rows(before.stack, made, before.open)
        if kind not in (list, dict) and not isinstance(before, tuple):
            found, structure = flatten(before)
            return next(leaves) if structure.kind == "leaf" else structure.build([next(leaves) for _ in found])
        names = sorted_keys(before) if kind is dict else range(len(before))
        parts = {name: self.of(before[name], end[name], leaves) for name in names}
        if isinstance(before, tuple):
            return kind(*parts.values()) if hasattr(kind, "_fields") else kind(parts.values())
        if key not in self.made:
            made = {name: parts[name] for name in before} if kind is dict else [*parts.values()]
            self.made[key] = (before, end, made)
        return self.made[key][2]

    def possibly_one(self, goes: bool) -> Iterator[tuple[Any, Any]]:
        """Pairs of what was made that may be one: after no time, or after one.

        Parameters
        ----------
        goes
            Whether the loop surely goes.
        """
        rows = [*self.made.values()]
        for n, (before, end, made) in enumerate(rows):
            for other_before, other_end, other in rows[:n]:
                if end is other_end or (before is other_before and not goes):
                    yield made, other
