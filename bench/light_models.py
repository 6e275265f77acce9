"""The nine networks inside the onnx package against onnxruntime in one process, with weights drawn at random.

python bench/light_models.py [--threads 2] [--rounds 10] [--numerics rounding] [--smallest] [MODEL ...] prints a table,
writes bench/results/light_models.json. The shipped weights are constants, which folding could abuse. The smallest size
is the smallest network. Without the package onnx there are no networks; without onnxruntime, ours alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import json
import platform
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import beside, earlier, options, peer, pinned, table, write

import nnc_func as nnc

SMALLEST = "shufflenet"


def drawn(path: Path) -> Any:
    """The model; weights that it fills with one number are drawn, of a size that keeps activations moderate."""
    import onnx
    from onnx import numpy_helper

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
    from onnx import numpy_helper

    values = [numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"]
    return not values or values[0].dtype.kind == "f"


def compared(path: Path, stack: Any, threads: int, rounds: int, runtime: Any) -> dict[str, Any]:
    """The figures of one model; without onnxruntime, ours."""
    model = drawn(path)
    start = time.perf_counter()
    ours = nnc.from_onnx(model, stack)
    found: dict[str, Any] = {"seconds to import, optimise, plan and bind": time.perf_counter() - start}
    random = np.random.default_rng(1)
    feeds = {i.name: random.standard_normal(i.shape).astype("float32") for i in ours.inputs}
    one, theirs = np.asarray(ours(**feeds)), None
    if runtime is not None:
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        theirs = partial(session.run, None, feeds)
        two = theirs()[0]
        found["largest difference, of the largest element"] = float(np.abs(one - two).max() / np.abs(two).max())
    return found | beside(lambda: ours(**feeds), theirs, rounds)


def main() -> None:
    """Measure, tell, write."""
    parser = options(__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--numerics", default="rounding")
    given = parser.parse_args()
    onnx = peer("onnx", "there are no networks to measure")
    if onnx is not None:
        measured(given, Path(onnx.__file__).parent / "backend" / "test" / "data" / "light")


def measured(given: Any, folder: Path) -> None:
    """Print and write the table of the networks in a folder."""
    runtime, lazy = peer("onnxruntime"), nnc.lazy()
    lazy = lazy.swap(optimiser=lazy.optimiser.with_numerics(given.numerics))
    names, rounds = ([SMALLEST], 1) if given.smallest else (given.models, given.rounds)
    found: dict[str, Any] = {}
    with pinned(given.threads):
        for path in sorted(folder.glob("light_*.onnx")):
            name = path.stem.removeprefix("light_")
            if not names or name in names:
                found[name] = compared(path, lazy, given.threads, rounds, runtime)
                print(f"{name}: {found[name]}", flush=True)
    print(f"{given.threads} threads, batch 1")
    table([row(name, each) for name, each in found.items()])
    kept = earlier("light_models", {})
    about: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": runtime and runtime.__version__,
        "load average": os.getloadavg()[0],
    }
    key = f"{given.threads} threads, {given.numerics}"
    kept[key] = {**kept.get(key, {}), **found, "about": about, "rounds": rounds}
    write("light_models", json.dumps(kept, indent=1, sort_keys=True), smallest=given.smallest)


def row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    columns = {"ratio": "ratio", "ratio of the fastest": "of the fastest"}
    columns |= {"largest difference, of the largest element": "difference"}
    line = {"network": name, "import s": found["seconds to import, optimise, plan and bind"]}
    line |= dict(zip(("ms", "onnxruntime ms"), found["milliseconds"], strict=False))
    return line | {column: found[key] for key, column in columns.items() if key in found}


if __name__ == "__main__":
    main()
