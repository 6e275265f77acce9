"""Copies of what variables have, for the times of a loop: what is one container stays one, and each leaf is another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.control_flow.conversion.values import Rows
from nnc_func.tree import flatten, sorted_keys


class Copies:
    """Copies for one time of a loop.

    Parameters
    ----------
    replaced
        Gives for each leaf, in the order of `flatten`, what stands for it in the copy.

    Attributes
    ----------
    originals
        Of each copy of a container, by identity: it, and what it is a copy of.
    """

    def __init__(self, replaced: Callable[[Any], Any]) -> None:
        self._replaced = replaced
        self.originals: dict[int, tuple[Any, Any]] = {}
        self._copies: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """The copy of a value."""
        if id(value) in self._copies:
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
