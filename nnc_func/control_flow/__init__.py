"""Control flow on tensors: loops and branches as functions of functions, each one operator that holds bodies.

- ``while_loops``, ``breakpoints``: `while_loop`; `loop_until`, which ends in the middle of its body.
- ``scanning``: `foreach`, `scan`, `fold`, `map`, `fori`; ``slices`` brings the axis to the front that they go along.
- ``prefixes``, ``fixed_points``: `associative_scan`, `fixed_point`.
- ``blocks``: what `map` computes of several slices at once.
- ``host``: predicates that are functions of NumPy arrays.
- ``dynamic_functions``: functions of a dynamic stack that any program calls; ``recorded_programs``: functions that are
  one program of a dynamic graph.
- ``branches``: `cond`, `case_of`.
- ``tracing``: traces a function to a body.
- ``growing``, ``growing_derivative``: loops whose carries change their extents; ``stages``: loops around such loops;
  ``branch_stages``: branches around them; ``counts``: numbers that tell extents; ``row_by_row``: rows of `vmap`;
  ``waiting_derivatives``: derivatives where nothing is known yet.
- ``carries``: checks what a loop carries, ``least_dtypes``: of which dtype numbers are.
- ``checkpoints``: what is kept of a loop for derivatives.
- ``attempts``: notes what fails while blocks of Python are traced.
- ``messages``: what errors say: whose function it is, and where a leaf stands.
- ``steps``: applies a loop at once, in segments, or written out.
- ``layer_bypass``: keeps eager shortcuts off while a function is traced.
- ``conversion``: converts Python's own ``while``, ``for`` and ``if``.
"""
