"""The networks that the onnx package ships, imported: read, traced, optimised, planned and bound on the lazy stack.

Bar: DenseNet-121, of 1,746 nodes, <= 1.5 s. "fresh" is the first import of a model in a process, medians of several:
from before nnc_func is imported, the onnx package being there, and "with onnx" from before that is imported too. Byte
code is there, as it is once a package has run. The others are medians in one process, which has imported models.

python bench/onnx_import.py [--smallest]: prints a table, writes bench/results/onnx_import.json. It needs onnx.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from measure import alternating, fresh, options, peer, pinned, report

import nnc_func as nnc

NAMES = ("squeezenet", "shufflenet", "resnet50", "inception_v1", "inception_v2", "densenet121")
ROUNDS = 7
FRESH_ROUNDS = 5
ONCE = """
import sys, time
start = time.perf_counter()
import onnx
begin = time.perf_counter()
import nnc_func as nnc
nnc.from_onnx(sys.argv[1], nnc.lazy())
end = time.perf_counter()
print(end - begin, end - start)
"""


def in_fresh_processes(path: str, rounds: int) -> dict[str, float]:
    """Seconds of the first import of a model in a process; where one is enough, with the byte code that there is."""
    with tempfile.TemporaryDirectory() as compiled:
        given = dict(os.environ)
        if rounds > 1:
            given.pop("PYTHONDONTWRITEBYTECODE", None)
            given["PYTHONPYCACHEPREFIX"] = compiled
        call = [sys.executable, "-c", ONCE, path]
        outs = [
            subprocess.run(call, env=given, capture_output=True, text=True, check=True).stdout
            for _ in range(rounds + (rounds > 1))  # the first of several compiles
        ]
    fresh, with_onnx = zip(*(map(float, out.split()) for out in outs[-rounds:]), strict=True)
    return {"fresh s": statistics.median(fresh), "with onnx s": statistics.median(with_onnx)}


def measured(name: str, onnx: Any, rounds: int, fresh_rounds: int) -> dict[str, Any]:
    """One row of the table."""
    path = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light", f"light_{name}.onnx")
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
        rounds,
    )
    row: dict[str, Any] = {"model": name, "nodes": nodes, "instructions": len(model.program.plan.instructions)}
    row |= {f"{part} s": seconds for part, seconds in found.items()}
    return row | in_fresh_processes(path, fresh_rounds)


def main() -> None:
    """Print and write the table."""
    given = options(__doc__).parse_args()
    names, *rounds = (NAMES[:1], 1, 1) if given.smallest else (NAMES, ROUNDS, FRESH_ROUNDS)
    onnx = peer("onnx", "there is nothing to import")
    if onnx is not None:
        with pinned(1):
            report("onnx_import", [measured(name, onnx, *rounds) for name in names], smallest=given.smallest)


if __name__ == "__main__":
    main()
