"""Spilling: which values leave a small fast memory between two uses. One policy a file, one registry.

- ``problem``: the problem as data, what an answer takes, and what a policy is.
- ``furthest``: what is wanted furthest away leaves first.
- ``cover``: what spares most for each byte moved leaves first; improved by a search. The default.
- ``exact``: the fewest bytes moved, by constraint programming; ``states``: by dynamic programming, for few values.
- ``prefetch``: how early what has left is brought back.
- ``generators``: problems to try policies on.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnc_func.deferred import Registry
from nnc_func.engine.spilling.problem import Gap, Movement, Policy, SpillProblem, answered, simulated

POLICIES: Mapping[str, Policy] = Registry(__name__, {"cover": "Cover", "furthest": "furthest", "exact": "Exact"})

__all__ = ["POLICIES", "Gap", "Movement", "Policy", "SpillProblem", "answered", "simulated"]
