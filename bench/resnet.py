"""ResNet-50 at 224 x 224 against onnxruntime in one process: the whole, and where the time goes, layer kind by kind.

python bench/resnet.py [--threads 2] [--rounds 20] [--batch 1] [--numerics rounding]
prints a table, writes bench/results/resnet.json. Weights are drawn at random; both sides get the same ones.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before NumPy loads its BLAS: where threadpoolctl is not installed
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from measure import RESULTS, pinned
from onnx import TensorProto, helper, numpy_helper

import nnc_func as nnc

BAR = 1.8
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels within a block, blocks
EPSILON = 1e-5


class Both:
    """One network written twice: as tensors of a stack, and as nodes of an ONNX graph."""

    def __init__(self, stack: Any, batch: int) -> None:
        self.stack = stack
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.input = stack.input("x", (batch, 3, 224, 224), "float32")
        self.batch = batch

    def weight(self, array: Any) -> str:
        """An initialiser."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def node(self, op: str, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node of the ONNX graph; its name begins with the kind of layer."""
        name = f"{kind}#{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def drawn(self, *shape: int, scale: float = 1.0, around: float = 0.0) -> Any:
        """Normal numbers."""
        return (around + scale * self.random.standard_normal(shape)).astype("float32")

    def convolution(self, x: Any, into: int, size: int, stride: int = 1, rectified: bool = True) -> Any:
        """Convolution, batch normalisation, and perhaps a rectifier."""
        tensor, name = x
        channels, pad = tensor.shape[1], size // 2
        w = self.drawn(into, channels, size, size, scale=float(np.sqrt(2 / (channels * size * size))))
        ops, kind = self.stack.ops, f"conv {size}x{size}"
        kernel = self.stack.asarray(np.ascontiguousarray(w.transpose(2, 3, 1, 0)))
        tensor = ops.conv2d(tensor, kernel, stride=stride, padding=((pad, pad), (pad, pad)), data_format="NCHW")
        name = self.node("Conv", kind, name, self.weight(w), kernel_shape=(size, size), strides=(stride, stride),
                         pads=(pad,) * 4)  # fmt: skip
        scale, offset, mean = self.drawn(into, scale=0.1, around=0.3), self.drawn(into), self.drawn(into)
        variance = np.abs(self.drawn(into)) + np.float32(0.5)
        tensor = ops.batch_norm(tensor, *map(self.stack.asarray, (mean, variance, scale, offset)), axis=1,
                                epsilon=EPSILON)  # fmt: skip
        given = map(self.weight, (scale, offset, mean, variance))
        name = self.node("BatchNormalization", kind, name, *given, epsilon=EPSILON)
        return self.rectified((tensor, name), kind) if rectified else (tensor, name)

    def rectified(self, x: Any, kind: str) -> Any:
        """A rectifier."""
        return self.stack.ops.relu(x[0]), self.node("Relu", kind, x[1])

    def block(self, x: Any, channels: int, stride: int, widens: bool) -> Any:
        """Three convolutions beside a shortcut; He et al., 2016, with the stride at the middle one."""
        y = self.convolution(self.convolution(x, channels, 1), channels, 3, stride)
        y = self.convolution(y, 4 * channels, 1, rectified=False)
        z = self.convolution(x, 4 * channels, 1, stride, rectified=False) if widens else x
        kind = "conv 1x1"  # what follows a convolution is fused with it, and counts as its kind on both sides
        return self.rectified((y[0] + z[0], self.node("Add", kind, y[1], z[1])), kind)

    def resnet(self) -> tuple[Any, Any]:
        """ResNet-50: the result, and the model."""
        x = self.convolution((self.input, "x"), 64, 7, 2)
        pooled = self.stack.ops.max_pool2d(x[0], window=3, stride=2, padding=((1, 1), (1, 1)), data_format="NCHW")
        x = pooled, self.node("MaxPool", "pool", x[1], kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
        for stage, (channels, blocks) in enumerate(STAGES):
            for i in range(blocks):
                x = self.block(x, channels, 2 if stage and not i else 1, not i)
        mean = self.stack.ops.mean(x[0], axis=(2, 3))
        flat = self.node("Flatten", "pool", self.node("GlobalAveragePool", "pool", x[1]))
        w, b = self.drawn(2048, 1000, scale=0.02), self.drawn(1000)
        self.node("Gemm", "dense", flat, self.weight(w), self.weight(b))
        return mean @ self.stack.asarray(w) + self.stack.asarray(b), self.model()

    def model(self) -> Any:
        """The ONNX model."""
        ends = self.nodes[-1].output[0]
        graph = helper.make_graph(
            self.nodes, "resnet50",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input.shape)],
            [helper.make_tensor_value_info(ends, TensorProto.FLOAT, (self.batch, 1000))],
            self.weights,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


# --- layer kinds -----------------------------------------------------------------------------------------


