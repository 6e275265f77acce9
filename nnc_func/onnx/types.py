"""ONNX's dtypes and tensors as NumPy's, with every size checked before memory is asked for."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.facets.dtypes import as_dtype

_NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip
MOST = 2**30
"""A shape that asks for more elements than this is damaged."""
MOST_AXES = 64
"""As many axes has an array of NumPy."""
EXTERNAL = 1
"""Where the data of a TensorProto are: in another file."""
_FIELDS = {1: "float_data", 7: "int64_data", 11: "double_data", 12: "uint64_data", 13: "uint64_data"}
_PAIRS = {14: "float_data", 15: "double_data"}


def onnx_package() -> Any:
    """The package `onnx`, which is optional.

    Raises
    ------
    OnnxError
        It is not installed.
    """
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise OnnxError("reading ONNX models wants the package onnx: pip install 'nnc_func[onnx]'") from None


def dtype_of(element: int) -> np.dtype[Any]:
    """The NumPy dtype of an ONNX element type.

    Raises
    ------
    OnnxError
        Tensors of it are not supported: strings, eight-bit floating numbers and the like.

    Examples
    --------
    >>> dtype_of(1), dtype_of(7)
    (dtype('float32'), dtype('int64'))
    """
    if element in _NAMES:
        return as_dtype(_NAMES[element])
    raise OnnxError(f"tensors of ONNX's element type {type_name(element)} are not supported")


def element_of(dtype: Any) -> int:
    """ONNX's number for a NumPy dtype.

    Examples
    --------
    >>> element_of("int64")
    7
    """
    name = as_dtype(dtype).name
    return next(number for number, each in _NAMES.items() if each == name)


def type_name(element: int) -> str:
    """What ONNX calls an element type."""
    found = {number: name for name, number in onnx_package().TensorProto.DataType.items()}
    return str(found.get(element, element))


def check_size(shape: Iterable[Any]) -> None:
    """Raise where a tensor is too large to be meant, has too many axes or a negative extent; symbols are passed over.

    Raises
    ------
    OnnxError
        It is.

    Examples
    --------
    >>> check_size((2, 3))
    """
    listed = tuple(shape)
    numbers = [n for n in listed if type(n) is int]
    if len(listed) > MOST_AXES:
        raise OnnxError(f"a tensor of {len(listed)} axes: {MOST_AXES} is the most")
    if any(n < 0 for n in numbers) or math.prod(numbers) > MOST:
        raise OnnxError(f"a tensor of shape {tuple(map(str, listed))}: extents are from 0 on, elements at most {MOST}")


def extents_of(tensor: Any) -> tuple[int, ...]:
    """The shape of a TensorProto.

    Raises
    ------
    OnnxError
        An extent is negative, or it is too large to be meant.
    """
    dims = tuple(tensor.dims)
    try:
        check_size(dims)
    except OnnxError as error:
        raise OnnxError(f"tensor {tensor.name!r}: {error}") from None
    return dims


def array_of(tensor: Any, external: Any = None) -> np.ndarray[Any, Any]:
    """The array of a TensorProto.

    Parameters
    ----------
    external
        ``external(tensor, size)`` gives the bytes of one whose data are in another file.

    Raises
    ------
    OnnxError
        Its data do not have the size that its shape says, are elsewhere, or are of a dtype that is not supported.
    """
    dims, dtype = extents_of(tensor), dtype_of(tensor.data_type)
    count = math.prod(dims)
    size = count * dtype.itemsize
    if tensor.data_location == EXTERNAL:
        if external is None:
            raise OnnxError(f"tensor {tensor.name!r} has its data in another file: give the path of the model")
        raw = external(tensor, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _typed(tensor, dims, dtype, count)
    if len(raw) != size:
        raise OnnxError(f"tensor {tensor.name!r}, {dtype}{list(dims)}, wants {size} bytes, given {len(raw)}")
    found = np.frombuffer(raw, dtype.newbyteorder("<") if dtype.kind != "V" else dtype)
    return found.astype(dtype, copy=False).reshape(dims)


def _typed(tensor: Any, dims: tuple[int, ...], dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    """Of one whose elements are listed."""
    element = tensor.data_type
    pairs = element in _PAIRS
    listed = getattr(tensor, _PAIRS[element] if pairs else _FIELDS.get(element, "int32_data"))
    if len(listed) != count * (1 + pairs):
        raise OnnxError(f"tensor {tensor.name!r}, {dtype}{list(dims)}, wants {count} elements, given {len(listed)}")
    if pairs:
        halves = np.array(listed, f"f{dtype.itemsize // 2}")
        return halves.view(dtype).reshape(dims)
    if element in (10, 16):  # the bits of numbers of 16
        return np.array(listed, np.int32).astype(np.uint16).view(dtype).reshape(dims)
    return np.array(listed).astype(dtype).reshape(dims)


def dense_of(sparse: Any, external: Any = None) -> np.ndarray[Any, Any]:
    """The array of a SparseTensorProto, zeros and all.

    Raises
    ------
    OnnxError
        Its indices are outside of its shape, or not as many as its values.
    """
    dims = tuple(sparse.dims)
    check_size(dims)
    values, indices = array_of(sparse.values, external), array_of(sparse.indices, external)
    if indices.ndim == 2:
        if indices.shape[1] != len(dims):
            raise OnnxError(f"sparse tensor {sparse.values.name!r} of rank {len(dims)}: indices of {indices.shape[1]}")
        inside = bool(np.all((indices >= 0) & (indices < np.array(dims, np.int64))))
        places = np.ravel_multi_index(tuple(indices.T), dims) if inside and indices.size else indices[:, 0]
    else:
        places = indices
        inside = bool(np.all((indices >= 0) & (indices < math.prod(dims))))
    if not inside or places.shape != values.shape:
        raise OnnxError(f"sparse tensor {sparse.values.name!r}: indices that do not fit shape {dims}")
    found = np.zeros(math.prod(dims), values.dtype)
    found[places] = values
    return found.reshape(dims)
