"""An imported model: a function of arrays or tensors, compiled for what is known of its inputs."""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.errors import OnnxError, ShapeError
from nnc_func.facets.dims import Dim
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.exporting.metadata import embedded, restored
from nnc_func.graph.tensor import Tensor
from nnc_func.onnx.implementations import unsupported
from nnc_func.onnx.reading import Source, read
from nnc_func.onnx.scopes import Frame, Scope, Unresolved
from nnc_func.onnx.tracing import Trace
from nnc_func.onnx.types import array_of, dtype_of
from nnc_func.tree import flatten

PROGRAMS = 16
"""As many programs are kept for inputs of different shapes, or with different elements where those decide shapes."""
SMALL = 64
"""Inputs of at most so many elements may be what a program is compiled for; larger ones are data."""


@frozen
class Declared:
    """An input or output: its name, shape (None: not even the rank is said) and dtype (None: an output may not say)."""

    name: str
    shape: tuple[Any, ...] | None
    dtype: np.dtype[Any] | None


class OnnxModel:
    """A model as a function, on one stack.

    It is called with arrays in the order of its inputs, or by their names, and returns an array, or a tuple of them
    where it has several outputs. Called with a tensor of the stack it applies the model to it and returns tensors: so a
    model can be traced, differentiated and be part of a larger one.

    One program serves all calls where all shapes follow from those of the inputs. Where elements of small inputs decide
    shapes (the axes of a reduction, say), a program is compiled for their values, and where a shape cannot be told
    before the run, the operators are applied one by one.

    Attributes
    ----------
    inputs, outputs
        What the model says of them, in order.
    stack
        That it was imported into.
    variables
        Its initialisers by name, where they were asked to be variables.
    original
        The graph from which ``graph.to_onnx`` wrote the model, with its updates, if nothing in it has changed since;
        else None.
    """

    def __init__(self, source: Source, stack: Any, variables: bool = False) -> None:
        self._source = source
        self.stack = stack
        graph = source.proto.graph
        initial = {t.name for t in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
        self.inputs = tuple(_declared(i) for i in graph.input if i.name not in initial)
        self.outputs = tuple(_declared(o, is_output=True) for o in graph.output)
        self.name = graph.name or "model"
        _check(source, self.inputs, self.outputs)
        self.variables = self._made() if variables else {}
        self._lock = threading.RLock()
        self._programs: OrderedDict[Any, Any] = OrderedDict()
        self._static: frozenset[str] = frozenset()
        self._by_shape = False
        self._at_once = False
        self._why: OnnxError | None = None
        self._program: Any = None
        self.original = restored(source.proto, stack, content=partial(_content, source))
        self._begin()

    def __repr__(self) -> str:
        given = ", ".join(f"{i.name}: {i.dtype}{_shown(i.shape)}" for i in self.inputs)
        return f"<ONNX model {self.name!r} ({given}) -> {', '.join(o.name for o in self.outputs)}>"

    @property
    def program(self) -> Any:
        """The one program for all calls.

        Raises
        ------
        OnnxError
            There is none: says why.
        """
        if self._program is None:
            raise OnnxError(f"there is no one program of {self.name!r}: {self._why}") from self._why
        return self._program

    @property
    def graph(self) -> Any:
        """The computation graph of that program.

        Raises
        ------
        OnnxError
            There is none: says why.
        """
        return self.program.graph

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The outputs.

        Raises
        ------
        OnnxError
            Inputs are missing, or too many; a dtype or a shape is not what the model says.
        """
        given = self._bound(arrays, named)
        if any(isinstance(a, Tensor) for a in given):
            found: Sequence[Any] = self.apply(*given)
        else:
            found = self._run([_host(a, i) for a, i in zip(given, self.inputs, strict=True)])
        return found[0] if len(found) == 1 else tuple(found)

    def apply(self, *values: Any) -> tuple[Any, ...]:
        """The outputs as tensors, whatever the inputs are.

        Raises
        ------
        OnnxError
            A node cannot be applied to them.
        """
        tensors = [self.stack.asarray(v) if not isinstance(v, Tensor) else v for v in values]
        for tensor, declared in zip(tensors, self.inputs, strict=True):
            _fits(declared, tensor)
        return self._traced(dict(zip((i.name for i in self.inputs), tensors, strict=True)))

    # --- programs ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Trace what the model says of its inputs; a failure waits for a call where that may tell more."""
        own = None if self.variables else self.original
        if own is not None and not own.updates:  # a call gives outputs, and changes no variable
            self._program = self.stack.engine.compile(evolve(own, structure=flatten(list(own.outputs))[1]))
            return
        try:
            self._program = self._compiled({})
            return
        except Unresolved as error:
            self._why = error
            self._settle(error)
        except OnnxError as error:
            if self._is_fixed() or isinstance(_root(error), OnnxError):  # numbers in place of extents would not help
                raise
            self._why = error
            self._by_shape = True

    def _settle(self, error: Unresolved) -> None:
        """What programs are compiled for: elements of inputs, shapes; or there are none."""
        more = error.inputs - self._static
        if more:
            self._static |= more
        elif not self._by_shape:
            self._by_shape = True
        else:
            self._at_once = True

    def _run(self, arrays: list[Any]) -> Sequence[Any]:
        if self._program is not None:
            try:
                return self._program(*arrays)  # type: ignore[no-any-return]
            except ShapeError:
                if self._is_fixed():
                    raise
                return self._run_compiled(arrays, by_shape=True)  # what was assumed of extents is not so
        return self._run_compiled(arrays)

    def _run_compiled(self, arrays: list[Any], by_shape: bool = False) -> Sequence[Any]:
        """The outputs by a program that is compiled for these arguments, or others like them."""
        while True:
            static = {i.name: a for i, a in zip(self.inputs, arrays, strict=True) if i.name in self._static}
            if self._at_once or any(a.size > SMALL for a in static.values()):
                found = self.apply(*arrays)
                return self.stack.evaluate(*found)  # type: ignore[no-any-return]
            by_shape = by_shape or self._by_shape
            try:
                program = self._kept(static, arrays, by_shape)
                return program(*[a for i, a in zip(self.inputs, arrays, strict=True) if i.name not in static])  # type: ignore[no-any-return]
            except Unresolved as error:
                self._settle(error)
            except OnnxError as error:
                if by_shape:
                    raise
                self._why, self._by_shape = error, True  # where extents are known, more is
            except ShapeError:
                if by_shape:
                    raise
                by_shape = True

    def _is_fixed(self) -> bool:
        """Whether the model says all extents of its inputs."""
        return all(i.shape is not None and all(isinstance(n, int) for n in i.shape) for i in self.inputs)

    def _kept(self, static: Mapping[str, Any], arrays: list[Any], by_shape: bool) -> Any:
        shapes = {i.name: a.shape for i, a in zip(self.inputs, arrays, strict=True)} if by_shape else {}
        key = tuple((name, a.shape, a.tobytes()) for name, a in static.items()), tuple(shapes.values())
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._programs[key] = self._compiled(static, shapes)
                while len(self._programs) > PROGRAMS:
                    self._programs.popitem(last=False)
            else:
                self._programs.move_to_end(key)
            return program

    def _compiled(self, static: Mapping[str, Any], shapes: Mapping[str, Any] | None = None) -> Any:
        shapes = shapes or {}
        values: dict[str, Any] = {}
        inputs = []
        for declared in self.inputs:
            name = declared.name
            if name in static:
                values[name] = np.array(static[name])
                continue
            shape = shapes.get(name, declared.shape)
            if shape is None:
                raise Unresolved(f"input {name!r} has no rank that the model says")
            values[name] = self.stack.input(name, shape, declared.dtype)
            inputs.append(values[name])
        return self.stack.compile(inputs, list(self._traced(values)), name=self.name)

    def _traced(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        trace = Trace(self.stack, self._source, self.variables)
        found = trace.graph(self._source.proto.graph, Scope(dict(values)), Frame(self._source.opsets, {}))
        tensors = [trace.tensor(f) for f in found]
        for declared, tensor in zip(self.outputs, tensors, strict=True):
            _agrees(declared, tensor)
        return tuple(tensors)

    # --- arguments --------------------------------------------------------------------------------------

    def _bound(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = [i.name for i in self.inputs]
        told = f"inputs of {self.name!r} are {', '.join(map(repr, names)) or 'none'}"
        if len(arrays) > len(names):
            raise OnnxError(f"{told}; given {len(arrays)} arrays")
        given = dict(zip(names, arrays, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                raise OnnxError(f"{told}; {name!r} is {'given twice' if name in given else 'none of them'}")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise OnnxError(f"{told}; {missing[0]!r} is missing")
        return [given[name] for name in names]

    def _made(self) -> dict[str, Any]:
        """The floating initialisers of rank 1 and more, as variables."""
        found = {}
        for tensor in self._source.proto.graph.initializer:
            array = array_of(tensor, self._source.external)
            if kind_of(array.dtype) in "fc" and array.ndim:
                found[tensor.name] = self.stack.variable(tensor.name, array)
        return found


def from_onnx(model: Any, stack: Any = None, *, variables: bool = False, directory: Any = None) -> OnnxModel:
    """An ONNX model as a function on a stack.

    Parameters
    ----------
    model
        A path, bytes, or an ``onnx.ModelProto``; of any operator set from 7 on.
    stack
        Default: the lazy stack.
    variables
        Whether initialisers of floating numbers are variables (`OnnxModel.variables`), to be trained or exchanged; else
        they are constants.
    directory
        Where the model's external data are; of a path the file's.

    Returns
    -------
    A function of arrays: `OnnxModel`.

    Raises
    ------
    OnnxError
        The model cannot be read, is not well formed, or has nodes that are not supported: it names all of them.

    Examples
    --------
    >>> import numpy as np, onnx, nnc_func as nnc
    >>> text = '<ir_version: 8, opset_import: ["": 18]> twice (float[n, 3] x) => (float[n, 3] y) { y = Add (x, x) }'
    >>> twice = nnc.from_onnx(onnx.parser.parse_model(text), nnc.eager())
    >>> twice(np.ones((1, 3), "float32"))
    array([[2., 2., 2.]], dtype=float32)
    """
    if stack is None:
        from nnc_func.stacks import lazy

        stack = lazy()
    return OnnxModel(read(model, directory), stack, variables)


def _content(source: Source, tensor: Any) -> bytes:
    """The bytes of an array, wherever they are."""
    if not tensor.external_data:
        return embedded(tensor)
    size = math.prod(tensor.dims) * dtype_of(tensor.data_type).itemsize
    return source.external(tensor, size)


# --- what models say --------------------------------------------------------------------------------------


def _declared(info: Any, is_output: bool = False) -> Declared:
    kind = info.type.WhichOneof("value")
    if kind is None and is_output:
        return Declared(info.name, None, None)
    if kind != "tensor_type":
        what = "no type" if kind is None else kind.removesuffix("_type")
        raise OnnxError(f"{info.name!r} is of {what}: supported are tensors; sequences, maps, optional values are not")
    tensor = info.type.tensor_type
    try:
        dtype = dtype_of(tensor.elem_type)
    except OnnxError as error:
        raise OnnxError(f"{info.name!r}: {error}") from None
    shape = tuple(_extent(info.name, d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    return Declared(info.name, shape, dtype)


def _extent(name: str, dim: Any) -> Any:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        return dim.dim_value if dim.dim_value >= 0 else None
    if kind is None or not re.search(r"\w", dim.dim_param):
        return None  # "?" and the like are no names
    cleaned = re.sub(r"\W", "_", dim.dim_param)
    return cleaned if cleaned[0].isalpha() or cleaned[0] == "_" else f"_{cleaned}"


def _check(source: Source, inputs: Sequence[Declared], outputs: Sequence[Declared]) -> None:
    graph = source.proto.graph
    for what, listed in (("input", [i.name for i in graph.input]), ("output", [o.name for o in outputs])):
        twice = next((n for n in listed if listed.count(n) > 1 or not n), None)
        if twice is not None:
            raise OnnxError(f"{what}s have names, each its own, given {twice!r}")
    if not outputs:
        raise OnnxError("the model's graph has no outputs")
    refused = unsupported(graph, source.opsets, source.functions)
    if refused:
        raise OnnxError("not supported: " + "; ".join(refused))


def _root(error: BaseException) -> BaseException:
    """What an error was raised from, first of all."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _shown(shape: tuple[Any, ...] | None) -> str:
    return "[…]" if shape is None else f"[{', '.join('?' if n is None else str(n) for n in shape)}]"


def _host(value: Any, declared: Declared) -> Any:
    array = np.asarray(value)
    _fits(declared, array)
    return array


def _fits(declared: Declared, value: Any) -> None:
    shape = declared.shape
    fits = shape is None or (
        len(shape) == len(value.shape)
        and all(not isinstance(n, int) or isinstance(m, Dim) or n == m for n, m in zip(shape, value.shape, strict=True))
    )
    if value.dtype != declared.dtype or not fits:
        wanted = f"{declared.dtype}{_shown(shape)}"
        raise OnnxError(f"input {declared.name!r} is {wanted}, given {value.dtype}{_shown(tuple(value.shape))}")


def _agrees(declared: Declared, tensor: Any) -> None:
    """Raise where an output is not what the model says of it."""
    shape = declared.shape
    if declared.dtype is not None and tensor.dtype != declared.dtype:
        raise OnnxError(f"output {declared.name!r} is {tensor.dtype}, and the model says {declared.dtype}")
    if shape is not None and len(shape) != len(tensor.shape):
        given = tuple(map(str, tensor.shape))
        raise OnnxError(f"output {declared.name!r} has shape {given}, and the model says {_shown(shape)}")
