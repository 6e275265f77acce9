"""ResNet-50 at 224 x 224 beside onnxruntime, each in a process of its own: the whole, and layer kind by kind.

python bench/resnet.py [--threads 2] [--processes 5] [--rounds 4] [--batch 1] [--device cpu] [--numerics rounding]
[--smallest] prints a table, writes bench/results/resnet.json. Weights are drawn at random; both sides get the same
ones. Devices: numpy; cpu, with oneDNN; fast, cpu and rules with fast math. The smallest size has fewer blocks, and
images of 32 x 32. Without onnxruntime, ours alone is measured.
"""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from apart import Side, in_turn, serve
from measure import earlier, options, peer, table, write

import nnc_func as nnc

BAR = 1.05
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels within a block, blocks
SMALLEST = (32, ((4, 1), (4, 2)))  # the side of images, and stages
EPSILON = 1e-5


class Both:
    """One network written twice: as tensors of a stack, and as nodes of an ONNX graph."""

    def __init__(self, stack: Any, batch: int, side: int) -> None:
        self.stack = stack
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.input = stack.input("x", (batch, 3, side, side), "float32")
        self.batch = batch

    def weight(self, array: Any) -> str:
        """The name of an initialiser."""
        self.weights.append((np.ascontiguousarray(array), f"w{len(self.weights)}"))
        return str(self.weights[-1][1])

    def node(self, op: str, kind: str, *inputs: str, **attributes: Any) -> str:
        """The name of a node of the ONNX graph, which begins with the kind of layer."""
        name = f"{kind}#{len(self.nodes)}"
        self.nodes.append(((op, inputs, [name], name), attributes))
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

    def resnet(self, stages: Any = STAGES) -> Any:
        """ResNet-50, or one of other stages: the result as a tensor."""
        x = self.convolution((self.input, "x"), 64, 7, 2)
        pooled = self.stack.ops.max_pool2d(x[0], window=3, stride=2, padding=((1, 1), (1, 1)), data_format="NCHW")
        x = pooled, self.node("MaxPool", "pool", x[1], kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
        for stage, (channels, blocks) in enumerate(stages):
            for i in range(blocks):
                x = self.block(x, channels, 2 if stage and not i else 1, not i)
        mean = self.stack.ops.mean(x[0], axis=(2, 3))
        flat = self.node("Flatten", "pool", self.node("GlobalAveragePool", "pool", x[1]))
        w, b = self.drawn(mean.shape[1], 1000, scale=0.02), self.drawn(1000)
        self.node("Gemm", "dense", flat, self.weight(w), self.weight(b))
        return mean @ self.stack.asarray(w) + self.stack.asarray(b)

    def model(self) -> bytes:
        """The ONNX model, serialised."""
        from onnx import TensorProto, helper, numpy_helper

        nodes = [helper.make_node(*each, **attributes) for each, attributes in self.nodes]
        graph = helper.make_graph(
            nodes, "resnet50",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input.shape)],
            [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, (self.batch, 1000))],
            [numpy_helper.from_array(*each) for each in self.weights],
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        return bytes(made.SerializeToString())


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
        elif name.startswith("matmul") or name == "add":
            name = "dense"
        found[name] += timed.seconds * 1e3
    return found


def session(runtime: Any, model: bytes, threads: int, profiled: str = "") -> Any:
    """Of onnxruntime."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    if profiled:
        options.enable_profiling, options.profile_file_prefix = True, profiled
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def theirs_by_kind(runtime: Any, model: bytes, threads: int, x: Any, repeat: int) -> dict[str, float]:
    """Milliseconds of each kind of layer, as onnxruntime's profile has them: a fused node counts as its first layer."""
    with tempfile.TemporaryDirectory() as folder:
        running = session(runtime, model, threads, str(Path(folder) / "profile"))
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


# --- sides: each in a process of its own -----------------------------------------------------------------


def network(given: Any) -> tuple[Both, Any]:
    """The network on our stack, and its result."""
    side, stages = SMALLEST if given.smallest else (224, STAGES)
    made = {"numpy": nnc.NumPy, "cpu": nnc.CPU, "fast": partial(nnc.CPU, fast_math=True)}[given.device]()
    lazy = nnc.lazy(made)
    rules = lazy.optimiser.with_numerics(given.numerics, fast_math=given.device == "fast")
    both = Both(lazy.swap(optimiser=rules), given.batch, side)
    return both, both.resnet(stages)


