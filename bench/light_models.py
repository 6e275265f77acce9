"""The nine networks inside the onnx package beside onnxruntime, each in a process of its own; weights are drawn.

python bench/light_models.py [--threads 2] [--processes 5] [--rounds 4] [--device cpu] [--smallest] [MODEL ...]
prints a table, writes bench/results/light_models.json. The shipped weights are constants, which folding could abuse.
Devices: numpy; cpu, with oneDNN; fast, cpu with fast math. The smallest size is the smallest network. Without the
package onnx there are no networks; without onnxruntime, ours alone. Ratios of a run beside busy neighbours are marked.
"""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from apart import Side, in_turn, serve
from measure import earlier, options, peer, table, write

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


def inputs_of(model: Any) -> dict[str, Any]:
    """Arrays for the inputs of a model, drawn from one seed."""
    random = np.random.default_rng(1)
    kept = {each.name for each in model.graph.initializer}
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name not in kept
    }
    return {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


# --- sides: each in a process of its own -----------------------------------------------------------------


def ours(path: Path, device: str, numerics: str, result: Path) -> None:
    """Serve this library's program."""
    made = {"numpy": nnc.NumPy, "cpu": nnc.CPU, "fast": partial(nnc.CPU, fast_math=True)}[device]()
    lazy = nnc.lazy(made)
    lazy = lazy.swap(optimiser=lazy.optimiser.with_numerics(numerics))
    model = drawn(path)
    feeds, start = inputs_of(model), time.perf_counter()
    program = nnc.from_onnx(model, lazy)
    seconds = time.perf_counter() - start
    np.save(result, np.asarray(program(**feeds)))
    serve(lambda: program(**feeds), seconds=seconds)


def theirs(path: Path, threads: int, result: Path) -> None:
    """Serve onnxruntime."""
    runtime = peer("onnxruntime")
    model = drawn(path)
    feeds = inputs_of(model)
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = threads, 3
    session = runtime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    np.save(result, session.run(None, feeds)[0])
    serve(lambda: session.run(None, feeds))


# --- both ------------------------------------------------------------------------------------------------


def compared(path: Path, given: Any, has_peer: bool) -> dict[str, Any]:
    """The figures of one model; without onnxruntime, ours."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("ours", "onnxruntime") if has_peer else ("ours",)
        results = {name: Path(folder) / f"{name}.npy" for name in names}
        facts = ["--device", given.device, "--numerics", given.numerics, "--threads", str(given.threads)]

        def begin() -> dict[str, Side]:
            return {
                name: Side([__file__, "--side", name, "--result", str(at), *facts, str(path)], given.threads)
                for name, at in results.items()
            }

        rounds, processes = (1, 1) if given.smallest else (given.rounds, given.processes)
        found = in_turn(begin, rounds, processes)
        found["seconds to import, optimise, plan and bind"] = found.pop("facts")["ours"]["seconds"]
        if has_peer:
            one, two = (np.load(at) for at in results.values())
            found["largest difference, of the largest element"] = float(np.abs(one - two).max() / np.abs(two).max())
    return found


def main() -> None:
    """Measure, tell, write."""
    parser = options(__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4, help="turns of each process")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--numerics", default="rounding")
    parser.add_argument("--device", choices=("numpy", "cpu", "fast"), default="cpu")
    parser.add_argument(
        "--side", choices=("ours", "onnxruntime"), help="serve one side of one model, given by its path"
    )
    parser.add_argument("--result", type=Path, help="where the side writes its result")
    given = parser.parse_args()
    if given.side:
        (path,) = map(Path, given.models)
        if given.side == "ours":
            ours(path, given.device, given.numerics, given.result)
        else:
            theirs(path, given.threads, given.result)
        return
    onnx = peer("onnx", "there are no networks to measure")
    if onnx is not None:
        measured(given, Path(onnx.__file__).parent / "backend" / "test" / "data" / "light")


def measured(given: Any, folder: Path) -> None:
    """Print and write the table of the networks in a folder."""
    runtime = peer("onnxruntime")
    names = [SMALLEST] if given.smallest else given.models
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("light_*.onnx")):
        name = path.stem.removeprefix("light_")
        if not names or name in names:
            found[name] = compared(path, given, runtime is not None)
            print(f"{name}: {found[name]}", flush=True)
    print(f"{given.threads} threads, batch 1, device {given.device}, numerics {given.numerics}")
    table([row(name, each) for name, each in found.items()])
    if runtime is not None:
        ratios = [each["ratios"]["onnxruntime"] for each in found.values()]
        print(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.3f}")
    kept = earlier("light_models", {})
    about: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": runtime and runtime.__version__,
        "machine": nnc.CPU().library_setting,
    }
    key = f"{given.threads} threads, {given.numerics}, {given.device}"
    kept[key] = {**kept.get(key, {}), **found, "about": about, "rounds": given.rounds, "processes": given.processes}
    write("light_models", json.dumps(kept, indent=1, sort_keys=True), smallest=given.smallest)


def row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """A line of the table."""
    line = {"network": name, "import s": found["seconds to import, optimise, plan and bind"]}
    line |= {f"{side} ms": ms for side, ms in found["milliseconds"].items()}
    if found["ratios"]:
        line |= {
            "ratio": found["ratios"]["onnxruntime"],
            "of the fastest": found["ratios of the fastest"]["onnxruntime"],
        }
    difference = found.get("largest difference, of the largest element")
    line |= {} if difference is None else {"difference": difference}
    return line | {"quiet": "yes" if found["is quiet"] else "no"}


if __name__ == "__main__":
    main()
