"""The nine networks inside the onnx package against onnxruntime in one process, with weights drawn at random.

python bench/light_models.py [--threads 2] [--rounds 10] [--numerics rounding] [MODEL ...]
prints a table, writes bench/results/light_models.json. The shipped weights are constants, which folding could abuse.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import argparse
import json
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from measure import RESULTS, pinned
from onnx import numpy_helper

import nnc_func as nnc

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def drawn(path: Path) -> Any:
    """The model; weights that it fills with one number are drawn, of a size that keeps activations moderate."""
    model, random = onnx.load(path), np.random.default_rng(0)
    shapes = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or not _floating(node):
            kept.append(node)
            continue
        shape = tuple(int(n) for n in shapes[node.input[0]])
        weights = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else None
        found = random.uniform(0.5, 1.5, shape) if weights is None else weights
        model.graph.initializer.append(numpy_helper.from_array(found.astype("float32"), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def _floating(node: Any) -> bool:
    values = [numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"]
    return not values or values[0].dtype.kind == "f"


def compared(path: Path, stack: Any, threads: int, rounds: int) -> dict[str, Any]:
    """The figures of one model."""
    model = drawn(path)
    start = time.perf_counter()
    ours = nnc.from_onnx(model, stack)
    imported = time.perf_counter() - start
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    feeds = {i.name: random.standard_normal(i.shape).astype("float32") for i in theirs.get_inputs()}
    one, two = np.asarray(ours(**feeds)), theirs.run(None, feeds)[0]
    pairs = []
    for _ in range(rounds):
        at = time.perf_counter()
        ours(**feeds)
        middle = time.perf_counter()
        theirs.run(None, feeds)
        pairs.append((middle - at, time.perf_counter() - middle))
    return {
        "ratio": statistics.median(a / b for a, b in pairs),
        "ratio of the fastest": min(a for a, _ in pairs) / min(b for _, b in pairs),
        "milliseconds": [1e3 * statistics.median(each) for each in zip(*pairs, strict=True)],
        "largest difference, of the largest element": float(np.abs(one - two).max() / np.abs(two).max()),
        "seconds to import, optimise, plan and bind": imported,
    }


def main() -> None:
    """Measure, tell, write."""
    parser = argparse.ArgumentParser(description="The nine networks inside the onnx package against onnxruntime.")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--numerics", default="rounding")
    chosen = parser.parse_args()
    lazy = nnc.lazy()
    lazy = lazy.swap(optimiser=lazy.optimiser.with_numerics(chosen.numerics))
    found: dict[str, Any] = {}
    print(f"{chosen.threads} threads, batch 1   ms, onnxruntime   ratio  of the fastest  difference  import s")
    with pinned(chosen.threads):
        for path in sorted(FOLDER.glob("light_*.onnx")):
            name = path.stem.removeprefix("light_")
            if chosen.models and name not in chosen.models:
                continue
            each = found[name] = compared(path, lazy, chosen.threads, chosen.rounds)
            ours, theirs = each["milliseconds"]
            print(f"{name:18}{ours:10.1f}{theirs:10.1f}{each['ratio']:11.2f}{each['ratio of the fastest']:14.2f}"
                  f"{each['largest difference, of the largest element']:14.1e}"
                  f"{each['seconds to import, optimise, plan and bind']:9.2f}", flush=True)  # fmt: skip
    path = RESULTS / "light_models.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    about: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
    key = f"{chosen.threads} threads, {chosen.numerics}"
    about["load average"] = os.getloadavg()[0]
    kept[key] = {**kept.get(key, {}), **found, "about": about, "rounds": chosen.rounds}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
