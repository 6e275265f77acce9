"""ONNX's own tests on any stack: the adapter that `onnx.backend.test` wants, and its cases one by one."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.errors import NncError
from nnc_func.onnx.model import from_onnx
from nnc_func.onnx.types import array_of, onnx_package

PLAIN = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)
"""ONNX's numbers for the element types that NumPy has itself, strings left out."""


def backend(stack: Any) -> Any:
    """A class as ``onnx.backend.test.BackendTest`` takes it, which runs models on a stack.

    Examples
    --------
    >>> import numpy as np, onnx, nnc_func as nnc
    >>> made = backend(nnc.eager())
    >>> node = onnx.helper.make_node("Neg", ["x"], ["y"])
    >>> made.supports_device("CPU"), made.run_node(node, [np.float32([1, -2])])
    (True, (array([-1.,  2.], dtype=float32),))
    """
    base = importlib.import_module("onnx.backend.base")

    class Representation(base.BackendRep):  # type: ignore[misc,name-defined]
        """A model that was prepared."""

        def __init__(self, model: Any) -> None:
            self.model = model

        def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
            """The outputs, of inputs in their order."""
            return outputs_of(self.model, inputs)

    class StackBackend(base.Backend):  # type: ignore[misc,name-defined]
        """Runs ONNX models on one stack."""

        @classmethod
        def prepare(cls, model: Any, device: str = "CPU", **_: Any) -> Any:
            """The model, imported."""
            return Representation(from_onnx(model, stack))

        @classmethod
        def run_node(cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **_: Any) -> Any:
            """One node, applied to arrays."""
            return outputs_of(from_onnx(_model(node, inputs), stack), inputs)

        @classmethod
        def supports_device(cls, device: str) -> bool:
            """Whether it runs there: on the CPU."""
            return device == "CPU"

    return StackBackend


def outputs_of(model: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What an imported model returns, always as a tuple; inputs may be TensorProtos."""
    found = model(*map(normal, inputs))
    return found if isinstance(found, tuple) else (found,)


def normal(value: Any) -> Any:
    """An array, of what the suite's cases have in its place."""
    return array_of(value) if hasattr(value, "data_type") else value


def _model(node: Any, inputs: Sequence[Any]) -> Any:
    """A model of one node, whose results have the dtype of its first input."""
    helper = importlib.import_module("onnx").helper
    arrays = [np.asarray(x) for x in inputs]
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
    given = [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(node.input, kinds, arrays, strict=True)]
    wanted = [helper.make_tensor_value_info(n, kinds[0], None) for n in node.output]
    return helper.make_model(helper.make_graph([node], "node", given, wanted))


# --- cases ----------------------------------------------------------------------------------------------------


@frozen
class Case:
    """One of the suite's tests: a model, inputs and what they should give.

    Attributes
    ----------
    opset
        The operator set of ONNX's own domain; None where the model imports none.
    plain
        Whether all inputs and outputs are tensors of dtypes that NumPy has.
    """

    name: str
    model: Any = field(repr=False)
    data: Sequence[Any] = field(repr=False)
    rtol: float
    atol: float
    opset: int | None
    plain: bool
    similar: Callable[..., None] = field(repr=False)

    def failure(self, stack: Any) -> str | None:
        """Why it fails on a stack; None where it passes.

        Values are compared as the suite compares them.
        """
        try:
            model = from_onnx(self.model, stack)
            for inputs, wanted in self.data:
                found = outputs_of(model, inputs)
                self.similar([normal(w) for w in wanted], found, self.rtol, self.atol)
        except (NncError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
        return None


@functools.cache
def node_cases() -> tuple[Case, ...]:
    """The tests of single nodes, without those for other devices; built in about five seconds."""
    tests = importlib.import_module("onnx.backend.test.loader").load_model_tests(kind="node")
    similar = importlib.import_module("onnx.backend.test.runner").Runner.assert_similar_outputs
    return tuple(  # some versions of onnx have them in files
        _from_files(t, similar) if t.model is None else _case(t.name, t.model, t.data_sets, t.rtol, t.atol, similar)
        for t in tests
    )


def _case(name: str, model: Any, data: Any, rtol: float, atol: float, similar: Any) -> Case:
    opset = next((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), None)
    return Case(name, model, data, rtol, atol, opset, _is_plain(model), similar)


def _is_plain(model: Any) -> bool:
    infos = [*model.graph.input, *model.graph.output]
    return all(i.type.WhichOneof("value") == "tensor_type" and i.type.tensor_type.elem_type in PLAIN for i in infos)


@functools.cache
def model_cases(kind: str) -> tuple[Case, ...]:
    """The tests of models in files: ``"pytorch-converted"``, ``"pytorch-operator"``, ``"simple"``."""
    tests = importlib.import_module("onnx.backend.test.loader").load_model_tests(kind=kind)
    similar = importlib.import_module("onnx.backend.test.runner").Runner.assert_similar_outputs
    return tuple(_from_files(test, similar) for test in sorted(tests, key=lambda t: t.name))


def _from_files(test: Any, similar: Any) -> Case:
    folder = Path(test.model_dir)
    model = onnx_package().load_model(folder / "model.onnx")
    sets = sorted(folder.glob("test_data_set_*")) if _is_plain(model) or test.kind != "node" else []
    data = [(_arrays(each, "input"), _arrays(each, "output")) for each in sets]
    return _case(test.name, model, data, test.rtol, test.atol, similar)


def _arrays(folder: Path, what: str) -> list[Any]:
    paths = [folder / f"{what}_{i}.pb" for i in range(len(list(folder.glob(f"{what}_*.pb"))))]
    return [onnx_package().TensorProto.FromString(path.read_bytes()) for path in paths]
