"""Models from files, bytes and protocol buffers: parsed, and checked to be well formed before anything is built."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from nnc_func.errors import OnnxError
from nnc_func.onnx.allowance import MAX_BYTES
from nnc_func.onnx.types import onnx_package

ONNX_DOMAIN = "ai.onnx"


def domain_of(name: str) -> str:
    """ONNX's own domain has two names."""
    return "" if name == ONNX_DOMAIN else name


@frozen
class Source:
    """A model as it was read: the protocol buffer, its operator sets, its functions and where its other files are.

    Its `name` is that of its file or graph, for messages, and `nbytes` its size without other files. These are in the
    first of its directories; links in there may lead to any of them.
    """

    name: str
    proto: Any
    directories: tuple[Path, ...]
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Any] = field(repr=False)
    max_bytes: int = MAX_BYTES
    nbytes: int = 0

    def located(self, tensor: Any) -> Path:
        """The file beside the model in which the data of a tensor are.

        Raises
        ------
        OnnxError
            It is not in the model's directories, or is missing.
        """
        location = {e.key: e.value for e in tensor.external_data}.get("location", "")
        if not self.directories:
            raise OnnxError(f"tensor {tensor.name!r} has its data in the file {location!r}: give the path of the model")
        named = self.directories[0] / location.replace("\0", "?")
        try:
            beside = Path(os.path.normpath(named)).is_relative_to(self.directories[0])
            path: Path = named.resolve()
            inside = any(path.is_relative_to(each) for each in self.directories)
            is_file = path.is_file()
        except (OSError, RuntimeError) as error:  # a link to itself
            raise OnnxError(
                f"tensor {tensor.name!r} has its data in {location!r}, which cannot be read: {error}"
            ) from None
        if not location or os.path.isabs(location) or not beside or not inside:
            raise OnnxError(f"tensor {tensor.name!r} has its data in {location!r}, outside of the model's directory")
        if not is_file:
            raise OnnxError(f"tensor {tensor.name!r} has its data in {location!r}, which is no file")
        return path

    def external(self, tensor: Any, size: int) -> bytes:
        """The bytes of a tensor whose data are in a file beside the model.

        Raises
        ------
        OnnxError
            The file is not in the model's directories, is missing, or too short.
        """
        path, told = self.located(tensor), {e.key: e.value for e in tensor.external_data}
        location = told["location"]
        try:
            offset, length = int(told.get("offset") or 0), int(told.get("length") or size)
            if offset < 0 or length != size:
                raise OnnxError(f"tensor {tensor.name!r} wants {size} bytes, and its file is said to have {length}")
            with path.open("rb") as file:
                if offset + length > os.fstat(file.fileno()).st_size:
                    raise OnnxError(f"tensor {tensor.name!r}: {location!r} ends before byte {offset + length}")
                file.seek(offset)
                found: bytes = file.read(length)
                return found
        except (OSError, ValueError) as error:
            raise OnnxError(
                f"tensor {tensor.name!r} has its data in {location!r}, which cannot be read: {error}"
            ) from None


def read(model: Any, directory: Any = None, max_bytes: int = MAX_BYTES) -> Source:
    """A model from a path, bytes or a ModelProto.

    Parameters
    ----------
    directory
        Where its external data are, of bytes or a ModelProto; of a path it is the file's. Where the file is a link, as
        in caches of models, its data may be links to the directory to which that leads.
    max_bytes
        What reading it may make beyond what is in it; see `Allowance`.

    Raises
    ------
    OnnxError
        It cannot be read, is no ONNX model, or is not well formed.
    """
    onnx = onnx_package()
    beside: tuple[Path, ...] = ()
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise OnnxError(f"the model {str(path)!r} cannot be read: {error.strerror or error}") from None
        proto = _parsed(onnx, content, str(path))
        directory = path.parent if directory is None else directory
        name, size, beside = path.name, len(content), (path.resolve().parent,)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        proto = _parsed(onnx, bytes(model), "the bytes given")
        name, size = proto.graph.name, len(model)
    elif isinstance(model, onnx.ModelProto):
        proto = model
        name, size = proto.graph.name, proto.ByteSize()
    else:
        raise OnnxError(f"a model is a path, bytes or an onnx.ModelProto, given {type(model).__name__}")
    check_text(_names(proto), "the model")
    opsets = _opsets(onnx, proto)
    functions = {(domain_of(f.domain), f.name, f.overload): f for f in proto.functions}
    directories = () if directory is None else (Path(directory).resolve(), *beside)
    found = Source(name or "model", proto, directories, opsets, functions, max_bytes, size)
    if not proto.HasField("graph"):
        raise OnnxError("the model has no graph")
    return found


def _parsed(onnx: Any, content: bytes, what: str) -> Any:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # the parser's own classes are not public
        raise OnnxError(f"{what} is no ONNX model, or is damaged: {error}") from None
    if not proto.HasField("graph") and not proto.opset_import:
        raise OnnxError(f"{what} is no ONNX model, or is damaged: it has no graph")
    return proto


def _opsets(onnx: Any, proto: Any) -> Mapping[str, int]:
    newest = onnx.defs.onnx_opset_version()
    if proto.ir_version > onnx.IR_VERSION:
        told = f"onnx {onnx.__version__} knows those up to {onnx.IR_VERSION}"
        raise OnnxError(f"the model is of ONNX's format of version {proto.ir_version}; {told}")
    found = versions(proto.opset_import)
    wrong = [version for version in found.values() if not 0 < version < 2**31]
    if wrong:
        raise OnnxError(f"an operator set of version {wrong[0]}")
    if "" not in found and proto.ir_version < 3:
        found[""] = 1
    own = found.get("", newest)
    if not 1 <= own <= newest:
        raise OnnxError(f"the model is of operator set {own}; 1 to {newest} are read with onnx {onnx.__version__}")
    return found


def check_text(names: Iterable[Any], where: str) -> None:
    """Raise where a name is no text but bytes that are not UTF-8.

    Raises
    ------
    OnnxError
        One is.
    """
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise OnnxError(f"{where} has a name that is no text: {wrong[0]!r}")


def _names(proto: Any) -> Iterator[Any]:
    """Names of a model's graph and functions, but for those of nodes."""
    graph = proto.graph
    yield from (graph.name, *(i.domain for i in proto.opset_import), *(t.name for t in graph.initializer))
    yield from (s.values.name for s in graph.sparse_initializer)
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (d.dim_param for d in info.type.tensor_type.shape.dim)
    for function in proto.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)


def versions(imports: Iterable[Any]) -> dict[str, int]:
    """Operator sets by domain."""
    return {domain_of(i.domain): i.version for i in imports}
