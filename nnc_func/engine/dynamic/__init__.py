"""The dynamic engine: define by run, on symbolic graphs.

- ``dynamic``: the layer. It computes at once, and records.
- ``quick``: the short way of tensors to it, past the layers.
- ``records``, ``flow``: what is recorded, and how long it lives; what gradients flow through.
- ``paths``: what lies between recorded values, and its structure.
- ``live``: what is alive, in numbers.
- ``ahead``: work that is formed ahead.
- ``saved_values``: a limit of saved values: which are evicted.
- ``turns``: work that one thread does at a time, and that nobody waits for.
- ``vacancies``: what stands where an array was, and how it is computed again.
- ``live_page``: what is alive as a page: each value, what it costs, and why it is kept.
- ``memoisation``: results that are given again where equal operators meet equal operands.
- ``replay``: what recurs, as programs.
"""

from __future__ import annotations

from nnc_func.engine.dynamic.dynamic import Dynamic

__all__ = ["Dynamic"]
