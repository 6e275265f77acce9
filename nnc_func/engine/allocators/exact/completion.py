"""Plans above a capacity, of what a search without an answer has placed: descents place the rest on top.

Most of what makes plans large is chosen early, and a search whose time is over has chosen well so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc_func.engine.allocators.deadlines import Deadline
from nnc_func.engine.allocators.exact.conflicts import Conflicts
from nnc_func.engine.allocators.exact.ranking import by_rank
from nnc_func.engine.allocators.exact.search import Search
from nnc_func.engine.allocators.placement.descents import ORDERS, of_conflicts, side_by_side, tops
from nnc_func.engine.allocators.problems.conversion import Integers
from nnc_func.locks import cached_property

LARGEST = 1024  # buffers up to which descents are side by side, so that they take little of what a search takes
TABLE, REST = 3e-6, 8e-6  # seconds: for each buffer, and for each of them that is placed by descents


class Completion:
    """The smallest plan that came of searches.

    Attributes
    ----------
    offsets
        One for each of the conflicts, in units; None: there is none.
    """

    def __init__(self, known: Conflicts) -> None:
        self.conflicts = known
        self.offsets: Integers | None = None
        self._top = 0

    @property
    def is_possible(self) -> bool:
        """Whether descents know all that is said."""
        return self._table is not None

    def before(self, deadline: Deadline) -> Deadline:
        """When a search is to end, so that there is time for the table of descents, if there is none yet."""
        left, count = deadline.seconds, 0 if "_table" in vars(self) else len(self.conflicts)
        return Deadline(None if left is None else left - TABLE * count)

    def place(self, search: Search) -> None:
        """Keep the plan that comes of a search without an answer, if it is smaller."""
        found = self.of(search)
        if found is not None:
            top = int(tops(self.conflicts.sizes, found))
            if self.offsets is None or top < self._top:
                self.offsets, self._top = found, top

    def of(self, search: Search) -> Integers | None:
        """What a search has placed, and the rest by the best of three orders; None: that descents do not know."""
        if self._table is None or not search.stack:
            return None
        offsets, least = search.places()
        found = side_by_side(*self._table, least=least) + offsets
        best: Integers = found[tops(self.conflicts.sizes, found).argmin()]
        return best

    @cached_property
    def _table(self) -> tuple[NDArray[Any], Integers, int] | None:
        """Of descents, with ranks."""
        known = self.conflicts
        made = of_conflicts(known.conflicting, known.sizes) if known.is_plain and len(known) <= LARGEST else None
        if made is None:
            return None
        return made[0], np.argsort([by_rank(known, order) for order in ORDERS], axis=1), made[1]
