"""Trees of values: lists, tuples, named tuples, dicts, attrs classes, dataclasses, None; all else is a leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import attrs

from nnc_func.errors import OperatorError

LEAF = "leaf"
NOTHING = (None, (), (), 0)  # of None
DEEP = 1024  # containers within each other after which one looks whether that ends


class Container(NamedTuple):
    """One container of a tree, without its parts.

    Attributes
    ----------
    kind
        Its type; None for None.
    keys
        Keys of a dict, sorted where they sort; field names of an attrs class or a dataclass.
    static
        Fields of such a class that are not tensors (``metadata={"static": True}``): name, value, and what tells
        the value from an equal one of another type or other bits (see `exact`).
    size
        How many parts it has.
    order
        Keys of a dict as they were inserted, where that is not the order of `keys`.
    """

    kind: Any
    keys: tuple[Any, ...] = ()
    static: tuple[tuple[Any, ...], ...] = ()
    size: int = 0
    order: tuple[Any, ...] = ()

    def made(self, parts: list[Any]) -> Any:
        """The container of these parts."""
        kind = self.kind
        if kind is None:
            return None
        if kind is dict:
            made = dict(zip(self.keys, parts, strict=True))
            return {key: made[key] for key in self.order} if self.order else made
        if has_fields(kind):
            instance = object.__new__(kind)
            for name, value in (*zip(self.keys, parts, strict=True), *((n, v) for n, v, _ in self.static)):
                object.__setattr__(instance, name, value)
            return instance
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)

    def shown(self, parts: list[str]) -> str:
        """The container as messages show it."""
        if self.kind is None:
            return "None"
        if self.kind is list:
            return f"[{', '.join(parts)}]"
        if self.kind is dict:
            return f"{{{', '.join(f'{k!r}: {p}' for k, p in zip(self.keys, parts, strict=True))}}}"
        if self.keys:
            parts = [f"{k}={p}" for k, p in zip(self.keys, parts, strict=True)]
            parts += [f"{name}={value!r}" for name, value, _ in self.static]
        return f"{'' if self.kind is tuple else self.kind.__name__}({', '.join(parts)})"


class Structure:
    """The shape of a tree: hashable, equal for equal nesting, and able to build the tree from its leaves.

    Nothing here recurses, so that a tree may be as deep as memory is large.

    Parameters
    ----------
    kind
        ``"leaf"``, a container type, or None for None.
    keys, children, static, order
        As of a `Container`; the structures below.

    Attributes
    ----------
    outline
        The tree from the outside in, part after part: of a leaf ``"leaf"``, of a container its first four fields. What
        tells structures apart.
    orders
        Of containers, by number in the outline, their `order`; no part of equality.
    size
        Number of leaves.
    """

    __slots__ = ("orders", "outline", "size")

    def __init__(
        self,
        kind: Any,
        keys: tuple[Any, ...] = (),
        children: tuple[Structure, ...] = (),
        static: tuple[tuple[Any, ...], ...] = (),
        order: tuple[Any, ...] = (),
    ) -> None:
        self.orders: dict[int, tuple[Any, ...]] = {0: order} if order else {}
        at = 1
        for child in children:
            self.orders |= {at + i: found for i, found in child.orders.items()}
            at += len(child.outline)
        below = [entry for child in children for entry in child.outline]
        self.outline: tuple[Any, ...] = (LEAF if kind == LEAF else (kind, keys, static, len(children)), *below)
        self.size: int = 1 if kind == LEAF else sum([c.size for c in children])

    @classmethod
    def of_outline(cls, outline: list[Any], orders: dict[int, tuple[Any, ...]], size: int) -> Structure:
        """The structure of that outline."""
        found = cls.__new__(cls)
        found.outline, found.orders, found.size = tuple(outline), orders, size
        return found

    def __hash__(self) -> int:
        return hash(self.outline)

    def __eq__(self, other: object) -> bool:
        return self.outline == other.outline if isinstance(other, Structure) else NotImplemented

    @property
    def kind(self) -> Any:
        """``"leaf"``, the container's type, or None."""
        first = self.outline[0]
        return first if type(first) is str else first[0]

    @property
    def keys(self) -> tuple[Any, ...]:
        """Keys of a dict, field names of an attrs class or a dataclass."""
        first = self.outline[0]
        return () if type(first) is str else first[1]

    @property
    def children(self) -> tuple[Structure, ...]:
        """The structures below."""
        found, at, outline = [], 1, self.outline
        while at < len(outline):
            start, missing, size = at, 1, 0
            while missing:
                entry = outline[at]
                at, missing = at + 1, missing - 1
                if type(entry) is str:
                    size += 1
                else:
                    missing += entry[3]
            orders = {i - start: order for i, order in self.orders.items() if start <= i < at}
            found.append(Structure.of_outline([*outline[start:at]], orders, size))
        return tuple(found)

    @property
    def signature(self) -> tuple[Any, ...]:
        """What tells structures apart for a function that may go through a dict in the order of its keys.

        Examples
        --------
        >>> one, other = (flatten(tree)[1] for tree in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
        >>> one == other, one.signature == other.signature
        (True, False)
        """
        return self.outline, tuple(self.orders.items())

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """Where each leaf stands: keys, numbers and names of fields, from the outside in.

        Examples
        --------
        >>> flatten({"loss": 0, "scores": (1, 2)})[1].paths
        [('loss',), ('scores', '0'), ('scores', '1')]
        """
        found: list[tuple[str, ...]] = []
        waiting: list[tuple[str, ...]] = [()]
        for entry in self.outline:
            path = waiting.pop()
            if type(entry) is str:
                found.append(path)
            else:
                waiting += [(*path, str(key)) for key in entry[1] or range(entry[3])][::-1]
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
        return self.fold(leaves, Container.made)

    def fold(self, leaves: Sequence[Any], make: Callable[[Container, list[Any]], Any]) -> Any:
        """What `make` gives of each container and of what it gave of the parts, from the leaves up.

        Examples
        --------
        >>> flatten([1, (2, 3)])[1].fold([1, 2, 3], lambda container, parts: sum(parts))
        6
        """
        outline, orders, rest = self.outline, self.orders, [*leaves]
        done: list[Any] = []
        for i in range(len(outline) - 1, -1, -1):  # from the end, so that parts are there before their container
            entry = outline[i]
            if type(entry) is str:
                done.append(rest.pop())
                continue
            start = len(done) - entry[3]
            parts = done[start:][::-1]
            del done[start:]
            kind, keys, static, size = entry
            done.append(make(Container(kind, keys, static, size, orders.get(i, ())), parts))
        return done[0]

    def __repr__(self) -> str:
        return f"Structure({self.fold(['*'] * self.size, Container.shown)})"


