"""Small expressions as formulas.

- ``formula``: writes one in text or LaTeX; ``typesetting`` sets its pieces.
- ``simplification``: simplifies by the rules of algebra.
"""
