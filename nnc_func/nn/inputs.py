"""What a model is applied to: a tensor, or a tree of them where it has several inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Dim
from nnc_func.graph.origin import with_line
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten

Kind = tuple[tuple[Any, ...], Any]  # shape and dtype
ARRAYS = (np.ndarray, np.generic, list)  # what becomes a tensor, among the leaves of a tree


def is_shape(given: Any) -> bool:
    """Whether it is one shape, not a tree of shapes.

    Examples
    --------
    >>> is_shape((None, 3)), is_shape(()), is_shape(((None, 3), (4,)))
    (True, True, False)
    """
    extents = (int, np.integer, str, Dim, type(None))
    return isinstance(given, (tuple, list)) and all(isinstance(n, extents) for n in given)


def from_shapes(shape: Any, dtype: Any, make: Callable[[Any, Any, tuple[str, ...]], Any]) -> Any:
    """The tree of what `make` gives of each shape, its dtype and its path; one dtype is that of all.

    Raises
    ------
    ShapeError
        That is no shape and no tree of shapes, or there are more or fewer dtypes.

    Examples
    --------
    >>> from_shapes(((2,), (3, 4)), ("int64", "float32"), lambda shape, dtype, path: (shape, dtype, path))
    (((2,), 'int64', ('0',)), ((3, 4), 'float32', ('1',)))
    """
    shapes, structure = flatten(shape, is_shape)
    dtypes = flatten(dtype)[0] if isinstance(dtype, (tuple, list, dict)) else [dtype] * len(shapes)
    for each in shapes:
        if not is_shape(each):
            raise ShapeError(
                f"the shape of an input is a tuple of extents, such as (None, 3), or a tuple or dict of such where a "
                f"model has several inputs; given {shape!r}"
            )
    if len(dtypes) != len(shapes):
        raise ShapeError(
            f"there are {len(shapes)} inputs, {shape!r}, and {len(dtypes)} dtypes, {dtype!r}; give one each"
        )
    return structure.build([make(*row) for row in zip(shapes, dtypes, structure.paths, strict=True)])


def stack_of(*trees: Any) -> Any:
    """The stack of the first tensor in them; None where there is no tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack_of([1.0], {"x": stack.asarray([1.0])}) is stack, stack_of([1.0])
    (True, None)
    """
    return next((leaf.stack for leaf in flatten(trees)[0] if isinstance(leaf, Tensor)), None)


def in_tensors(who: Any, x: Any, *beside: Any) -> Any:
    """A tensor, or a tree with some: arrays and lists of numbers in it become tensors of the stack of the others.

    Parameters
    ----------
    who
        What is applied to it, for errors.
    beside
        Trees in which there may be a tensor if there is none in `x`: parameters, say.

    Raises
    ------
    OperatorError
        There is no tensor in any of them, or nothing in `x` that could be one.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> in_tensors("a loss", [2, 3], nnc.eager().asarray([1.0]))
    Tensor(int64[2], [2, 3])
    """
    if isinstance(x, Tensor):
        return x
    leaves, structure = flatten(x, is_of_numbers)
    stack = stack_of(leaves)
    if stack is None:
        stack = stack_of(*beside)
    if stack is not None:
        leaves = [stack.asarray(each) if isinstance(each, ARRAYS) else each for each in leaves]
    if not any(isinstance(each, Tensor) for each in leaves):
        given = ", ".join(map(_said, leaves[:3])) + ", …" * (len(leaves) > 3) or type(x).__name__
        raise OperatorError(with_line(f"{who} takes tensors, given {given}; make them with stack.asarray(...)"))
    return structure.build(leaves)


def in_tensor(who: Any, x: Any, *beside: Any) -> Any:
    """As `in_tensors`, of what is to be one tensor: a list of several is, beside each other along a new axis.

    Raises
    ------
    OperatorError
        It is another tree, or there is no tensor.
    ShapeError
        Rows of a list are of different shapes.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.eager().asarray([1.0])
    >>> in_tensor("a loss", np.ones(2), x).shape, in_tensor("a loss", [x, x]).shape
    ((2,), (2, 1))
    """
    found = in_tensors(who, x, *beside)
    if type(found) in (list, tuple):
        return stack_of(found).asarray(found)
    if not isinstance(found, Tensor):
        given = f"a {type(x).__name__} of {len(flatten(x)[0])}"
        raise OperatorError(with_line(f"{who} takes one tensor, given {given}"))
    return found


def in_arrays(x: Any, dtype: Any) -> Any:
    """A tree whose lists of numbers are arrays; of numbers that are no integers, of that dtype.

    Raises
    ------
    ShapeError
        Rows of a list have different lengths.
    OperatorError
        There is what is no array, nor a list of numbers.

    Examples
    --------
    >>> in_arrays({"x": [[1, 2]], "y": [0.5]}, "float32")
    {'x': array([[1, 2]]), 'y': array([0.5], dtype=float32)}
    """
    leaves, structure = flatten(x, is_of_numbers)
    return structure.build([_array(each, dtype) for each in leaves])


def _array(leaf: Any, dtype: Any) -> Any:
    if isinstance(leaf, (list, memoryview)):
        try:
            found = np.asarray(leaf)
        except ValueError:
            raise ShapeError(with_line("a batch is an array, or a list whose rows have one length")) from None
        return found.astype(dtype) if found.dtype == np.float64 else found
    if not hasattr(leaf, "shape"):
        raise OperatorError(with_line(f"a batch is an array, or a list of numbers; given {leaf!r}"))
    return leaf


def is_of_numbers(x: Any) -> bool:
    """Whether it is a list of numbers, or of lists of them, so that it stands for an array.

    Examples
    --------
    >>> is_of_numbers([[1, 2.0], [3, 4]]), is_of_numbers([np.ones(2)]), is_of_numbers([])
    (True, False, False)
    """
    if not isinstance(x, list):
        return False
    leaves = flatten(x)[0]
    return bool(leaves) and all(isinstance(each, (bool, int, float, complex, np.generic)) for each in leaves)


def _said(x: Any) -> str:
    return f"{x.dtype}[{', '.join(map(str, x.shape))}]" if isinstance(x, np.ndarray) else repr(x)[:60]


def input_name(name: str, path: tuple[str, ...]) -> str:
    """The name of an input of a graph: of one among several, with its place.

    Examples
    --------
    >>> input_name("x", ()), input_name("x", ("left", "0"))
    ('x', 'x.left.0')
    """
    return ".".join((name, *path))


def kinds_of(tree: Any) -> tuple[tuple[Kind, ...], Structure]:
    """Shape and dtype of each input, and how they are nested."""
    leaves, structure = flatten(tree)
    return tuple([(tuple(a.shape), np.dtype(a.dtype)) for a in leaves]), structure


def inputs_of(stack: Any, name: str, kinds: tuple[Kind, ...], structure: Structure) -> list[Any]:
    """An input of a stack for each, named by where it stands."""
    return [stack.input(input_name(name, path), *kind) for path, kind in zip(structure.paths, kinds, strict=True)]
