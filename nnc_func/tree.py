"""Trees of values: lists, tuples, named tuples, dicts, attrs classes and None; everything else is a leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
from attrs import field, frozen

from nnc_func.errors import OperatorError

LEAF = "leaf"


@frozen(cache_hash=True)
class Structure:
    """The shape of a tree: hashable, equal for equal nesting, and able to build the tree from its leaves.

    Attributes
    ----------
    kind
        ``"leaf"``, a container type, or None for None.
    keys
        Keys of a dict, field names of an attrs class.
    children
        The structures below.
    static
        Fields of an attrs class that are not tensors (``metadata={"static": True}``): name, value, and what tells
        the value from an equal one of another type or other bits (see `exact`).
    order
        Keys of a dict as they were inserted, where that is not the order of `keys`; no part of equality.
    """

    kind: Any
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    static: tuple[tuple[Any, ...], ...] = ()
    order: tuple[Any, ...] = field(default=(), eq=False)

    @property
    def size(self) -> int:
        """Number of leaves."""
        return 1 if self.kind == LEAF else sum(c.size for c in self.children)

    @property
    def positions(self) -> list[int]:
        """The number of each leaf, in the order in which the tree that was given has them.

        Examples
        --------
        >>> flatten({"b": [1, 2], "a": 3})[1].positions
        [1, 2, 0]
        """
        return self._positions(0)

    def _positions(self, start: int) -> list[int]:
        if self.kind == LEAF:
            return [start]
        rows = []
        for child in self.children:
            rows.append(child._positions(start))
            start += child.size
        if self.order:
            by_key = dict(zip(self.keys, rows, strict=True))
            rows = [by_key[key] for key in self.order]
        return [position for row in rows for position in row]

    def build(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves.

        Raises
        ------
        OperatorError
            The wrong number of leaves.
        """
        if len(leaves) != self.size:
            raise OperatorError(f"a tree of {self.size} leaves was given {len(leaves)}")
        rest = iter(leaves)
        return self._build(rest)

    def _build(self, leaves: Any) -> Any:
        if self.kind == LEAF:
            return next(leaves)
        if self.kind is None:
            return None
        parts = [c._build(leaves) for c in self.children]
        if self.kind is dict:
            made = dict(zip(self.keys, parts, strict=True))
            return {key: made[key] for key in self.order} if self.order else made
        if attrs.has(self.kind):
            instance = object.__new__(self.kind)
            for name, value in (*zip(self.keys, parts, strict=True), *((n, v) for n, v, _ in self.static)):
                object.__setattr__(instance, name, value)
            return instance
        return self.kind(*parts) if hasattr(self.kind, "_fields") else self.kind(parts)


ONE_LEAF = Structure(LEAF)


def exact(value: Any) -> tuple[Any, ...]:
    """What tells a value from an equal one of another type, or of other bits: 1 from 1.0 and True, 0.0 from -0.0.

    Examples
    --------
    >>> exact(1) == exact(True), exact(0.0) == exact(-0.0), exact((1, 2)) == exact((1, 2))
    (False, False, True)
    """
    if isinstance(value, (tuple, list)):
        return (type(value), *map(exact, value))
    return (type(value), repr(value) if isinstance(value, (float, complex)) else None)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """The leaves from left to right, and the structure that builds the tree again.

    The leaves of dicts go by sorted keys where these sort, else by insertion, so that dicts of equal keys meet; what is
    built has its keys in the order of the tree that was given.

    Examples
    --------
    >>> leaves, structure = flatten({"b": [1, 2], "a": (3,)})
    >>> leaves, structure.build([30, 10, 20])
    ([3, 1, 2], {'b': [10, 20], 'a': (30,)})
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Any) -> Structure:
    kind = type(tree)
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return ONE_LEAF
    if tree is None:
        return Structure(None)
    if kind is dict:
        keys, order = sorted_keys(tree), tuple(tree)
        children = tuple(_flatten(tree[k], leaves, is_leaf) for k in keys)
        return Structure(dict, keys, children, order=() if order == keys else order)
    if kind in (list, tuple) or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        return Structure(kind, (), tuple(_flatten(t, leaves, is_leaf) for t in tree))
    if attrs.has(kind) and getattr(kind, "is_tree", False):
        fields = attrs.fields(kind)
        dynamic = [f.name for f in fields if not f.metadata.get("static")]
        values = {f.name: getattr(tree, f.name) for f in fields if f.metadata.get("static")}
        static = tuple((name, value, exact(value)) for name, value in values.items())
        children = tuple(_flatten(getattr(tree, n), leaves, is_leaf) for n in dynamic)
        return Structure(kind, tuple(dynamic), children, static)
    leaves.append(tree)
    return ONE_LEAF


def sorted_keys(keys: Iterable[Any]) -> tuple[Any, ...]:
    """Keys of a dict in the order of its leaves: sorted where they sort, else as they are.

    Examples
    --------
    >>> sorted_keys(["b", "a"]), sorted_keys([1, "a"])
    (('a', 'b'), (1, 'a'))
    """
    found = tuple(keys)
    try:
        return tuple(sorted(found))
    except TypeError:
        return found


def mapped(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree with `function` applied to each leaf (and to the leaves of equal trees beside it).

    Raises
    ------
    OperatorError
        The trees have different structures.

    Examples
    --------
    >>> mapped(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in others:
        found, its = flatten(other)
        if its != structure:
            raise OperatorError(f"trees of different structure: {structure} and {its}")
        columns.append(found)
    return structure.build([function(*row) for row in zip(*columns, strict=True)])
