"""How outputs are nested, as text and back: ``[%5, {"a": %4}]``. No class is made that a reader was not given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from nnc_func.errors import GraphError
from nnc_func.graph.text.literals import DEEPEST, NAME, Line, Names
from nnc_func.tree import ONE_LEAF, Container, Structure, exact

Classes = Mapping[str, type]


def nested_text(structure: Structure | None, leaves: Sequence[str], names: Names) -> str:
    """The leaves, nested as the structure says; ``flat %5, %4`` where it does not say it of so many.

    Raises
    ------
    GraphError
        A class that was made inside of a function.
    """
    if structure is None or structure.size != len(leaves):
        return f"flat {', '.join(leaves)}".rstrip()
    written: str = structure.fold(leaves, lambda each, parts: _nested(each, parts, names))
    plain = structure.kind is tuple and len(structure.children) > 1
    return written[1:-1] if plain else written


def check_depth(structure: Structure | None) -> None:
    """Raise where outputs are nested more deeply than a text of them is read back.

    Raises
    ------
    GraphError
        They are.
    """
    if structure is None:
        return
    found: int = structure.fold([0] * structure.size, lambda _, depths: 1 + max(depths, default=0))
    if found > DEEPEST:
        raise GraphError(f"outputs nested {found} deep are not written to a file: {DEEPEST} is the most")


def _nested(structure: Container, parts: list[str], names: Names) -> str:
    """The text of a container, of its parts."""
    kind = structure.kind
    if kind is None:
        return "None"
    if kind is list:
        return f"[{', '.join(parts)}]"
    if kind is tuple:
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if kind is dict:
        keyed = (f"{names.literal(k)}: {p}" for k, p in zip(structure.keys, parts, strict=True))
        return f"{{{', '.join(keyed)}}}"
    name = class_name(kind)
    if not all(NAME.match(part) for part in name.split(".")):
        raise GraphError(f"outputs nested in a {name}, which was made inside of a function, cannot be written")
    if attrs.has(kind):
        fields = [f"{k}={p}" for k, p in zip(structure.keys, parts, strict=True)]
        static = [f"{k}={names.literal(v)}" for k, v, _ in structure.static]
        return f"{name}({', '.join([*fields, *static])})"
    return f"{name}({', '.join(parts)})"


def class_name(kind: Any) -> str:
    """A class as the text names it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def by_name(classes: Iterable[type]) -> Classes:
    """Classes by the names that the text has for them."""
    return {class_name(c): c for c in classes}


def nested(line: Line, leaf: Callable[[], Any], classes: Classes) -> tuple[list[Any], Structure | None]:
    """The rest of the line: what `leaf` reads, from left to right, and the nesting; None where none is said."""
    reader = _Nested(line, leaf, classes)
    if line.take("flat"):
        while not line.empty:
            reader.leaves.append(leaf())
            if not line.take(","):
                break
        line.end()
        return reader.leaves, None
    first = reader.tree()
    found = [first]
    while line.take(","):
        found.append(reader.tree())
    line.end()
    return reader.leaves, first if len(found) == 1 else Structure(tuple, (), tuple(found))


class _Nested:
    """A tree that is read, and the leaves so far."""

    def __init__(self, line: Line, leaf: Callable[[], Any], classes: Classes) -> None:
        self.line, self.leaf, self.classes = line, leaf, classes
        self.leaves: list[Any] = []

    def tree(self) -> Structure:
        line = self.line
        if line.kind() == "value":
            self.leaves.append(self.leaf())
            return ONE_LEAF
        if line.take("None"):
            return Structure(None)
        for sign, close, kind in (("[", "]", list), ("(", ")", tuple)):
            if line.take(sign):
                return Structure(kind, (), tuple(line.sequence(self.tree, close)))
        if line.take("{"):
            return self.dictionary()
        return self.made()

    def dictionary(self) -> Structure:
        """A dict; its leaves go by insertion, as outputs do."""
        rows: dict[Any, Structure] = {}

        def row() -> None:
            key = self.key()
            if key in rows:
                raise self.line.error(f"the key {key!r} is given twice")
            rows[key] = self.tree()

        self.line.sequence(row, "}")
        return Structure(dict, tuple(rows), tuple(rows.values()))

    def key(self) -> Any:
        found = self.line.literal()
        try:
            hash(found)
        except TypeError:
            raise self.line.error(f"{found!r} is no key of a dict") from None
        self.line.expect(":")
        return found

    def made(self) -> Structure:
        """A named tuple or an attrs class: one of those that the reader was given."""
        line = self.line
        name = line.name()
        while line.take("."):
            name += f".{line.name()}"
        if name not in self.classes:
            raise line.error(f"the outputs are nested in a {name}; give the class: classes=[{name.rpartition('.')[2]}]")
        kind = self.classes[name]
        line.expect("(")
        if not attrs.has(kind):
            return Structure(kind, (), tuple(line.sequence(self.tree, ")")))
        static = {f.name for f in attrs.fields(kind) if f.metadata.get("static")}

        def field() -> tuple[str, Any]:
            key = line.name()
            line.expect("=")
            return key, line.literal() if key in static else self.tree()

        rows = line.sequence(field, ")")
        dynamic = [(k, s) for k, s in rows if k not in static]
        return Structure(
            kind,
            tuple(k for k, _ in dynamic),
            tuple(s for _, s in dynamic),
            tuple((k, v, exact(v)) for k, v in rows if k in static),
        )
