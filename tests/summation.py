"""How far two sums of the same terms may be apart, whatever the order in which each adds them: BLAS chooses one."""

from __future__ import annotations

from typing import Any

import numpy as np


def reordered(terms: int, magnitudes: Any, dtype: str = "float32") -> Any:
    """The largest difference of two sums of so many products, whose magnitudes add up to that.

    Each is at most γ = n·u / (1 - n·u) of the magnitudes from the true sum, u being half an eps (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, 3.1).
    """
    rounded = terms * np.finfo(dtype).eps / 2
    return 2 * rounded / (1 - rounded) * magnitudes
