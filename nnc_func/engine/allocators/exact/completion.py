"""Plans above a capacity, of what a search without an answer has placed: descents place the rest on top.

Most of what makes plans large is chosen early, and a search whose time is over has chosen well so far.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact.conflicts import Conflicts
from nnc_func.engine.allocators.exact.ranking import by_rank
from nnc_func.engine.allocators.exact.search import Search
from nnc_func.engine.allocators.placement.descents import ORDERS, Descents, tops
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.engine.allocators.problems.problem import Problem

LARGEST = 1024  # buffers up to which descents are side by side, so that they take little of what a search takes
TABLE, REST = 3e-6, 8e-6  # seconds: for each buffer, and for each of them that is placed by descents


class Completion:
    """The smallest plan that came of searches of one problem.

    Attributes
    ----------
    offsets
        One for each of the conflicts, in units; None: there is none.
    """

    def __init__(self, known: Conflicts, problem: Problem) -> None:
        self.conflicts, self.problem = known, problem
        self.offsets: Integers | None = None
        self._top = 0

    def before(self, deadline: Deadline) -> Deadline:
        """When a search is to end, so that there is time for tables of descents, if there are none yet."""
        left, count = deadline.seconds, 0 if "_descents" in vars(self) else len(self.conflicts)
        return Deadline(None if left is None else left - TABLE * count)

    def place(self, search: Search) -> None:
        """What a search has not placed, in three orders, if descents know all that the problem says."""
        if self._descents is None or not search.stack:
            return
        offsets, least = search.places()
        found = self._descents.together(self._ranks, least) + offsets
        ends = tops(self._descents.sizes, found)
        best = int(ends.argmin())
        if self.offsets is None or ends[best] < self._top:
            self.offsets, self._top = found[best], int(ends[best])

    @cached_property
    def _descents(self) -> Descents | None:
        known = self.conflicts
        if not known.is_plain or len(known) > LARGEST:
            return None
        found = Descents(self.problem.of(known.buffers))
        return found if found.is_possible and found.steps is None and found.unit == known.unit else None

    @cached_property
    def _ranks(self) -> Integers:
        return np.argsort([by_rank(self.conflicts, order) for order in ORDERS], axis=1)
