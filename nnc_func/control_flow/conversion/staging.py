"""Statements that a tensor decides: where they stand, and what decides."""

from __future__ import annotations

from contextvars import ContextVar

import numpy as np
from attrs import frozen

from nnc_func.control_flow.conversion.sources import symbolic
from nnc_func.errors import ShapeError
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.override import Override

staged: ContextVar[str] = ContextVar("staged", default="")
"""Where the innermost `if` or loop that a tensor decides stands, while its blocks are traced."""


@frozen
class Where:
    """Lines of a statement that a tensor decides.

    Attributes
    ----------
    file, line
        Of the statement.
    blocks
        Of `if`, the lines at which its two blocks begin.
    """

    file: str
    line: int
    blocks: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def within_staged(where: Where) -> Override:
    """While blocks of a statement are traced."""
    return Override(staged, str(where))


def truth(test: Tensor) -> Tensor:
    """A tensor as one truth value.

    Raises
    ------
    ShapeError
        It has more elements than one, or none.
    """
    if test.shape != ():
        if any(symbolic(n) or n != 1 for n in test.shape):
            raise ShapeError(
                f"what if, while, and, or, not decide by is one truth value, given shape {test.shape}; use x.any() or "
                "x.all(), and & | ~"
            )
        test = test.reshape(())
    return test if test.dtype == np.bool_ else test.stack.ops.not_equal(test, 0)
