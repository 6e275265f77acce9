"""Trees of values: lists, tuples, named tuples, dicts, attrs classes and None; everything else is a leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import attrs

from nnc_func.errors import OperatorError

LEAF = "leaf"


class Structure:
    """The shape of a tree: hashable, equal for equal nesting, and able to build the tree from its leaves.

    Nothing here recurses, so that a tree may be as deep as memory is large.

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
    size
        Number of leaves.
    """

    __slots__ = ("_hash", "children", "keys", "kind", "order", "size", "static")

    def __init__(
        self,
        kind: Any,
        keys: tuple[Any, ...] = (),
        children: tuple[Structure, ...] = (),
        static: tuple[tuple[Any, ...], ...] = (),
        order: tuple[Any, ...] = (),
    ) -> None:
        self.kind = kind
        self.keys = keys
        self.children = children
        self.static = static
        self.order = order
        self.size: int = 1 if kind == LEAF else sum([c.size for c in children])
        try:
            self._hash: int | None = hash((kind, keys, static, *children))
        except TypeError:  # a static field is a list: it is no key then
            self._hash = None

    def __hash__(self) -> int:
        if self._hash is None:
            raise TypeError(f"a tree with static fields that are not hashable is no key: {self!r}")
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        pairs = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            if a._hash != b._hash or a.kind != b.kind or a.keys != b.keys or a.static != b.static:
                return False
            if len(a.children) != len(b.children):
                return False
            pairs += zip(a.children, b.children, strict=True)
        return True

    @property
    def positions(self) -> list[int]:
        """The number of each leaf, in the order in which the tree that was given has them.

        Examples
        --------
        >>> flatten({"b": [1, 2], "a": 3})[1].positions
        [1, 2, 0]
        """
        found, waiting = [], [(self, 0)]
        while waiting:
            structure, start = waiting.pop()
            if structure.kind == LEAF:
                found.append(start)
                continue
            rows = []
            for child in structure.children:
                rows.append((child, start))
                start += child.size
            if structure.order:
                by_key = dict(zip(structure.keys, rows, strict=True))
                rows = [by_key[key] for key in structure.order]
            waiting += reversed(rows)
        return found

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """Where each leaf stands: keys, numbers and names of fields, from the outside in.

        Examples
        --------
        >>> flatten({"loss": 0, "scores": (1, 2)})[1].paths
        [('loss',), ('scores', '0'), ('scores', '1')]
        """
        found: list[tuple[str, ...]] = []
        waiting: list[tuple[Structure, tuple[str, ...]]] = [(self, ())]
        while waiting:
            each, path = waiting.pop()
            if each.kind == LEAF:
                found.append(path)
                continue
            keys = each.keys or tuple(range(len(each.children)))
            waiting += [(child, (*path, str(key))) for key, child in zip(keys, each.children, strict=True)][::-1]
        return found

    def build(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves.

        Raises
        ------
        OperatorError
            The wrong number of leaves.
        """
        if len(leaves) != self.size:
            raise OperatorError(f"a tree of {self.size} leaves was given {len(leaves)}")
        return self.folded(leaves, Structure.made)

    def folded(self, leaves: Iterable[Any], make: Callable[[Structure, list[Any]], Any]) -> Any:
        """What `make` gives of each container and of what it gave of the parts, from the leaves up.

        Examples
        --------
        >>> flatten([1, (2, 3)])[1].folded([1, 2, 3], lambda structure, parts: sum(parts))
        6
        """
        rest = iter(leaves)
        if self.kind == LEAF:
            return next(rest)
        waiting: list[tuple[Structure, Iterator[Structure], list[Any]]] = [(self, iter(self.children), [])]
        while True:
            structure, children, parts = waiting[-1]
            for child in children:
                if child.kind != LEAF:
                    waiting.append((child, iter(child.children), []))
                    break
                parts.append(next(rest))
            else:
                waiting.pop()
                found = make(structure, parts)
                if not waiting:
                    return found
                waiting[-1][2].append(found)

    def made(self, parts: list[Any]) -> Any:
        """The container of these parts."""
        kind = self.kind
        if kind is None:
            return None
        if kind is dict:
            made = dict(zip(self.keys, parts, strict=True))
            return {key: made[key] for key in self.order} if self.order else made
        if attrs.has(kind):
            instance = object.__new__(kind)
            for name, value in (*zip(self.keys, parts, strict=True), *((n, v) for n, v, _ in self.static)):
                object.__setattr__(instance, name, value)
            return instance
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)

    def __repr__(self) -> str:
        return f"Structure({self.folded(repeat('*'), _shown)})"


def _shown(structure: Structure, parts: list[str]) -> str:
    """A container as messages show it."""
    kind = structure.kind
    if kind is None:
        return "None"
    if kind is list:
        return f"[{', '.join(parts)}]"
    if kind is dict:
        return f"{{{', '.join(f'{k!r}: {p}' for k, p in zip(structure.keys, parts, strict=True))}}}"
    if structure.keys:
        parts = [f"{k}={p}" for k, p in zip(structure.keys, parts, strict=True)]
        parts += [f"{name}={value!r}" for name, value, _ in structure.static]
    return f"{'' if kind is tuple else kind.__name__}({', '.join(parts)})"


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
    opened = _opened(tree, is_leaf)
    if opened is None:
        return [tree], ONE_LEAF
    leaves: list[Any] = []
    within = {id(tree)}
    waiting = [(tree, opened, iter(opened[2]), list[Structure]())]
    while True:
        container, (kind, keys, _, static, order), parts, children = waiting[-1]
        for part in parts:
            opened = _opened(part, is_leaf)
            if opened is None:
                leaves.append(part)
                children.append(ONE_LEAF)
                continue
            if part and id(part) in within:
                raise OperatorError(f"a {type(part).__name__} contains itself, and is no tree")
            within.add(id(part))
            waiting.append((part, opened, iter(opened[2]), []))
            break
        else:
            waiting.pop()
            within.discard(id(container))
            found = Structure(kind, keys, tuple(children), static, order)
            if not waiting:
                return leaves, found
            waiting[-1][3].append(found)


Opened = tuple[Any, tuple[Any, ...], Iterable[Any], tuple[tuple[Any, ...], ...], tuple[Any, ...]]


def _opened(tree: Any, is_leaf: Callable[[Any], bool] | None) -> Opened | None:
    """Kind, keys, parts, static fields and order of a container; None of a leaf."""
    kind = type(tree)
    if is_leaf is not None and is_leaf(tree):
        return None
    if kind is list or kind is tuple or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        return kind, (), tree, (), ()
    if tree is None:
        return None, (), (), (), ()
    if kind is dict:
        keys, order = sorted_keys(tree), tuple(tree)
        return dict, keys, [tree[k] for k in keys], (), () if order == keys else order
    if getattr(kind, "is_tree", False) and attrs.has(kind):
        fields = attrs.fields(kind)
        dynamic = [f.name for f in fields if not f.metadata.get("static")]
        values = {f.name: getattr(tree, f.name) for f in fields if f.metadata.get("static")}
        static = tuple((name, value, exact(value)) for name, value in values.items())
        return kind, tuple(dynamic), [getattr(tree, n) for n in dynamic], static, ()
    return None


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
