"""Values of a drawn graph's inputs, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nnc_func.graph.node import Node


class Feeds(Mapping[Node, Any]):
    """An array for each input, drawn when it is first asked for: of a graph that no rule matches nobody asks.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.lazy().input("x", (2,), "float32").value
    >>> feeds = Feeds()
    >>> feeds.add(x, lambda: [1.0, 2.0])
    >>> x in feeds, feeds[x]
    (True, [1.0, 2.0])
    """

    def __init__(self) -> None:
        self._draws: dict[Node, Callable[[], Any]] = {}
        self._drawn: dict[Node, Any] = {}

    def add(self, node: Node, draw: Callable[[], Any]) -> None:
        """What draws the array of an input."""
        self._draws[node] = draw

    def __getitem__(self, node: Node) -> Any:
        """The array; the same one each time."""
        found = self._drawn.get(node)
        if found is None:
            found = self._drawn[node] = self._draws[node]()
        return found

    def __contains__(self, node: object) -> bool:
        return node in self._draws

    def __iter__(self) -> Iterator[Node]:
        return iter(self._draws)

    def __len__(self) -> int:
        return len(self._draws)
