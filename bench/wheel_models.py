"""The models out of packages' wheels that the tests run, and a quantised one, beside onnxruntime, in processes apart.

python bench/wheel_models.py [--device fast] [--processes 5] [--rounds 4] [--clock wall] [--smallest] [MODEL ...]
prints a table, writes bench/results/wheel_models.json. Models get the first inputs of their test; those that read text
in images also some of the size that they are made for. The quantised one ends where an operator begins that is none of
ONNX's. One thread, and its processor time: small models are mostly overhead. The smallest size is one model that
detects voice. Without the package onnx there is nothing; without onnxruntime, ours alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the models are named beside the tests

from measure import peer
from onnx_sides import arguments, measured, side

SMALLEST = "silero_vad_openvino_16k"
QUANTISED, LAST = ("ddddocr/common_old.onnx", "227")
"""A model and the result before its first operator that is none of ONNX's."""


def main() -> None:
    """Measure, tell, write."""
    given = arguments(__doc__, 1, "process").parse_args()
    if peer("onnx", "there are no models to measure") is None:
        return
    known = cases()
    if given.side:
        side(given, lambda name: known[name]())
        return
    asked = [SMALLEST] if given.smallest else given.models
    measured("wheel_models", __file__, [name for name in known if not asked or name in asked], given)


def cases() -> dict[str, Callable[[], tuple[Any, dict[str, Any]]]]:
    """By name what gives a model and arrays for its inputs."""
    import numpy as np
    import onnx

    from tests.onnx import test_real_models as tests
    from tests.onnx.wheels import model

    def read(package: tuple[str, str], name: str) -> Any:
        return onnx.load_from_string(model(*package, name))

    def noise(*shape: int) -> Any:
        return np.random.default_rng(0).uniform(-1, 1, shape).astype("float32")

    found: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {}
    for package, path, inputs in (*tests.CASES, *tests.LARGE):
        name = tests.named((package, path)) if "magika" not in path else "magika"
        found[name] = lambda package=package, path=path, first=inputs[0]: (read(package, path), first())  # type: ignore[misc]
        for kind, shape in (("_det_", (1, 3, 480, 640)), ("_rec_", (1, 3, 48, 320))):
            if kind in name:
                found[f"{name}, {shape[2]} x {shape[3]}"] = lambda package=package, path=path, shape=shape: (  # type: ignore[misc]
                    read(package, path),
                    {"x": noise(*shape)},
                )
    found["common_old, quantised"] = lambda: (
        until(read(tests.DDDDOCR, QUANTISED), LAST),
        {"input1": noise(1, 1, 64, 160)},
    )
    return found


def until(model: Any, last: str) -> Any:
    """The part of a model that a result needs."""
    import onnx

    graph, needed, kept = model.graph, {last}, list[Any]()
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    initial = [each for each in graph.initializer if each.name in needed]
    made = onnx.helper.make_graph(
        kept[::-1], "part", [*graph.input], [onnx.helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, None)],
        initial,
    )  # fmt: skip
    return onnx.helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)


if __name__ == "__main__":
    main()
