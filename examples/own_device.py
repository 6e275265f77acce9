"""A device of one's own: NumPy's kernels over memory in a file, for programs whose values do not fit into memory."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func.layer import layer


@layer()
class Disk(nnc.NumPy):
    """Arenas are files that the operating system reads and writes as kernels touch them.

    What is not said here is NumPy's: kernels, views, arrays of results. A device over another array namespace starts
    from `nnc_func.device.shared.base.PlannedDevice` instead and says how its arrays are made, as
    `nnc_func/device/gpu.py` does; one without memory to plan in starts from `ArrayDevice` there.

    Attributes
    ----------
    folder
        Where the files lie; they are gone with the program. None: where the system keeps temporary ones.
    """

    folder: str | None = None

    def arena(self, nbytes: int) -> Any:
        """A run of `nbytes` bytes in a file of its own; it begins at a page, and so at an aligned address."""
        with tempfile.TemporaryFile(dir=self.folder) as file:  # its memory stays as long as an array shows it
            return np.asarray(np.memmap(file, np.uint8, "w+", shape=max(nbytes, 1)))[:nbytes]


def main() -> None:
    """A program on it and on NumPy: one plan, one result, and where the bytes of the plan lie."""
    values = np.linspace(0, 1, 1 << 16)
    for device in (nnc.NumPy(), Disk()):
        lazy = nnc.lazy().swap(device=device)
        x = lazy.input("x", values.shape, "float64")
        program = lazy.compile([x], lazy.ops.cumulative_sum(lazy.ops.sort(lazy.ops.sin(x)), axis=0).sum())
        where = "in a file" if isinstance(device, Disk) else "in memory"
        print(f"{program(values):.6f}, by {program.plan.arena_bytes:,} bytes {where}")


if __name__ == "__main__":
    main()
