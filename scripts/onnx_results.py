"""Runs ONNX's own tests on the lazy stack and the eager one, and writes tests/onnx/results.txt: a minute or two."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the suite is beside the tests

import nnc_func as nnc
from tests.onnx.results import counted, outcomes

RESULTS = Path(__file__).resolve().parent.parent / "tests" / "onnx" / "results.txt"

if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # what tests at the edges of floating point are about
    RESULTS.write_text(str(counted(outcomes([nnc.lazy(), nnc.eager()]))), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))
