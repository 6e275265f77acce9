"""What the steps of a program mean: NumPy's reference kernels one by one, or a stack's operators, with Python's loops.

Neither knows a loop or a branch: a program with control flow runs its bodies by `for`, `while` and `if`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.shared.kernel_choice import fresh
from nnc_func.op import Op

MARGIN = 1e-6  # least distance of a number that decides from where it decides otherwise
ROUNDING = 64  # times the rounding of the largest number on the way


class OnArrays:
    """Reference kernels on NumPy arrays.

    Attributes
    ----------
    largest
        The largest finite floating number that was met.
    decisions
        The integers that said which branch is taken, or whether a loop goes on, in their order.
    """

    def __init__(self) -> None:
        self.largest = 0.0
        self.epsilon = 0.0
        self.decisions: list[int] = []

    def met(self, value: Any) -> Any:
        """The value as an array, of which the largest number is noted."""
        value = np.asarray(value)
        if value.dtype.kind in "fc":
            finite = np.abs(value[np.isfinite(value)])
            self.largest = max(self.largest, float(finite.max()) if finite.size else 0.0)
            self.epsilon = max(self.epsilon, float(np.finfo(value.dtype).eps))
        return value

    def apply(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """The results of an operator."""
        found = fresh(np, op.kernels[-1], op.canonical(params))(*args)
        return [*map(self.met, found if op.multi_result else (found,))]

    def near(self, value: Any) -> None:
        """Leave out a program that rounds a number near a half: another rounding on the way would decide otherwise."""
        far = abs(float(value) - np.floor(float(value)) - 0.5) if np.isfinite(value) else 0.0
        if not far > max(MARGIN, ROUNDING * self.epsilon * max(self.largest, 1.0)):
            from hypothesis.errors import UnsatisfiedAssumption  # here: as it starts it asks for `testing.program`

            raise UnsatisfiedAssumption(f"{value} decides, and is too near to where it decides otherwise")

    def integer(self, value: Any) -> int:
        """The number that decides."""
        self.decisions.append(int(value))
        return self.decisions[-1]

    def constant(self, array: Any) -> Any:
        """An array as a value."""
        return np.asarray(array)

    def stacked(self, rows: Sequence[Any], aval: Aval) -> Any:
        """Values of one aval side by side."""
        return np.stack(rows) if rows else np.zeros((0, *aval.shape), aval.dtype)


class OnStack:
    """The operators of a stack on its tensors, which may be traced: what was decided on arrays is decided again.

    Parameters
    ----------
    decisions
        As `OnArrays` has them after it met the same inputs.
    """

    def __init__(self, stack: Any, decisions: Sequence[int]) -> None:
        self.stack, self.left = stack, iter(decisions)

    def apply(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """The results of an operator."""
        found = self.stack.bind(op, *args, **params)
        return list(found) if op.multi_result else [found]

    def near(self, value: Any) -> None:
        """It is not looked at: it has no elements yet."""

    def integer(self, value: Any) -> int:
        """The number that was decided."""
        return next(self.left)

    def constant(self, array: Any) -> Any:
        """An array as a value."""
        return self.stack.asarray(array)

    def stacked(self, rows: Sequence[Any], aval: Aval) -> Any:
        """Values of one aval side by side."""
        if not rows:
            return self.stack.asarray(np.zeros((0, *aval.shape), aval.dtype))
        return self.stack.ops.stack(*rows, axis=0)


Meaning = OnArrays | OnStack
