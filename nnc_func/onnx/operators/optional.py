"""Optional values, where they are tensors or left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.onnx.table import onnx_operator


@onnx_operator("OptionalHasElement", since=(15, 18, 28), raw=True)
def has_element(o: Any, x: Any = None) -> Any:
    """Whether there is a tensor."""
    return np.array(x is not None)


@onnx_operator("OptionalGetElement", since=(15, 18, 28), raw=True)
def get_element(o: Any, x: Any) -> Any:
    """The tensor."""
    if x is None:
        raise OnnxError("it asks for the element of an optional value that has none")
    return x
