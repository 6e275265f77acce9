"""What ONNX says of its operators: which dtypes each takes, and which dtype its results have."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import OnnxError

DType = np.dtype[Any]
_CALLED = {"float32": "float", "float64": "double"}  # dtypes that have another name there
_NAMED = {other: name for name, other in _CALLED.items()}
_WIDER: Mapping[str, tuple[str, ...]] = {  # dtypes that hold all numbers of another, narrow ones first
    "bool": ("uint8", "int32"),
    "uint8": ("int32", "uint32", "int64"),
    "uint16": ("int32", "uint32", "int64"),
    "uint32": ("int64", "uint64"),
    "int8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "float32": ("float64",),
}

# Dtypes that ONNX allows and onnxruntime has no kernel for: computed in a wider one, where there is one.
_LACKED: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("Max", "Min", "Pad"), frozenset(("uint16", "int16"))),
    **dict.fromkeys(("ArgMax", "ArgMin", "TopK"), frozenset(("uint16", "uint32", "int16"))),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceMean"), frozenset(("uint32",))),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "CumSum"), frozenset(("uint32", "uint64"))),
    "Where": frozenset(("bool", "uint16", "int16")),
}

# Operators modulo 2^64: of unsigned numbers they are computed in signed ones of the same bits. (onnxruntime computes
# the first two in float64, which is exact up to 2^53.)
_MODULAR = frozenset(("ReduceSum", "ReduceProd", "CumSum"))


def package(module: str = "onnx") -> Any:
    """The package `onnx`, which is optional, or a module of it.

    Raises
    ------
    OnnxError
        It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise OnnxError("writing ONNX models wants the package onnx: pip install 'nnc_func[onnx]'") from None


@frozen
class Schema:
    """An ONNX operator of one opset.

    Attributes
    ----------
    inputs, outputs
        For each a dtype's name, or that of a variable that stands for one of several; the last of `inputs` stands
        for any number where `variadic`.
    taken
        Names of dtypes, by variable.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variadic: bool
    taken: Mapping[str, frozenset[str]]

    def variables(self, count: int) -> tuple[str, ...]:
        """What each of so many inputs is declared as."""
        if self.variadic:
            last = len(self.inputs) - 1
            return tuple(self.inputs[min(i, last)] for i in range(count))
        return self.inputs[:count]

    def results(self, count: int) -> tuple[str, ...]:
        """What each of so many outputs is declared as: a variable of one dtype is that dtype."""
        last = len(self.outputs) - 1
        declared = (self.outputs[min(i, last)] for i in range(count))
        only = {variable: next(iter(names)) for variable, names in self.taken.items() if len(names) == 1}
        return tuple(only.get(variable, variable) for variable in declared)

    def fitting(self, given: Sequence[DType | None]) -> dict[str, tuple[DType, DType]]:
        """For each variable the dtype given for it and the one in which it is computed: the same, or a wider one.

        Raises
        ------
        OnnxError
            It takes neither.
        """
        found: dict[str, tuple[DType, DType]] = {}
        for variable, dtype in zip(self.variables(len(given)), given, strict=True):
            if dtype is not None and variable in self.taken and variable not in found:
                found[variable] = dtype, self._wide(variable, dtype)
        return found

    def _wide(self, variable: str, dtype: DType) -> DType:
        taken, lacked = self.taken[variable], _LACKED.get(self.name, frozenset())
        same_bits = ("int64",) if dtype.name == "uint64" and self.name in _MODULAR else ()
        for name in (dtype.name, *_WIDER.get(dtype.name, same_bits)):
            if name in taken and name not in lacked and name != "bfloat16":
                return dtype if name == dtype.name else np.dtype(name)
        if dtype.name in taken:
            return dtype
        raise OnnxError(f"the ONNX operator {self.name} takes no {dtype.name}, and no wider dtype holds all of them")


@cache
def schema(name: str, opset: int) -> Schema:
    """The ONNX operator of that name, as it is in that opset."""
    found = package("onnx.defs").get_schema(name, opset, "")
    taken = {c.type_param_str: frozenset(filter(None, map(_name, c.allowed_type_strs))) for c in found.type_constraints}
    inputs, outputs = ([_variable(each.type_str) for each in listed] for listed in (found.inputs, found.outputs))
    option = package("onnx.defs").OpSchema.FormalParameterOption.Variadic
    variadic = bool(found.inputs) and found.inputs[-1].option == option
    return Schema(name, tuple(inputs), tuple(outputs), variadic, taken)


def _variable(text: str) -> str:
    return _name(text) or text


def _name(text: str) -> str:
    """NumPy's name of a dtype that ONNX writes ``tensor(float)``; empty for whatever is no such text."""
    inside = text.removeprefix("tensor(").removesuffix(")")
    return _NAMED.get(inside, inside) if inside != text else ""


def called(dtype: DType) -> int:
    """The number by which ONNX names a dtype."""
    found: int = package("onnx.helper").np_dtype_to_tensor_dtype(dtype)
    return found
