"""The graph's own text within a model, so that it comes back as it was; and when that text is not believed.

A model carries the text, what its arrays are called there, and a digest of everything else in it. Whoever changes the
model, and be it a name, changes the digest: then the text is passed over, and the model is read as any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from nnc_func.archives.plain import fields, json_value, short
from nnc_func.errors import FileFormatError, GraphError
from nnc_func.graph.onnx_export.schemas import package
from nnc_func.graph.text.writing import large_constants, parsed, printed

Content = Callable[[Any], bytes]
TEXT, ARRAYS, DIGEST = "nnc_func.graph", "nnc_func.arrays", "nnc_func.digest"


def described(model: Any, graph: Any, arrays: Mapping[str, Mapping[str, str]]) -> None:
    """Put the graph's text into the model, if it has one: a host function among parameters has none.

    Parameters
    ----------
    arrays
        What variables, by name, and large constants, by digest, are called in the model.
    """
    try:
        text = printed(graph)
    except GraphError:
        return
    kept = {**arrays, "constants": {n: arrays["constants"][n] for n in large_constants(graph)}}
    entries = {TEXT: text, ARRAYS: json.dumps(kept, ensure_ascii=False)}
    for key, value in {**entries, DIGEST: digest_of(model, entries)}.items():
        model.metadata_props.add(key=key, value=value)


def embedded(tensor: Any) -> bytes:
    """The bytes of an array that is in the model itself."""
    found: bytes = tensor.raw_data
    return found


def digest_of(model: Any, entries: Mapping[str, str], content: Content = embedded) -> str:
    """The SHA-256 of a model but for its metadata, and of these entries; where its arrays are stored has no say."""
    found = hashlib.sha256()
    for part in (*_parts(model, content), *(entries[key].encode() for key in (TEXT, ARRAYS))):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


def _parts(message: Any, content: Content) -> Iterator[bytes]:
    for field, value in message.ListFields():
        if field.name == "metadata_props":
            continue
        yield field.name.encode()
        if field.name == "graph":
            yield from _parts(value, content)
        elif field.name == "initializer":
            for tensor in value:
                elements = hashlib.sha256(content(tensor)).hexdigest()
                yield json.dumps([tensor.name, list(tensor.dims), tensor.data_type, elements]).encode()
        else:
            listed = [value] if isinstance(value, (str, int)) or hasattr(value, "ListFields") else value
            for each in listed:
                plain = isinstance(each, (str, int))
                yield str(each).encode() if plain else each.SerializeToString(deterministic=True)


def restored(model: Any, stack: Any, classes: Iterable[type] = (), content: Content = embedded) -> Any:
    """The graph whose text a model carries, built by a stack; None where there is none, or it is not to be believed.

    It is believed if nothing in the model has changed since it was written. Its variables are new ones.

    Parameters
    ----------
    classes
        Named tuples and attrs classes in which the outputs may be nested.
    content
        Gives the bytes of an array, which may be in a file beside the model.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", ("n", 2), "float32")
    >>> model = lazy.graph.close([x.value], [(x * 2).value], name="twice").to_onnx()
    >>> print(restored(model, nnc.lazy()))
    graph "twice"(%0 "x" : float32[n, 2])
    %1 = constant 2.0 : float32[]
    %2 = multiply(%0, %1) : float32[n, 2]
    return %2
    >>> model.graph.node[0].op_type = "Add"
    >>> restored(model, nnc.lazy()) is None
    True
    """
    entries = {each.key: each.value for each in model.metadata_props}
    if not {TEXT, ARRAYS, DIGEST} <= set(entries) or digest_of(model, entries, content) != entries[DIGEST]:
        return None
    tensors = {each.name: each for each in model.graph.initializer}
    try:
        names = fields(json_value(entries[ARRAYS].encode()))
        constants, variables = (
            {key: _array(tensors, name, content) for key, name in fields(names[kind]).items()}
            for kind in ("constants", "variables")
        )
    except FileFormatError:  # not as it is written
        return None
    try:
        return parsed(entries[TEXT], stack, constants, variables, classes)
    except GraphError:  # the stack lacks an operator, or a class: what the nodes say remains
        return None


def _array(tensors: Mapping[str, Any], name: Any, content: Content) -> Any:
    tensor = tensors.get(name) if type(name) is str else None
    if tensor is None:
        raise FileFormatError(f"{short(name)} is no tensor of the model")
    try:
        dtype = package("onnx.helper").tensor_dtype_to_np_dtype(tensor.data_type)
        return np.frombuffer(content(tensor), dtype).reshape(tuple(tensor.dims)).copy()
    except (KeyError, ValueError) as error:
        raise FileFormatError(f"{name} is no array: {error}") from None
