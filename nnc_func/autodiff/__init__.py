"""Layer 9: derivatives, forward and reverse, nested."""

from __future__ import annotations

from nnc_func.autodiff.autodiff import Autodiff

__all__ = ["Autodiff"]
