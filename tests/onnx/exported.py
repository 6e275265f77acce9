"""What ONNX models of graphs must keep: a runtime computes from them what the stack computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.graph.onnx_export.schemas import package
from nnc_func.op import Op
from nnc_func.testing.comparing import equal, results

RUNTIME, REFERENCE = "onnxruntime", "onnx.reference"


@cache
def _options() -> Any:
    found = package(RUNTIME).SessionOptions()
    found.log_severity_level = 4
    found.intra_op_num_threads = found.inter_op_num_threads = 1
    return found


def run_model(model: Any, feeds: Mapping[str, Any], options: Any = None) -> list[Any] | None:
    """The outputs of a model by onnxruntime, with its options for sessions; None where a node has no kernel there.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> run_model(lazy.graph.close([x.value], [(x + 1).value]).to_onnx(), {"x": np.float32([1, 2])})
    [array([2., 3.], dtype=float32)]
    """
    missing = package("onnxruntime.capi.onnxruntime_pybind11_state").NotImplemented
    try:
        session = package(RUNTIME).InferenceSession(
            model.SerializeToString(), options or _options(), providers=["CPUExecutionProvider"]
        )
    except missing:
        return None
    return list(session.run(None, dict(feeds)))


def exported_alone(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any], opset: int = 18) -> Any:
    """The model of one application."""
    inputs = [stack.symbol.input(f"x{i}", Aval(x.shape, x.dtype)) for i, x in enumerate(given)]
    made = results(op, stack.operator.bind(op, *inputs, **params))
    return stack.graph.close(inputs, made, structure=_several(len(made))).to_onnx(opset=opset)


def _several(count: int) -> Any:
    from nnc_func.tree import ONE_LEAF, Structure

    return ONE_LEAF if count == 1 else Structure(tuple, (), (ONE_LEAF,) * count)


def models_agree(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> str:
    """The model of one application gives the device's values, within the operator's tolerance, and rounding.

    Where onnxruntime has no kernel for float64, all is done in float32; for another dtype ONNX's reference computes.

    Returns
    -------
    What computed them.
    """
    model = exported_alone(stack, op, given, params)
    found, by = run_model(model, _named(given)), RUNTIME
    if found is None and any(x.dtype == np.float64 for x in given):
        return models_agree(stack, op, [_single(x) for x in given], params) + " in float32"
    if found is None:
        with np.errstate(all="ignore"):
            found, by = package(REFERENCE).ReferenceEvaluator(model).run(None, _named(given)), REFERENCE
    wanted = results(op, stack.device.bind(op, *given, **params))
    beside = 1 if op.name in BESIDE_ONE else _on_the_way(op, given)
    for one, other in zip(found, wanted, strict=True):
        if beside and other.dtype.kind in "fc":
            one, other = (np.append(x.reshape(-1), x.dtype.type(beside)) for x in (one, other))
        equal(one, other, op.tolerance.ulps + ROUNDED, f"{op} by {by}")
    return by


def _on_the_way(op: Op, given: Sequence[Any]) -> float:
    """Of a fused operator how large numbers on the way are at least; 0 of others.

    A runtime's sigmoid is right to so many ulps of 1, not of what it gives, and the next operator multiplies that.
    """
    if not op.holds_body:
        return 0.0
    return max((float(np.abs(x).max()) for x in given if x.size and np.isfinite(x).all()), default=0.0)


def _named(given: Sequence[Any]) -> dict[str, Any]:
    return {f"x{i}": x for i, x in enumerate(given)}


def _single(x: Any) -> Any:
    return x.astype("float32") if x.dtype == np.float64 else x


# Compared beside one: 1 - erf(x) there, of which what is tiny has few digits; and sums of logarithms, which may cancel.
BESIDE_ONE = ("erfc", "logaddexp", "logsumexp", "logcumsumexp")
ROUNDED = 8.0  # ulps: a runtime's own functions, and those that stand for one of ours
