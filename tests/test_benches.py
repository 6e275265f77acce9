"""Every benchmark runs at its smallest size, in a process of its own, and writes no result (`nnc_func`)."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
TREES = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(BENCH.glob("*.py"))}
PEERS = {  # what is compared with and may be missing, by a benchmark that says so
    "exact.py": "ortools",
    "gpu.py": "cupy",
    "graph_speed.py": "jax",
    "joint.py": "ortools",
    "light_models.py": "onnxruntime",
    "onnx_import.py": "onnx",
    "proofs.py": "z3",
    "rematerialisation.py": "ortools",
    "resnet.py": "onnxruntime",
    "rolled_peers.py": "jax",
    "training_peers.py": "jax",
    "two_levels.py": "scipy",
    "wheel_models.py": "onnxruntime",
    "xla.py": "jax",
}


def runs(name: str) -> bool:
    """Whether it is a benchmark, and not what several share."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in TREES[name].body)


BENCHES = [name for name in TREES if runs(name)]
SHARED = [name for name in TREES if name not in BENCHES]


def results() -> dict[str, tuple[int, int]]:
    """Of each file of results, its size and when it was written."""
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in (BENCH / "results").iterdir()}


def printed(*command: str) -> str:
    """What a command prints, which runs from the root and fails at nothing."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", BENCHES)
def test_a_benchmark_runs_in_its_smallest_size(name: str) -> None:
    before = results()
    text = printed(f"bench/{name}", "--smallest")
    assert any(re.search(r"\d", line) for line in text.splitlines()), text
    assert results() == before


@pytest.mark.parametrize(("name", "peer"), PEERS.items())
def test_a_benchmark_says_that_a_peer_is_missing(name: str, peer: str) -> None:
    path = f"bench/{name}"
    hiding = "import runpy, sys; sys.modules[sys.argv[1]] = None; del sys.argv[:2]; sys.path.insert(0, 'bench'); "
    text = printed("-c", hiding + "runpy.run_path(sys.argv[0], run_name='__main__')", peer, path, "--smallest")
    assert f"{peer} is not installed: " in text


@pytest.mark.parametrize("name", BENCHES)
def test_a_benchmark_says_how_it_is_run_and_runs_only_then(name: str) -> None:
    text = ast.get_docstring(TREES[name]) or ""
    assert f"python bench/{name} " in text
    assert "--smallest]" in text
    last = TREES[name].body[-1]
    assert ast.unparse(last) == "if __name__ == '__main__':\n    main()"
    assert f"| `{name}` |" in (BENCH / "README.md").read_text(encoding="utf-8")


def test_what_benchmarks_share_is_told_of() -> None:
    assert SHARED == ["apart.py", "costs.py", "jax_operators.py", "lstm.py", "measure.py", "onnx_sides.py"]
