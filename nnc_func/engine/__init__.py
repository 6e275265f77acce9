"""Layer 8: engines decide when, in which order, and where in memory a graph is computed."""

from __future__ import annotations

from nnc_func.engine.eager import Eager
from nnc_func.engine.lazy import Lazy

__all__ = ["Eager", "Lazy"]
