"""Models in memory and in files; large arrays beside them."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from nnc_func.errors import OnnxError
from nnc_func.graph.onnx_export.graphs import drafted
from nnc_func.graph.onnx_export.metadata import described
from nnc_func.graph.onnx_export.model import SMALL
from nnc_func.graph.onnx_export.schemas import package

OPSETS = range(18, 23)
LARGEST = (1 << 31) - (1 << 20)  # bytes: a message of Protocol Buffers holds less than two gigabytes
ALIGNED = 4096  # bytes: where arrays begin in a file of their own, so that it can be mapped into memory


def to_onnx(graph: Any, path: Any, opset: int, external_above: int) -> Any:
    """The graph as a model, checked; written to the path unless that is None.

    Raises
    ------
    OnnxError
        An application has no form in ONNX, or the opset is none that is written.
    """
    if opset not in OPSETS:
        raise OnnxError(f"opset {opset!r}: models are written for opsets {OPSETS[0]} to {OPSETS[-1]}")
    draft = drafted(graph, opset)
    model = draft.message()
    described(model, graph, draft.arrays)
    if path is None:
        return model
    if not isinstance(path, (str, os.PathLike)):
        raise OnnxError(f"a model is written to a path, or is returned where that is None; given {path!r}")
    target = Path(path)
    try:
        _to_files(model, target, min(external_above, LARGEST))
    except OSError as error:
        raise OnnxError(f"the model cannot be written to {str(target)!r}: {error.strerror or error}") from error
    return None


def _to_files(model: Any, target: Path, external_above: int) -> None:
    if sum(map(_size, model.graph.initializer)) > external_above:
        _external(model, target.with_name(f"{target.name}.data"))
    _written(target, model.SerializeToString())


def _external(model: Any, target: Path) -> None:
    """Move the arrays of a model to a file: the model names it, relative to its own place."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with beside.open("wb") as stream:
            for tensor in model.graph.initializer:
                if _size(tensor) <= SMALL:
                    continue
                stream.write(b"\0" * (-stream.tell() % ALIGNED))
                _refer(tensor, target.name, stream.tell())
                stream.write(tensor.raw_data)
                tensor.ClearField("raw_data")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _size(tensor: Any) -> int:
    """Bytes of its elements."""
    width: int = package("onnx.helper").tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return width * math.prod(int(n) for n in tensor.dims)


def _refer(tensor: Any, location: str, offset: int) -> None:
    tensor.data_location = package().TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", _size(tensor))):
        tensor.external_data.add(key=key, value=str(value))


def _written(target: Path, content: bytes) -> None:
    """Write a file: it is complete or not there."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
