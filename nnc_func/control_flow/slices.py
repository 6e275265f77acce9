"""Slices along an axis: tensors with that axis in front, which loops slice, and outputs with it back in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.control_flow.tracing import SCALARS, tensor_of
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.tensors.tensor import Tensor


def first(stack: Any, leaf: Any, axis: int) -> Tensor:
    """A tensor, an array or a list of numbers as a tensor with an axis moved to the front."""
    x = stack.asarray(leaf) if type(leaf) in SCALARS else tensor_of(stack, leaf)
    if not isinstance(x, Tensor):
        raise OperatorError(
            f"what is sliced step by step is a tensor, or a tree of tensors, given a {type(x).__name__}"
        )
    rank = len(x.shape)
    if not rank:
        raise ShapeError("what is sliced step by step has an axis; one tensor has none")
    at = normalise_axis(axis, rank)
    return x if at == 0 else stack.ops.permute_dims(x, axes=(at, *(n for n in range(rank) if n != at)))


def last(stack: Any, y: Tensor, axis: int) -> Tensor:
    """A tensor with its first axis moved to where it belongs."""
    rank = len(y.shape)
    at = normalise_axis(axis, rank)
    order = [*range(1, at + 1), 0, *range(at + 1, rank)]
    return y if at == 0 else stack.ops.permute_dims(y, axes=tuple(order))


def one_extent(extents: Sequence[Any], axis: int) -> Any:
    """The extent that all have.

    Raises
    ------
    ShapeError
        They differ.
    """
    if not all(same_extent(n, extents[0]) for n in extents):
        raise ShapeError(f"what goes together step by step has one extent along axis {axis}, given {[*extents]}")
    return extents[0]
