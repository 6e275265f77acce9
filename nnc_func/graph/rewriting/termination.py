"""Stop conditions: what led to each node while a graph is rewritten, and how rules are told that never end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnc_func.errors import RuleError
from nnc_func.graph.node import Node, Value

BOUND = 1000  # rewrites of one root, one after the other, and sweeps over a graph
TOLD = 6  # rewrites that are written out
DEEP = 6  # applications within each other that are written out


class Link:
    """One rewrite, and the one that made what it was applied to.

    Attributes
    ----------
    name
        Of the rule.
    before, after
        What it was applied to, and what it made.
    of, depth
        The rewrite before it, None for the first; how many there are up to it.
    """

    __slots__ = ("after", "before", "depth", "name", "of")

    def __init__(self, name: str, before: Value, after: Value, of: Link | None) -> None:
        self.name = name
        self.before = before
        self.after = after
        self.of = of
        self.depth: int = 1 if of is None else of.depth + 1

    def __iter__(self) -> Iterator[Link]:
        """It, and those before it, backwards."""
        at: Link | None = self
        while at is not None:
            yield at
            at = at.of


def cycle(last: Link | None, start: Node) -> RuleError:
    """What is told of rules that lead from a node back to it.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (), "float32")
    >>> one, other = lazy.ops.exp(x).value, lazy.ops.tanh(x).value
    >>> print(cycle(Link("back", other, one, Link("there", one, other, None)), one))
    rewriting does not end: there and back lead from exp(x) back to it
      there: exp(x) -> tanh(x)
      back: tanh(x) -> exp(x)
    """
    links: list[Link] = []
    for link in last or ():
        links.append(link)
        if link.before.node is start:
            break
    links.reverse()
    names = list(dict.fromkeys(link.name for link in links))
    told = f"{' and '.join(names) or 'rules'} lead{'s' * (len(names) == 1)} from {said(start)} back to it"
    return RuleError(f"rewriting does not end: {told}{_written(links)}")


def growth(last: Link) -> RuleError:
    """What is told of rules that fire on what they make, for ever.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (), "float32")
    >>> one, other = lazy.ops.exp(x).value, lazy.ops.exp(lazy.ops.tanh(x)).value
    >>> print(growth(Link("grow", one, other, None)))
    rewriting does not end: grow fired 1 times one after the other, first on exp(x), which became exp(tanh(x))
    """
    names = list(dict.fromkeys(period([link.name for link in last][::-1])))[:TOLD]
    first = list(last)[-1]
    return RuleError(
        f"rewriting does not end: {' and '.join(names)} fired {last.depth} times one after the other, "
        f"first on {said(first.before)}, which became {said(first.after)}"
    )


def period(names: list[str]) -> list[str]:
    """The shortest run of names of which the later half of a list is made; in the order in which it began.

    Examples
    --------
    >>> period(["a", "b", "c", "b", "c", "b", "c", "b"])
    ['b', 'c']
    """
    half = names[len(names) // 2 :]
    size = next(p for p in range(1, len(half) + 1) if half[p:] == half[: len(half) - p])
    found = half[:size]
    first = min(range(size), key=lambda i: names.index(found[i]))
    return found[first:] + found[:first]


def said(value: Any) -> str:
    """A value as a small formula."""
    from nnc_func.graph.formulas.formula import formula  # for what goes wrong, and for histories

    return str(formula(value, deep=DEEP, grouped=True))


def _written(links: list[Link]) -> str:
    lines = [f"\n  {link.name}: {said(link.before)} -> {said(link.after)}" for link in links[:TOLD]]
    return "".join(lines) + (f"\n  and {len(links) - TOLD} more" if len(links) > TOLD else "")
