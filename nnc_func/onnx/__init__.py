"""ONNX models in: read, checked, and built of our operators.

`from_onnx` gives a model as a function. An ONNX operator is one entry of a table, in ``operators/<family>.py``: a
function of our operators, declared with the versions of the operator that it is right for::

    @onnx_operator("Gemm", since=(7, 9, 11, 13))
    def gemm(o, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0): ...

    @onnx_operator("Reshape", since=(5, 13, 14, 19, 21, 23, 24, 25), known=("shape",))
    def reshape(o, x, shape, *, allowzero=0): ...

    @onnx_operator("Split", since=(13, 18), known=("split",), multi_result=True)
    def split(o, x, split=None, *, axis=0, num_outputs=None): ...

- `o` has all our operators (``o.add``, ``o.conv2d``…), and of the node ``o.node``, ``o.since`` (the version of its
  operator), ``o.results`` (how many it names), ``o.wants(i)`` (whether it names that one).
- Inputs are positional: tensors, None where the node leaves one out. Those in `known` arrive as NumPy arrays, where
  ONNX passes shapes, axes and counts as tensors; ``o.known(x)`` asks for the elements of any other. With ``raw=True``
  all inputs whose elements are known arrive as arrays.
- Attributes are keywords, with ONNX's names and defaults: a Python number, a string, a tuple, an array for a tensor, a
  function of values for an inner graph. One without a default is required.
- It returns a tensor, or a NumPy array for what is known while the model is traced; with ``multi_result=True`` a
  tuple of them.
- Versions that mean different things have entries of their own, or ask ``o.since``.
- What cannot be is an `OnnxError` that says why; the node's name is added to it.

Arity, attributes and dtypes have been checked against the operator's schema by then. An operator without an entry whose
schema has a function (of the types of its inputs, if need be) is that function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnc_func.deferred import deferred

if TYPE_CHECKING:
    from nnc_func.onnx.model import OnnxModel, from_onnx
    from nnc_func.onnx.table import OnnxOperator, onnx_operator
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            "OnnxModel": "nnc_func.onnx.model",
            "from_onnx": "nnc_func.onnx.model",
            "OnnxOperator": "nnc_func.onnx.table",
            "onnx_operator": "nnc_func.onnx.table",
        },
    )

__all__ = ["OnnxModel", "OnnxOperator", "from_onnx", "onnx_operator"]
