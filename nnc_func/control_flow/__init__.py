"""Control flow on tensors: loops and branches as functions of functions, each one operator that holds bodies.

- ``while_loops``: `while_loop`.
- ``scanning``: `foreach`, `scan`, `fold`, `map`, `fori`.
- ``branches``: `cond`, `case_of`.
- ``tracing``: traces a function to a body.
- ``carries``: checks what a loop carries.
- ``steps``: applies a loop at once, in segments, or written out.
- ``past_layers``: keeps eager shortcuts off while a function is traced.
- ``conversion``: converts Python's own ``while``, ``for`` and ``if``.
"""
