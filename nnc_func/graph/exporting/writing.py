"""Models in memory and in files; large arrays beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nnc_func.errors import OnnxError
from nnc_func.graph.exporting.graphs import drafted
from nnc_func.graph.exporting.metadata import described
from nnc_func.graph.exporting.schemas import package

OPSETS = range(18, 23)
SMALL = 1024  # bytes: smaller arrays, shapes among them, stay in the model
ALIGNED = 4096  # bytes: where arrays begin in a file of their own, so that it can be mapped into memory


def to_onnx(graph: Any, path: Any, opset: int, external_above: int) -> Any:
    """The graph as a model, checked; written to the path unless that is None.

    Raises
    ------
    OnnxError
        An application has no form in ONNX, or the opset is none that is written.
    """
    if opset not in OPSETS:
        raise OnnxError(f"opset {opset}: models are written for opsets {OPSETS[0]} to {OPSETS[-1]}")
    draft = drafted(graph, opset)
    model = draft.message()
    described(model, graph, draft.arrays)
    size = sum(len(each.raw_data) for each in model.graph.initializer)
    if path is None:
        if size <= external_above:
            package("onnx.checker").check_model(model, full_check=True)
        return model
    target = Path(path)
    if size > external_above:
        _external(model, target.with_name(f"{target.name}.data"))
    _written(target, model.SerializeToString())
    package("onnx.checker").check_model(str(target), full_check=True)
    return None


def _external(model: Any, target: Path) -> None:
    """Move the arrays of a model to a file: the model names it, relative to its own place."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with beside.open("wb") as stream:
            for tensor in model.graph.initializer:
                if len(tensor.raw_data) <= SMALL:
                    continue
                stream.write(b"\0" * (-stream.tell() % ALIGNED))
                _moved(tensor, target.name, stream.tell())
                stream.write(tensor.raw_data)
                tensor.ClearField("raw_data")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _moved(tensor: Any, location: str, offset: int) -> None:
    tensor.data_location = package().TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", len(tensor.raw_data))):
        tensor.external_data.add(key=key, value=str(value))


def _written(target: Path, content: bytes) -> None:
    """Write a file: it is complete or not there."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
