"""Layer 1: devices own memory and run kernels."""

from __future__ import annotations

from nnc_func.device.cpu import NumPy
from nnc_func.device.gpu import CuPy
from nnc_func.device.null import Null
from nnc_func.device.places import Placed, Places
from nnc_func.device.strict import Strict

__all__ = ["CuPy", "Null", "NumPy", "Placed", "Places", "Strict"]
