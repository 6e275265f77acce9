"""The nine networks inside the onnx package beside onnxruntime, each in a process of its own; weights are drawn.

python bench/light_models.py [--threads 2] [--processes 5] [--rounds 4] [--device cpu] [--smallest] [MODEL ...] prints a
table, writes bench/results/light_models.json. The shipped weights are constants, which folding could abuse. Devices:
numpy; cpu, with oneDNN; fast, cpu and rules with fast math. The smallest size is the smallest network. Without the
package onnx there are no networks; without onnxruntime, ours alone. Ratios of a run beside busy neighbours are marked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from measure import peer
from onnx_sides import arguments, measured, side

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


def main() -> None:
    """Measure, tell, write."""
    given = arguments(__doc__, 2, "wall").parse_args()
    onnx = peer("onnx", "there are no networks to measure")
    if onnx is None:
        return
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    if given.side:
        side(given, lambda name: with_inputs(folder / f"light_{name}.onnx"))
        return
    names = [path.stem.removeprefix("light_") for path in sorted(folder.glob("light_*.onnx"))]
    asked = [SMALLEST] if given.smallest else given.models
    measured("light_models", __file__, [name for name in names if not asked or name in asked], given)


def with_inputs(path: Path) -> tuple[Any, dict[str, Any]]:
    """The model of a file, and arrays for its inputs."""
    model = drawn(path)
    return model, inputs_of(model)


if __name__ == "__main__":
    main()
