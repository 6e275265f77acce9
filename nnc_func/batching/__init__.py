"""vmap: functions of one example applied to whole batches, by the operators' batching rules."""

from __future__ import annotations

from nnc_func.batching.batching import Batched, Batching, Row, Rows, vmap

__all__ = ["Batched", "Batching", "Row", "Rows", "vmap"]
