"""What a model is applied to: a tensor, or a tree of them where it has several inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import Dim
from nnc_func.tree import Structure, flatten

Kind = tuple[tuple[Any, ...], Any]  # shape and dtype


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
    return next((leaf.stack for leaf in flatten(trees)[0] if hasattr(leaf, "stack")), None)


def in_tensors(who: Any, x: Any, *beside: Any) -> Any:
    """A tree of tensors, with tensors in place of arrays and of a list of numbers: of the stack of the others.

    Parameters
    ----------
    who
        What is applied to it, for errors.
    beside
        Trees in which there may be a tensor if there is none in `x`: parameters, say.

    Raises
    ------
    OperatorError
        There is no tensor in any of them.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x, y = in_tensors("a loss", (nnc.eager().asarray([1.0]), [2, 3]))
    >>> y
    Tensor(int64[2], [2, 3])
    """
    leaves = flatten(x)[0]
    stack = stack_of(leaves) if leaves else None
    if stack is None:
        stack = stack_of(*beside)
    if stack is None:
        raise OperatorError(f"{who} takes tensors, given {_said(x)}; make them with stack.asarray(...)")
    return _on(stack, x)


def _on(stack: Any, x: Any) -> Any:
    if hasattr(x, "stack"):
        return x
    if isinstance(x, np.ndarray) or (isinstance(x, list) and is_of_numbers(x)):
        return stack.asarray(x)
    if isinstance(x, (tuple, list)):
        parts = [_on(stack, each) for each in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return {key: _on(stack, each) for key, each in x.items()} if type(x) is dict else x


def _said(x: Any) -> str:
    if isinstance(x, (tuple, list)) and 0 < len(x) < 4:
        return ", ".join(map(_said, x))
    return f"{x.dtype}[{', '.join(map(str, x.shape))}]" if isinstance(x, np.ndarray) else type(x).__name__


def is_of_numbers(x: Any) -> bool:
    """Whether a list, or a list of lists, is one of numbers, so that it stands for an array.

    Examples
    --------
    >>> is_of_numbers([[1, 2.0], [3, 4]]), is_of_numbers([np.ones(2)]), is_of_numbers([])
    (True, False, False)
    """
    leaves = flatten(x)[0]
    return bool(leaves) and all(isinstance(each, (bool, int, float, complex, np.generic)) for each in leaves)


def in_arrays(x: Any) -> Any:
    """A tree of arrays: a list of numbers is one.

    Examples
    --------
    >>> in_arrays([[1, 2]]).shape
    (1, 2)
    """
    return np.asarray(x) if isinstance(x, list) and is_of_numbers(x) else x


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
