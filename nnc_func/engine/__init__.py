"""Layer 8: engines decide when, in which order, and where in memory a graph is computed.

The layers:

- ``eager``: computes at once; ``eager_dispatch`` finds the kernel.
- ``lazy``: makes nodes, and programs of them; ``jit``, ``unrolled_jit``: functions traced once a signature;
  ``methods``: with their objects.
- ``dynamic``: computes at once, records, and sends gradients back through what it recorded.
- ``force``, ``reading``: values that are asked for outside of programs.
- ``settings``, ``compile_stats``: what an engine may be told, and what a compilation did.

From a graph to values:

- ``planning``: makes plans: order, lifetimes (when a value is freed), in-place reuse, addresses.
- ``plan``, ``plan_rows``, ``loop_instruction``: plans as data.
- ``orders``, ``allocators``, ``rematerialising``, ``spilling``: heuristics, one a file, that know no graphs; ``needs``
  is what their tasks are; ``joint_choice`` chooses all that at once; ``comparing`` sets them beside each other, for
  hours if need be; ``naming``: what they are called.
- ``verifying``: proves plans.
- ``linkers``: make plans executable; a printer of C goes there.
- ``running``: runs what is linked.
- ``interpreted``: programs without a plan; ``symbolic``: with unknown extents; ``incremental``: of which what changed
  runs; ``growing``: extents that elements decide, or that change time after time.
- ``copying``, ``effects``: what engines insert, and in which order effects happen.

About programs: ``tuning`` finds the fastest kernels, ``inspecting`` looks on, ``files`` and ``drawing`` keep and show.
"""

from __future__ import annotations

from nnc_func.engine.dynamic import Dynamic
from nnc_func.engine.eager import Eager
from nnc_func.engine.lazy import Lazy

__all__ = ["Dynamic", "Eager", "Lazy"]
