"""From nodes in the making to a model: names, the package's messages, and what is checked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import define

from nnc_func.facets.dims import known
from nnc_func.graph.onnx_export.builder import Builder
from nnc_func.graph.onnx_export.schemas import called, package
from nnc_func.graph.onnx_export.scopes import Record, Scope, Written

PRODUCER = "nnc_func"
SMALL = 1024  # bytes: smaller arrays, shapes among them, stay in the model's own file


@define(eq=False)
class Draft:
    """A model before it is one.

    Attributes
    ----------
    inputs, outputs
        Values in order, with the names that they have in the model. An output is a value and a name.
    arrays
        What variables, by name, and large constants, by digest, are called: those stay, though nothing may read them.
    """

    builder: Builder
    inputs: list[Written]
    outputs: list[tuple[Written, str]]
    name: str
    arrays: Mapping[str, Mapping[str, str]]

    def settled(self) -> list[Written]:
        """The outputs by their own names, and what nothing depends on dropped."""
        scope, builder = self.builder.scope, self.builder
        made = {name for record in scope.records for name in record.outputs}
        names: dict[str, str] = {}
        copies = []
        for value, name in self.outputs:
            if value.name in made and value.name not in names:
                names[value.name] = name
            else:  # an input, a constant, or an output for the second time
                copies.append(Record("Identity", [value.name], [name], {}))
        scope.renamed(names)
        for copy in copies:
            copy.inputs = [names.get(n, n) for n in copy.inputs]
        scope.records += copies
        kept = {name for named in self.arrays.values() for name in named.values()}
        needed = scope.pruned(name for _, name in self.outputs)
        builder.arrays = {n: a for n, a in builder.arrays.items() if n in needed or n in kept}
        return [Written(name, value.dtype, value.known_shape) for value, name in self.outputs]

    def message(self) -> Any:
        """The model, as the package `onnx` has it, checked; the draft's arrays are in it and no longer here.

        It is checked before large arrays are put in, with inputs of their shapes in their place: the checker copies all
        that it is given, and takes no more than two gigabytes.
        """
        helper, outputs, arrays = package("onnx.helper"), self.settled(), self.builder.arrays
        large = {name for name, array in arrays.items() if array.nbytes > SMALL}
        given = {value.name for value in self.inputs}
        instead = [Written(n, arrays[n].dtype, arrays[n].shape) for n in arrays if n in large - given]
        graph = helper.make_graph(
            _nodes(self.builder.scope), self.name, [_info(v) for v in (*self.inputs, *instead)],
            list(map(_info, outputs)), value_info=_told(self.builder.scope),
        )  # fmt: skip
        versions = [helper.make_opsetid("", self.builder.opset)]
        model = helper.make_model(
            graph, opset_imports=versions, ir_version=min(10, helper.find_min_ir_version_for(versions)),
            producer_name=PRODUCER,
        )  # fmt: skip
        for name, array in arrays.items():
            if name not in large:
                _fill(model.graph.initializer.add(), name, array)
        package("onnx.checker").check_model(model, full_check=True)
        del model.graph.input[len(self.inputs) :], model.graph.initializer[:]
        for name in list(arrays):
            _fill(model.graph.initializer.add(), name, arrays.pop(name))
        return model


# --- messages ---------------------------------------------------------------------------------------------


def _nodes(scope: Scope) -> list[Any]:
    counts: dict[str, int] = {}
    found = []
    for record in scope.records:
        counts[record.op_type] = counts.get(record.op_type, 0) + 1
        named = f"{record.op_type}_{counts[record.op_type]}"
        node = package("onnx.helper").make_node(
            record.op_type, record.inputs, record.outputs, name=named, doc_string=record.description or None
        )
        node.attribute.extend(_attribute(k, v) for k, v in record.attributes.items())
        found.append(node)
    return found


def _told(scope: Scope) -> list[Any]:
    """What the graph says of results in it."""
    made = {name for record in scope.records for name in record.outputs}
    return [_info(value) for value in scope.told if value.name in made]


def _attribute(name: str, value: Any) -> Any:
    helper = package("onnx.helper")
    if isinstance(value, Scope):
        inputs, outputs = (list(map(_info, values)) for values in (value.inputs, value.outputs))
        return helper.make_attribute(
            name, helper.make_graph(_nodes(value), name, inputs, outputs, value_info=_told(value))
        )
    if isinstance(value, np.dtype):
        return helper.make_attribute(name, called(value))
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, _tensor(value))
    if isinstance(value, tuple):
        ints = package().AttributeProto.INTS
        return helper.make_attribute(name, list(value), attr_type=ints)
    return helper.make_attribute(name, value)


def _tensor(array: Any) -> Any:
    message = package().TensorProto()
    _fill(message, "", array)
    return message


def _fill(message: Any, name: str, array: Any) -> None:
    """Make a message of an array."""
    message.name, message.data_type = name, called(array.dtype)
    message.dims.extend(array.shape)
    message.raw_data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def _info(value: Written) -> Any:
    shape = None if value.known_shape is None else [dimension(n) for n in value.known_shape]
    return package("onnx.helper").make_tensor_value_info(value.name, called(value.dtype), shape)


def dimension(extent: Any) -> int | str:
    """An extent as ONNX has it: a number, or a text that names what is not known."""
    return extent if known(extent) else str(extent).replace("?", "unknown_")
