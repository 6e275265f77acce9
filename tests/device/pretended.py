"""A pretended CuPy: NumPy under CuPy's name, so that what the GPU device does is tested on machines without one."""

from __future__ import annotations

import types
from contextlib import contextmanager
from typing import Any

import numpy as np


class PretendedCuda(types.ModuleType):
    """``cupy.cuda``, with some GPUs."""

    def __init__(self, count: int) -> None:
        super().__init__("cupy.cuda")
        self.entered: list[int] = []
        self.synchronised: list[int] = []
        self.runtime = types.SimpleNamespace(getDeviceCount=lambda: count)
        self._count = count

    def is_available(self) -> bool:
        return self._count > 0

    def Device(self, index: int) -> Any:
        @contextmanager
        def current() -> Any:
            self.entered.append(index)
            yield

        found: Any = current()
        found.synchronize = lambda: self.synchronised.append(index)
        return found


class PretendedCuPy(types.ModuleType):
    """``cupy``: what NumPy has, and the few functions that differ."""

    def __init__(self, gpus: int = 1) -> None:
        super().__init__("cupy")
        self.cuda = PretendedCuda(gpus)
        self.copied: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def matmul(self, a: Any, b: Any, *, out: Any = None) -> Any:
        """CuPy's takes a place by its name only."""
        return np.matmul(a, b, out=out)

    def asnumpy(self, array: Any) -> Any:
        self.copied.append(array)
        return np.array(array)
