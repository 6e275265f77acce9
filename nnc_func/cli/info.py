"""Versions of what is installed, devices, BLAS and threads."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata
from textwrap import indent
from typing import Any

import nnc_func
from nnc_func.cli.answers import Answer, facts
from nnc_func.engine.tuning.environment import Environment
from nnc_func.errors import DeviceError

PACKAGES = ("numpy", "attrs", "onnx", "onnxruntime", "scipy", "ml_dtypes", "threadpoolctl", "hypothesis", "cupy")


def arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none of its own."""


def answer(given: argparse.Namespace) -> Answer:
    """What this environment has."""
    environment = Environment.here()
    data: dict[str, Any] = {
        "version": nnc_func.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": environment.processor,
        "cores": environment.cores,
        "blas": environment.blas,
        "blas_threads": environment.threads,
        "devices": devices(),
        "packages": {name: found for name in PACKAGES if (found := version(name)) is not None},
    }
    parts = [facts({name: value for name, value in data.items() if not isinstance(value, dict)})]
    parts += [f"{kind}\n{indent(facts(data[kind], named=True), '  ')}" for kind in ("devices", "packages")]
    return Answer(data, "\n\n".join(parts))


def version(package: str) -> str | None:
    """The version of an installed distribution, CuPy's under whichever of its names; None without it."""
    for name in (package, f"{package}-cuda12x", f"{package}-cuda13x") if package == "cupy" else (package,):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def devices() -> dict[str, str]:
    """Each device, and whether it can be used here."""
    found = {"NumPy": "available", "Null": "available: counts, and computes nothing"}
    found["Strict"] = "available" if version("array-api-strict") else "wants the package array-api-strict"
    try:
        nnc_func.CuPy().asarray([0.0])
        found["CuPy"] = "available"
    except DeviceError as error:
        found["CuPy"] = str(error)
    return found
