"""A walk over a model's nodes that applies our operators: the environment of names, functions, and inner graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nnc_func.autodiff.traced import Traced
from nnc_func.control_flow.branches import cond
from nnc_func.control_flow.tracing import TracedBody, traced
from nnc_func.errors import ExtentError, GraphError, NncError, OnnxError, UnboundError
from nnc_func.facets.dims import Dim
from nnc_func.graph.leaves import INPUT
from nnc_func.graph.node import Value, topological
from nnc_func.graph.origin import attributed
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.onnx.allowance import MAX_BYTES, Allowance
from nnc_func.onnx.context import Context
from nnc_func.onnx.extents import EXTENTS, is_extents, settled
from nnc_func.onnx.implementations import body_opsets, defaults, described, expanded, implementation
from nnc_func.onnx.reading import domain_of
from nnc_func.onnx.scopes import Frame, Scope, Unresolved, needed
from nnc_func.onnx.signatures import check_attributes, check_entry, check_inputs
from nnc_func.onnx.symbolic import elements
from nnc_func.onnx.types import array_of, dense_of, dtype_of, element_of, extents_of, onnx_package
from nnc_func.op import Op

LONGEST = 10_000
"""Loops that are written out have at most so many steps, all of them together."""
MOST_NODES = 100_000
"""As many nodes are applied, those of functions and loops each time that they are."""
MOST_CALLS = 1_000_000
"""As many operators of ours are applied, for all nodes."""
_MISFITS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


class Body:
    """An inner graph of a node, as a function of values.

    Attributes
    ----------
    inputs, outputs
        Their names.
    key
        The same for the graph whenever it is applied.
    """

    def __init__(self, trace: Trace, graph: Any, scope: Scope, frame: Frame, key: Any = None) -> None:
        self._trace, self._graph, self._scope, self._frame = trace, graph, scope, frame
        self.inputs = tuple(i.name for i in graph.input)
        self.outputs = tuple(o.name for o in graph.output)
        self.key = key

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """The values of its outputs: arrays where they are known, else tensors.

        Raises
        ------
        OnnxError
            It has another number of inputs.
        """
        if len(values) != len(self.inputs):
            raise OnnxError(f"the graph {self._graph.name!r} has {len(self.inputs)} inputs, given {len(values)}")
        scope = Scope(dict(zip(self.inputs, values, strict=True)), self._scope)
        return self._trace.graph(self._graph, scope, self._frame)

    def empty(self, output: int) -> Any:
        """What stands for no values of an output side by side: of extent 0, and of the shape that the graph says.

        Raises
        ------
        OnnxError
            It does not say the shape and the dtype.
        """
        tensor = self._graph.output[output].type.tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
            raise OnnxError(f"no step is taken, and no shape is said of the output {self.outputs[output]!r}")
        return np.zeros((0, *shape), dtype_of(tensor.elem_type))


class Trace:
    """One walk.

    Parameters
    ----------
    source
        The model as it was read.
    variables
        Initialisers by name that are variables rather than constants.
    inputs
        Tensors that the model is given: what depends on them is not counted as made while it is read.
    rolls
        Whether loops and branches may be operators with bodies; else they are written out.

    Attributes
    ----------
    operators
        Those of the stack, each result counted before it is computed.
    allowance
        What may be made.
    rolled
        How many loops and branches are operators with bodies.
    """

    def __init__(
        self, stack: Any, source: Any = None, variables: Mapping[str, Any] | None = None, inputs: Iterable[Any] = (),
        rolls: bool = True,
    ) -> None:  # fmt: skip
        self.stack = stack
        self.allowance = Allowance(MAX_BYTES if source is None else source.max_bytes)
        self.allowance.add(0 if source is None else source.nbytes)
        self.operators: Any = Ops(self._bind, stack.ops.catalogue, stack.ops.lift)
        self._open = {id(x): x for x in inputs}  # tensors that depend on an input, by identity
        self._flowing = {id(c): c for c in map(stack.carrier, self._open.values())}  # what is in those
        self._rolls, self._never = rolls, set[Any]()
        self.rolled = 0
        self._calls = 0
        self._files: set[Any] = set()
        self._source = source
        self._named = "model" if source is None else source.name
        self._functions = {} if source is None else source.functions
        self._variables = variables or {}
        self._tensors: dict[int, tuple[Any, Any]] = {}  # of arrays that are known, by identity: one constant each
        self._steps = self._applied_nodes = 0
        self._arrays: dict[int, Any] = {}  # of those tensors

    def step(self) -> None:
        """Count a step of a loop; see `Context.step`."""
        self._steps += 1
        if self._steps > LONGEST:
            raise OnnxError(f"loops of more than {LONGEST} steps")

    @property
    def steps_left(self) -> int:
        """See `Context.steps_left`."""
        return LONGEST - self._steps

    # --- bodies

    def rolls(self, graph: Body, never: bool) -> bool:
        """See `Context.rolls`."""
        if never:
            self._never.add(graph.key)
        return self._rolls and graph.key not in self._never

    def traced(self, f: Callable[[list[Any]], Sequence[Any]], avals: Sequence[Any]) -> TracedBody:
        """See `Context.traced`."""

        def within(given: list[Any]) -> Sequence[Any]:
            self._opened(given)
            return f(given)

        with self._apart():
            return traced(self.stack, within, avals)

    def branched(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """See `Context.branched`."""
        with self._apart():
            found = cond(self.stack, condition, then, otherwise)
        self._opened(found)
        return found

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Forget what is made of arrays within: it is of a trace that ends."""
        before = dict(self._tensors), dict(self._arrays)
        try:
            yield
            self.rolled += 1
        finally:
            self._tensors, self._arrays = before

    def lifted(self, value: Any) -> Any:
        """See `Context.lifted`."""
        if isinstance(value, Tensor):
            return value
        found = Tensor(self.stack, value)
        if id(value) in self._flowing:
            self._opened([found])
        return found

    def _opened(self, tensors: Iterable[Any]) -> None:
        """Note that tensors depend on an input."""
        for x in tensors:
            carrier = self.stack.carrier(x)
            self._open[id(x)], self._flowing[id(carrier)] = x, carrier

    def context(self) -> Context:
        """Our operators, of no node."""
        return Context(self)

    def _bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """An operator of the stack, once its results have been found to be small enough."""
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise OnnxError(f"more than {MOST_CALLS} operators are applied: loops or sequences are too long")
        is_open = any(id(a) in self._open for a in args)
        count = self.allowance.check if is_open or op.view is not None else self.allowance.take
        for aval in self._avals(op, args, params):
            count(aval.shape, aval.dtype.itemsize, f"the result of {op.name}")
        found = self.stack.bind(op, *args, **params)
        if is_open:
            self._opened(found if op.multi_result else (found,))
        return found

    def _avals(self, op: Op, args: Sequence[Any], params: Mapping[str, Any]) -> Sequence[Any]:
        """Avals of what an operator gives, where these follow from those of its operands."""
        if op.effect:
            return ()
        given = [self.stack.aval(a) if isinstance(a, Tensor) else np.asarray(a) if type(a) is list else a for a in args]
        try:
            found = self.stack.shape.bind(op, *given, **params)
        except (NncError, *_MISFITS):  # what is wrong is said where it is bound
            return ()
        return found if op.multi_result else (found,)

    # --- values -----------------------------------------------------------------------------------------

    def tensor(self, value: Any) -> Any:
        """A tensor of whatever a name may stand for."""
        if isinstance(value, Tensor):
            return value
        found = self._tensors.get(id(value))
        if found is None:
            array = np.asarray(value)
            made = self._symbolic(array) if array.dtype == object else self.stack.asarray(array)
            found = self._tensors[id(value)] = value, made
            self._arrays[id(made)] = array
        return found[1]

    def _symbolic(self, array: Any) -> Any:
        o = self.operators
        numbers = [o.full(shape=(), value=n, dtype="int64") for n in array.ravel().tolist()]
        return o.reshape(o.stack(*numbers), shape=array.shape) if array.ndim else numbers[0]

    def known(self, value: Any) -> Any:
        """The elements of a value; see `Context.known`."""
        if not isinstance(value, Tensor):
            return np.asarray(value)
        if id(value) in self._arrays:
            return self._arrays[id(value)]
        try:
            found = self.stack.concrete(value)
        except (GraphError, ExtentError, UnboundError):
            found = None
        if found is not None:
            return np.asarray(self.stack.device.to_numpy(found))
        inside = value.value
        while type(inside) is Traced:
            inside = inside.primal
        extents = elements(inside, self.stack.device.to_numpy)
        if extents is not None:
            return extents
        nodes = topological([inside]) if isinstance(inside, Value) else []
        names = sorted({n.data for n in nodes if n.op is INPUT})
        told = f"the elements of {value!r} decide a shape, and depend on {', '.join(map(repr, names)) or 'extents'}"
        raise Unresolved(told, names)

    def is_known(self, value: Any) -> bool:
        """Whether `known` has an answer."""
        try:
            self.known(value)
        except Unresolved:
            return False
        return True

    def unresolved(self, message: str) -> Unresolved:
        """The error that says so of symbolic extents."""
        return Unresolved(message)

    def dtype(self, value: Any) -> Any:
        """The NumPy dtype of whatever a name may stand for."""
        return np.dtype("int64") if value.dtype == object else value.dtype

    # --- graphs -----------------------------------------------------------------------------------------

    def graph(self, graph: Any, scope: Scope, frame: Frame) -> tuple[Any, ...]:
        """The values of a graph's outputs; `scope` has those of its inputs."""
        for tensor in graph.initializer:
            if tensor.name not in scope.values:
                scope.values[tensor.name] = self._initial(tensor.name, tensor, self.array)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            scope.values.setdefault(name, self._initial(name, sparse, self._dense))
        wanted = [o.name for o in graph.output]
        self.nodes(needed(graph.node, wanted, scope), scope, frame)
        return tuple(_result(scope, name) for name in wanted)

    def _initial(self, name: str, proto: Any, read: Any) -> Any:
        return self._variables[name] if name in self._variables else read(proto)

    def array(self, tensor: Any) -> Any:
        """The array of a TensorProto; one in a loop is made at each step."""
        self.allowance.take(extents_of(tensor), dtype_of(tensor.data_type).itemsize, f"tensor {tensor.name!r}")
        return array_of(tensor, None if self._source is None else self._external)

    def _dense(self, sparse: Any) -> Any:
        self.allowance.take(sparse.dims, dtype_of(sparse.values.data_type).itemsize, "a sparse tensor")
        return dense_of(sparse, None if self._source is None else self._external)

    def _external(self, tensor: Any, size: int) -> bytes:
        """The bytes of a tensor in another file; a file allows for its own bytes, however many tensors show them."""
        path = self._source.located(tensor)
        if path not in self._files:
            self._files.add(path)
            self.allowance.add(path.stat().st_size)
        found: bytes = self._source.external(tensor, size)
        return found

    def nodes(self, nodes: Sequence[Any], scope: Scope, frame: Frame) -> None:
        """Apply nodes in order, and give their results names."""
        self._applied_nodes += len(nodes)
        if self._applied_nodes > MOST_NODES:
            raise OnnxError(f"more than {MOST_NODES} nodes are applied: functions or loops repeat too many")
        for number, node in enumerate(nodes):
            try:
                with attributed((f"{self._named}:{number}", f"{node.op_type} {frame.path}{node.name}")):
                    results = self._applied(node, scope, frame)
                self._name(node, results, scope)
            except Unresolved as error:
                raise Unresolved(_at(node, frame, error), error.inputs) from error
            except OnnxError as error:
                raise OnnxError(_at(node, frame, error)) from error
            except NncError as error:
                raise OnnxError(_at(node, frame, error)) from error
            except _MISFITS as error:
                raise OnnxError(f"{_at(node, frame, error)}; given {_given(node, scope)}") from error

    def _name(self, node: Any, results: Any, scope: Scope) -> None:
        if len(results) < len(node.output) and any(node.output[len(results) :]):
            raise OnnxError(f"it has {len(results)} results, and names {len(node.output)}")
        for name, value in zip(node.output, results, strict=False):
            if name:
                if name in scope.values:
                    raise OnnxError(f"it gives {name!r}, which has a value already")
                scope.values[name] = value

    def _applied(self, node: Any, scope: Scope, frame: Frame) -> Sequence[Any]:
        """The results of a node."""
        stands = implementation(node, frame.opsets, self._functions)
        if stands is None:
            raise OnnxError("it is not supported")
        values = [scope.find(name) if name else None for name in node.input]
        if stands.schema is not None:
            check_inputs(stands.schema, [None if v is None else self.dtype(v) for v in values])
            check_attributes(stands.schema, node)
        if stands.entry is None:
            return self._expanded(stands, node, values, scope, frame)
        attributes = self._attributes(node, scope, frame)
        check_entry(stands.entry, values, attributes)
        opset = frame.opsets.get(domain_of(node.domain), 1)
        return self._called(stands, Context(self, node, stands.since, opset, scope.asked), values, attributes)

    def _called(
        self, stands: Any, context: Context, values: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Sequence[Any]:
        entry = stands.entry
        shortcut = EXTENTS.get(entry.name) if not entry.domain else None
        if shortcut is not None and all(v is None or is_extents(v) for v in values):
            found = shortcut(context, *values, **attributes)
            if found is not NotImplemented:
                return [settled(f) for f in found] if isinstance(found, (tuple, list)) else [settled(found)]
        given: list[Any] = []
        for i, value in enumerate(values):
            name = entry.inputs[i] if i < len(entry.inputs) else ""
            if value is None or entry.raw:
                given.append(value)
            else:
                given.append(self.known(value) if name in entry.known else self.tensor(value))
        return _results(entry, entry.function(context, *given, **attributes))

    def _attributes(self, node: Any, scope: Scope, frame: Frame) -> dict[str, Any]:
        found = {}
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in frame.attributes:
                    found[attribute.name] = frame.attributes[attribute.ref_attr_name]
            else:
                found[attribute.name] = self._attribute(attribute, node, scope, frame)
        return found

    def _attribute(self, attribute: Any, node: Any, scope: Scope, frame: Frame) -> Any:
        kind = onnx_package().AttributeProto
        if attribute.type == kind.GRAPH:
            return Body(self, attribute.g, scope, frame.inner(node), (frame.path, *node.output, attribute.name))
        if attribute.type == kind.TENSOR:
            return self.array(attribute.t)
        if attribute.type == kind.SPARSE_TENSOR:
            return self._dense(attribute.sparse_tensor)
        if attribute.type == kind.STRING:
            return attribute.s.decode("utf-8", "replace")
        if attribute.type == kind.STRINGS:
            return tuple(s.decode("utf-8", "replace") for s in attribute.strings)
        if attribute.type in (kind.INTS, kind.FLOATS):
            return tuple(attribute.ints if attribute.type == kind.INTS else attribute.floats)
        if attribute.type in (kind.INT, kind.FLOAT):
            return attribute.i if attribute.type == kind.INT else attribute.f
        raise OnnxError(f"attribute {attribute.name!r} is of a type that is not supported")

    # --- functions --------------------------------------------------------------------------------------

    def _expanded(self, stands: Any, node: Any, values: Sequence[Any], scope: Scope, frame: Frame) -> Sequence[Any]:
        """The results of a node that a function stands for."""
        version = frame.opsets.get(domain_of(node.domain), 1)
        plain = node if not any(a.ref_attr_name for a in node.attribute) else self._resolved(node, frame)
        function = expanded(stands, plain, version, [self._type(v) for v in values])
        if len(values) > len(function.input):
            raise OnnxError(f"the function has {len(function.input)} inputs, given {len(values)}")
        padded = [*values, *[None] * (len(function.input) - len(values))]
        given = dict(zip(function.input, padded, strict=True))
        attributes = self._attributes(node, scope, frame)
        inner = frame.inner(
            node,
            opsets=body_opsets(stands, function, frame.opsets),
            attributes={a.name: self._attribute(a, node, scope, frame) for a in defaults(stands, function)}
            | attributes,
        )
        local = Scope(given)
        self.nodes(needed(function.node, function.output, local), local, inner)
        return [local.values.get(name) for name in function.output]

    def _resolved(self, node: Any, frame: Frame) -> Any:
        """The node, with attributes that refer to those of the function around it written out."""
        onnx = onnx_package()
        found = onnx.NodeProto()
        found.CopyFrom(node)
        del found.attribute[:]
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                found.attribute.append(attribute)
            elif attribute.ref_attr_name in frame.attributes:
                value = frame.attributes[attribute.ref_attr_name]
                found.attribute.append(onnx.helper.make_attribute(attribute.name, value))
        return found

    def _type(self, value: Any) -> Any:
        """The TypeProto of a value."""
        onnx = onnx_package()
        if value is None:
            return onnx.TypeProto()
        shape = [str(n) if isinstance(n, Dim) else int(n) for n in value.shape]
        return onnx.helper.make_tensor_type_proto(element_of(self.dtype(value)), shape)


def _results(entry: Any, made: Any) -> Sequence[Any]:
    """What an entry's function returns, as a sequence, checked to be tensors and arrays."""
    if isinstance(made, (tuple, list)) is not entry.multi_result:
        how = (
            "several results, which wants multi_result=True"
            if not entry.multi_result
            else "one result, and says multi_result=True"
        )
        raise OnnxError(f"its entry {entry.function.__name__} returns {how}")
    found = made if entry.multi_result else [made]
    for each in found:
        if each is not None and not hasattr(each, "dtype"):
            raise OnnxError(f"its entry {entry.function.__name__} returns {each!r}, which is no tensor or array")
    return found


def _result(scope: Scope, name: str) -> Any:
    try:
        found = scope.find(name)
    except OnnxError:
        raise OnnxError(f"the graph's output {name!r} is the result of no node") from None
    return found


def _given(node: Any, scope: Scope) -> str:
    """The inputs of a node, as far as they have values."""
    found = []
    for name in node.input:
        try:
            value = scope.find(name) if name else None
        except OnnxError:
            value = None
        found.append("nothing" if value is None else f"{value.dtype}{[*map(str, value.shape)]}".replace("'", ""))
    return ", ".join(found) or "no inputs"


def _at(node: Any, frame: Frame, error: BaseException) -> str:
    told = str(error) or type(error).__name__
    return told if told.startswith("in ") else f"in {described(node, frame.opsets, frame.path)}: {told}"
