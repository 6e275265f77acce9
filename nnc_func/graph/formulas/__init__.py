"""Small expressions as formulas: simplified by the rules of algebra, set in text and in LaTeX."""