def ours_by_kind(program: Any, x: Any, repeat: int) -> dict[str, float]:
    """Milliseconds of each kind of layer."""
    found: dict[str, float] = defaultdict(float)
    for timed in program.profile(x, repeat=repeat).instructions:
        name = timed.name.partition("(")[0]
        if name.startswith("conv2d"):
            height, width, *_ = timed.operands[1].shape
            name = f"conv {height}x{width}"
        elif "pool" in name or name == "mean":
            name = "pool"
        found[{"matmul": "dense", "add": "dense"}.get(name, name)] += timed.seconds * 1e3
    return found


def session(model: bytes, threads: int, profiled: str = "") -> Any:
    """Of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if profiled:
        options.enable_profiling, options.profile_file_prefix = True, profiled
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def theirs_by_kind(model: bytes, threads: int, x: Any, repeat: int) -> dict[str, float]:
    """Milliseconds of each kind of layer, as onnxruntime's profile has them: a fused node counts as its first layer."""
    with tempfile.TemporaryDirectory() as folder:
        running = session(model, threads, str(Path(folder) / "profile"))
        for _ in range(repeat + 1):
            running.run(None, {"x": x})
        events = json.loads(Path(running.end_profiling()).read_text(encoding="utf-8"))
    times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[event["name"]].append(event["dur"] / 1e3)
    found: dict[str, float] = defaultdict(float)
    for name, taken in times.items():
        found[name.partition("#")[0] if "#" in name else "relayout"] += statistics.median(taken)
    return found


# --- the whole -------------------------------------------------------------------------------------------


def measured(threads: int, rounds: int, batch: int, numerics: str) -> dict[str, Any]:
    """All figures."""
    lazy = nnc.lazy()
    lazy = lazy.swap(optimiser=lazy.optimiser.with_numerics(numerics))
    both = Both(lazy, batch)
    output, model = both.resnet()
    start = time.perf_counter()
    program = lazy.compile([both.input], output)
    compiled = time.perf_counter() - start
    serialised = model.SerializeToString()
    running, x = session(serialised, threads), both.drawn(batch, 3, 224, 224)
    ours, theirs = np.asarray(program(x)), running.run(None, {"x": x})[0]
    differ = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    pairs = []
    for _ in range(rounds):
        at = time.perf_counter()
        program(x)
        middle = time.perf_counter()
        running.run(None, {"x": x})
        pairs.append((middle - at, time.perf_counter() - middle))
    return {
        "ratio": statistics.median(a / b for a, b in pairs),
        "ratio of the fastest": min(a for a, _ in pairs) / min(b for _, b in pairs),
        "milliseconds": [1e3 * statistics.median(each) for each in zip(*pairs, strict=True)],
        "fastest milliseconds": [1e3 * min(each) for each in zip(*pairs, strict=True)],
        "largest difference, of the largest element": differ,
        "seconds to optimise, plan and bind": compiled,
        "arena bytes": program.plan.arena_bytes if hasattr(program.plan, "arena_bytes") else None,
        "milliseconds by kind": {
            "ours": ours_by_kind(program, x, 5), "onnxruntime": theirs_by_kind(serialised, threads, x, 5)
        },
        "load average": os.getloadavg()[0], "threads": threads, "batch": batch, "numerics": numerics, "rounds": rounds,
        "python": platform.python_version(), "numpy": np.__version__, "onnxruntime": onnxruntime.__version__,
    }  # fmt: skip


def told(found: dict[str, Any]) -> None:
    """The figures, as a table."""
    ours, theirs = found["milliseconds"]
    print(f"ResNet-50, batch {found['batch']}, {found['threads']} threads, numerics {found['numerics']}")
    print(f"  {ours:.1f} ms, onnxruntime {theirs:.1f} ms, fastest {found['fastest milliseconds']}")
    print(f"  ratio {found['ratio']:.2f} (bar {BAR}: {'met' if found['ratio'] <= BAR else 'missed'}), "
          f"of the fastest {found['ratio of the fastest']:.2f}")  # fmt: skip
    print(f"  largest difference {found['largest difference, of the largest element']:.1e} of the largest element")
    kinds = found["milliseconds by kind"]
    print("  ms by kind of layer     ours   onnxruntime (with what is fused)")
    for kind in sorted(set().union(*kinds.values())):
        print(f"    {kind:18}{kinds['ours'].get(kind, 0.0):8.2f}{kinds['onnxruntime'].get(kind, 0.0):12.2f}")


def main() -> None:
    """Measure, tell, write."""
    parser = argparse.ArgumentParser(description="ResNet-50 against onnxruntime.")
    for name, default in (("threads", 2), ("rounds", 20), ("batch", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--numerics", default="rounding")
    chosen = parser.parse_args()
    with pinned(chosen.threads):
        found = measured(chosen.threads, chosen.rounds, chosen.batch, chosen.numerics)
    told(found)
    path = RESULTS / "resnet.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept[f"batch {chosen.batch}, {chosen.threads} threads, {chosen.numerics}"] = found
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
