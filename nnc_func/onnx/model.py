"""An imported model: a function of arrays or tensors, compiled for what is known of its inputs."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from nnc_func.engine.symbolic import SymbolicProgram
from nnc_func.errors import OnnxError, ShapeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.onnx_export.metadata import embedded, restored
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.nn.graphs import closed
from nnc_func.onnx.allowance import MAX_BYTES
from nnc_func.onnx.declarations import (
    check_agrees,
    check_declarations,
    check_fits,
    check_shape,
    declaration_of,
    host,
    shown,
    warn_once,
)
from nnc_func.onnx.reading import Source, read
from nnc_func.onnx.scopes import Frame, Scope, Unresolved
from nnc_func.onnx.tracing import Trace
from nnc_func.onnx.types import dtype_of
from nnc_func.tree import flatten

HOPELESS = (OnnxError, AttributeError, NameError)
"""Of what numbers in place of unknown extents would not mend: the model or an entry is at fault."""
PROGRAMS = 16
"""As many programs are kept for inputs of different shapes, or with different elements where those decide shapes."""
SMALL = 64
"""Inputs of at most so many elements may be what a program is compiled for; larger ones are data."""


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
        Its initialisers by name, where they were asked to be variables; ``variables[name].value.assign(array)`` gives
        one another value.
    original
        The graph from which ``graph.to_onnx`` wrote the model, with its updates, if nothing in it has changed since;
        else None.
    """

    def __init__(self, source: Source, stack: Any, variables: bool = False) -> None:
        self._source = source
        self.stack = stack
        graph = source.proto.graph
        initial = {t.name for t in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
        self.inputs = tuple(declaration_of(i) for i in graph.input if i.name not in initial)
        self.outputs = tuple(declaration_of(o, is_output=True) for o in graph.output)
        self.name = graph.name or "model"
        check_declarations(source, self.inputs, self.outputs)
        self.variables = self._made() if variables else {}
        self._lock = threading.RLock()
        self._programs: dict[Any, Any] = {}  # the last to be asked for last
        self._fitting: set[Any] = set()  # shapes and dtypes of arguments that are what the model declares
        self._static: frozenset[str] = frozenset()
        self._by_shape = False
        self._at_once = False
        self._why: OnnxError | None = None
        self._program: Any = None
        self._warnings: set[str] = set()
        self.original = restored(source.proto, stack, content=partial(_content, source))
        self._begin()

    def __repr__(self) -> str:
        given = ", ".join(f"{i.name}: {i.dtype}{shown(i.shape)}" for i in self.inputs)
        return f"<ONNX model {self.name!r} ({given}) -> {', '.join(o.name for o in self.outputs)}>"

    @property
    def has_program(self) -> bool:
        """Whether one program serves all calls."""
        return self._program is not None

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
        form = tuple([(a.shape, a.dtype) if type(a) is np.ndarray else None for a in given])
        if form in self._fitting:  # as such arrays did before
            found: Sequence[Any] = self._run(given)
        elif any(isinstance(a, Tensor) for a in given):
            found = self.apply(*given)
        else:
            found = self._run([host(a, i) for a, i in zip(given, self.inputs, strict=True)])
            if None not in form and len(self._fitting) < PROGRAMS:
                self._fitting.add(form)
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
            check_fits(declared, tensor)
        return self._traced(dict(zip((i.name for i in self.inputs), tensors, strict=True)))

    def specialised(self, elements: Mapping[str, Any] | None = None, shapes: Mapping[str, Any] | None = None) -> Any:
        """The computation graph for inputs of which more is known than the model says; not optimised.

        So there is one, to be looked at, planned or exported, where there is no one program for all inputs.

        Parameters
        ----------
        elements
            Arrays by names of inputs: these are constants, and the graph has no such inputs.
        shapes
            Shapes of other inputs by name; an extent is a number, a name, or None where it is unknown.

        Raises
        ------
        OnnxError
            There is no such input; what is said contradicts the model; or shapes depend on more than that.

        Examples
        --------
        >>> import numpy as np, onnx, nnc_func as nnc
        >>> head = '<ir_version: 8, opset_import: ["": 18]> take (float[n, m] x, int64[1] axis) => (float[k] y)'
        >>> model = nnc.from_onnx(onnx.parser.parse_model(head + '{ y = ReduceSum <keepdims = 0> (x, axis) }'))
        >>> model.specialised({"axis": np.array([1])}, {"x": ("n", 3)}).outputs[0].aval
        float32[n]
        """
        declared = {i.name: i for i in self.inputs}
        for name in (*(elements or {}), *(shapes or {})):
            if name not in declared:
                raise OnnxError(f"{self._expected()}; {name!r} is none of them")
        static = {name: host(value, declared[name]) for name, value in (elements or {}).items()}
        for name, shape in (shapes or {}).items():
            check_shape(declared[name], tuple(shape))
        inputs, outputs = self._applied(static, shapes or {})
        return closed(self.stack, inputs, outputs, name=self.name)

    # --- programs ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Trace what the model says of its inputs; a failure waits for a call where that may tell more."""
        own = None if self.variables else self.original
        if own is not None and not own.updates:  # a call gives outputs, and changes no variable
            self._program = self.stack.engine.compile(evolve(own, structure=flatten(own.outputs)[1]))
            return
        try:
            self._program = self._compiled({})
            return
        except Unresolved as error:
            self._why = error
            self._settle(error)
        except OnnxError as error:
            if self._is_fixed() or isinstance(_root(error), HOPELESS):
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
            program = self._programs.pop(key, None)
            program = self._programs[key] = self._compiled(static, shapes) if program is None else program
            for oldest in [*self._programs][:-PROGRAMS]:
                del self._programs[oldest]
            return program

    def _compiled(self, static: Mapping[str, Any], shapes: Mapping[str, Any] | None = None) -> Any:
        inputs, outputs = self._applied(static, shapes or {})
        found = self.stack.compile(inputs, outputs, name=self.name)
        return found.rewriting_bindings() if isinstance(found, SymbolicProgram) else found

    def _applied(self, static: Mapping[str, Any], shapes: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Inputs of those shapes, without those whose elements are known; and the outputs."""
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
        return inputs, list(self._traced(values))

    def _traced(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        trace, found = self._walked(values)
        tensors = [trace.tensor(f) for f in found]
        for declared, tensor in zip(self.outputs, tensors, strict=True):
            warn_once(check_agrees(declared, tensor), self._warnings)
        return tuple(tensors)

    def _walked(self, values: Mapping[str, Any]) -> tuple[Trace, Sequence[Any]]:
        """A walk, and what it gives: with loops and branches as operators, or, where that fails, written out."""
        graph, frame = self._source.proto.graph, Frame(self._source.opsets, {})
        trace = Trace(self.stack, self._source, self.variables, values.values())
        try:
            return trace, trace.graph(graph, Scope(dict(values)), frame)
        except OnnxError:
            if not trace.rolled:
                raise
        trace = Trace(self.stack, self._source, self.variables, values.values(), rolls=False)
        return trace, trace.graph(graph, Scope(dict(values)), frame)

    # --- arguments --------------------------------------------------------------------------------------

    def _bound(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = [i.name for i in self.inputs]
        if len(arrays) > len(names):
            raise OnnxError(f"{self._expected()}; given {len(arrays)} arrays")
        given = dict(zip(names, arrays, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                raise OnnxError(f"{self._expected()}; {name!r} is {'given twice' if name in given else 'none of them'}")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise OnnxError(f"{self._expected()}; {missing[0]!r} is missing")
        return [given[name] for name in names]

    def _expected(self) -> str:
        return f"inputs of {self.name!r} are {', '.join(repr(i.name) for i in self.inputs) or 'none'}"

    def _made(self) -> dict[str, Any]:
        """The floating initialisers of rank 1 and more, as variables."""
        found, trace = {}, Trace(self.stack, self._source)
        for tensor in self._source.proto.graph.initializer:
            array = trace.array(tensor)
            if kind_of(array.dtype) in "fc" and array.ndim:
                found[tensor.name] = self.stack.variable(tensor.name, array)
        return found


def from_onnx(
    model: Any, stack: Any = None, *, variables: bool = False, directory: Any = None, max_bytes: int = MAX_BYTES
) -> OnnxModel:
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
        Where the model's external data are; of a path the file's. Links in there lead to no other directory, but to
        that of the file itself where it is a link too.
    max_bytes
        A model is not trusted: what it asks for is counted before it is computed. Reading it makes tensors of at most
        so many bytes, and eight times those of its own tensors; and no result of a node is larger by itself.

    Returns
    -------
    A function of arrays: `OnnxModel`.

    Raises
    ------
    OnnxError
        The model cannot be read, is not well formed, or has nodes that are not supported: it names all of them.

    Warns
    -----
    OnnxWarning
        The model declares another shape of an output than the one that its nodes compute.

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
    if not (hasattr(stack, "compile") and hasattr(stack, "engine")):
        raise OnnxError(f"a model is read into a stack, such as nnc_func.lazy(), given {type(stack).__name__}")
    return OnnxModel(read(model, directory, max_bytes), stack, variables)


def _content(source: Source, tensor: Any) -> bytes:
    """The bytes of an array, wherever they are."""
    if not tensor.external_data:
        return embedded(tensor)
    size = math.prod(tensor.dims) * dtype_of(tensor.data_type).itemsize
    return source.external(tensor, size)


def _root(error: BaseException) -> BaseException:
    """What an error was raised from, first of all."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
