"""The networks that the onnx package ships, imported: read, traced, optimised, planned and bound on the lazy stack.

Bar: DenseNet-121, of 1,746 nodes, <= 1.5 s; the column "fresh" is that of a process that has imported nothing else of
this library, the others are medians in one process, which has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import onnx.backend.test
from measure import alternating, fresh, pinned, report

import nnc_func as nnc

FOLDER = os.path.join(os.path.dirname(onnx.backend.test.__file__), "data", "light")
NAMES = ("squeezenet", "shufflenet", "resnet50", "inception_v1", "inception_v2", "densenet121")
ROUNDS = 7
ONCE = """
import sys, time
import nnc_func as nnc, onnx
start = time.perf_counter()
nnc.from_onnx(sys.argv[1], nnc.lazy())
print(time.perf_counter() - start)
"""


def in_a_fresh_process(path: str) -> float:
    """Seconds of the first import of a model in a process."""
    done = subprocess.run([sys.executable, "-c", ONCE, path], capture_output=True, text=True, check=True)
    return float(done.stdout)


def measured(name: str) -> dict[str, Any]:
    """One row of the table."""
    path = os.path.join(FOLDER, f"light_{name}.onnx")
    stack = nnc.lazy()
    model = nnc.from_onnx(path, stack)
    nodes = len(onnx.load(path).graph.node)
    inputs = [stack.input(i.name, i.shape, i.dtype) for i in model.inputs]
    graph = stack.graph.close([i.value.node for i in inputs], [y.value for y in model.apply(*inputs)])
    fresh()
    found = alternating(
        {
            "import": lambda: nnc.from_onnx(path, stack),
            "trace": lambda: model.apply(*inputs),
            "optimise": lambda: stack.optimiser.optimise(graph.roots),
            "compile": lambda: stack.engine.compile(graph),
        },
        ROUNDS,
    )
    row: dict[str, Any] = {"model": name, "nodes": nodes, "instructions": len(model.program.plan.instructions)}
    row |= {f"{part} s": seconds for part, seconds in found.items()}
    return row | {"fresh s": in_a_fresh_process(path)}


def main() -> None:
    """Print and write the table."""
    with pinned(1):
        report("onnx_import", [measured(name) for name in NAMES])


if __name__ == "__main__":
    main()
