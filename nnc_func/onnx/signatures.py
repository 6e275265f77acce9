"""Nodes against the schemas of their operators: arity, attributes and dtypes, before an entry is called."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import OnnxError
from nnc_func.onnx.table import OnnxOperator

_TYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bfloat16": "bfloat16", "bool": "bool",
    "complex64": "complex64", "complex128": "complex128",
    **{f"{sign}int{n}": f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip


@frozen
class Formal:
    """An input of a schema: its name, its type variable, the dtypes that it may have, whether it may be left out."""

    name: str
    variable: str
    dtypes: frozenset[str]
    optional: bool
    variadic: bool
    homogeneous: bool


@cache
def formals(schema: Any) -> tuple[Formal, ...]:
    """The inputs of a schema."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    found = []
    for each in schema.inputs:
        types = allowed.get(each.type_str, [each.type_str])
        dtypes = frozenset(_TYPES.get(t[len("tensor(") : -1], t) if t.startswith("tensor(") else t for t in types)
        optional, variadic = each.option.name == "Optional", each.option.name == "Variadic"
        found.append(Formal(each.name, each.type_str, dtypes, optional, variadic, each.is_homogeneous))
    return tuple(found)


def check_inputs(schema: Any, given: Sequence[np.dtype[Any] | None]) -> None:
    """Raise where inputs are too many or too few, one is missing, or their dtypes are not those of the schema.

    Parameters
    ----------
    given
        The dtype of each input; None for one that is left out.

    Raises
    ------
    OnnxError
        They do not fit.
    """
    declared = formals(schema)
    if not schema.min_input <= len(given) <= schema.max_input:
        least, most = schema.min_input, schema.max_input
        wanted = f"at least {least}" if most > 1000 else str(least) if least == most else f"{least} to {most}"
        raise OnnxError(f"wants {wanted} inputs, given {len(given)}")
    variables: dict[str, tuple[str, np.dtype[Any]]] = {}
    for i, dtype in enumerate(given):
        formal = declared[min(i, len(declared) - 1)]
        if dtype is None:
            if not formal.optional:
                raise OnnxError(f"input {i}, {formal.name!r}, is missing")
            continue
        if dtype.name not in formal.dtypes:
            raise OnnxError(f"input {formal.name!r} may not be {dtype}; it may be {', '.join(sorted(formal.dtypes))}")
        if formal.variadic and not formal.homogeneous:
            continue
        name, same = variables.setdefault(formal.variable, (formal.name, dtype))
        if same != dtype:
            raise OnnxError(f"inputs {name!r} and {formal.name!r} have one dtype, given {same} and {dtype}")


def check_attributes(schema: Any, node: Any) -> None:
    """Raise where an attribute is given twice, has a type that the schema does not give it, or is missing.

    Raises
    ------
    OnnxError
        They do not fit.
    """
    declared = schema.attributes
    seen = set()
    for attribute in node.attribute:
        if attribute.name in seen:
            raise OnnxError(f"attribute {attribute.name!r} is given twice")
        seen.add(attribute.name)
        formal = declared.get(attribute.name)
        if formal is None:
            raise OnnxError(f"no attribute {attribute.name!r}; it has {', '.join(declared) or 'none'}")
        if attribute.type != formal.type.value:
            raise OnnxError(f"attribute {attribute.name!r} is of type {formal.type.name}")
    missing = [name for name, formal in declared.items() if formal.required and name not in seen]
    if missing:
        raise OnnxError(f"attribute {missing[0]!r} is missing")


def check_entry(entry: OnnxOperator, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
    """Raise where an entry cannot be called with these.

    Raises
    ------
    OnnxError
        An input or attribute is missing, or there is one too many.
    """
    if len(inputs) > len(entry.inputs) and not entry.variadic:
        raise OnnxError(f"given {len(inputs)} inputs, supported are {len(entry.inputs)}: {', '.join(entry.inputs)}")
    for i, name in enumerate(entry.inputs[: entry.required]):
        if i >= len(inputs) or inputs[i] is None:
            raise OnnxError(f"input {name!r} is missing")
    for name in attributes:
        if name not in entry.attributes:
            raise OnnxError(f"attribute {name!r} is not supported")
    for name, default in entry.attributes.items():
        if default is inspect.Parameter.empty and name not in attributes:
            raise OnnxError(f"attribute {name!r} is missing")
