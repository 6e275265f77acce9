"""Slices along an axis: tensors with that axis in front, which loops slice, and outputs with it back in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.control_flow.messages import at, of_fields
from nnc_func.control_flow.tracing import SCALARS, is_numbers, tensor_of
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten


class Slices:
    """Tensors that are sliced step by step: a tree of tensors, arrays, lists of numbers, along one axis.

    Parameters
    ----------
    what, told
        How messages begin, and end.

    Attributes
    ----------
    tensors
        With the axis moved to the front.
    structure
        Of the tree.

    Raises
    ------
    OperatorError
        A leaf is no tensor.
    ShapeError
        A leaf has no such axis.
    """

    def __init__(self, stack: Any, tree: Any, axis: int, what: str = "xs", told: str = "") -> None:
        self.stack, self.axis, self.what, self.told = stack, axis, what, told
        leaves, self.structure = flatten(tree, is_leaf=is_numbers)
        self.tensors = [self._first(leaf, path) for leaf, path in zip(leaves, self.structure.paths, strict=True)]

    def _first(self, leaf: Any, path: Sequence[str]) -> Tensor:
        x = self.stack.asarray(leaf) if type(leaf) in SCALARS else tensor_of(self.stack, leaf)
        if not isinstance(x, Tensor):
            raise OperatorError(
                f"{self.what}{at(path)} is a {type(x).__name__}; wanted a tensor, an array or a list of numbers, which "
                f"is sliced step by step{of_fields(x)}{self.told}"
            )
        rank = len(x.shape)
        if not -rank <= self.axis < rank:
            raise ShapeError(
                f"what is sliced step by step has an axis {self.axis}: {self.what}{at(path)} has none, its shape is "
                f"{x.shape}; what is the same each step is captured, or carried{self.told}"
            )
        n = self.axis % rank
        found: Tensor = x
        if n:
            found = self.stack.ops.permute_dims(x, axes=(n, *(other for other in range(rank) if other != n)))
        return found

    def extent(self, length: Any = None) -> Any:
        """The extent along the axis that all have, and that `length=` says; None: there is nothing that says it.

        Raises
        ------
        ShapeError
            They differ.
        """
        found = [] if length is None else [("length=", length)]
        paths = zip(self.tensors, self.structure.paths, strict=True)
        found += [(f"{self.what}{at(path)}: ", x.shape[0]) for x, path in paths]
        if not all(same_extent(n, found[0][1]) for _, n in found):
            raise ShapeError(
                f"what goes together step by step has one extent along axis {self.axis}, given "
                f"{', '.join(f'{name}{n}' for name, n in found)}{self.told}"
            )
        return found[0][1] if found else None


def back(stack: Any, y: Tensor, axis: int, path: Sequence[str] = (), told: str = "") -> Tensor:
    """An output with its first axis moved to where it belongs.

    Raises
    ------
    ShapeError
        There is no such axis.
    """
    rank = len(y.shape)
    if not -rank <= axis < rank:
        raise ShapeError(
            f"outputs are stacked along axis={axis}, as slices are taken: output{at(path)} of one step has shape "
            f"{tuple(y.shape[1:])}, so that there is no such axis; move that axis of what is sliced to the front, "
            f"with ops.permute_dims, and leave axis= out{told}"
        )
    n = axis % rank
    order = [*range(1, n + 1), 0, *range(n + 1, rank)]
    return y if n == 0 else stack.ops.permute_dims(y, axes=tuple(order))
