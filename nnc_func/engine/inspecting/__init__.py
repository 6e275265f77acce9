"""Programs are looked at while they run.

- ``inspection``: the methods of programs that do so.
- ``nonfinite``: finds the first NaN or infinity.
- ``profile``: times each instruction.
- ``summary``: tells an array in a few numbers.
"""
