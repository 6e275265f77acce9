"""Layer 1: devices own memory and run kernels. Each device is a file here, and a new one is added as another.

- ``cpu``: NumPy, the device to start from when you write one, and CPU, which has oneDNN's kernels beside it;
  `examples/own_device.py` is one of a user's own.
- ``onednn``: that library, by ctypes; ``description``: what a machine has.
- ``gpu``: CuPy, a device with memory of its own.
- ``exact``: rationals and residues, which round nothing; ``exact_arithmetic`` has their numbers and arrays.
- ``null``: computes nothing; it infers, plans and counts.
- ``places``: several devices as one.
- ``strict``: the array API standard and no more.
- ``shared``: what devices share: binding, dispatch, views, threads.
- ``kernels``: the functions that compute operators on arrays, by family.

The contract of a device is `DeviceSignature` in `nnc_func/layer_protocols.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.deferred import deferred
from nnc_func.device.cpu import CPU, NumPy

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

__all__ = ["CPU", "CuPy", "Exact", "Null", "NumPy", "Placed", "Places", "Strict"]
