"""Trees of values: lists, tuples, named tuples, dicts, attrs classes and None; everything else is a leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from attrs import frozen

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
    """

    kind: Any
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    static: tuple[tuple[Any, ...], ...] = ()

    @property
    def size(self) -> int:
        """Number of leaves."""
        return 1 if self.kind == LEAF else sum(c.size for c in self.children)

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
            return dict(zip(self.keys, parts, strict=True))
        if attrs.has(self.kind):
            made = object.__new__(self.kind)
            for name, value in (*zip(self.keys, parts, strict=True), *((n, v) for n, v, _ in self.static)):
                object.__setattr__(made, name, value)
            return made
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

    Dicts go by sorted keys where they sort, else by insertion.

    Examples
    --------
    >>> leaves, structure = flatten({"b": [1, 2], "a": (3,)})
    >>> leaves, structure.build([30, 10, 20])
    ([3, 1, 2], {'a': (30,), 'b': [10, 20]})
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
        keys = _ordered(tree)
        return Structure(dict, keys, tuple(_flatten(tree[k], leaves, is_leaf) for k in keys))
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


def _ordered(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError:
        return tuple(tree)


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
