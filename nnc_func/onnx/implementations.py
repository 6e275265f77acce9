"""What stands for an ONNX node: an entry of the table, a function of the model, or the function of its schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from attrs import frozen

from nnc_func.errors import OnnxError
from nnc_func.onnx.reading import check_text, domain_of, versions
from nnc_func.onnx.table import OnnxOperator, entries, find
from nnc_func.onnx.types import onnx_package


@frozen
class Implementation:
    """One of: an entry; a FunctionProto; a schema that makes a function of the types of a node's inputs.

    Attributes
    ----------
    since
        The version of the operator.
    schema
        That of the installed package, if it has one; None for functions of the model.
    """

    entry: OnnxOperator | None = None
    function: Any = None
    schema: Any = None
    since: int = 1


def implementation(node: Any, opsets: Mapping[str, int], functions: Mapping[Any, Any]) -> Implementation | None:
    """What stands for a node; None where nothing does."""
    domain = domain_of(node.domain)
    own = functions.get((domain, node.op_type, node.overload))
    if own is not None:
        return Implementation(function=own)
    if domain not in opsets:
        return None
    return _known(domain, node.op_type, opsets[domain])


@cache
def _known(domain: str, name: str, version: int) -> Implementation | None:
    schema = schema_of(domain, name, version)
    if schema is None:
        declared = [s for s in entries().get((domain, name), ()) if s <= version]
        return Implementation(find(domain, name, max(declared)), since=max(declared)) if declared else None
    since = schema.since_version
    entry = find(domain, name, since)
    if entry is not None:
        return Implementation(entry, schema=schema, since=since)
    if schema.has_context_dependent_function or schema.has_function:
        return Implementation(schema=schema, since=since)
    return None


def schema_of(domain: str, name: str, version: int) -> Any:
    """The schema of the operator in that operator set, or None: it is not in it, or no longer."""
    defs = onnx_package().defs
    try:
        found = defs.get_schema(name, max_inclusive_version=version, domain=domain)
    except defs.SchemaError:
        return None
    return None if found.deprecated else found


def expanded(found: Implementation, node: Any, version: int, types: Any) -> Any:
    """The FunctionProto of a node that has no entry.

    Parameters
    ----------
    version
        Of the operator's domain, as the model imports it.
    types
        A TypeProto for each input.

    Raises
    ------
    OnnxError
        The schema has none for inputs of these types.
    """
    if found.function is not None:
        return found.function
    function = onnx_package().FunctionProto()
    schema = found.schema
    if schema.has_context_dependent_function:
        available = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        body = b""
        if available:
            body = schema.get_context_dependent_function_with_opset_version(
                max(available), node.SerializeToString(), [t.SerializeToString() for t in types]
            )
        if body:
            function.ParseFromString(body)
            return function
    if schema.has_function:
        available = [v for v in schema.function_opset_versions if v <= version]
        body = schema.get_function_with_opset_version(max(available)) if available else b""
        if body:
            function.ParseFromString(body)
            return function
    raise OnnxError("it has no entry, and its schema has no function for inputs of these types")


def body_opsets(stands: Implementation, function: Any, around: Mapping[str, int]) -> Mapping[str, int]:
    """The operator sets that a function's nodes are of: those that it imports."""
    own = versions(function.opset_import)
    if stands.function is not None:
        return own
    return {"": onnx_package().defs.onnx_opset_version(), **around, **own}  # a schema may leave ONNX's own out


def defaults(stands: Implementation, function: Any) -> list[Any]:
    """The attributes that a function has where a node leaves them out, as AttributeProtos."""
    if stands.schema is None:
        return list(function.attribute_proto)
    return [a.default_value for a in stands.schema.attributes.values() if a.default_value.name]


def unsupported(graph: Any, opsets: Mapping[str, int], functions: Mapping[Any, Any], path: str = "") -> list[str]:
    """Descriptions of all nodes for which nothing stands, those of inner graphs and of functions that are used too."""
    found: list[str] = []
    seen: set[Any] = set()
    waiting = [(graph.node, opsets, path)]
    while waiting:
        nodes, imported, where = waiting.pop()
        for node in nodes:
            _check_text(node)
            stands = implementation(node, imported, functions)
            if stands is None:
                found.append(described(node, imported, where))
            elif stands.function is not None and id(stands.function) not in seen:
                seen.add(id(stands.function))
                inner = versions(stands.function.opset_import)
                waiting.append((stands.function.node, inner, f"{where}{node.name or node.op_type}/"))
            for attribute in node.attribute:
                for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                    waiting.append((body.node, imported, f"{where}{node.name or node.op_type}/"))
    return found


def _check_text(node: Any) -> None:
    """Raise where a name of a node is no text: such bytes pass the parser."""
    names = [node.op_type, node.domain, node.name, node.overload, *node.input, *node.output]
    names += [name for a in node.attribute for name in (a.name, a.ref_attr_name)]
    check_text(names, f"a node of operator {node.op_type!r}")


def described(node: Any, opsets: Mapping[str, int], path: str = "") -> str:
    """A node for messages: its operator, domain, operator set and name."""
    domain = domain_of(node.domain)
    named = repr(f"{path}{node.name}") if node.name else f"{path}(no name; gives {', '.join(node.output)})"
    return f"{node.op_type} (domain {domain or 'ai.onnx'}, opset {opsets.get(domain, 'not imported')}), node {named}"
