"""What this machine has: instruction sets, cores, caches, libraries, threads; in words, and nothing is measured."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nnc_func.device.onednn.library import library

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_PROC_BIND")


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    found = Path("/proc/cpuinfo")
    lines = found.read_text().splitlines() if found.exists() else []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def caches() -> str:
    """Caches of the first core, the innermost first."""
    found = []
    for each in sorted(CACHES.glob("index*")):
        try:
            level, kind, size = ((each / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return ", ".join(found) or "not known"


def blas() -> Iterator[str]:
    """The libraries with threads that are loaded, where threadpoolctl is installed; else what NumPy was built with."""
    try:
        found = importlib.import_module("threadpoolctl").threadpool_info()
    except ImportError:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        yield f"BLAS of NumPy: {built['name']} {built['version']}"
        return
    for each in found:
        version = each["version"] or "of unknown version"
        yield f"{each['internal_api']} {version}: {each['num_threads']} threads ({Path(each['filepath']).name})"


def description() -> str:
    """A line each.

    Examples
    --------
    >>> print(description().splitlines()[0].partition(":")[0])
    processor
    """
    found = library()
    lines = [f"processor: {processor()}", f"cores: {cores()}", f"caches: {caches()}", f"NumPy {np.__version__}"]
    lines += [*blas()]
    if isinstance(found, str):
        lines.append(f"oneDNN: none ({found})")
    else:
        spins = "loaded before, without GOMP_SPINCOUNT" if found.spins is None else f"GOMP_SPINCOUNT={found.spins}"
        lines.append(f"oneDNN {found.version}: {found.instructions}; OpenMP: {spins} ({found.path})")
    said = [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]
    lines.append(f"settings: {', '.join(said) or 'none'}")
    return "\n".join(lines)
