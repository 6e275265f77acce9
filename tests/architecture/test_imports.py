"""Importing is cheap, no optional package comes with it, and imports point one way (`nnc_func`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = ("cupy", "onnx", "array_api_strict", "hypothesis", "pytest", "scipy", "mlxtend", "tqdm", "z3")
MEASURED = """
import sys, time
start = time.perf_counter()
import nnc_func
nnc_func.eager, nnc_func.lazy, nnc_func.rule  # what the package shows is imported when it is asked for
print(time.perf_counter() - start)
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


def _imported() -> tuple[float, set[str]]:
    done = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True, cwd=ROOT)
    seconds, names = done.stdout.splitlines()
    return float(seconds), set(names.split())


def test_importing_the_library_imports_no_optional_package(record_property: pytest.RecordProperty) -> None:
    measured = [_imported() for _ in range(3)]
    best = min(seconds for seconds, _ in measured)
    record_property("import_seconds", best)
    print(f"importing nnc_func: {best:.3f} s, best of {len(measured)}")  # reported: a busy machine proves nothing
    assert not measured[0][1] & set(OPTIONAL)


def test_imports_point_one_way() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
            "--no-logo",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
