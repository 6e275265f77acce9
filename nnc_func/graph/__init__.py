"""Layers 2 to 7, and the graphs that they make.

Layers: ``type``, ``shape``, ``symbol``, ``operator``, ``optimiser``, ``graph``.

Graphs:

- ``node``, ``leaves``: applications of operators; constants, inputs and variables.
- ``constants``, ``counters``, ``origin``, ``aliases``: what is known of nodes.
- ``bodies``, ``fragments``: parts of graphs as values.
- ``transfer``, ``refinement``, ``history``: graphs on other stacks, with known extents, and how they came about.
- ``reader_writer_lock``, ``unpickled``: who may use variables when; what is not pickled.
- ``pauses``: when what is computed is a constant.

Operators: ``ops`` has the catalogue, ``composite`` and ``composites`` the functions made of it.

Rewriting: ``rules`` has the rules, ``rewriting`` matches and applies them: `rewriting/matchers.py`.

For users: ``tensors`` has the handles that they hold, ``text`` graphs as text and files, ``formulas`` and ``pictures``
show them, ``onnx_export`` writes them as ONNX models.
"""