def ours(given: Any) -> None:
    """Serve this library's program."""
    both, output = network(given)
    start = time.perf_counter()
    program = both.stack.compile([both.input], output)
    seconds = time.perf_counter() - start
    x = both.drawn(*both.input.shape)
    np.save(given.folder / "ours.npy", np.asarray(program(x)))
    kinds = ours_by_kind(program, x, 1 if given.smallest else 5)
    serve(lambda: program(x), seconds=seconds, kinds=kinds, arena=program.plan.arena_bytes)


def theirs(given: Any) -> None:
    """Serve onnxruntime."""
    runtime = peer("onnxruntime")
    both, _ = network(given)
    model, x = both.model(), both.drawn(*both.input.shape)
    running = session(runtime, model, given.threads)
    np.save(given.folder / "onnxruntime.npy", running.run(None, {"x": x})[0])
    kinds = theirs_by_kind(runtime, model, given.threads, x, 1 if given.smallest else 5)
    serve(lambda: running.run(None, {"x": x}), kinds=kinds, version=runtime.__version__)


# --- the whole -------------------------------------------------------------------------------------------


def measured(given: Any, names: Sequence[str]) -> dict[str, Any]:
    """All figures."""
    facts = [f"--{name}={getattr(given, name)}" for name in ("threads", "batch", "device", "numerics")]
    facts += ["--smallest"] if given.smallest else []
    rounds, processes = (1, 1) if given.smallest else (given.rounds, given.processes)
    with tempfile.TemporaryDirectory() as folder:

        def begin() -> dict[str, Side]:
            return {n: Side([__file__, "--side", n, "--folder", folder, *facts], given.threads) for n in names}

        found = in_turn(begin, rounds, processes)
        results = [np.load(Path(folder) / f"{name}.npy") for name in names]
    told = found.pop("facts")
    if len(results) == 2:
        one, two = results
        found["largest difference, of the largest element"] = float(np.abs(one - two).max() / np.abs(two).max())
        found["onnxruntime"] = told["onnxruntime"]["version"]
    return found | {
        "seconds to optimise, plan and bind": told["ours"]["seconds"], "arena bytes": told["ours"]["arena"],
        "milliseconds by kind": {name: each["kinds"] for name, each in told.items()}, "threads": given.threads,
        "batch": given.batch, "device": given.device, "numerics": given.numerics, "rounds": rounds,
        "processes": processes, "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip


def print_figures(found: dict[str, Any]) -> None:
    """The figures, as tables."""
    about = f"{found['threads']} threads, {found['device']}, numerics {found['numerics']}"
    print(f"ResNet-50, batch {found['batch']}, {about}, bar {BAR}")
    whole = {f"{name} ms": ms for name, ms in found["milliseconds"].items()}
    whole |= {f"{name} fastest": ms for name, ms in found["fastest milliseconds"].items()}
    if found["ratios"]:
        whole["ratio"] = found["ratios"]["onnxruntime"]
        whole["of the fastest"] = found["ratios of the fastest"]["onnxruntime"]
        whole["difference"] = found["largest difference, of the largest element"]
    table([whole | {"quiet": "yes" if found["is quiet"] else "no"}])
    kinds = found["milliseconds by kind"]
    print("with what is fused:")
    table(
        [
            {"kind of layer": kind} | {f"{name} ms": times.get(kind, 0.0) for name, times in kinds.items()}
            for kind in sorted(set().union(*kinds.values()))
        ]
    )


def main() -> None:
    """Measure, tell, write."""
    parser = options(__doc__)
    for name, default in (("threads", 2), ("rounds", 4), ("processes", 5), ("batch", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--numerics", default="rounding")
    parser.add_argument("--device", choices=("numpy", "cpu", "fast"), default="cpu")
    parser.add_argument("--side", choices=("ours", "onnxruntime"), help="used by the program itself")
    parser.add_argument("--folder", type=Path, help="where a side writes its result")
    given = parser.parse_args()
    if given.side:
        (ours if given.side == "ours" else theirs)(given)
        return
    names = ["ours"] if peer("onnxruntime") is None or peer("onnx") is None else ["ours", "onnxruntime"]
    found = measured(given, names)
    print_figures(found)
    kept = earlier("resnet", {})
    kept[f"batch {given.batch}, {given.threads} threads, {given.numerics}, {given.device}"] = found
    write("resnet", json.dumps(kept, indent=1, sort_keys=True), smallest=given.smallest)


if __name__ == "__main__":
    main()