ONE_LEAF = Structure(LEAF)


def builder(structure: Structure) -> Callable[[list[Any]], Any]:
    """`build` of a structure, for lists of as many leaves as it has: fast where it is called again and again.

    Examples
    --------
    >>> builder(flatten({"a": 0, "b": 0})[1])([10, 20])
    {'a': 10, 'b': 20}
    """
    outline, orders = structure.outline, structure.orders
    if any(type(entry) is not str for entry in outline[1:]):
        return structure.build
    first = outline[0]
    if type(first) is str:
        return itemgetter(0)
    kind, keys, static, size = first
    container = Container(kind, keys, static, size, orders.get(0, ()))
    if kind is dict and not container.order:
        return lambda leaves: dict(zip(keys, leaves, strict=True))
    return kind if kind in (list, tuple) else container.made


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


def flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None, *, by_insertion: bool = False
) -> tuple[list[Any], Structure]:
    """The leaves from left to right, and the structure that builds the tree again.

    The leaves of dicts go by sorted keys where these sort, else by insertion, so that dicts of equal keys meet; what is
    built has its keys in the order of the tree that was given.

    Parameters
    ----------
    is_leaf
        Says of a part that it is a leaf, although it may be a container.
    by_insertion
        Leaves of dicts go by insertion, as users see outputs; structures of dicts in other orders differ.

    Examples
    --------
    >>> leaves, structure = flatten({"b": [1, 2], "a": (3,)})
    >>> leaves, structure.build([30, 10, 20])
    ([3, 1, 2], {'b': [10, 20], 'a': (30,)})
    >>> flatten({"b": [1, 2], "a": (3,)}, by_insertion=True)[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    outline: list[Any] = []
    orders: dict[int, tuple[Any, ...]] = {}
    within: list[Any] = []  # the containers that one is in
    waiting: list[Iterator[Any]] = [iter((tree,))]
    while waiting:
        for part in waiting[-1]:
            container = None if is_leaf is not None and is_leaf(part) else _container(part, by_insertion)
            if container is None:
                leaves.append(part)
                outline.append(LEAF)
                continue
            entry, parts, order = container
            if order is not None:
                orders[len(outline)] = order
            outline.append(entry)
            within.append(part)
            waiting.append(iter(parts))
            if not len(within) % DEEP:
                _check_ends(within)
            break
        else:
            waiting.pop()
            if within:
                within.pop()
    return leaves, Structure.of_outline(outline, orders, len(leaves))


def _container(part: Any, by_insertion: bool) -> tuple[Any, Any, Any] | None:
    """Of a container what it is in an outline, its parts, and the order of a dict that is not that of the parts."""
    kind = type(part)
    if kind is list or kind is tuple or (isinstance(part, tuple) and hasattr(kind, "_fields")):
        return (kind, (), (), len(part)), part, None
    if kind is dict:
        order = tuple(part)
        keys = order if by_insertion else sorted_keys(part)
        return (dict, keys, (), len(keys)), [part[key] for key in keys], None if keys == order else order
    if part is None:
        return NOTHING, (), None
    if getattr(kind, "is_tree", False) and has_fields(kind):
        keys, static = _fields(part), static_fields(part)
        return (kind, keys, static, len(keys)), [getattr(part, name) for name in keys], None
    return None


def _check_ends(within: list[Any]) -> None:
    """Raise OperatorError where a container is within itself."""
    if len({*map(id, within)}) < len(within):
        raise OperatorError(f"a {type(within[-1]).__name__} contains itself, and is no tree")


def has_fields(kind: type) -> bool:
    """Whether it is an attrs class, or a dataclass.

    Examples
    --------
    >>> has_fields(attrs.make_class("Pair", ["a", "b"])), has_fields(dict)
    (True, False)
    """
    return attrs.has(kind) or hasattr(kind, "__dataclass_fields__")


def _declared(kind: Any) -> Any:
    """The fields of an attrs class, or of a dataclass."""
    if attrs.has(kind):
        return attrs.fields(kind)
    from dataclasses import fields  # which whoever has a dataclass has imported

    return fields(kind)


def _fields(tree: Any) -> tuple[str, ...]:
    """Of an attrs class, or a dataclass, the names of fields that are trees."""
    return tuple([f.name for f in _declared(type(tree)) if not f.metadata.get("static")])


def static_fields(tree: Any) -> tuple[tuple[Any, ...], ...]:
    """Of such a class the static fields: name, value, and what tells the value from equal ones (see `exact`)."""
    values = {f.name: getattr(tree, f.name) for f in _declared(type(tree)) if f.metadata.get("static")}
    return tuple((name, value, exact(value)) for name, value in values.items())


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
