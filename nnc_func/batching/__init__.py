"""vmap: functions of one example applied to whole batches, by the operators' batching rules.

- ``batching``: the layer, and `vmap`.
- ``bodies``: batches the bodies that an operator holds; ``loops`` and ``branches`` have the rules;
  ``host_functions`` has that of callbacks.
"""

from __future__ import annotations

from nnc_func.batching.batching import Batched, Batching, Row, Rows, vmap

__all__ = ["Batched", "Batching", "Row", "Rows", "vmap"]
