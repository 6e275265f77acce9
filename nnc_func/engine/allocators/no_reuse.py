"""No reuse at all: every buffer has a place of its own. The yardstick."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from attrs import frozen

from nnc_func.engine.allocators.base import Problem


@frozen
class NoReuse:
    """Buffers one after another.

    Examples
    --------
    >>> NoReuse()(Problem([10, 10], [0, 1], [1, 2], alignment=16))
    [0, 16]
    """

    handles: ClassVar[frozenset[str]] = frozenset({"uses"})

    def __call__(self, problem: Problem) -> Sequence[int]:
        """The offsets, in bytes."""
        return [0, *accumulate(problem.rounded.tolist())][: len(problem)]
