"""Layer 1: devices own memory and run kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.deferred import deferred
from nnc_func.device.cpu import NumPy

if TYPE_CHECKING:
    from nnc_func.device.exact import Exact
    from nnc_func.device.gpu import CuPy
    from nnc_func.device.null import Null
    from nnc_func.device.places import Placed, Places
    from nnc_func.device.strict import Strict
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            "CuPy": "nnc_func.device.gpu",
            "Exact": "nnc_func.device.exact",
            "Null": "nnc_func.device.null",
            "Placed": "nnc_func.device.places",
            "Places": "nnc_func.device.places",
            "Strict": "nnc_func.device.strict",
        },
    )

__all__ = ["CuPy", "Exact", "Null", "NumPy", "Placed", "Places", "Strict"]
