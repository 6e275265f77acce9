"""What a model is applied to: a tensor, or a tree of them where it has several inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.errors import ShapeError
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
