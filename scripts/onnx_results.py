"""Runs ONNX's own tests on the lazy stack and the eager one, and writes tests/onnx/results.txt: a minute or two."""

from __future__ import annotations

import warnings
from pathlib import Path

import nnc_func as nnc
from nnc_func.testing.onnx_results import counted, outcomes

RESULTS = Path(__file__).resolve().parent.parent / "tests" / "onnx" / "results.txt"

if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # what tests at the edges of floating point are about
    RESULTS.write_text(str(counted(outcomes([nnc.lazy(), nnc.eager()]))), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))
