"""What libraries take inside is what kernels say (`device/kernels/decompositions`, `device/kernels/fourier`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

N = 768  # rows of a matrix: 4.7 MB
CASES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("cholesky", ["definite"], {}), ("eigh", ["definite"], {}), ("eigvalsh", ["definite"], {}),
    ("inv", ["definite"], {}), ("solve", ["definite", "matrix"], {}), ("det", ["definite"], {}),
    ("slogdet", ["definite"], {}), ("svdvals", ["tall"], {}), ("cholesky", ["many"], {}), ("eigh", ["many"], {}),
    *(("qr", [kind], {"mode": mode}) for kind in ("matrix", "tall", "many") for mode in ("reduced", "complete")),
    *(("svd", [kind], {"full_matrices": full}) for kind in ("matrix", "tall", "many") for full in (False, True)),
    ("pinv", ["matrix"], {}), ("pinv", ["tall"], {}), ("pinv", ["many"], {}),
    ("cofactors", ["matrix"], {}), ("cofactors", ["many"], {}),
    *(
        (f"solve_triangular/{kernel}", ["definite", "matrix"], {"unit_diagonal": unit})
        for kernel in ("scipy", "reference") for unit in (False, True)
    ),
    ("argsort", ["matrix"], {"axis": -1, "descending": False}),
    ("argsort", ["vector"], {"axis": -1, "descending": False}),
    ("argsort", ["matrix"], {"axis": -1, "descending": True}), ("kth_value", ["matrix"], {"k": 5}),
    ("argtop_k", ["matrix"], {"k": 5}), ("searchsorted", ["sorted", "vector"], {}),
    ("flatnonzero", ["truth"], {"size": N * N}), ("take_along_axis", ["matrix", "indices"], {"axis": -1}),
    ("fourier", ["complex64"], {"axis": (-1,)}), ("real_fourier", ["vector"], {}),
    ("inverse_real_fourier", ["complex128"], {"n": 2 * N * N - 2}),
]  # fmt: skip
CHILD = """
import json, re, sys
import numpy as np
from nnc_func.aval import Aval
from nnc_func.device.shared.namespace import candidates, writing
from nnc_func.facets.kernels import private_bytes
from nnc_func.graph.ops import CATALOGUE

def status(key):
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

name, kinds, params, n = json.loads(sys.argv[1])
name, _, wanted = name.partition("/")
numbers = np.random.default_rng(0)
square = numbers.standard_normal((n, n))
made = {
    "matrix": lambda: square, "definite": lambda: square @ square.T + n * np.eye(n),
    "tall": lambda: numbers.standard_normal((2 * n, n // 2)), "vector": lambda: square.reshape(-1),
    "sorted": lambda: np.sort(square.reshape(-1)), "truth": lambda: square > 0,
    "indices": lambda: numbers.integers(0, n, (n, n)), "complex64": lambda: square.reshape(-1).astype("complex64"),
    "complex128": lambda: square.reshape(-1).astype("complex128"),
    "many": lambda: np.eye(n // 8) + np.zeros((64, n // 8, n // 8)),
}
arrays = [np.ascontiguousarray(made[kind]()) for kind in kinds]
op = CATALOGUE[name]
items = op.canonical({k: tuple(v) if isinstance(v, list) else v for k, v in params.items()})
avals = tuple(Aval(a.shape, a.dtype) for a in arrays)
found = candidates(op, avals, dict(items), "numpy")
kernel = next(each for each in found if not wanted or each.name == wanted)
shape, dtype = op.shape(*(a.shape for a in arrays), **dict(items)), op.dtype(*(a.dtype for a in arrays), **dict(items))
pairs = list(zip(shape, dtype)) if op.multi_result else [(shape, dtype)]
outs = [np.full(s, 1, d) for s, d in pairs]
outs = [np.asarray(out) for out in outs]
call = writing(np, kernel, items, len(outs), ())
call(*arrays, *outs)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
call(*arrays, *outs)
said = private_bytes(kernel, avals, tuple(Aval(o.shape, o.dtype) for o in outs), dict(items))
print(json.dumps([status("VmHWM") - before, said, max(a.nbytes for a in arrays)]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the most memory of a process is told by Linux")
@pytest.mark.parametrize(("name", "kinds", "params"), CASES)
def test_it_is_what_the_kernel_says(name: str, kinds: list[str], params: dict[str, Any]) -> None:
    """By the memory of a process of its own, to which nothing is given that was given back."""
    own = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    given = json.dumps([name, kinds, params, N])
    found = subprocess.run(
        [sys.executable, "-c", CHILD, given],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **own, **threads},
    )
    taken, said, operand = json.loads(found.stdout)
    assert said == pytest.approx(taken, rel=0.1, abs=0.02 * operand), (taken / operand, said / operand)


def test_the_peak_counts_it() -> None:
    stack = nnc.lazy()
    x = stack.input("x", (100, 100), "float64")
    plan = stack.compile([x], [stack.ops.sum(stack.ops.cholesky(stack.ops.exp(x)))]).plan
    at = [i.op.name for i in plan.instructions].index("cholesky")
    assert plan.private_bytes[at] == 3 * 80_000
    assert sum(plan.private_bytes) == plan.private_bytes[at]
    assert plan.bytes_alive[at] == 2 * 80_000 + 8 + 3 * 80_000
    assert plan.peak_bytes == plan.arena_bytes + 8 + 3 * 80_000


def test_of_what_only_computes_it_is_the_results() -> None:
    stack = nnc.lazy()
    x = stack.input("x", (100, 100), "float64")
    plan = stack.compile([x], [stack.ops.expm(x)]).plan
    assert plan.private_bytes == (80_000,)


def test_in_the_body_of_a_loop() -> None:
    stack = nnc.lazy()
    x = stack.input("x", (50, 50), "float64")
    _, (y,), _ = stack.while_loop(lambda s: s[0, 0] < 3, lambda s: (None, stack.ops.inv(s) + 1), [x], max_iterations=9)
    plan = stack.compile([x], [y]).plan
    (loop,) = [i for i in plan.instructions if i.loops]
    assert plan.private_bytes[plan.instructions.index(loop)] == 3 * 20_000
    assert np.isfinite(plan.peak_bytes)
