"""Python's control flow turned into loops and branches: `if`, `while` and `for`, where a tensor decides.

- ``transform``, ``names``, ``liveness``, ``exits``, ``reads``, ``places``: rewrite the syntax tree of a function;
  ``source`` compiles it; ``users`` tells whose code it is.
- ``runtime``: what the result calls; ``staging``: where one is; ``builtin_functions``, ``numbers``, ``number_kinds``,
  ``texts``: Python's functions, arithmetic and texts of numbers that a tensor decides;
  ``endless``: recursion that never ends.
- ``staged_branches``, ``staged_loops``: make operators of blocks; ``sources``: what loops go over; ``values``:
  variables as leaves; ``optionals``: variables that may be None, or have nothing.
- ``objects``, ``arrays``, ``containers``, ``copies``: what blocks reach and write into; ``identities``: which tensors
  are one; ``loop_state``, ``loop_pairs``, ``appended``: what loops carry of all that.
"""
