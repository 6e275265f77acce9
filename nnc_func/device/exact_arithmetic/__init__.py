"""Numbers that round nothing, for the device `exact`.

- ``numbers``: rationals and integers modulo a prime.
- ``arrays``: arrays of these, and NumPy's functions on them.
"""
