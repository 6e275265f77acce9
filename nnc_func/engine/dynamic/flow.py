"""Whether gradients flow through an operator: all that recording asks of derivatives."""

from __future__ import annotations

from nnc_func.facets.derivatives import Constant
from nnc_func.op import Op


def carries_gradients(op: Op) -> bool:
    """Whether its derivative is not zero.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> carries_gradients(OPS["sin"]), carries_gradients(OPS["stop_gradient"])
    (True, False)
    """
    return type(op.derivative) is not Constant
