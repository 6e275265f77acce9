"""What convolution and pooling of ONNX share: attributes of windows, as parameters of our operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Extent, known
from nnc_func.facets.shapes import ShapeT
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context

Ints = Sequence[int]
Pairs = tuple[tuple[int, int], ...]


def spatial(shape: ShapeT, what: str) -> int:
    """The number of spatial axes of signals, images or volumes.

    Raises
    ------
    ShapeError
        There are none, or more than three.
    """
    if not 3 <= len(shape) <= 5:
        raise ShapeError(f"{what} of one to three spatial axes is there: shape (n, channels, …); given {shape}")
    return len(shape) - 2


def channels_first(axes: int) -> str:
    """The data format of tensors of that many spatial axes."""
    return ("NCW", "NCHW", "NCDHW")[axes - 1]


def transposed(o: Context, w: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Weights with their axes in another order: at once where they are constants."""
    found = constant_array(w)
    if found is None:
        return o.permute_dims(w, axes=axes)
    return w.stack.asarray(np.ascontiguousarray(found.transpose(axes)))


def widened(o: Context, w: Tensor, axis: int) -> Tensor:
    """Weights with one axis more, of extent 1: at once where they are constants."""
    found = constant_array(w)
    return o.expand_dims(w, axis=axis) if found is None else w.stack.asarray(np.expand_dims(found, axis))


def constant_array(w: Tensor) -> Any:
    """The elements of a constant, as NumPy's array; None of what is none."""
    node = getattr(getattr(w, "value", None), "node", None)
    return None if node is None or node.op is not CONSTANT else w.stack.device.to_numpy(node.data)


def amounts_of(
    extents: tuple[Extent, ...], window: tuple[Extent, ...], strides: Ints, dilations: Ints, auto_pad: str,
    pads: Ints | None,
) -> str | Pairs:  # fmt: skip
    """The padding of windows, from ``auto_pad`` and ``pads``.

    Raises
    ------
    ShapeError
        ``SAME_LOWER`` of an extent that is not known, with strides.
    OperatorError
        Another kind of padding, a negative number of zeros, or too few numbers; strides or dilations below one.
    """
    axes = len(extents)
    for name, numbers in (("strides", strides), ("dilations", dilations)):
        if len(numbers) != axes or min(numbers) < 1:
            raise OperatorError(f"{name} are {axes} numbers of at least one, given {tuple(numbers)}")
    if auto_pad == "SAME_UPPER":
        return "SAME"
    if auto_pad == "VALID":
        return "VALID"
    if auto_pad == "SAME_LOWER":
        return tuple(map(_lower, extents, window, strides, dilations))
    if auto_pad != "NOTSET":
        raise OperatorError(f"auto_pad is NOTSET, SAME_UPPER, SAME_LOWER or VALID; given {auto_pad!r}")
    if pads is None or not any(pads):
        return "VALID"
    if len(pads) != 2 * axes or min(pads) < 0:
        raise OperatorError(f"pads are {2 * axes} numbers of at least zero, first those before; given {pads}")
    return tuple(zip(map(int, pads[:axes]), map(int, pads[axes:]), strict=True))


def _lower(n: Extent, window: Any, stride: int, dilation: int) -> tuple[int, int]:
    span = dilation * (window - 1) + 1
    if stride == 1:
        total = span - 1
    elif known(n):
        total = max((-(-n // stride) - 1) * stride + span - n, 0)
    else:
        raise ShapeError(f"SAME_LOWER with stride {stride} of an extent of {n} is not known; give the input's shape")
    return total - total // 2, total // 2
