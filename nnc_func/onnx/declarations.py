"""What a model says of its inputs and outputs, and what is checked of them."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import OnnxError, OnnxWarning
from nnc_func.facets.dims import Dim
from nnc_func.graph.origin import lines, origin
from nnc_func.onnx.implementations import unsupported
from nnc_func.onnx.reading import Source
from nnc_func.onnx.types import MOST_AXES, dtype_of

OLDEST = 7  # operator set


@frozen
class Declared:
    """An input or output: its name, shape (None: not even the rank is said) and dtype (None: an output may not say)."""

    name: str
    shape: tuple[Any, ...] | None
    dtype: np.dtype[Any] | None


def declaration_of(info: Any, is_output: bool = False) -> Declared:
    """An input or output as the model declares it; only an output may leave its type out.

    Raises
    ------
    OnnxError
        It is no tensor, or of a dtype that is not supported.
    """
    kind = info.type.WhichOneof("value")
    if kind is None and is_output:
        return Declared(info.name, None, None)
    if kind != "tensor_type":
        what = "no type" if kind is None else kind.removesuffix("_type")
        raise OnnxError(f"{info.name!r} is of {what}: supported are tensors; sequences, maps, optional values are not")
    tensor = info.type.tensor_type
    try:
        dtype = dtype_of(tensor.elem_type)
        if len(tensor.shape.dim) > MOST_AXES:
            raise OnnxError(f"it has {len(tensor.shape.dim)} axes: {MOST_AXES} is the most")
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


def check_declarations(source: Source, inputs: Sequence[Declared], outputs: Sequence[Declared]) -> None:
    """Raise where names are missing or given twice, there are no outputs, or nodes are not supported.

    Raises
    ------
    OnnxError
        One of these; it names all nodes that are not supported.
    """
    graph = source.proto.graph
    for what, listed in (("input", [i.name for i in graph.input]), ("output", [o.name for o in outputs])):
        twice = next((n for n, times in Counter(listed).items() if times > 1 or not n), None)
        if twice is not None:
            raise OnnxError(f"{what}s have names, each its own, given {twice!r}")
    if not outputs:
        raise OnnxError("the model's graph has no outputs")
    refused = unsupported(graph, source.opsets, source.functions)
    if refused:
        old = source.opsets.get("", OLDEST) < OLDEST
        hint = f"; operators are read from set {OLDEST} on: onnx.version_converter rewrites older models" if old else ""
        raise OnnxError(f"not supported: {'; '.join(refused)}{hint}")


def shown(shape: tuple[Any, ...] | None) -> str:
    """A shape as text.

    Examples
    --------
    >>> shown((None, "n", 3)), shown(None)
    ('[?, n, 3]', '[…]')
    """
    return "[…]" if shape is None else f"[{', '.join('?' if n is None else str(n) for n in shape)}]"


def host(value: Any, declared: Declared) -> Any:
    """An array for an input: Python's numbers, and lists of them, in its dtype if that has them.

    Raises
    ------
    OnnxError
        Its dtype or shape is not what the model declares.
    """
    array = np.asarray(value)
    if isinstance(value, (bool, int, float, complex, list, tuple)) and declared.dtype is not None:
        array = array.astype(declared.dtype) if np.can_cast(array.dtype, declared.dtype, "same_kind") else array
    check_fits(declared, array)
    return array


def check_fits(declared: Declared, value: Any) -> None:
    """Raise where an array or tensor is not what the model declares of an input.

    Raises
    ------
    OnnxError
        It is not.
    """
    shape = declared.shape
    fits = shape is None or (
        len(shape) == len(value.shape)
        and all(not isinstance(n, int) or isinstance(m, Dim) or n == m for n, m in zip(shape, value.shape, strict=True))
    )
    if value.dtype != declared.dtype or not fits:
        wanted = f"{declared.dtype}{shown(shape)}"
        raise OnnxError(f"input {declared.name!r} is {wanted}, given {value.dtype}{shown(tuple(value.shape))}")


def check_shape(declared: Declared, shape: tuple[Any, ...]) -> None:
    """Raise where a shape, which may have names and None in it, contradicts what the model declares of an input.

    Raises
    ------
    OnnxError
        It does.
    """
    said = declared.shape
    agree = said is None or (len(said) == len(shape) and not any(map(_differ, said, shape)))
    if not agree:
        raise OnnxError(f"input {declared.name!r} has shape {shown(said)}, given {shown(shape)}")


def check_agrees(declared: Declared, tensor: Any) -> str:
    """What the model says wrongly of an output's shape; empty if it does not.

    A declared shape decides nothing, and exporters write wrong ones: other runtimes warn of them and compute.

    Raises
    ------
    OnnxError
        The output's dtype is not the one that the model declares.
    """
    shape, given = declared.shape, tuple(tensor.shape)
    if declared.dtype is not None and tensor.dtype != declared.dtype:
        raise OnnxError(f"output {declared.name!r} is {tensor.dtype}, and the model says {declared.dtype}")
    if shape is None or (len(shape) == len(given) and not any(map(_differ, shape, given))):
        return ""
    return f"output {declared.name!r} has shape {shown(given)}, and the model says {shown(shape)}"


def warn_once(said: str, before: set[str]) -> None:
    """Warn at the user's line of what a model says wrongly, unless it is among what was said before.

    Examples
    --------
    >>> import warnings
    >>> said = set()
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_once("output 'y' has another shape", said)
    ...     warn_once("output 'y' has another shape", said)
    >>> [str(each.message) for each in caught]
    ["output 'y' has another shape"]
    """
    if not said or said in before:
        return
    before.add(said)
    file, line, _ = next(lines(origin()), ("<unknown>", 1, ""))
    warnings.warn_explicit(said, OnnxWarning, file, line)


def _differ(one: Any, other: Any) -> bool:
    """Whether two extents are known, and not the same."""
    return isinstance(one, int) and isinstance(other, int) and one != other
