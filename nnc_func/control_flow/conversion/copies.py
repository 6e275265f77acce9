"""Copies of what variables have, for blocks that are traced: what is one object stays one, also in what comes of it.

A block may write into lists, dicts and tensors. It is given copies, so that nothing outside changes while it is traced;
two variables, or parts of them, that are one object are one copy. Afterwards what was written into a copy is written
into what it is a copy of.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from nnc_func.control_flow.conversion.values import Rows, moving
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten, sorted_keys

Content = tuple[Any, ...]


def is_container(value: Any) -> bool:
    """Whether it is a list, a dict, or a list that a loop of operators has made: they are written into."""
    return type(value) in (list, dict, Rows)


def content(value: Any) -> Content:
    """What tells whether something was written into: what a container has, or the value of a tensor."""
    kind = type(value)
    if kind is dict:
        return (*value, *value.values())
    if kind is Rows:
        return tuple([part for segment in value.segments for part in segment])
    if isinstance(value, Tensor):
        return (value.value,)
    return tuple(value)


def is_same(one: Content, other: Content) -> bool:
    """Whether two contents are the same objects."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def objects(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What can be written into of a tree, each as often as it stands there, with its path."""
    waiting = [(path, value)]
    while waiting:
        at, each = waiting.pop()
        kind = type(each)
        if is_container(each) or isinstance(each, Tensor):
            yield at, each
        if kind is Rows:
            each = each.segments
        if isinstance(each, dict):
            waiting += [(f"{at}.{key}", each[key]) for key in sorted_keys(each)]
        elif isinstance(each, (list, tuple)):
            waiting += [(f"{at}.{n}", part) for n, part in enumerate(each)]


class Copies:
    """Copies for one block.

    Parameters
    ----------
    replaced
        Gives for each leaf, in the order of `flatten`, what stands for it in the copy. None: a leaf stays as it is, but
        for tensors and arrays, which are copied.

    Attributes
    ----------
    originals
        Of each copy, by identity: it, what it is a copy of, and what it had at first.
    """

    def __init__(self, replaced: Callable[[Any], Any] | None = None, shared: Collection[int] | None = None) -> None:
        self._replaced, self._shared = replaced, shared
        self._copies: dict[int, Any] = {}
        self.originals: dict[int, tuple[Any, Any, Content]] = {}

    def of(self, value: Any) -> Any:
        """The copy of a value."""
        if id(value) in self._copies and (self._shared is None or id(value) in self._shared):
            for leaf in flatten(value.segments if type(value) is Rows else value)[0] if self._replaced else ():
                self._replaced(leaf)  # type: ignore[misc]
            return self._copies[id(value)]
        kind = type(value)
        if kind is Rows:
            made: Any = Rows(value.stack, [], value.open)
            self._note(value, made)
            made.segments[:] = [(name, self.of(tree)) for name, tree in self._named(value.segments)]
        elif kind is list:
            self._note(value, made := [])
            made += [self.of(part) for part in value]
        elif kind is dict:
            self._note(value, made := {})
            named = {key: self.of(value[key]) for key in sorted_keys(value)}
            made.update((key, named[key]) for key in value)
        elif kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            parts = [self.of(part) for part in value]
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        else:
            leaves, structure = flatten(value)
            if structure.kind != "leaf":
                return structure.build([self.of(leaf) for leaf in leaves])
            return self._leaf(value)
        self.originals[id(made)] = (made, value, content(made))
        return made

    def _named(self, segments: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for name, tree in segments:
            if self._replaced is not None:
                self._replaced(name)
            yield name, tree

    def _leaf(self, value: Any) -> Any:
        if self._replaced is not None:
            made = self._replaced(value)
        elif isinstance(value, Tensor):
            made = copy.copy(value)
        else:
            made = value.copy() if isinstance(value, np.ndarray) else value
        if isinstance(value, (Tensor, np.ndarray)):
            self._note(value, made)
            self.originals[id(made)] = (made, value, content(made) if isinstance(made, Tensor) else (made.copy(),))
        return made

    def _note(self, value: Any, made: Any) -> None:
        self._copies[id(value)] = made

    @property
    def made(self) -> list[Any]:
        """The copies of what can be written into."""
        return [made for made, _, _ in self.originals.values()]

    def original(self, made: Any) -> Any:
        """What something is a copy of; None: of nothing."""
        found = self.originals.get(id(made))
        return None if found is None else found[1]

    def copy_of(self, value: Any) -> Any:
        """The copy that was made of something."""
        return self._copies[id(value)]

    def written(self) -> list[tuple[Any, Any]]:
        """Copies that were written into, each with what it is a copy of."""
        return [(made, value) for made, value, before in self.originals.values() if not _kept(made, before)]


def _kept(made: Any, before: Content) -> bool:
    if isinstance(made, np.ndarray):
        return bool(made.tobytes() == before[0].tobytes())
    return is_same(content(made), before)


def leaves_that_move(values: list[Any]) -> list[Any]:
    """All tensors, arrays and numbers in some values, each object once."""
    found: dict[int, Any] = {}
    for value in values:
        for leaf in flatten(value.segments if type(value) is Rows else value)[0]:
            if moving(leaf):
                found[id(leaf)] = leaf
    return [*found.values()]


def written_back(after: Any, found: Any, copies: Copies) -> Any:
    """What a variable has after a loop; what was written into a copy is written into what it is a copy of.

    Parameters
    ----------
    after
        What it had at the end of the block.
    found
        The same tree, with the values outside.
    """
    original = copies.original(after)
    kind = type(after)
    if isinstance(after, Tensor):
        if not isinstance(original, Tensor) or not isinstance(found, Tensor):
            return found
        if original is not found:
            original.value, original.hold = found.value, found.hold
        return original
    if kind is Rows:
        if type(original) is not Rows:
            return found
        original.segments = [
            (name, written_back(tree, its, copies))
            for (name, tree), (_, its) in zip(after.segments, found.segments, strict=True)
        ]
        return original
    if kind is list:
        parts = [written_back(a, f, copies) for a, f in zip(after, found, strict=True)]
        if original is None:
            return parts
        original[:] = parts
        return original
    if kind is dict:
        pairs = {key: written_back(after[key], found[key], copies) for key in found}
        if original is None:
            return pairs
        original.clear()
        original.update(pairs)
        return original
    if kind is tuple:
        return tuple([written_back(a, f, copies) for a, f in zip(after, found, strict=True)])
    return found
