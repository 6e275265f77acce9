"""What a measurement was taken on: processor, cores, NumPy, its BLAS and its threads."""

from __future__ import annotations

import importlib
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen


@frozen
class Environment:
    """Hardware and libraries, as far as the speed of kernels depends on them.

    Attributes
    ----------
    processor
        The model's name.
    cores
        How many of them there are.
    numpy, blas
        Version of NumPy; name and version of the BLAS that it calls.
    threads
        BLAS threads.
    device
        Which device was measured, as it prints itself.

    Examples
    --------
    >>> Environment.here().cores >= 1
    True
    """

    processor: str
    cores: int
    numpy: str
    blas: str
    threads: int
    device: str = "NumPy()"

    @classmethod
    def here(cls, device: object = "NumPy()") -> Environment:
        """Those of this process, as they are now."""
        cores = os.cpu_count() or 1
        return cls(_processor(), cores, np.__version__, _blas(), blas_threads() or cores, str(device))

    def __str__(self) -> str:
        return (
            f"{self.device} on {self.processor}, {self.cores} cores, NumPy {self.numpy}, {self.blas}, "
            f"{self.threads} threads"
        )


@cache
def _processor() -> str:
    told = Path("/proc/cpuinfo")  # of Linux
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


@cache
def _blas() -> str:
    found: Any = np.show_config(mode="dicts")  # type: ignore[call-arg,func-returns-value,unused-ignore]
    blas = found.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'BLAS')} {blas.get('version', '')}".strip()


def blas_threads() -> int:
    """How many threads BLAS uses, as threadpoolctl or the environment tells; 0 if neither does."""
    try:
        pools = importlib.import_module("threadpoolctl").threadpool_info()
    except ImportError:
        pools = []
    counts = [int(p["num_threads"]) for p in pools if p["user_api"] == "blas"]
    named = (os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"))
    return max(counts, default=0) or next((int(n) for n in named if n.isdigit()), 0)
