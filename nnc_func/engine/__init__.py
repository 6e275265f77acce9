"""Layer 8: engines decide when, in which order, and where in memory a graph is computed.

``eager`` and ``lazy`` are the layers; ``plan`` is what they have in common with all that follows. ``planning`` makes
plans, ``allocators`` place their buffers, ``verifying`` proves them, ``running`` binds and runs them, ``incremental``
runs what changed, ``tuning`` chooses kernels, ``inspecting`` looks on, ``files`` and ``drawing`` keep and show them.
"""

from __future__ import annotations

from nnc_func.engine.eager import Eager
from nnc_func.engine.lazy import Lazy

__all__ = ["Eager", "Lazy"]
