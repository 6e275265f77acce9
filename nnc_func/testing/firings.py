"""Firings: on how many graphs of which classes a rule did something. A verdict rests on these, not on draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import Node, topological
from nnc_func.testing.counterexamples import Instance

FIRINGS = 300  # that a verdict needs
EACH = 8  # in each class that is reachable
MEMBER = 20  # of each rule of a family
REMEMBERED = 2000  # forms
SHOWN = 6  # classes that are named

Class = tuple[str, str, str]
Form = tuple[Any, ...]


def class_of(instance: Instance) -> Class:
    """The dtype to which leaves promote, the rank of the largest, and whether an extent is 0, or 1, or all are equal.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", (3, 3), "float32")
    >>> class_of(Instance((x + 1).value, {x.value: np.zeros((3, 3), "float32")}))
    ('float32', 'rank 2', 'square')
    """
    leaves = list(instance.feeds) or [n for n in topological([instance.root]) if n.op is CONSTANT] or [instance.root]
    shape = max((n.aval.shape for n in leaves), key=len)
    dtypes = dict.fromkeys(n.aval.dtype for n in leaves)
    dtype = next(iter(dtypes)) if len(dtypes) == 1 else np.result_type(*dtypes)
    extents = (
        "an extent 0" if 0 in shape
        else "an extent 1" if 1 in shape
        else "square" if len(shape) > 1 and len(set(shape)) == 1
        else "other"
    )  # fmt: skip
    return dtype.name, f"rank {len(shape)}" if len(shape) < 3 else "rank 3 and more", extents


def form_of(root: Node) -> Form:
    """What a graph is like, but for its dtypes and elements: how its nodes use each other, parameters, extents.

    Of extents it says which are equal, and which are 0 or 1: graphs that are alike in that are mostly rewritten alike.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x, y = (nnc.lazy().input("x", shape, "float32") for shape in ((3, 1), (5, 1)))
    >>> form_of((x + x).value) == form_of((y + y).value), form_of((x + x).value) == form_of((x + 2).value)
    (True, False)
    """
    order = topological([root])
    places = {node: i for i, node in enumerate(order)}
    names: dict[int, int] = {}

    def named(n: Any) -> Any:
        return n if type(n) is not int or n < 2 else names.setdefault(n, len(names) + 2)

    found: list[Any] = []
    for node in order:
        for aval in node.avals:
            found.append(tuple([named(n) for n in aval.shape]))
        found += [places[a.node] for a in node.args]
        for name, value in node.items:
            if name in ("shape", "input_shape", "kernel_shape"):
                value = tuple([named(n) for n in value])
            if type(value) in (int, bool, str, tuple, type(None)):
                found.append(value)
    return tuple(found)


@define
class Forms:
    """Choices that led to graphs, the first to each form.

    Attributes
    ----------
    ways
        The choices.
    """

    ways: list[tuple[int, ...]] = field(factory=list)
    _known: set[Form] = field(factory=set)

    def add(self, form: Form, way: tuple[int, ...]) -> None:
        """Note how a graph was reached, if it is the first of its form."""
        if form not in self._known and len(self.ways) < REMEMBERED:
            self._known.add(form)
            self.ways.append(way)

    def __bool__(self) -> bool:
        return bool(self.ways)


@define
class Firings:
    """What was counted.

    Attributes
    ----------
    members
        The rules of the family.
    share
        Of what a verdict needs so much is asked for: 1.0 for a verdict.
    classes, of
        Firings of each class, and of each member.
    ways
        For each class choices that led to it, one row for each form: more of them are drawn from these.
    near
        For each member how many conditions held where it did not fire, at most, and choices that led to such graphs,
        one of each form.
    reached
        For each member choices that led to firings, one of each form.
    """

    members: Sequence[Any]
    share: float = 1.0
    classes: Counter[Class] = field(factory=Counter)
    of: Counter[Any] = field(factory=Counter)
    ways: dict[Class, Forms] = field(factory=dict)
    near: dict[Any, tuple[int, Forms]] = field(factory=dict)
    reached: dict[Any, Forms] = field(factory=dict)

    def miss(self, member: Any, held: int, root: Node, way: tuple[int, ...]) -> None:
        """Note that so many conditions held, where the rule did not fire."""
        best, forms = self.near.get(member, (0, Forms()))
        if held > best:
            forms = Forms()
        if held >= best:
            forms.add(form_of(root), way)
            self.near[member] = held, forms

    def beside(self, member: Any) -> list[tuple[int, ...]]:
        """Choices from which a member may be reached: of its firings, else of what came nearest to one."""
        own = self.reached.get(member)
        return own.ways if own else self.near.get(member, (0, Forms()))[1].ways

    def count(self, member: Any, instance: Instance, way: tuple[int, ...]) -> int:
        """Note a firing; how many of its class there are."""
        found = class_of(instance)
        self.classes[found] += 1
        self.of[member] += 1
        form = form_of(instance.root)
        for forms in (self.ways.setdefault(found, Forms()), self.reached.setdefault(member, Forms())):
            forms.add(form, way)
        return self.classes[found]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.classes.values())

    def _asked(self, number: int) -> int:
        return math.ceil(number * self.share)

    @property
    def enough(self) -> int:
        """How many are asked for in all."""
        return self._asked(FIRINGS)

    def lacking(self) -> Iterator[tuple[Any, list[tuple[int, ...]]]]:
        """What there is too little of: members and classes, and choices that lead to these."""
        for member in self.members if len(self.members) > 1 else ():
            if self.of[member] < self._asked(MEMBER):
                yield member, []
        for each, forms in self.ways.items():
            if self.classes[each] < self._asked(EACH):
                yield each, forms.ways

    def missing(self) -> str:
        """What a verdict lacks, in words; empty if it lacks nothing."""
        if self.total < FIRINGS:
            return f"{self.total} firings are fewer than {FIRINGS}"
        few = [m for m in self.members if self.of[m] < MEMBER] if len(self.members) > 1 else []
        if few:
            names = ", ".join(str(m.lhs) if hasattr(m, "lhs") else m.name for m in few[:3])
            return f"{len(few)} of its {len(self.members)} rules fired fewer than {MEMBER} times: {names}"
        thin = [c for c, n in self.classes.items() if n < EACH]
        if thin:
            said = "; ".join(" ".join(c) for c in thin[:3])
            return f"{len(thin)} of {len(self.classes)} classes have fewer than {EACH} firings: {said}"
        return ""

    def __str__(self) -> str:
        dtypes = list(dict.fromkeys(c[0] for c in self.classes))
        named = ", ".join(dtypes[:SHOWN]) + (f" and {len(dtypes) - SHOWN} more dtypes" if len(dtypes) > SHOWN else "")
        return f"{self.total} firings ({len(self.classes)} classes: {named})"
